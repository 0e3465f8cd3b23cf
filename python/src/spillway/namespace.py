"""Namespaces: the blocks of one model, and what can be done with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import wire
from .descriptor import Descriptor
from .events import Events
from .job import Job, Pending, Result
from .keys import Keys
from .match import Bitmap, MatchResult
from .places import AnyPlaces, as_places
from .session import Call, Session
from .transfer import Transfer
from .wire import Buffer, ErrorCode, Failure, Type

if TYPE_CHECKING:
    from .link import Link

T = TypeVar("T")
_BODY_REST_BYTES = 64  # of a request, beside keys and places
LATE_GRACE = 0.05  # seconds that a daemon gets to say that its deadline has passed


class Namespace:
    """Made by ``client.namespace``; valid for the client's life, over all connections.

    No call raises because of the daemon: with none, or one that does not answer in time,
    nothing is present, reads are MISS, puts DROPPED, counts 0. What is wrong in the call
    itself raises TypeError or ValueError before anything is sent: a key that is not bytes
    of 1 to 1,024, places that do not add up to the block size or leave their region.
    """

    def __init__(self, link: Link, descriptor: Descriptor, token: str) -> None:
        self._link = link
        self._token = token
        self.descriptor = descriptor
        self.block_bytes = descriptor.block_bytes
        self.problem = ""  #: why the daemon refused the namespace; empty if it did not

    def __str__(self) -> str:
        return f"namespace {self.descriptor.name!r}"

    @property
    def ready(self) -> bool:
        """Whether the daemon has opened the namespace now."""
        return self._link.handle(self) is not None

    # Asking.

    def submit_match(
        self, keys: Sequence[Buffer], *, group: int = 0, lease: float = 0.0, trailing: int = 0
    ) -> Pending[MatchResult]:
        """As match, without waiting."""
        found = Keys(keys)
        _check_numbers(group=group, trailing=trailing)
        lease_ms = _scaled(lease, 1e3, "lease")
        session, handle, ranges = self._plan(found.count, found.item_bytes)
        result = MatchResult(found.count)
        pending: Pending[MatchResult] = Pending(len(ranges), result)
        whole = _Matching(result, found.count, trailing, len(ranges))
        for start, stop in ranges:
            assert session is not None
            call = Call(pending, whole.part(start, stop, session, lease), self._complain(session, "match"))
            head = wire.match(handle, group, lease_ms, trailing)
            session.request(Type.MATCH, [head, found.encode(start, stop)], call)
        return pending

    def match(
        self, keys: Sequence[Buffer], *, group: int = 0, lease: float = 0.0, trailing: int = 0
    ) -> MatchResult:
        """Which keys are present. lease, in seconds, asks that they stay so long;
        trailing, how many of the last keys are wanted present (hybrid models)."""
        pending = self.submit_match(keys, group=group, lease=lease, trailing=trailing)
        return self._wait(pending, MatchResult(len(keys)))

    def submit_locate(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[bytearray]:
        """As locate, without waiting; a byte a key."""
        found = Keys(keys)
        pending, parts = self._plan_call(found, bytearray(found.count))

        def take(start: int, stop: int) -> Callable[[bytes], None]:
            def place(body: bytes) -> None:
                pending.value[start:stop] = wire.read_located(body, stop - start)

            return place

        self._send_keys(Type.LOCATE, found, group, pending, parts, take)
        return pending

    def locate(self, keys: Sequence[Buffer], *, group: int = 0) -> list[int]:
        """Where each key is: 0 nowhere, 1 on this node."""
        pending = self.submit_locate(keys, group=group)
        found = self._wait(pending, bytearray(len(keys)))
        return list(found)

    def submit_touch(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As touch, without waiting; counts that add up."""
        return self._count(Type.TOUCH, keys, group)

    def touch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        """Makes blocks young, as a read does; returns how many were present."""
        return self._total(self.submit_touch(keys, group=group))

    def submit_prefetch(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As prefetch, without waiting; counts that add up."""
        return self._count(Type.PREFETCH, keys, group)

    def prefetch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        """Brings blocks nearer without reading them; returns how many were begun."""
        return self._total(self.submit_prefetch(keys, group=group))

    def submit_delete(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As delete, without waiting; counts that add up."""
        return self._count(Type.DELETE, keys, group)

    def delete(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        """Deletes blocks; returns how many there were. Less than all may also mean that
        the daemon did not answer: match tells."""
        return self._total(self.submit_delete(keys, group=group))

    def submit_drop(self) -> Pending[list[bool]]:
        """As drop, without waiting; holds True if it was done."""
        pending: Pending[list[bool]] = Pending(1, [])
        session = self._link.live()
        handle = session.handles.get(self) if session else None
        if session is None or handle is None:
            pending.part_done()
            return pending

        def dropped(body: bytes) -> None:
            wire.read_empty(body)
            pending.value.append(True)

        session.request(
            Type.DROP_NAMESPACE, [wire.u32(handle)], Call(pending, dropped, self._complain(session, "drop"))
        )
        return pending

    def drop(self) -> bool:
        """Erases every block of the namespace, durably. False if the daemon did not confirm
        it. The namespace goes on, empty."""
        pending = self.submit_drop()
        return bool(self._wait(pending, []))

    def events(self, since: int = 0, *, buffered: int = 4096) -> Events:
        """What happens to blocks of the namespace, from sequence since on (0: from now).
        At most so many events wait to be taken; then the subscription is lost."""
        session = self._link.live()
        return Events(session, session.handles.get(self) if session else None, since, buffered)

    # Moving blocks.

    def submit_get(
        self,
        keys: Sequence[Buffer],
        places: AnyPlaces,
        *,
        group: int = 0,
        deadline: float | None = None,
        prefix: bool = False,
        bounce: bool = False,
        touch: bool = True,
        tag: Any = None,
        notify: bool = True,
    ) -> Job:
        """As get, without waiting. A job with notify comes from client.poll once it is
        released; without, wait for the job itself. tag is the caller's."""
        flags = bounce * wire.GET_BOUNCE | (not touch) * wire.GET_NO_TOUCH | prefix * wire.GET_PREFIX

        def head(handle: int, start: int, deadline_us: int) -> bytes:
            return wire.get(handle, group, flags, deadline_us)

        _check_numbers(group=group)
        return self._move(Type.GET, keys, places, deadline, head, tag, notify, prefix)

    def get(
        self,
        keys: Sequence[Buffer],
        places: AnyPlaces,
        *,
        group: int = 0,
        deadline: float | None = None,
        prefix: bool = False,
        bounce: bool = False,
        touch: bool = True,
    ) -> Result:
        """Reads blocks into places.

        deadline, in seconds, ends the answer and not the transfer: what is LATE by then
        still owns its memory until the result is released. bounce frees that memory at
        once for one copy more. touch=False lets the blocks keep their age.
        """
        job = self.submit_get(
            keys,
            places,
            group=group,
            deadline=deadline,
            prefix=prefix,
            bounce=bounce,
            touch=touch,
            notify=False,
        )
        return self._outcome(job, deadline)

    def match_get(self, keys: Sequence[Buffer], places: AnyPlaces, **options: Any) -> Result:
        """Reads the longest prefix that is present, and nothing behind it: match and get
        in one call. Options as get's."""
        return self.get(keys, places, prefix=True, **options)

    def submit_put(
        self,
        keys: Sequence[Buffer],
        places: AnyPlaces,
        *,
        group: int = 0,
        deadline: float | None = None,
        depth: int = 0,
        importance: int = 0,
        durable: bool = False,
        drop_if_busy: bool = False,
        tag: Any = None,
        notify: bool = True,
    ) -> Job:
        """As put, without waiting. notify and tag as submit_get's."""
        flags = durable * wire.PUT_DURABLE | drop_if_busy * wire.PUT_DROP_IF_BUSY

        def head(handle: int, start: int, deadline_us: int) -> bytes:
            return wire.put(handle, group, flags, deadline_us, depth + start, importance)

        _check_numbers(group=group, depth=depth)
        if not 0 <= importance <= 255:
            raise ValueError(f"importance {importance} must be 0 to 255")
        return self._move(Type.PUT, keys, places, deadline, head, tag, notify)

    def put(
        self,
        keys: Sequence[Buffer],
        places: AnyPlaces,
        *,
        group: int = 0,
        deadline: float | None = None,
        depth: int = 0,
        importance: int = 0,
        durable: bool = False,
        drop_if_busy: bool = False,
    ) -> Result:
        """Stores the blocks of one chain; the first has depth, the others follow.

        Their memory must not change before the result is released. durable waits until
        data and log are on stable media; drop_if_busy never waits for room.
        """
        job = self.submit_put(
            keys,
            places,
            group=group,
            deadline=deadline,
            depth=depth,
            importance=importance,
            durable=durable,
            drop_if_busy=drop_if_busy,
            notify=False,
        )
        return self._outcome(job, deadline)

    # What the link opens on every connection.

    def open_request(self) -> tuple[int, bytes, list[int]]:
        return Type.OPEN_NAMESPACE, wire.open_namespace(self.descriptor.canonical(), self._token), []

    def opened(self, body: bytes) -> int | None:
        answer = wire.read_opened(body)
        if answer.block_bytes != self.block_bytes:
            self.problem = (
                f"{self} has blocks of {answer.block_bytes} bytes at the daemon, {self.block_bytes} here"
            )
            return None
        return answer.namespace

    # Parts of the above.

    def _plan(
        self, count: int, item_bytes: int, pieces: int = 0
    ) -> tuple[Session | None, int, list[tuple[int, int]]]:
        """Whom to ask, and the keys' ranges, one a request. Without a daemon there is none."""
        session = self._link.live()
        handle = session.handles.get(self) if session else None
        if session is None or handle is None or not count:
            return None, 0, []
        limits = session.welcome
        most = min(limits.keys, (limits.frame_bytes - _BODY_REST_BYTES) // item_bytes)
        if pieces:
            most = min(most, limits.pieces // pieces)
        if most < 1:
            self._complain(session, "transfer")(
                Failure(ErrorCode.LIMIT, f"{pieces} pieces a block are too many", "")
            )
            return None, 0, []
        return session, handle, [(start, min(start + most, count)) for start in range(0, count, most)]

    def _move(
        self,
        type: int,
        keys: Sequence[Buffer],
        places: AnyPlaces,
        deadline: float | None,
        head: Callable[[int, int, int], bytes],
        tag: Any,
        notify: bool,
        prefix: bool = False,
    ) -> Job:
        moved, where = Keys(keys), as_places(places)
        where.check(moved.count, self.block_bytes)
        too_late = deadline is not None and deadline <= 0
        deadline_us = 0 if deadline is None or too_late else max(1, _scaled(deadline, 1e6, "deadline"))
        session, handle, ranges = self._plan(moved.count, moved.item_bytes + 16 * where.pieces, where.pieces)
        encoded: list[bytes | None] = []
        if session is not None:
            encoded = [where.encode(start, stop, session.handles) for start, stop in ranges]
        if session is None or too_late or None in encoded:
            session, ranges = None, [(0, moved.count)] if moved.count else []
        job = Job(moved.count, len(ranges), where.regions, prefix, tag)
        self._link.register(job, notify)
        for i, (start, stop) in enumerate(ranges):
            complain = self._complain(session, Type(type).name.lower())
            transfer = Transfer(job, type, start, stop - start, complain)
            if session is None:
                transfer.refused(None)
                continue
            parts = [head(handle, start, deadline_us), moved.encode(start, stop), encoded[i] or b""]
            number = session.request(type, parts, transfer)
            if number:
                job.on_cancel(_canceller(session, number))
        return job

    def _outcome(self, job: Job, deadline: float | None) -> Result:
        self._link.outlast(job, None if deadline is None else max(0.0, deadline) + LATE_GRACE)
        return job.result

    def _wait(self, pending: Pending[T], otherwise: T) -> T:
        # What comes too late must not change under the caller's hands.
        return pending.value if self._link.outlast(pending, self._link.call_timeout) else otherwise

    def _total(self, pending: Pending[list[int]]) -> int:
        counts = self._wait(pending, [])
        return sum(counts)

    def _plan_call(self, keys: Keys, value: T) -> tuple[Pending[T], Iterator[tuple[Session, int, int, int]]]:
        session, handle, ranges = self._plan(keys.count, keys.item_bytes)
        return Pending(len(ranges), value), ((session, handle, *r) for r in ranges if session)

    def _send_keys(
        self,
        type: int,
        keys: Keys,
        group: int,
        pending: Pending[Any],
        parts: Iterator[tuple[Session, int, int, int]],
        take: Callable[[int, int], Callable[[bytes], None]],
    ) -> None:
        _check_numbers(group=group)
        for session, handle, start, stop in parts:
            call = Call(pending, take(start, stop), self._complain(session, Type(type).name.lower()))
            session.request(type, [wire.scope(handle, group), keys.encode(start, stop)], call)

    def _count(self, type: int, keys: Sequence[Buffer], group: int) -> Pending[list[int]]:
        found = Keys(keys)
        counts: list[int] = []
        pending, parts = self._plan_call(found, counts)

        def take(start: int, stop: int) -> Callable[[bytes], None]:
            return lambda body: pending.value.append(min(wire.read_u32(body), stop - start))

        self._send_keys(type, found, group, pending, parts, take)
        return pending

    def _complain(self, session: Session | None, what: str) -> Callable[[Failure], None]:
        def complain(failure: Failure) -> None:
            self._link.complain(f"{what} in {self}", failure)
            if session and failure.code in (ErrorCode.UNKNOWN, ErrorCode.CLOSING):
                self._link.reopen(session, self)

        return complain


class _Matching:
    """Puts the answers of a match together, of one request or of several."""

    def __init__(self, result: MatchResult, count: int, trailing: int, parts: int) -> None:
        self._result, self._count, self._trailing = result, count, trailing
        self._single = parts == 1
        self._bits = 0
        self._prefixes: list[tuple[int, int, int]] = []

    def part(self, start: int, stop: int, session: Session, lease: float) -> Callable[[bytes], None]:
        """What takes the answer for keys start to stop."""
        asked = time.monotonic()

        def take(body: bytes) -> None:
            answer = wire.read_matched(body, stop - start)
            self._bits |= (int.from_bytes(answer.bitmap, "little") & ((1 << (stop - start)) - 1)) << start
            self._prefixes.append((start, stop, answer.prefix))
            self._result.present = Bitmap(self._bits, self._count)
            self._result.prefix = self._prefix()
            ending = min(self._result.present.ending(), self._trailing)
            self._result.trailing = answer.trailing if self._single else ending
            if answer.lease:
                self._result.lease.hold(session, answer.lease, answer.leased, asked + lease)

        return take

    def _prefix(self) -> int:
        reached = 0
        for start, _, prefix in sorted(self._prefixes):
            if start == reached:
                reached = start + prefix
        return reached


def _canceller(session: Session, number: int) -> Callable[[], None]:
    return lambda: session.cancel(number)


def _scaled(seconds: float, per_second: float, what: str) -> int:
    """Seconds as a number of 32 bits; the longest where they are more."""
    if seconds < 0 or seconds != seconds:
        raise ValueError(f"{what} {seconds} must not be negative")
    return int(min(seconds * per_second, wire.U32_MAX))


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if not 0 <= value <= wire.U32_MAX:
            raise ValueError(f"{name} {value} must be 0 to {wire.U32_MAX}")
