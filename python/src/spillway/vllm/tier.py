"""The tier: what vLLM's scheduler calls, none of it waiting for the pool."""

from __future__ import annotations

import logging
import time
from typing import Any, Collection, Dict, Iterable, List, Optional, Sequence, Set

from .. import Client
from ..wire import Status
from . import compat, metrics
from .descriptor import describe
from .events import Announcements
from .lookups import Lookups
from .memory import Loan, reach

_log = logging.getLogger("spillway")

_HERE = (Status.HIT, Status.STORED, Status.PRESENT)
_COUNTED = {
    Status.HIT: "loaded_blocks", Status.MISS: "missing_blocks", Status.BUSY: "missing_blocks",
    Status.LATE: "late_blocks", Status.STORED: "stored_blocks", Status.PRESENT: "present_blocks",
    Status.DROPPED: "dropped_blocks",
}  # fmt: skip
_GIB = 1 << 30


class _Move:
    """A job of vLLM's on its way."""

    def __init__(self, job_id: int, keys: List[bytes], load: bool) -> None:
        self.job_id = job_id
        self.keys = keys
        self.load = load
        self.began = time.monotonic()
        self.loan: Optional[Loan] = None
        self.job: Any = None  # None: it could not be begun

    @property
    def over(self) -> bool:
        """Whether nothing touches vLLM's rows for it any more."""
        return self.job is None or self.job.released


class SpillwayTier(compat.SecondaryTierManager):
    """Blocks of vLLM's CPU tier, kept in a pool by a daemon on this machine.

    The constructor raises for a wrong configuration, no other method raises. With no
    daemon every lookup misses and every store is dropped; the client looks for one all
    the time and goes on where it finds it.

    Args:
        socket: path of the daemon's Unix socket.
        weights: text that changes with the model's weights, where they cannot be told
            from its name; engines that share blocks give the same.
        salt: keeps the blocks of engines with different salts apart.
        token: shown to the daemon.
        lease_ms: how long a block found stays in the store for being loaded.
        prefetch: have the daemon read what a look-up has found into its memory, where it
            has some, while the request waits for the scheduler.
        load_ms: after this long, and a second for each GiB, a load is late and its
            blocks are computed instead.
        copy_bytes: memory for copying, where vLLM's memory cannot be passed on.
        enable_kv_events: say which blocks are stored, if vLLM publishes events.
        locality: LOCAL or REMOTE, said along with those.
    """

    medium = compat.MEDIUM

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        socket: str,
        weights: str = "",
        salt: str = "",
        token: str = "",
        lease_ms: int = 2000,
        load_ms: int = 2000,
        prefetch: bool = False,
        copy_bytes: int = 256 << 20,
        enable_kv_events: bool = False,
        locality: Optional[str] = None,
        **options: Any,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, **compat.base_options(options))
        assert primary_kv_view.strides is not None
        self.locality = compat.locality(locality)
        self._row_bytes: int = primary_kv_view.strides[0]
        self._load_seconds = load_ms / 1000
        self._counters = metrics.Counters()
        told = enable_kv_events and compat.events_wanted(offloading_spec)
        self._events = Announcements(self.locality) if told else None
        self._moves: List[_Move] = []
        self._touched: Set[bytes] = set()
        self._closed = False
        self._troubled = False
        self._pool: Any = None
        self._describe = self._describer(offloading_spec, weights, salt)
        self._client = Client(socket, token=token, name="vllm")
        self._memory = reach(self._client, primary_kv_view, self._row_bytes, copy_bytes)
        self._lookups = Lookups(tier_type, self._answering, lease_ms / 1000, prefetch)

    def _describer(self, spec: Any, weights: str, salt: str) -> Any:
        """Makes the descriptor of a hash seed, which vLLM has only later; the rest is known
        now only. Raises ValueError for rows that are no blocks of a pool."""
        config = compat.engine_config(spec)
        first = describe(spec, config, self._row_bytes, weights, salt, b"")
        return lambda seed: describe(spec, config, self._row_bytes, first.revision, salt, seed)

    def _begin(self) -> Any:
        """The namespace; opens it with the first key."""
        if self._pool is None and not self._closed:
            if not compat.chain_seed_is_fixed():
                _log.warning(
                    "vLLM's hashes are new in every process, so no block is found twice: set PYTHONHASHSEED"
                )
            self._pool = self._client.namespace(self._describe(compat.chain_seed()))
        return self._pool

    def _answering(self) -> Any:
        """The namespace, for the lookup thread: waits for a daemon that was not asked yet,
        so that the first request after a start finds what is there."""
        pool = self._pool
        if pool is not None and not pool.ready and not self._client.problem:
            self._client.connect()
        return pool

    # Lookups.

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """HIT or MISS once the pool has been asked, RETRY until then."""
        if self._closed:
            return compat.LookupResult.MISS
        try:
            self._begin()
            found = self._lookups.lookup(key, req_context)
        except Exception as cause:
            self._trouble("lookup", cause)
            return compat.LookupResult.MISS
        if found is None:
            return compat.LookupResult.RETRY
        return compat.LookupResult.HIT if found else compat.LookupResult.MISS

    def on_new_request(self, req_context: Any) -> Any:
        """New blocks as they come: no preference. The first request opens the namespace."""
        if self._pool is None:
            self._guarded("on_new_request", self._begin)
        return compat.RequestContext()

    def on_request_finished(self, req_context: Any) -> None:
        """What was looked up for the request is forgotten."""
        self._guarded("on_request_finished", self._lookups.cleanup, req_context.req_id)

    def on_schedule_end(self, context: Any) -> None:
        """Sends what the step looked up and touched, each as one request."""
        if self._closed:
            return
        self._guarded("on_schedule_end", self._lookups.flush)
        if self._touched and self._pool is not None:
            touched, self._touched = list(self._touched), set()
            self._guarded("touch", self._pool.submit_touch, touched)

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        """The blocks are in use: the pool is told at the end of the step."""
        self._touched.update(keys)

    # Jobs.

    def submit_store(self, job_metadata: Any) -> None:
        """Begins to store rows; they are vLLM's again when the job is reported."""
        self._submit(_Move(job_metadata.job_id, list(job_metadata.keys), load=False), job_metadata)

    def submit_load(self, job_metadata: Any) -> None:
        """Begins to load rows; they are vLLM's again when the job is reported."""
        self._submit(_Move(job_metadata.job_id, list(job_metadata.keys), load=True), job_metadata)

    def _submit(self, move: _Move, job_metadata: Any) -> None:
        self._moves.append(move)
        if not self._closed:
            self._guarded("submit", self._start, move, compat.job_rows(job_metadata))

    def _start(self, move: _Move, rows: Sequence[int]) -> None:
        pool = self._begin()
        move.loan = self._memory.lend(rows, storing=not move.load)
        if move.loan is None:
            return
        keys = move.keys[: move.loan.count]
        if move.load:
            deadline = self._load_seconds + len(keys) * self._row_bytes / _GIB
            move.job = pool.submit_get(keys, move.loan.places, deadline=deadline)
        else:
            move.job = pool.submit_put(keys, move.loan.places)

    def get_finished_jobs(self) -> Iterable[Any]:
        """Results of the jobs that nothing touches vLLM's rows for any more."""
        over = [move for move in self._moves if move.over]
        if over:
            self._moves = [move for move in self._moves if move not in over]
        return [self._result(move) for move in over]

    def _result(self, move: _Move) -> Any:
        statuses = list(move.job.result.statuses) if move.job is not None else []
        missing = Status.MISS if move.load else Status.DROPPED
        statuses += [missing] * (len(move.keys) - len(statuses))
        here = [status in _HERE for status in statuses]
        if move.loan is not None:
            self._guarded("settle", move.loan.settle, here)
        for status in statuses:
            self._counters[_COUNTED[status]] += 1
        arrived = [key for key, good in zip(move.keys, here) if good]
        if move.load:
            self._guarded("mark_miss", compat.mark_miss, self._lookups,
                          [key for key, good in zip(move.keys, here) if not good])  # fmt: skip
        elif self._events is not None:
            self._events.stored(arrived)
        return compat.job_result(
            move.job_id,
            success=len(arrived) == len(move.keys),
            arrived=tuple(arrived) if move.load and 0 < len(arrived) < len(move.keys) else None,
            seconds=time.monotonic() - move.began,
            nbytes=len(arrived) * self._row_bytes,
        )

    def drain_jobs(self) -> None:
        """Waits until nothing touches vLLM's rows: as long as that takes, and says so."""
        waited = 0
        for move in self._moves:
            while move.job is not None and not move.job.wait_released(10.0):
                waited += 10
                _log.warning("waiting %d s for the pool to let go of vLLM's memory", waited)

    # The rest.

    def take_events(self) -> Iterable[Any]:
        """What was stored and removed since the last call."""
        events: List[Any] = []
        if self._events is not None and not self._closed:
            self._guarded("take_events", lambda told: events.extend(told.take(self._pool)), self._events)
        return events

    def get_stats(self) -> Any:
        """What was counted since the last call, None if nothing."""
        asked, found = self._lookups.asked, self._lookups.found
        self._counters["lookup_keys"] += asked - self._seen_asked
        self._counters["lookup_hits"] += found - self._seen_found
        self._seen_asked, self._seen_found = asked, found
        return self._counters.take()

    _seen_asked = 0
    _seen_found = 0

    @classmethod
    def build_metric_definitions(cls, extra_config: Dict[str, Any]) -> Dict[str, Any]:
        """What get_stats may hold."""
        return metrics.definitions()

    def shutdown(self) -> None:
        """Ends the thread and the connection; waits 5 s at most for what is on its way.

        Later calls of any method answer miss, dropped or nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._guarded("shutdown", self._lookups.shutdown)
        self._guarded("shutdown", self._client.close, 5.0)
        self._guarded("shutdown", self._memory.close)

    def _guarded(self, what: str, call: Any, *arguments: Any) -> None:
        """A fault of ours costs misses; it must not reach the engine."""
        try:
            call(*arguments)
        except Exception as cause:
            self._trouble(what, cause)

    def _trouble(self, what: str, cause: Exception) -> None:
        level = logging.DEBUG if self._troubled else logging.ERROR
        self._troubled = True
        _log.log(level, "%s failed, and its blocks are computed instead: %s", what, cause, exc_info=cause)
