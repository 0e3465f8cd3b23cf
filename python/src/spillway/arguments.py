"""Checks of numbers that callers give."""

from __future__ import annotations

from .wire import U32_MAX


def scaled(seconds: float, per_second: float, what: str) -> int:
    """Seconds as a number of 32 bits, the longest there is where they are more.

    Raises ValueError for less than 0.
    """
    if not seconds >= 0:
        raise ValueError(f"{what} {seconds} must not be negative")
    return int(min(seconds * per_second, U32_MAX))


def check_numbers(**numbers: int) -> None:
    """Raises ValueError unless each is a number of 32 bits."""
    for name, value in numbers.items():
        if not 0 <= value <= U32_MAX:
            raise ValueError(f"{name} {value} must be 0 to {U32_MAX}")
