"""From a call to its requests: whom they go to, and how many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import wire
from .arguments import scaled
from .frames import Buffer
from .job import Job, Pending
from .keys import Keys
from .places import AnyPlaces, as_places
from .session import Call, Session
from .transfer import Transfer
from .wire import ErrorCode, Failure, Type

if TYPE_CHECKING:
    from .link import Link
    from .namespace import Namespace

_BODY_REST_BYTES = 64  # of a request, beside keys and places
_PIECE_BYTES = 16


class Part(NamedTuple):
    """The keys from start to stop go to the daemon's namespace handle in one request."""

    session: Session
    handle: int
    start: int
    stop: int


def plan(link: Link, space: Namespace, keys: Keys, pieces: int = 0) -> list[Part]:
    """The requests for keys with so many pieces each. None without a daemon."""
    session = link.live()
    handle = session.handles.get(space) if session else None
    if session is None or handle is None:
        return []
    limits = session.welcome
    item_bytes = max(1, keys.item_bytes + pieces * _PIECE_BYTES)
    most = min(limits.keys, (limits.frame_bytes - _BODY_REST_BYTES) // item_bytes)
    if pieces:
        most = min(most, limits.pieces // pieces)
    if most < 1:
        link.complain(
            f"{pieces} pieces a block in {space}", Failure(ErrorCode.LIMIT, "more than a request has", "")
        )
        return []
    return [Part(session, handle, i, min(i + most, keys.count)) for i in range(0, keys.count, most)]


def complaint(link: Link, space: Namespace, session: Session, type: int) -> Callable[[Failure], None]:
    """What is done about a refused request."""

    def complain(failure: Failure) -> None:
        link.complain(f"{Type(type).name.lower()} in {space}", failure)
        if failure.code in (ErrorCode.UNKNOWN, ErrorCode.CLOSING):
            link.reopen(session, space)

    return complain


def count(link: Link, space: Namespace, type: int, keys: Sequence[Buffer], group: int) -> Pending[list[int]]:
    """Touch, Delete or Prefetch: the answers are counts that add up."""
    packed = Keys(keys)
    parts = plan(link, space, packed)
    counts: list[int] = []
    pending = Pending(len(parts), counts)
    for session, handle, start, stop in parts:
        call = Call(
            pending, lambda body: counts.append(wire.read_u32(body)), complaint(link, space, session, type)
        )
        session.request(type, [wire.scope(handle, group), packed.encode(start, stop)], call)
    return pending


class Moving(NamedTuple):
    """How blocks move: head makes what stands before the keys, of the handle, the numbers of
    the first key and of the one behind the last, and the deadline in microseconds."""

    type: int
    head: Callable[[int, int, int, int], bytes]
    deadline: float | None
    prefix: bool
    tag: Any
    notify: bool


def move(link: Link, space: Namespace, keys: Sequence[Buffer], places: AnyPlaces, how: Moving) -> Job:
    """Begins a get or put. Without a daemon, or once its deadline has passed, it is done at once."""
    packed, where = Keys(keys), as_places(places)
    where.check(packed.count, space.block_bytes)
    if any(region.link is not link for region in where.regions):
        raise ValueError("a region of another client")
    too_late = how.deadline is not None and how.deadline <= 0
    deadline_us = 0 if how.deadline is None or too_late else max(1, scaled(how.deadline, 1e6, "deadline"))
    bodies: list[tuple[Part, bytes]] = []
    for part in [] if too_late else plan(link, space, packed, where.pieces):
        encoded = where.encode(part.start, part.stop, part.session.handles)
        if encoded is None:  # a region that the daemon does not have
            bodies = []
            break
        bodies.append((part, encoded))
    whole = not bodies and packed.count > 0
    job = Job(packed.count, len(bodies) or int(whole), where.regions, how.prefix, how.tag)
    link.register(job, how.notify)
    if whole:
        Transfer(job, how.type, 0, packed.count, lambda failure: None).refused(None)
    for part, encoded in bodies:
        session, handle, start, stop = part
        transfer = Transfer(job, how.type, start, stop - start, complaint(link, space, session, how.type))
        parts = [how.head(handle, start, stop, deadline_us), packed.encode(start, stop), encoded]
        number = session.request(how.type, parts, transfer)
        if number:
            job.on_cancel(_canceller(session, number))
    return job


def _canceller(session: Session, number: int) -> Callable[[], None]:
    return lambda: session.cancel(number)
