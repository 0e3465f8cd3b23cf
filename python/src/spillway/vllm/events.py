"""What routers are told: which blocks are stored in the pool, and which are gone from it."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from ..wire import EventKind
from . import compat

_KEYS_MOST = 65_536  # that wait to be taken; what is more is not told


class Announcements:
    """Events of one tier. They are hints: a router that misses one sends a request elsewhere."""

    def __init__(self, where: Any) -> None:
        self._where = where
        self._stored: List[bytes] = []
        self._removals: Any = None

    def stored(self, keys: Sequence[bytes]) -> None:
        """The pool has these blocks."""
        if len(self._stored) + len(keys) <= _KEYS_MOST:
            self._stored += keys

    def take(self, pool: Optional[Any]) -> List[Any]:
        """vLLM's events since the last call; pool is the namespace, if it is open."""
        events = []
        removed = self._removed(pool)
        stored, self._stored = self._stored, []
        if removed:
            events.append(compat.event(removed, True, self._where))
        if stored:
            events.append(compat.event(stored, False, self._where))
        return events

    def _removed(self, pool: Optional[Any]) -> List[bytes]:
        """What the daemon evicted, deleted or found damaged, as far as it has said so."""
        if self._removals is None:
            if pool is not None and pool.ready:
                self._removals = pool.events(buffered=_KEYS_MOST)
            return []
        keys: List[bytes] = []
        while len(keys) < _KEYS_MOST:
            event = self._removals.get(timeout=0)
            if event is None:
                break
            if event.kind == EventKind.LOST:  # with the connection: begin again
                self._removals = None
                break
            if event.kind == EventKind.REMOVED:
                keys += event.keys
        return keys
