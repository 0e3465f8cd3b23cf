"""What a match finds: which keys are present, and a lease on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Callable

from . import wire

if TYPE_CHECKING:
    from .session import Session


class Bitmap(Sequence[bool]):
    """One bool a key."""

    __slots__ = ("_bits", "_count")

    def __init__(self, bits: int, count: int) -> None:
        self._bits = bits & ((1 << count) - 1)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return bool(self._bits >> (index % self._count) & 1)

    def __iter__(self) -> Iterator[bool]:
        digits = bin(self._bits | 1 << self._count)  # lowest last, a guard in front
        return iter([digit == "1" for digit in digits[:2:-1]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Bitmap, list, tuple)) and list(self) == list(other)

    def total(self) -> int:
        """How many are true."""
        return bin(self._bits).count("1")

    def leading(self) -> int:
        """How many are true at the beginning, without a gap."""
        return (~self._bits & (self._bits + 1)).bit_length() - 1

    def ending(self) -> int:
        """How many are true at the end, without a gap."""
        return self._count - (~self._bits & ((1 << self._count) - 1)).bit_length()

    def __repr__(self) -> str:
        return f"Bitmap({self.total()} of {self._count})"


class Lease:
    """A promise that leased blocks stay in the store, at most until ``until`` (time.monotonic).

    The daemon may cap its time. It ends by ``release``, with the connection, and where the namespace or the
    block itself is dropped or deleted. It may cover fewer keys than were present.
    """

    def __init__(self) -> None:
        self.count = 0  #: leased keys
        self.until = 0.0
        self._held: list[tuple[Session, int]] = []

    def __bool__(self) -> bool:
        return bool(self._held) and time.monotonic() < self.until

    def hold(self, session: Session, number: int, count: int, until: float) -> None:
        """Adds a lease of the daemon's."""
        self.count += count
        self.until = until
        self._held.append((session, number))

    def release(self) -> None:
        """Ends the lease; more than one call has no effect."""
        held, self._held = self._held, []
        for session, number in held:
            session.release_lease(number)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class MatchResult:
    """Answer to a match. With a dead daemon nothing is present."""

    __slots__ = ("prefix", "trailing", "present", "lease")

    def __init__(self, count: int) -> None:
        self.prefix = 0  #: the number of leading keys that are present
        self.trailing = 0  #: the number of keys present at the end, at most those asked for
        self.present = Bitmap(0, count)  #: one bool a key
        self.lease = Lease()

    def __repr__(self) -> str:
        return f"MatchResult(prefix={self.prefix}, trailing={self.trailing}, present={self.present!r})"


class Matching:
    """Puts the answers of a match together, of one request or of several."""

    def __init__(self, count: int, trailing: int, parts: int) -> None:
        self.result = MatchResult(count)
        self._count, self._trailing = count, trailing
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
            self.result.present = Bitmap(self._bits, self._count)
            self.result.prefix = self._prefix()
            ending = min(self.result.present.ending(), self._trailing)
            self.result.trailing = answer.trailing if self._single else ending
            if answer.lease:
                self.result.lease.hold(session, answer.lease, answer.leased, asked + lease)

        return take

    def _prefix(self) -> int:
        reached = 0
        for start, _, prefix in sorted(self._prefixes):
            if start == reached:
                reached = start + prefix
        return reached
