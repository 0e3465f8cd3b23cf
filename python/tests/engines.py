"""Configurations of a small engine, as each release of vLLM hands them to a tier."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Dict

TOKENS = 16


def vllm_config(**changed: Any) -> Any:
    """What a tier reads of a VllmConfig; changed are fields of any of its parts."""
    parts: Dict[str, Dict[str, Any]] = {
        "model_config": dict(model="org/model", revision="0" * 40, code_revision=None, dtype="torch.bfloat16",
                             quantization=None, hf_overrides={}, hf_config={"layers": 2}, max_model_len=4096),
        "cache_config": dict(cache_dtype="auto", block_size=TOKENS, prefix_caching_hash_algo="sha256",
                             sliding_window=None),
        "parallel_config": dict(tensor_parallel_size=2, pipeline_parallel_size=1, prefill_context_parallel_size=1,
                                decode_context_parallel_size=1, world_size=2, rank=0),
    }  # fmt: skip
    for field, value in changed.items():
        (part,) = [part for part in parts.values() if field in part]
        part[field] = value
    made = SimpleNamespace(**{name: SimpleNamespace(**part) for name, part in parts.items()})
    made.model_config.compute_hash = lambda: repr(sorted(parts["model_config"].items()))
    return made


def extract(classes: Dict[str, Any], config: Any, engine_id: str = "engine", **more: Any) -> Any:
    """vLLM's OffloadingConfig of it (0.26 and later). classes are vLLM's own, by name."""
    parallel = config.parallel_config
    ranks = dict(rank=0, world_size=parallel.world_size, tp_size=parallel.tensor_parallel_size,
                 pp_size=parallel.pipeline_parallel_size, pcp_size=1, dcp_size=1, data_parallel_index=0,
                 data_parallel_size=1, data_parallel_rank_local=None, is_parallelism_agnostic=False)  # fmt: skip
    group = dict(
        tokens_per_block=config.cache_config.block_size, layer_names=("layer.0", "layer.1"), group_id=0
    )
    dtype = (
        config.model_config.dtype
        if config.cache_config.cache_dtype == "auto"
        else config.cache_config.cache_dtype
    )
    return _of(
        classes["OffloadingConfig"],
        groups=(_of(classes["OffloadingGroupConfig"], **group),),
        worker_kv_bytes_per_block=4096,
        enable_kv_cache_events=True,
        extra_config=more,
        engine_id=engine_id,
        model=_of(
            classes["OffloadingModelConfig"],
            name=config.model_config.model,
            dtype=dtype.replace("torch.", ""),
        ),
        cache=_of(classes["OffloadingCacheConfig"], tokens_per_hash=TOKENS, blocks_per_chunk=1),
        parallel=_of(classes["OffloadingParallelConfig"], **ranks),
    )


def spec(classes: Dict[str, Any], config: Any) -> Any:
    """What stands for vLLM's OffloadingSpec where only a tier looks at it."""
    events = SimpleNamespace(enable_kv_cache_events=True)
    if "OffloadingConfig" in classes:
        return SimpleNamespace(config=extract(classes, config), kv_events_config=events)
    group = SimpleNamespace(layer_names=["layer.0"], kv_cache_spec=SimpleNamespace(block_size=TOKENS))
    return SimpleNamespace(
        vllm_config=config, kv_cache_config=SimpleNamespace(kv_cache_groups=[group]), kv_events_config=events,
        gpu_block_size=(config.cache_config.block_size,), hash_block_size=TOKENS, block_size_factor=1,
    )  # fmt: skip


def _of(made: Any, **fields: Any) -> Any:
    """An instance, of those fields that this release has."""
    return made(**{name: value for name, value in fields.items() if name in made.__dataclass_fields__})
