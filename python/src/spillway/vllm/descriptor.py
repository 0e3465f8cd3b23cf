"""Whose blocks a running vLLM stores: its configuration as a descriptor."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import secrets
from typing import Any, Dict, Optional

from .. import weights as _weights
from ..descriptor import Descriptor
from . import compat

_log = logging.getLogger("spillway")

# Of OffloadingConfig, what may differ between engines that make the same blocks.
_NOT_OF_BLOCKS = {"engine_id", "extra_config", "enable_kv_cache_events"}
_NOT_OF_RANKS = {"rank", "data_parallel_index", "data_parallel_size", "data_parallel_rank_local"}

# Of the engine's whole configuration, what decides about the bytes of a block besides.
_OF_MODEL = ("revision", "code_revision", "quantization", "hf_overrides", "hf_config", "dtype", "max_model_len",
             "model_impl")  # fmt: skip
_OF_CACHE = ("cache_dtype", "sliding_window", "calculate_kv_scales", "kv_cache_layout")
_OF_ENVIRONMENT = ("VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT", "VLLM_USE_V2_MODEL_RUNNER")


def describe(
    spec: Any, config: Any, row_bytes: int, weights: str, salt: str, chain_seed: bytes
) -> Descriptor:
    """The namespace of an engine's blocks.

    spec is vLLM's OffloadingSpec, config its VllmConfig or None (``compat.engine_config``),
    weights what the operator says they are, empty for finding out. Where that fails, the
    namespace is this process's own: better no hits after a restart than another
    model's blocks. Raises ValueError for rows that are no blocks of a pool.
    """
    extract = _extract(spec)
    name = str(extract["model"]["name"])
    extra = {"engine": f"vllm {compat.version()}", "configuration": _digest(extract)}
    if config is not None:
        extra["engine_configuration"] = _digest(_engine_part(config))
    return Descriptor(
        name=f"vllm {name}".encode()[:255].decode(errors="ignore"),
        model=name,
        revision=weights or _find_weights(name, config),
        kv_dtype=_dtype(extract, config),
        layout="vllm-rows",
        layout_version=1,
        tokens_per_block=_tokens(extract),
        block_bytes=row_bytes,
        pieces=1,
        tensor_parallel=extract["parallel"]["tp_size"],
        pipeline_parallel=extract["parallel"]["pp_size"],
        rank="all",
        hash_algorithm=str(getattr(getattr(config, "cache_config", None), "prefix_caching_hash_algo", "")),
        hash_seed=hashlib.sha256(chain_seed).hexdigest() if chain_seed else "",
        salt_domain=salt,
        extra=extra,
    )


def _extract(spec: Any) -> Dict[str, Any]:
    """vLLM's own extract for tiers, with every field that later versions add to it."""
    if not hasattr(spec, "config"):
        return _extract_before_026(spec)
    fields = {k: v for k, v in dataclasses.asdict(spec.config).items() if k not in _NOT_OF_BLOCKS}
    fields["parallel"] = {k: v for k, v in fields["parallel"].items() if k not in _NOT_OF_RANKS}
    return fields


def _extract_before_026(spec: Any) -> Dict[str, Any]:
    model, parallel = spec.vllm_config.model_config, spec.vllm_config.parallel_config
    dtype = spec.vllm_config.cache_config.cache_dtype
    return {
        "groups": [
            {
                "tokens_per_block": tokens,
                "layer_names": list(group.layer_names),
                "spec": repr(group.kv_cache_spec),
            }
            for tokens, group in zip(spec.gpu_block_size, spec.kv_cache_config.kv_cache_groups)
        ],
        "model": {
            "name": model.model,
            "dtype": str(model.dtype if dtype == "auto" else dtype).replace("torch.", ""),
        },
        "cache": {"blocks_per_chunk": spec.block_size_factor, "tokens_per_hash": spec.hash_block_size},
        "parallel": {
            "tp_size": parallel.tensor_parallel_size,
            "pp_size": parallel.pipeline_parallel_size,
            "pcp_size": parallel.prefill_context_parallel_size,
            "dcp_size": parallel.decode_context_parallel_size,
            "world_size": parallel.world_size,
        },
    }


def _dtype(extract: Dict[str, Any], config: Any) -> str:
    """vLLM 0.26 says "auto" for the model's own, which only the whole configuration names."""
    said = str(extract["model"]["dtype"])
    if said != "auto":
        return said
    if config is None:
        return f"process-{secrets.token_hex(16)}"
    return str(config.model_config.dtype).replace("torch.", "")


def _tokens(extract: Dict[str, Any]) -> int:
    """Tokens of one chunk; 0 where the cache groups differ in that."""
    counts = {group["tokens_per_block"] for group in extract["groups"]}
    return int(counts.pop() * extract["cache"]["blocks_per_chunk"]) if len(counts) == 1 else 0


def _engine_part(config: Any) -> Dict[str, Any]:
    return {
        "model": {name: repr(getattr(config.model_config, name, None)) for name in _OF_MODEL},
        "model_hash": _model_hash(config.model_config),
        "cache": {name: repr(getattr(config.cache_config, name, None)) for name in _OF_CACHE},
        "attention": repr(getattr(config, "attention_config", None)),
        "load_format": repr(getattr(getattr(config, "load_config", None), "load_format", None)),
        "environment": {name: os.environ.get(name) for name in _OF_ENVIRONMENT},
    }


def _model_hash(model_config: Any) -> str:
    """vLLM's own hash of everything in a model's configuration that shapes its computation."""
    try:
        return str(model_config.compute_hash())
    except Exception as cause:  # it is made for another purpose, and may not know every model
        _log.info("vLLM cannot hash its model configuration: %s", cause)
        return ""


def _find_weights(name: str, config: Any) -> str:
    """Without the whole configuration the revision is not known, so only a directory tells."""
    revision: Optional[str] = getattr(getattr(config, "model_config", None), "revision", None)
    found = _weights.identify(name, revision) if config is not None or os.path.isdir(name) else None
    if found:
        return found
    _log.warning(
        "cannot tell which weights %s means: its blocks will not be found by another process; "
        'give the tier "weights": a text that changes with them',
        name,
    )
    return f"process-{secrets.token_hex(16)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
