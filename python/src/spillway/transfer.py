"""One Get or Put on the wire: a request of a job."""

from __future__ import annotations

from typing import Callable

from . import wire
from .frames import ProtocolError
from .job import Job
from .session import Doubt
from .wire import ErrorCode, Failure, Status, Type


class Transfer:
    """Moves count keys of job, from start on."""

    def __init__(
        self, job: Job, type: int, start: int, count: int, complain: Callable[[Failure], object]
    ) -> None:
        self._job = job
        self._get = type == Type.GET
        self._start = start
        self._count = count
        self._complain = complain
        self._answered = False
        self._late: set[int] = set()  # items whose Released is still to come

    def answer(self, body: bytes) -> bool:
        if self._answered:
            raise ProtocolError("a request is answered twice")
        allowed = wire.GET_STATUSES if self._get else wire.PUT_STATUSES
        results = wire.read_results(body, self._count, allowed)
        statuses = results.statuses
        if Status.LATE in statuses:
            self._late = {i for i, status in enumerate(statuses) if status == Status.LATE}
        if results.reasons:
            self._job.part_reasons(self._start, results.reasons)
        self._finish(statuses, len(self._late))
        return bool(self._late)

    def unasked(self, type: int, body: bytes) -> bool:
        if type != Type.RELEASED:
            raise ProtocolError(f"a frame of type {type:#x} for a transfer")
        items = wire.read_released(body)
        if len(set(items)) != len(items) or not self._late.issuperset(items):
            raise ProtocolError("an item is released that was not late")
        self._late.difference_update(items)
        self._job.items_released(len(items))
        return bool(self._late)

    def refused(self, failure: Failure | None) -> None:
        if failure:
            self._complain(failure)
        if self._answered:  # an Error after the answer says nothing of the memory
            return
        status = Status.MISS if self._get else Status.DROPPED
        if self._get and failure and failure.code == ErrorCode.LIMIT:
            status = Status.BUSY
        self._finish(bytes((status,)) * self._count, 0)

    def lost(self, sent: bool) -> Doubt | None:
        if not self._answered and not sent:
            self.refused(None)
            return None
        if not self._answered:
            self._late = set(range(self._count))
            self._finish(bytes((Status.LATE,)) * self._count, self._count)
        return Doubt(self._job, len(self._late))

    def orphaned(self) -> None:
        self._job.answered.come = True  # LATE, and never released

    def _finish(self, statuses: bytes, late: int) -> None:
        self._answered = True
        self._job.part_answered(self._start, statuses, late)
