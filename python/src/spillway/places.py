"""Places: where the blocks of a request lie in registered memory, encoded in bulk."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Union,
)

from .wire import U32_MAX

if TYPE_CHECKING:
    from .region import Region

_HEAD = struct.Struct("<HH")
_PIECE_BYTES = 16


class Piece(NamedTuple):
    """A part of a block: length bytes at offset of a region."""

    region: Region
    offset: int
    length: int


class Places:
    """The places of the blocks of one request, in the order of its keys."""

    count: int  #: blocks
    pieces: int  #: of each block
    regions: frozenset[Region]

    def check(self, count: int, block_bytes: int) -> None:
        """Raises ValueError unless these are places for count blocks of block_bytes."""
        raise NotImplementedError

    def encode(self, start: int, stop: int, handles: Mapping[object, int]) -> bytes | None:
        """Those from start to stop as a request holds them; None if a region has no handle."""
        raise NotImplementedError


class Rows(Places):
    """Blocks whose pieces come from columns: one region and one length each.

    ``keys_rows + values_rows`` gives blocks of two pieces.
    """

    def __init__(self, columns: Sequence[tuple[Region, int, array[int]]]) -> None:
        self._columns = tuple(columns)
        self.count = len(self._columns[0][2])
        self.pieces = len(self._columns)
        self.regions = frozenset(region for region, _, _ in self._columns)
        if any(len(offsets) != self.count for _, _, offsets in self._columns):
            raise ValueError("the pieces of a block come from equally many rows")

    def __add__(self, other: Rows) -> Rows:
        return Rows(self._columns + other._columns)

    def check(self, count: int, block_bytes: int) -> None:
        if count != self.count:
            raise ValueError(f"{count} keys, but places for {self.count} blocks")
        total = sum(length for _, length, _ in self._columns)
        if count and total != block_bytes:
            raise ValueError(f"the pieces of a block have {total} bytes, a block {block_bytes}")

    def encode(self, start: int, stop: int, handles: Mapping[object, int]) -> bytes | None:
        # A piece is two numbers of 64 bits: region and length, then offset.
        step = 2 * self.pieces
        words = array("Q", bytes(_PIECE_BYTES * self.pieces * (stop - start)))
        for i, (region, length, offsets) in enumerate(self._columns):
            handle = handles.get(region)
            if handle is None:
                return None
            words[2 * i :: step] = array("Q", (handle | length << 32,)) * (stop - start)
            words[2 * i + 1 :: step] = offsets[start:stop]
        if sys.byteorder == "big":
            words.byteswap()
        return _HEAD.pack(self.pieces, 0) + words.tobytes()


class Pieces(Places):
    """Blocks with pieces anywhere: equally many of each block."""

    def __init__(self, blocks: Sequence[Sequence[Piece]]) -> None:
        self._blocks = blocks
        self.count = len(blocks)
        self.pieces = len(blocks[0]) if blocks else 1
        self.regions = frozenset(piece[0] for block in blocks for piece in block)
        for block in blocks:
            if len(block) != self.pieces or not block:
                raise ValueError("every block has equally many pieces, at least one")
            for region, offset, length in block:
                check_piece(region, offset, length)

    def check(self, count: int, block_bytes: int) -> None:
        if count != self.count:
            raise ValueError(f"{count} keys, but places for {self.count} blocks")
        for block in self._blocks:
            total = sum(length for _, _, length in block)
            if total != block_bytes:
                raise ValueError(f"the pieces of a block have {total} bytes, a block {block_bytes}")

    def encode(self, start: int, stop: int, handles: Mapping[object, int]) -> bytes | None:
        fields: list[int] = []
        for block in self._blocks[start:stop]:
            for region, offset, length in block:
                handle = handles.get(region)
                if handle is None:
                    return None
                fields += (handle, length, region.base + offset)
        return _HEAD.pack(self.pieces, 0) + struct.pack("<" + "IIQ" * (len(fields) // 3), *fields)


def check_piece(region: Region, offset: int, length: int) -> None:
    """Raises ValueError unless the piece lies within the region."""
    if not (0 < length <= U32_MAX and 0 <= offset <= region.nbytes - length):
        raise ValueError(f"{length} bytes at {offset} do not lie in a region of {region.nbytes} bytes")


def rows(region: Region, indices: Iterable[int], row_bytes: int) -> Rows:
    """Row i is row_bytes at i * row_bytes of the region."""
    numbers = indices.tolist() if hasattr(indices, "tolist") else indices
    base = region.base
    try:
        offsets = array("Q", [base + i * row_bytes for i in numbers])
    except OverflowError:
        raise ValueError("a row has a negative number") from None
    if offsets:
        check_piece(region, min(offsets) - base, row_bytes)
        check_piece(region, max(offsets) - base, row_bytes)
    return Rows([(region, row_bytes, offsets)])


AnyPlaces = Union[Places, Sequence[Piece], Sequence[Sequence[Piece]]]


def as_places(places: AnyPlaces) -> Places:
    """Places as given: whole, one piece a block, or a list of pieces a block."""
    if isinstance(places, Places):
        return places
    blocks: list[Sequence[Piece]] = []
    for place in places:
        if len(place) == 3 and not isinstance(place[1], (tuple, list)):
            place = (Piece(*place),)
        blocks.append([Piece(*piece) for piece in place])  # type: ignore[misc]
    return Pieces(blocks)
