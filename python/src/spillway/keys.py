"""Lists of keys, encoded in bulk."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .frames import KEY_BYTES_MAX, Buffer

_HEAD = struct.Struct("<IHH")
_LENGTHS = [struct.pack("<H", n) for n in range(KEY_BYTES_MAX + 1)]


class Keys:
    """Keys that passed their checks.

    Raises TypeError for a key that is not bytes, ValueError for one that does not
    have 1 to 1,024 bytes.
    """

    def __init__(self, keys: Sequence[Buffer]) -> None:
        if isinstance(keys, (str, bytes, bytearray, memoryview)):
            raise TypeError("keys are a sequence of bytes objects, not one of them")
        self._keys = keys if isinstance(keys, (list, tuple)) else list(keys)
        if set(map(type, self._keys)) - {bytes}:
            self._keys = [memoryview(key).tobytes() for key in self._keys]  # TypeError for text
        self.count = len(self._keys)
        widths = set(map(len, self._keys))
        if self.count and not (1 <= min(widths) and max(widths) <= KEY_BYTES_MAX):
            raise ValueError(f"a key has 1 to {KEY_BYTES_MAX} bytes, not {min(widths)} or {max(widths)}")
        # One width for all keys, 0 where they differ.
        self._width = widths.pop() if len(widths) == 1 else 0
        self.item_bytes = self._width or 2 + max(widths, default=0)  # of one key, at most
        self._joined = b"".join(self._keys) if self._width else b""

    def encode(self, start: int, stop: int) -> bytes:
        """Those from start to stop, as a request holds them."""
        head = _HEAD.pack(stop - start, self._width, 0)
        if self._width:
            return head + self._joined[start * self._width : stop * self._width]
        keys = self._keys[start:stop]
        parts: list[Buffer] = [b""] * (2 * len(keys))
        parts[0::2] = [_LENGTHS[len(key)] for key in keys]
        parts[1::2] = keys
        return head + b"".join(parts)
