"""Answers to come, and the jobs that move blocks."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Generic, TypeVar

from .wire import Status

T = TypeVar("T")

# Guards the small state of every Pending and Job; never held during a call out.
_lock = threading.Lock()
_log = logging.getLogger("spillway")


def renew_lock() -> None:
    """In the child of a fork, where another thread may have held the lock."""
    global _lock
    _lock = threading.Lock()


class Moment:
    """Something that comes once: threads wait for it, functions are called at it."""

    __slots__ = ("come", "_calls")

    def __init__(self) -> None:
        self.come = False
        self._calls: list[Callable[[], object]] = []

    def call(self, fn: Callable[[], object]) -> None:
        """Calls fn when the moment comes, on the thread that brings it; now if it is past."""
        with _lock:
            if not self.come:
                self._calls.append(fn)
                return
        fn()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits, at most timeout seconds; False if the moment has not come."""
        if self.come:
            return True
        event = threading.Event()
        self.call(event.set)
        if event.wait(timeout):
            return True
        with _lock:
            if event.set in self._calls:
                self._calls.remove(event.set)
        return self.come

    def bring(self) -> None:
        """The moment is here. A second call has no effect."""
        with _lock:
            self.come = True
            calls, self._calls = self._calls, []
        for fn in calls:
            try:
                fn()
            except Exception:  # a stranger's function must not end the reader
                _log.exception("a callback failed")


class Pending(Generic[T]):
    """An answer to come: of one call, made of one or more requests."""

    def __init__(self, parts: int, value: T) -> None:
        self.answered = Moment()
        self._value = value
        self._left = parts
        if not parts:
            self.answered.bring()

    def done(self) -> bool:
        """Whether the answer is here."""
        return self.answered.come

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the answer, at most timeout seconds; False if it did not come."""
        return self.answered.wait(timeout)

    @property
    def value(self) -> T:
        """The answer; until it is here, what a dead daemon would answer."""
        return self._value

    def part_done(self) -> None:
        """One of the requests is through."""
        with _lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self.answered.bring()


class Result:
    """What became of the keys of a get or a put.

    LATE is no answer: the deadline passed, the job was cancelled, or the connection
    was lost. The memory of such items is not yours before ``released``.
    """

    __slots__ = ("raw", "reasons", "seconds", "_job", "_statuses")

    def __init__(self, raw: bytes, seconds: float, job: Job, reasons: bytes = b"") -> None:
        self.raw = raw  #: the statuses, a byte each
        self.reasons = reasons  #: why blocks of a put are DROPPED, a Reason each; empty where the daemon says nothing
        self.seconds = seconds  #: from submission to the answer
        self._job = job
        self._statuses: tuple[Status, ...] | None = None

    @property
    def statuses(self) -> tuple[Status, ...]:
        """One status a key."""
        if self._statuses is None:
            self._statuses = tuple(map(_STATUS.__getitem__, self.raw))
        return self._statuses

    @property
    def prefix(self) -> int:
        """The number of leading keys that are HIT; of a put, STORED or PRESENT."""
        return len(self.raw) - len(self.raw.lstrip(_GOOD))

    @property
    def ok(self) -> bool:
        """Whether every key is HIT; of a put, STORED or PRESENT."""
        return self.prefix == len(self.raw)

    @property
    def released(self) -> bool:
        """Whether all memory of the request is the caller's again."""
        return self._job.released

    def wait_released(self, timeout: float | None = None) -> bool:
        """Waits for that, at most timeout seconds."""
        return self._job.wait_released(timeout)

    def __len__(self) -> int:
        return len(self.raw)

    def __repr__(self) -> str:
        names = [status.name for status in self.statuses[:8]]
        return f"Result({', '.join(names)}{', ...' if len(self) > 8 else ''}; prefix {self.prefix} of {len(self)})"


_STATUS = [Status.MISS] + [Status(n) for n in range(1, 8)]
_GOOD = bytes((Status.HIT, Status.STORED, Status.PRESENT))


class Job(Pending[bytearray]):
    """A get or a put on its way.

    It is *done* when every key has a status. It is *released* when also nothing moves
    bytes of its memory any more: only then that memory may be used for something else.
    """

    def __init__(
        self, count: int, parts: int, regions: frozenset[object], prefix_only: bool, tag: Any
    ) -> None:
        self.tag = tag  #: the caller's own, as given
        self.regions = regions
        self._prefix_only = prefix_only
        self._began = time.monotonic()
        self._seconds = 0.0
        self._reasons = bytearray()  # a byte a key; empty as long as there is none
        self._late = 0  # items whose memory is not the caller's
        self._parts: list[Callable[[], None]] = []  # each cancels a request
        self.free = Moment()
        super().__init__(parts, bytearray(count))
        if not parts:
            self.free.bring()

    @property
    def released(self) -> bool:
        """Whether the job is done and all its memory the caller's again."""
        return self.free.come

    def wait_released(self, timeout: float | None = None) -> bool:
        """Waits until it is released, at most timeout seconds; False if it is not."""
        return self.free.wait(timeout)

    @property
    def result(self) -> Result:
        """What became of the keys; LATE those that have no answer yet."""
        done = self.done()
        raw = bytes(self._value).replace(b"\0", bytes((Status.LATE,)))
        if self._prefix_only:
            raw = _cut(raw)
        seconds = self._seconds if done else time.monotonic() - self._began
        return Result(raw, seconds, self, bytes(self._reasons))

    def cancel(self) -> None:
        """Asks the daemon to give up what has not begun; the job is still answered."""
        for cancel in self._parts:
            cancel()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Cancelling the job calls cancel too."""
        self._parts.append(cancel)

    def part_answered(self, start: int, statuses: bytes, late: int) -> None:
        """A request is through; the memory of so many of its items is not free."""
        with _lock:
            self._value[start : start + len(statuses)] = statuses
            self._late += late
            if self._left == 1:
                self._seconds = time.monotonic() - self._began
        self.part_done()
        self._free_if_done()

    def part_reasons(self, start: int, reasons: bytes) -> None:
        """Why blocks of a request are dropped; before part_answered."""
        with _lock:
            if not self._reasons:
                self._reasons = bytearray(len(self._value))
            self._reasons[start : start + len(reasons)] = reasons

    def items_released(self, count: int) -> None:
        """So many late items are free."""
        with _lock:
            self._late -= count
        self._free_if_done()

    def _free_if_done(self) -> None:
        with _lock:
            free = self._left == 0 and self._late == 0
        if free:
            self.free.bring()


def _cut(raw: bytes) -> bytes:
    """Of a prefix read: behind its end nothing is a hit."""
    prefix = len(raw) - len(raw.lstrip(_GOOD))
    return raw[:prefix] + raw[prefix:].translate(_NO_HIT)


_NO_HIT = bytes(range(256)).replace(bytes((Status.HIT,)), bytes((Status.MISS,)))
