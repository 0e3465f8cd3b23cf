"""A real daemon, started and killed by a test. SPILLWAY_BIN says which binary."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Optional

BINARY = os.environ.get("SPILLWAY_BIN", "")


class Daemon:
    """Serves one store in a directory."""

    def __init__(self, directory: Path, capacity: str = "256MiB") -> None:
        self.store = directory / "store"
        self.socket = str(directory / "socket")
        self._log = directory / "log"
        self._capacity = capacity
        self._process: Optional["subprocess.Popen[bytes]"] = None

    def start(self) -> "Daemon":
        """Starts it, and waits until it can be connected to."""
        command = [BINARY, "serve", "--dir", str(self.store), "--socket", self.socket, "--any-filesystem"]
        if not self.store.exists():
            command += ["--capacity", self._capacity]
        before = self._log.stat().st_size if self._log.exists() else 0
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 30
        while "msg=serving" not in self._log.read_text()[before:]:
            assert self._process.poll() is None and time.monotonic() < until, self._log.read_text()[before:]
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None
