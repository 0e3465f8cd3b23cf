"""Messages between a client and its daemon (docs/format/wire.md), without any I/O.

Functions named like a request make its body; functions named ``read_...`` take the
body of an answer apart. Nothing is believed: what does not fit raises ProtocolError.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from .frames import HELLO_BYTES_MAX, Buffer, ProtocolError, Reader

MAGIC = b"SPILLWAY"
VERSION = 1

U32_MAX = 0xFFFF_FFFF


class Type(enum.IntEnum):
    """Types of frames. The answer to a request is its type with ANSWER added."""

    HELLO = 0x01
    OPEN_NAMESPACE = 0x02
    REGISTER_REGION = 0x03
    CREATE_REGION = 0x04
    DROP_REGION = 0x05
    MATCH = 0x06
    GET = 0x07
    PUT = 0x08
    TOUCH = 0x09
    RELEASE = 0x0A
    DELETE = 0x0B
    DROP_NAMESPACE = 0x0C
    CANCEL = 0x0D
    DRAIN = 0x0E
    STATS = 0x0F
    EVENTS = 0x10
    LOCATE = 0x11
    PREFETCH = 0x12
    PING = 0x13
    RELEASED = 0x40
    EVENT = 0x41
    ERROR = 0x7F


ANSWER = 0x80


class Status(enum.IntEnum):
    """What became of one key of a get or a put."""

    HIT = 1  #: the destination holds the complete, verified bytes
    MISS = 2  #: not here; the destination's content is undefined
    LATE = 3  #: no answer in time; the memory is not yours until the job is released
    BUSY = 4  #: a read refused at a bound; later it may work
    STORED = 5  #: stored
    PRESENT = 6  #: another put of this key came first; its bytes stay
    DROPPED = 7  #: the put was refused or failed


class Reason(enum.IntEnum):
    """Why a daemon chose to drop a block of a put."""

    NONE = 0  #: it did not: no room, a sick drive, bad memory
    PARTIAL = 1  #: the block is not full
    FIRST_SIGHT = 2  #: it is stored when it is put again
    WRITE_BUDGET = 3  #: the drive has been written as much as it may for now
    QUEUE = 4  #: too much waits for the drive


GET_STATUSES = bytes((Status.HIT, Status.MISS, Status.LATE, Status.BUSY))
PUT_STATUSES = bytes((Status.LATE, Status.STORED, Status.PRESENT, Status.DROPPED))


class ErrorCode(enum.IntEnum):
    """Codes of an Error frame."""

    PROTOCOL = 1
    UNSUPPORTED = 2
    BAD_ARGUMENT = 3
    UNKNOWN = 4
    DENIED = 5
    LIMIT = 6
    CLOSING = 7
    INTERNAL = 8


class EventKind(enum.IntEnum):
    """What an event says about its keys."""

    STORED = 1
    REMOVED = 2  #: evicted, deleted or damaged
    CLEARED = 3  #: the namespace was dropped; no keys
    LOST = 4  #: the subscription ended: what came after is unknown


GET_BOUNCE, GET_NO_TOUCH, GET_PREFIX, GET_WORTH = 1, 2, 4, 8
COMPUTE_KNOWN = 0xFFFFFFFF  # in place of a compute time: what the daemon knows
PUT_DURABLE, PUT_DROP_IF_BUSY, PUT_PARTIAL, PUT_SPAN = 1, 2, 4, 8
REGION_PUT_ONLY = 1


class Welcome(NamedTuple):
    """The daemon's side of the handshake: who it is and its bounds."""

    version: int
    features: int
    instance: bytes
    connection: int
    frame_bytes: int
    keys: int  # of one request
    pieces: int  # of one request
    requests: int  # in flight on a connection
    regions: int
    region_bytes: int  # of a connection together
    align_bytes: int
    put_queue_bytes: int
    server: str


class Opened(NamedTuple):
    """Answer to OpenNamespace."""

    namespace: int
    block_bytes: int
    id: bytes
    name: str


class Matched(NamedTuple):
    """Answer to Match; the bitmap's lowest bit is the first key."""

    prefix: int
    trailing: int
    leased: int
    lease: int
    bitmap: bytes


class Results(NamedTuple):
    """Answer to Get and Put: one status a key; of a Put also one reason, or none at all."""

    micros: int
    statuses: bytes
    reasons: bytes = b""


class Failure(NamedTuple):
    """An Error frame."""

    code: int
    text: str
    remedy: str


class Event(NamedTuple):
    """Something happened to blocks of a namespace."""

    sequence: int
    kind: EventKind
    namespace: int
    group: int
    keys: tuple[bytes, ...]


def string(text: str) -> bytes:
    """A length and that many bytes of UTF-8."""
    data = text.encode()
    if len(data) > 0xFFFF:
        raise ValueError(f"a string of {len(data)} bytes, at most 65535")
    return struct.pack("<H", len(data)) + data


def hello(client: str, token: str, instance: bytes = bytes(16), connection: int = 0) -> bytes:
    """instance and connection are of the connection that this one follows."""
    head = struct.pack("<HHI16sQ", VERSION, VERSION, 0, instance, connection)
    return MAGIC + head + string(client) + string(token)


def open_namespace(descriptor: bytes, token: str) -> bytes:
    return struct.pack("<I", len(descriptor)) + descriptor + string(token)


def register_region(flags: int, length: int) -> bytes:
    return struct.pack("<IQ", flags, length)


def match(namespace: int, group: int, lease_ms: int, trailing: int, compute_us: int = 0) -> bytes:
    """What stands before the keys."""
    return struct.pack("<IIIII", namespace, group, compute_us, lease_ms, trailing)


def get(namespace: int, group: int, flags: int, deadline_us: int) -> bytes:
    """What stands before keys and places."""
    return struct.pack("<IIII", namespace, group, flags, deadline_us)


def put(
    namespace: int, group: int, flags: int, deadline_us: int, depth: int, importance: int, after: bytes = b""
) -> bytes:
    """What stands before keys and places."""
    head = struct.pack(
        "<IIIIIBxH", namespace, group, flags, deadline_us, depth, importance, len(after)
    )
    return head + after


def scope(namespace: int, group: int) -> bytes:
    """What stands before the keys of Touch, Delete, Locate and Prefetch."""
    return struct.pack("<II", namespace, group)


def events(namespace: int, since: int) -> bytes:
    return struct.pack("<IIQ", namespace, 0, since)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def read_welcome(body: Buffer) -> Welcome:
    r = Reader(body)
    version, _ = r.u16(), r.u16()
    features, instance, connection = r.u32(), r.take(16), r.u64()
    frame_bytes, keys, pieces, requests, regions, _ = (r.u32() for _ in range(6))
    region_bytes, align, queue, server = r.u64(), r.u32(), r.u64(), r.string()
    r.end()
    if version != VERSION:
        raise ProtocolError(f"the daemon speaks version {version}, this client {VERSION}")
    if frame_bytes < HELLO_BYTES_MAX or 0 in (keys, pieces, requests):
        raise ProtocolError("the daemon's limits leave no room for a request")
    return Welcome(
        version,
        features,
        instance,
        connection,
        frame_bytes,
        keys,
        pieces,
        requests,
        regions,
        region_bytes,
        align,
        queue,
        server,
    )


def read_opened(body: Buffer) -> Opened:
    r = Reader(body)
    opened = Opened(r.u32(), r.u32(), r.take(32), r.string())
    r.end()
    return opened


def read_matched(body: Buffer, count: int) -> Matched:
    """The answer to a Match of count keys."""
    r = Reader(body)
    keys, prefix, trailing, leased = (r.u32() for _ in range(4))
    lease, bitmap = r.u64(), r.take((count + 7) // 8)
    r.end()
    if keys != count or max(prefix, trailing, leased) > count:
        raise ProtocolError(
            f"a match of {count} keys answers for {keys}, prefix {prefix}, "
            f"trailing {trailing}, leased {leased}"
        )
    return Matched(prefix, trailing, leased, lease, bitmap)


def read_results(body: Buffer, count: int, allowed: bytes) -> Results:
    """The answer to a Get or Put of count keys, whose statuses are allowed ones."""
    r = Reader(body)
    _, micros, answered = r.u32(), r.u32(), r.u32()
    if answered != count:
        raise ProtocolError(f"a request of {count} keys answers for {answered}")
    statuses = r.take(count)
    reasons = r.take(count) if allowed == PUT_STATUSES and r.left else b""
    r.end()
    strange = statuses.translate(None, allowed)
    if strange:
        raise ProtocolError(f"status {strange[0]} of a key")
    return Results(micros, statuses, reasons)


def read_released(body: Buffer) -> tuple[int, ...]:
    """The indices of items whose memory is the client's again."""
    r = Reader(body)
    count = r.u32()
    data = r.take(4 * count)
    r.end()
    return struct.unpack(f"<{count}I", data)


def read_event(body: Buffer) -> Event:
    r = Reader(body)
    sequence, kind = r.u64(), r.u8()
    r.take(3)
    try:
        event = Event(sequence, EventKind(kind), r.u32(), r.u32(), r.keys())
    except ValueError:
        raise ProtocolError(f"an event of kind {kind}") from None
    r.end()
    return event


def read_failure(body: Buffer) -> Failure:
    r = Reader(body)
    failure = Failure(r.u16(), r.string(), r.string())
    r.end()
    return failure


def read_u32(body: Buffer) -> int:
    r = Reader(body)
    value = r.u32()
    r.end()
    return value


def read_u64s(body: Buffer, count: int) -> tuple[int, ...]:
    r = Reader(body)
    values = tuple(r.u64() for _ in range(count))
    r.end()
    return values


def read_located(body: Buffer, count: int) -> bytes:
    """One byte a key: 0 nowhere, 1 on this node."""
    r = Reader(body)
    keys = r.u32()
    if keys != count:
        raise ProtocolError(f"a location of {count} keys answers for {keys}")
    data = r.take(count)
    r.end()
    return data


def read_empty(body: Buffer) -> None:
    Reader(body).end()
