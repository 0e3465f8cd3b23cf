"""Namespaces: the blocks of one model, and what can be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import wire
from .arguments import check_numbers, scaled
from .descriptor import Descriptor
from .events import Events
from .frames import KEY_BYTES_MAX, Buffer
from .job import Job, Pending, Result
from .keys import Keys
from .match import Matching, MatchResult
from .places import AnyPlaces
from .requests import Moving, complaint, count, move, plan
from .session import Call
from .wire import Type

if TYPE_CHECKING:
    from .link import Link

T = TypeVar("T")
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
        self,
        keys: Sequence[Buffer],
        *,
        group: int = 0,
        lease: float = 0.0,
        trailing: int = 0,
        compute: float = 0.0,
        worth: bool = False,
    ) -> Pending[MatchResult]:
        """As match, without waiting."""
        packed = Keys(keys)
        check_numbers(group=group, trailing=trailing)
        lease_ms = scaled(lease, 1e3, "lease")
        compute_us = min(scaled(compute, 1e6, "compute"), wire.COMPUTE_KNOWN - 1)
        if worth and not compute_us:
            compute_us = wire.COMPUTE_KNOWN
        parts = plan(self._link, self, packed)
        whole = Matching(packed.count, trailing, len(parts))
        pending = Pending(len(parts), whole.result)
        for session, handle, start, stop in parts:
            complain = complaint(self._link, self, session, Type.MATCH)
            call = Call(pending, whole.part(start, stop, session, lease), complain)
            head = wire.match(handle, group, lease_ms, trailing, compute_us)
            session.request(Type.MATCH, [head, packed.encode(start, stop)], call)
        return pending

    def match(
        self,
        keys: Sequence[Buffer],
        *,
        group: int = 0,
        lease: float = 0.0,
        trailing: int = 0,
        compute: float = 0.0,
        worth: bool = False,
    ) -> MatchResult:
        """Which keys are present. lease, in seconds, asks that they stay so long;
        trailing, how many of the last keys are wanted present (hybrid models); compute,
        the seconds that computing one block takes: a prefix that would not load quicker
        than that, as the drives are now, is answered as absent; worth, the same with the
        time that the daemon knows of the namespace's model, if it does."""
        pending = self.submit_match(
            keys, group=group, lease=lease, trailing=trailing, compute=compute, worth=worth
        )
        return self._wait(pending, MatchResult(len(keys)))

    def submit_locate(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[bytearray]:
        """As locate, without waiting; a byte a key."""
        packed = Keys(keys)
        check_numbers(group=group)
        parts = plan(self._link, self, packed)
        pending = Pending(len(parts), bytearray(packed.count))
        for session, handle, start, stop in parts:

            def take(body: bytes, start: int = start, stop: int = stop) -> None:
                pending.value[start:stop] = wire.read_located(body, stop - start)

            call = Call(pending, take, complaint(self._link, self, session, Type.LOCATE))
            session.request(Type.LOCATE, [wire.scope(handle, group), packed.encode(start, stop)], call)
        return pending

    def locate(self, keys: Sequence[Buffer], *, group: int = 0) -> list[int]:
        """Where each key is: 0 nowhere, 1 on this node."""
        pending = self.submit_locate(keys, group=group)
        found = self._wait(pending, bytearray(len(keys)))
        return list(found)

    def submit_touch(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As touch, without waiting; counts that add up."""
        check_numbers(group=group)
        return count(self._link, self, Type.TOUCH, keys, group)

    def touch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        """Makes blocks young, as a read does; returns how many were present."""
        return self._total(self.submit_touch(keys, group=group))

    def submit_prefetch(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As prefetch, without waiting; counts that add up."""
        check_numbers(group=group)
        return count(self._link, self, Type.PREFETCH, keys, group)

    def prefetch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        """Brings blocks nearer without reading them; returns how many were begun."""
        return self._total(self.submit_prefetch(keys, group=group))

    def submit_delete(self, keys: Sequence[Buffer], *, group: int = 0) -> Pending[list[int]]:
        """As delete, without waiting; counts that add up."""
        check_numbers(group=group)
        return count(self._link, self, Type.DELETE, keys, group)

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
            Type.DROP_NAMESPACE,
            [wire.u32(handle)],
            Call(pending, dropped, complaint(self._link, self, session, Type.DROP_NAMESPACE)),
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
        worth: bool = False,
        tag: Any = None,
        notify: bool = True,
    ) -> Job:
        """As get, without waiting. A job with notify comes from client.poll once it is
        released; without, wait for the job itself. tag is the caller's."""
        flags = bounce * wire.GET_BOUNCE | (not touch) * wire.GET_NO_TOUCH | prefix * wire.GET_PREFIX
        flags |= worth * wire.GET_WORTH

        def head(handle: int, start: int, stop: int, deadline_us: int) -> bytes:
            return wire.get(handle, group, flags, deadline_us)

        check_numbers(group=group)
        return move(self._link, self, keys, places, Moving(Type.GET, head, deadline, prefix, tag, notify))

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
        worth: bool = False,
    ) -> Result:
        """Reads blocks into places.

        deadline, in seconds, ends the answer and not the transfer: what is LATE by then
        still owns its memory until the result is released. bounce frees that memory at
        once for one copy more. touch=False lets the blocks keep their age. worth ends the
        answer when computing the blocks would be done, as the daemon knows the model.
        """
        job = self.submit_get(
            keys,
            places,
            group=group,
            deadline=deadline,
            prefix=prefix,
            bounce=bounce,
            touch=touch,
            worth=worth,
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
        partial: bool = False,
        after: Buffer = b"",
        span: bool = False,
        tag: Any = None,
        notify: bool = True,
    ) -> Job:
        """As put, without waiting. notify and tag as submit_get's."""
        flags = (
            durable * wire.PUT_DURABLE
            | drop_if_busy * wire.PUT_DROP_IF_BUSY
            | span * wire.PUT_SPAN
        )

        def head(handle: int, start: int, stop: int, deadline_us: int) -> bytes:
            last = wire.PUT_PARTIAL if partial and stop == len(keys) else 0
            before = bytes(keys[start - 1] if start else after)
            return wire.put(
                handle, group, flags | last, deadline_us, depth + start, importance, before
            )

        check_numbers(group=group, depth=depth, last_depth=depth + len(keys))
        if not 0 <= importance <= 255:
            raise ValueError(f"importance {importance} must be 0 to 255")
        if len(after) > KEY_BYTES_MAX:
            raise ValueError(f"after has {len(after)} bytes, a key has at most {KEY_BYTES_MAX}")
        return move(self._link, self, keys, places, Moving(Type.PUT, head, deadline, False, tag, notify))

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
        partial: bool = False,
        after: Buffer = b"",
        span: bool = False,
    ) -> Result:
        """Stores the blocks of one chain; the first has depth, the others follow.

        Their memory must not change before the result is released. durable waits until
        data and log are on stable media; drop_if_busy never waits for room. partial says
        that the last block is not full, as where a prompt ends within it: daemons do not
        store such blocks unless they are told to. after is the key before the first one in
        its chain, where a chain grows from call to call. span says that the blocks are one
        stretch: once the last has been evicted, the others are the next to go.
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
            partial=partial,
            after=after,
            span=span,
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

    def _outcome(self, job: Job, deadline: float | None) -> Result:
        self._link.outlast(job, None if deadline is None else max(0.0, deadline) + LATE_GRACE)
        return job.result

    def _wait(self, pending: Pending[T], otherwise: T) -> T:
        # What comes too late must not change under the caller's hands.
        return pending.value if self._link.outlast(pending, self._link.call_timeout) else otherwise

    def _total(self, pending: Pending[list[int]]) -> int:
        counts = self._wait(pending, [])
        return sum(counts)
