"""The real daemon, for tests: the binary that SPILLWAY_BIN names, or bin/spillway of the repository."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from typing import Any, List, Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SPILLWAY_BIN", str(ROOT / "bin" / "spillway"))
PATIENCE = 60.0  # seconds after which something hangs


class Daemon:
    """A store of its own, served or not."""

    def __init__(self, capacity: str = "1GiB") -> None:
        self.capacity = capacity
        self.dir = tempfile.TemporaryDirectory(prefix="spillway-")
        self.socket = os.path.join(self.dir.name, "socket")
        self.process: Optional["subprocess.Popen[bytes]"] = None

    def start(self) -> None:
        with open(os.path.join(self.dir.name, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--dir", os.path.join(self.dir.name, "store"), "--capacity", self.capacity,
                 "--socket", self.socket, "--any-filesystem", "--buffered-io"],
                stdout=log, stderr=log)  # fmt: skip

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends the process, if there is one, and waits for that."""
        if self.process:
            self.send(number)
            self.process.wait(PATIENCE)
            self.process = None

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        self.dir.cleanup()


@unittest.skipUnless(os.access(BINARY, os.X_OK), f"no daemon at {BINARY}: build it, or set SPILLWAY_BIN")
class DaemonTest(unittest.TestCase):
    """A test with a daemon that runs; its clients are closed at the end."""

    def setUp(self) -> None:
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def client(self, **options: Any) -> Any:
        import spillway

        client = spillway.Client(self.daemon.socket, **options)
        self.addCleanup(client.close)
        return client


def keys_of(name: str, count: int) -> List[bytes]:
    """Keys like vLLM's: 36 bytes."""
    return [f"{name}-{i}".encode().ljust(36, b".") for i in range(count)]


def content(key: bytes, size: int) -> bytes:
    """The bytes of a block: made from its key alone."""
    return (key * (size // len(key) + 1))[:size]
