"""Finished jobs that wait to be polled, and a descriptor that is readable meanwhile."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque

from .job import Job


class Signal:
    """A descriptor that is readable while it is raised: an eventfd, or a pipe before Python 3.10."""

    def __init__(self) -> None:
        self._raised = False
        if hasattr(os, "eventfd"):
            self._fds: tuple[int, ...] = (os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),)
        else:
            self._fds = os.pipe()

    def fileno(self) -> int:
        return self._fds[0]

    def set(self, raised: bool) -> None:
        """Makes it readable or not; without a system call where it already is so."""
        if raised == self._raised or not self._fds:
            return
        self._raised = raised
        if raised:
            os.write(self._fds[-1], (1).to_bytes(8, sys.byteorder))
        else:
            os.read(self._fds[0], 8)

    def close(self) -> None:
        """More than one call has no effect."""
        fds, self._fds = self._fds, ()
        for fd in fds:
            os.close(fd)


class Finished:
    """Jobs that are done and released, in that order. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._signal: Signal | None = None

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs.append(job)
            if self._signal:
                self._signal.set(True)

    def poll(self, most: int) -> list[Job]:
        """Takes at most so many jobs."""
        if not self._jobs:
            return []
        with self._lock:
            jobs = [self._jobs.popleft() for _ in range(min(most, len(self._jobs)))]
            if self._signal and not self._jobs:
                self._signal.set(False)
        return jobs

    def fileno(self) -> int:
        """A descriptor that is readable while a job waits; made by the first call."""
        with self._lock:
            if self._signal is None:
                self._signal = Signal()
                self._signal.set(bool(self._jobs))
            return self._signal.fileno()

    def close(self) -> None:
        """Closes the descriptor; jobs can still be polled."""
        with self._lock:
            if self._signal:
                self._signal.close()
