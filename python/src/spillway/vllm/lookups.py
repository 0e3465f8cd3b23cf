"""Which keys the pool has, asked in batches on a thread beside the scheduler."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterable, List, Optional

from . import compat

_log = logging.getLogger("spillway")


class Lookups(compat.AsyncLookupManager):
    """vLLM's own lookup thread; what it asks is one match a request and step.

    pool gives the namespace, or None where there is none yet. What is found is leased
    for lease seconds, so that it is still there when the scheduler's next step loads it.
    With prefetch the daemon is asked to have it in its memory by then.
    """

    def __init__(self, tier_type: str, pool: Callable[[], Optional[Any]], lease: float, prefetch: bool = False) -> None:
        self._pool = pool
        self._prefetch = prefetch
        self._lease = lease
        self.asked = 0  # keys; written by the thread alone, as found is
        self.found = 0
        super().__init__(tier_type)

    def batch_lookup(self, keys: List[bytes], req_context: Any) -> Iterable[bool]:
        """On the lookup thread. With a dead daemon nothing is there."""
        pool = self._pool()
        if pool is None:
            return [False] * len(keys)
        present = list(pool.match(keys, lease=self._lease).present)
        self.asked += len(keys)
        self.found += sum(present)
        if self._prefetch and any(present):
            pool.submit_prefetch([key for key, here in zip(keys, present) if here])
        return present
