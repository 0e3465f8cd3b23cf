"""How rows of vLLM's primary tier reach the daemon: by mapping them, or copied."""

from __future__ import annotations

import logging
from typing import Any, List, Optional, Sequence

_log = logging.getLogger("spillway")


class Loan:
    """Places of the first ``count`` rows of a job, until it is released."""

    def __init__(self, places: Any, count: int) -> None:
        self.places = places
        self.count = count

    def settle(self, arrived: Sequence[bool]) -> None:
        """The job is released; of a load, says which rows hold their block now."""


class Mapped:
    """The daemon maps vLLM's own file: it moves bytes straight from and to the rows."""

    def __init__(self, region: Any, row_bytes: int) -> None:
        self._region = region
        self._row_bytes = row_bytes

    def lend(self, rows: Sequence[int], storing: bool) -> Optional[Loan]:
        """Places of all rows."""
        return Loan(self._region.rows(rows, self._row_bytes), len(rows))

    def close(self) -> None:
        """Takes the memory from the daemon."""
        self._region.close()


class Copied:
    """Rows go through frames of our own, which the daemon maps: right, but slower.

    A job that finds fewer frames than it has rows moves the first ones only.
    """

    def __init__(self, region: Any, view: memoryview, row_bytes: int) -> None:
        self._region = region
        self._rows = view.cast("B")
        self._row_bytes = row_bytes
        self._free = list(range(region.nbytes // row_bytes))

    def lend(self, rows: Sequence[int], storing: bool) -> Optional[Loan]:
        """Frames for as many rows as there are, filled if storing; None if there is none."""
        count = min(len(rows), len(self._free))
        if not count:
            return None
        frames = [self._free.pop() for _ in range(count)]
        if storing:
            for frame, row in zip(frames, rows):
                self._copy(self._region.memory, frame, self._rows, row)
        return _Frames(self, frames, list(rows[:count]), storing)

    def settle(self, frames: List[int], rows: List[int], arrived: Sequence[bool]) -> None:
        """Copies what arrived into its rows and takes the frames back."""
        for frame, row, here in zip(frames, rows, arrived):
            if here:
                self._copy(self._rows, row, self._region.memory, frame)
        self._free += frames

    def _copy(self, to: memoryview, to_row: int, source: memoryview, source_row: int) -> None:
        size = self._row_bytes
        to[to_row * size : (to_row + 1) * size] = source[source_row * size : (source_row + 1) * size]

    def close(self) -> None:
        """Gives up the frames and vLLM's memory."""
        self._region.close()
        self._rows.release()


class _Frames(Loan):
    def __init__(self, owner: Copied, frames: List[int], rows: List[int], storing: bool) -> None:
        super().__init__(owner._region.rows(frames, owner._row_bytes), len(frames))
        self._owner, self._frames, self._rows, self._storing = owner, frames, rows, storing

    def settle(self, arrived: Sequence[bool]) -> None:
        self._owner.settle(self._frames, self._rows, [] if self._storing else arrived)


def reach(client: Any, view: memoryview, row_bytes: int, copy_bytes: int) -> Any:
    """Mapped where view lies in a file that can be passed on, else Copied through copy_bytes."""
    try:
        return Mapped(client.register(view, row_bytes=row_bytes), row_bytes)
    except ValueError as cause:
        _log.warning("blocks are copied on their way, which is slower: %s", cause)
    frames = max(1, copy_bytes // row_bytes)
    return Copied(client.allocate(frames * row_bytes, row_bytes=row_bytes), view, row_bytes)
