"""Everything that differs between vLLM releases. The rest of the package speaks one dialect.

Checked against 0.25.0 to 0.33.0 (python/tests/signatures). What changed in between:

| since | what |
|---|---|
| 0.26 | the spec has ``config`` (OffloadingConfig) and no ``vllm_config``; events have a locality |
| 0.27 | ``Medium`` is an enum |
| 0.28 | results tell which keys arrived, and the time; ``mark_miss``; the factory takes ``module_path`` |
| 0.30 | jobs name ``chunk_ids``, not ``block_ids`` |
| 0.31 | the factory passes ``backpressure_detector``; results have ``transfer_bytes`` |
| 0.33 | locks and a poll thread of the manager's, for tiers that ask for it: not we |
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from typing import Any, Collection, Dict, List, Optional, Sequence

try:
    import vllm.v1.kv_offload.base as _base
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
        OffloadingConnectorStats as Stats,
    )
    from vllm.v1.kv_offload.base import LookupResult, OffloadingEvent
    from vllm.v1.kv_offload.base import RequestOffloadingContext as RequestContext
    from vllm.v1.kv_offload.tiering.async_lookup import AsyncLookupManager
    from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
except ImportError as cause:
    raise ImportError(f"spillway.vllm needs vLLM 0.25 or later: {cause}") from cause

__all__ = ["AsyncLookupManager", "LookupResult", "RequestContext", "SecondaryTierManager", "Stats"]

MEDIUM: Any = _base.Medium.STORAGE if hasattr(_base, "Medium") else "STORAGE"

_RESULT_FIELDS = {field.name for field in dataclasses.fields(JobResult)}
_EVENT_FIELDS = {field.name for field in dataclasses.fields(OffloadingEvent)}
_BASE_OPTIONS = set(inspect.signature(SecondaryTierManager.__init__).parameters) - {
    "self", "offloading_spec", "primary_kv_view", "tier_type",
}  # fmt: skip


def base_options(options: Dict[str, Any]) -> Dict[str, Any]:
    """Of what the factory passed, what the base class takes; TypeError if anything is left."""
    options = {k: v for k, v in options.items() if k != "module_path"}  # passed on before 0.28
    unknown = sorted(set(options) - _BASE_OPTIONS)
    if unknown:
        raise TypeError(f"the tier has no option {', '.join(unknown)}")
    return options


def locality(name: Optional[str]) -> Any:
    """vLLM's word for where a tier's storage is, LOCAL or REMOTE; None if not said."""
    kinds = getattr(_base, "Locality", None)
    return kinds(name) if kinds and name is not None else None


def job_rows(job: Any) -> List[int]:
    """Rows of the primary view, one for each key of the job."""
    rows = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
    return rows.tolist() if hasattr(rows, "tolist") else list(rows)


def job_result(job_id: int, success: bool, arrived: Optional[Collection[bytes]], seconds: float,
               nbytes: int) -> Any:  # fmt: skip
    """What vLLM is told about a job.

    arrived are the keys that were loaded where not all were; a vLLM that knows only
    whole jobs then computes all of them again.
    """
    said = {"successful_keys": arrived, "transfer_time": seconds, "transfer_bytes": nbytes}
    return JobResult(job_id=job_id, success=success, **{k: v for k, v in said.items() if k in _RESULT_FIELDS})


def event(keys: Sequence[bytes], removed: bool, where: Any) -> Any:
    """An event for routers: keys are stored in this tier now, or removed from it."""
    fields = {"locality": where} if "locality" in _EVENT_FIELDS else {}
    return OffloadingEvent(keys=list(keys), medium=MEDIUM, removed=removed, **fields)


def events_wanted(spec: Any) -> bool:
    """Whether vLLM publishes events at all; if not, nobody would take them."""
    return bool(getattr(getattr(spec, "kv_events_config", None), "enable_kv_cache_events", False))


def counter(text: str) -> Any:
    """Definition of a counter for Prometheus."""
    return _base.OffloadingCounterMetadata(documentation=text)


def mark_miss(lookups: AsyncLookupManager, keys: Collection[bytes]) -> None:
    """A load of these keys failed: lookups that said they are here say miss from now on.

    Otherwise the scheduler would load and fail for ever (vLLM #49176). Before 0.28 vLLM
    itself had that fault.
    """
    if hasattr(lookups, "mark_miss"):
        lookups.mark_miss(keys)
        return
    for key in keys:
        state = lookups._lookup_state.get(key)
        if state is not None and state.result is not None:
            state.result = False


def engine_config(spec: Any) -> Any:
    """The engine's whole VllmConfig, or None if it cannot be had.

    From 0.26 on vLLM gives tiers an extract that lacks the revision, the overrides of the
    model's configuration and the hash algorithm. But a tier is built while the
    connector's constructor runs, and that has the whole as ``vllm_config``. Reading it
    there is no interface: whoever uses this must be right without it, too.
    """
    found = getattr(spec, "vllm_config", None)
    frame: Any = sys._getframe(1)
    while found is None and frame is not None:
        candidate = frame.f_locals.get("vllm_config")
        if hasattr(candidate, "model_config") and hasattr(candidate, "cache_config"):
            found = candidate
        frame = frame.f_back
    return found


def chain_seed() -> bytes:
    """The first parent of vLLM's hash chains: it depends on the algorithm and its seed.

    Empty while vLLM has not made it: it does so after the tiers are built, before it
    hashes the first request.
    """
    from vllm.v1.core import kv_cache_utils

    return bytes(getattr(kv_cache_utils, "NONE_HASH", b""))


def chain_seed_is_fixed() -> bool:
    """Whether another process of this engine makes the same hashes."""
    from vllm.v1.core import kv_cache_utils

    if "PYTHONHASHSEED" in os.environ:
        return True
    default = getattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED", None)  # from 0.29 on
    return default is not None and kv_cache_utils.get_none_hash_seed() == default


def version() -> str:
    """vLLM's version."""
    from vllm import __version__

    return str(__version__)
