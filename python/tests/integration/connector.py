"""Builds vLLM's real connector, scheduler's side, for a small model, and prints its namespace.

python connector.py MODEL_DIRECTORY ENGINE_OPTIONS_AS_JSON
"""

import json
import sys
from typing import Any

import torch
import vllm.v1.kv_cache_interface as kv
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils

import spillway.vllm

LAYERS, HEADS, HEAD_SIZE = 2, 2, 64


def engine(model: str, **options: Any) -> Any:
    """vLLM's whole configuration."""
    extra = {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 16 << 20,
        "secondary_tiers": [{"type": "SpillwayTier", "socket": "/nowhere"}],
    }
    transfer = KVTransferConfig(
        kv_connector="OffloadingConnector", kv_role="kv_both", kv_connector_extra_config=extra
    )
    return EngineArgs(model=model, skip_tokenizer_init=True, kv_transfer_config=transfer, max_model_len=512,
                      enforce_eager=True, **options).create_engine_config()  # fmt: skip


def cache(config: Any) -> Any:
    """What the engine's workers would have said of their caches."""
    layers = [f"model.layers.{i}" for i in range(LAYERS)]
    dtype = config.model_config.dtype
    spec = kv.FullAttentionSpec(block_size=config.cache_config.block_size, num_kv_heads=HEADS, head_size=HEAD_SIZE,
                                dtype=dtype if isinstance(dtype, torch.dtype) else torch.bfloat16)  # fmt: skip
    tensors = []
    if "shared_by" in kv.KVCacheTensor.__dataclass_fields__:  # later releases need none here
        tensors = [kv.KVCacheTensor(size=spec.page_size_bytes * 10 * LAYERS, shared_by=layers)]
    group = kv.KVCacheGroupSpec(layers, spec)
    return kv.KVCacheConfig(num_blocks=10, kv_cache_tensors=tensors, kv_cache_groups=[group])


def main(model: str, options: str) -> None:
    spillway.vllm.register()
    config = engine(model, **json.loads(options))
    connector = OffloadingConnector(config, KVConnectorRole.SCHEDULER, cache(config))
    # As the engine does, after its scheduler is built.
    kv_cache_utils.init_none_hash(get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo))
    manager = connector.connector_scheduler.manager
    (tier,) = manager.secondary_tiers
    namespace = tier._begin()
    print(json.dumps({"id": namespace.descriptor.id().hex(), **namespace.descriptor.json()}))
    manager.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
