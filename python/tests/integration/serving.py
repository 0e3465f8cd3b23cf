"""The real daemon, for tests that want it to be there when it has been started."""

import signal
import socket
import time

from daemon import PATIENCE, Daemon


class Serving(Daemon):
    """Its directory is a temporary one; close ends everything."""

    def start(self) -> None:
        """Starts it, and waits until it can be connected to."""
        super().start()
        until = time.monotonic() + PATIENCE
        while True:
            assert self.process is not None and self.process.poll() is None, "the daemon has ended"
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.socket) == 0:
                    return
            assert time.monotonic() < until
            time.sleep(0.005)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.stop(signal.SIGKILL)
