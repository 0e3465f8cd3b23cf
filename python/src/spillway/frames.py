"""Frames, the units of the stream between a client and its daemon, and their bodies' fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Union

Buffer = Union[bytes, bytearray, memoryview]

HEADER = struct.Struct("<IBBHQ")
HELLO_BYTES_MAX = 65_536  # of a body before Welcome
KEY_BYTES_MAX = 1_024


class ProtocolError(Exception):
    """What came is not what the protocol says: the connection has to end."""


class Frame(NamedTuple):
    """One frame, taken out of the stream."""

    type: int
    request: int
    body: bytes


def frame(type: int, request: int, *parts: Buffer) -> bytes:
    """One frame whose body is the parts, one after the other."""
    size = sum(map(len, parts))
    return b"".join((HEADER.pack(size, type, 0, 0, request), *parts))


class Splitter:
    """Cuts a stream of bytes, fed as it comes, into frames."""

    def __init__(self, body_bytes_max: int = HELLO_BYTES_MAX) -> None:
        self.body_bytes_max = body_bytes_max
        self._rest = bytearray()

    def feed(self, data: Buffer) -> Iterator[Frame]:
        """Yields the frames that data completes. Consume it wholly before the next feed."""
        rest = self._rest
        rest += data
        at = 0
        try:
            while len(rest) - at >= HEADER.size:
                size, type, flags, zero, request = HEADER.unpack_from(rest, at)
                if size > self.body_bytes_max:
                    raise ProtocolError(f"a body of {size} bytes, at most {self.body_bytes_max}")
                if flags or zero:
                    raise ProtocolError(f"flags {flags:#x}, zero field {zero:#x} of a frame")
                end = at + HEADER.size + size
                if len(rest) < end:
                    break
                body = bytes(memoryview(rest)[at + HEADER.size : end])
                at = end
                yield Frame(type, request, body)
        finally:
            del rest[:at]


class Reader:
    """Takes a body apart from its beginning, never past its end."""

    def __init__(self, body: Buffer) -> None:
        self._body = bytes(body)
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next count bytes."""
        start, end = self._at, self._at + count
        if end > len(self._body):
            raise ProtocolError(f"a body ends at {len(self._body)}, before {end}")
        self._at = end
        return self._body[start:end]

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._body) - self._at

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def string(self) -> str:
        try:
            return self.take(self.u16()).decode()
        except UnicodeDecodeError as err:
            raise ProtocolError(f"a string is not UTF-8: {err}") from None

    def keys(self) -> tuple[bytes, ...]:
        """A list of keys as requests and events hold it."""
        count, width = self.u32(), self.u16()
        self.u16()
        if width > KEY_BYTES_MAX or count * (width or 3) > len(self._body) - self._at:
            raise ProtocolError(f"{count} keys of {width} bytes do not fit their body")
        out: list[bytes] = []
        for _ in range(count):
            key = self.take(width or self.u16())
            if not 1 <= len(key) <= KEY_BYTES_MAX:
                raise ProtocolError(f"a key of {len(key)} bytes")
            out.append(key)
        return tuple(out)

    def end(self) -> None:
        """Says that nothing may be left."""
        if self._at != len(self._body):
            raise ProtocolError(f"{len(self._body) - self._at} bytes too many in a body")
