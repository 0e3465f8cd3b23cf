"""vLLM's real tiering manager, driven as its scheduler and its workers drive it, without a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import time
import uuid
from types import SimpleNamespace
from typing import Any, List, Optional, Sequence

import engines
import vllm
import vllm.v1.kv_offload.base as base
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

VERSION = tuple(int(n) for n in vllm.__version__.split("+")[0].split(".")[:2])


def key(name: str) -> bytes:
    """An offload key as vLLM makes them."""
    return base.make_offload_key(hashlib.sha256(name.encode()).digest(), 0)


def keys(name: str, count: int) -> List[bytes]:
    """Those of the blocks of one token sequence."""
    return [key(f"{name} {i}") for i in range(count)]


def content(name: bytes, row_bytes: int) -> bytes:
    """What a worker computes for a key."""
    return hashlib.shake_128(name).digest(64) * (row_bytes // 64)


class Engine:
    """One engine with its CPU tier of so many rows, and one secondary tier."""

    def __init__(self, tier: dict, rows: int, row_bytes: int, **config: Any) -> None:
        kv_cache_utils.init_none_hash(get_hash_fn_by_name("sha256"))
        self.row_bytes = row_bytes
        self.id = f"test-{uuid.uuid4()}"
        extra = {"cpu_bytes_to_use": rows * row_bytes, "secondary_tiers": [tier]}
        self.manager = self._build(extra, engines.vllm_config(**config))
        self.view = self.manager.primary_tier.get_kv_memoryview().cast("B")
        self.tier = self.manager.secondary_tiers[0]
        self._requests = 0

    def _build(self, extra: dict, vllm_config: Any) -> Any:
        """vllm_config is a local of the caller of get_manager, as in vLLM's scheduler."""
        parallel = vllm_config.parallel_config
        parallel.tensor_parallel_size = parallel.world_size = 1
        if VERSION >= (0, 26):
            import vllm.v1.kv_offload.config as config

            made = engines.extract(vars(config), vllm_config, self.id, **extra)
            return TieringOffloadingSpec(
                dataclasses.replace(made, worker_kv_bytes_per_block=self.row_bytes)
            ).get_manager()
        vllm_config.instance_id = self.id
        vllm_config.kv_transfer_config = SimpleNamespace(kv_connector_extra_config=extra, engine_id=self.id)
        vllm_config.kv_events_config = SimpleNamespace(enable_kv_cache_events=True)
        vllm_config.use_v2_model_runner = False
        spec = SimpleNamespace(block_size=engines.TOKENS)
        cache = SimpleNamespace(
            kv_cache_groups=[SimpleNamespace(layer_names=["layer.0"], kv_cache_spec=spec)], num_blocks=10,
            kv_cache_tensors=[SimpleNamespace(size=10 * self.row_bytes, block_stride=0)],
        )  # fmt: skip
        return TieringOffloadingSpec(vllm_config, cache).get_manager()

    def lock(self) -> Any:
        """What every call of the manager happens under, from 0.33 on."""
        return getattr(self.manager, "lock", None) or contextlib.nullcontext()

    @contextlib.contextmanager
    def request(self) -> Any:
        """A request, from the scheduler's first sight of it to its end."""
        self._requests += 1
        context = base.ReqContext(req_id=f"request-{self._requests}")
        with self.lock():
            self.manager.on_new_request(context)
        yield context
        with self.lock():
            self.manager.on_request_finished(context)

    def step(self) -> None:
        """The end of a scheduler's step."""
        with self.lock():
            self.manager.on_schedule_end(base.ScheduleEndContext(new_req_ids=[], preempted_req_ids=[]))

    def settle(self, seconds: float = 20.0) -> None:
        """Steps until no job is on its way."""
        until = time.monotonic() + seconds
        while self.manager.has_pending_work():
            assert time.monotonic() < until, "jobs never end"
            self.step()
            time.sleep(0.001)

    def store(self, names: Sequence[bytes], context: Any) -> int:
        """Blocks come from the GPU and go on to all tiers; how many of them were new."""
        new = self.fill(names, context)
        if new:
            with self.lock():
                self.manager.complete_store(new, context)
        return len(new)

    def fill(self, names: Sequence[bytes], context: Any) -> List[bytes]:
        """Blocks come from the GPU into the CPU tier; which of them are new there."""
        with self.lock():
            prepared = self.manager.prepare_store(names, context)
        if prepared is None:
            return []
        for name, row in zip(prepared.keys_to_store, _rows(prepared.store_spec)):
            self.view[row * self.row_bytes : (row + 1) * self.row_bytes] = content(name, self.row_bytes)
        return list(prepared.keys_to_store)

    def find(self, names: Sequence[bytes], context: Any, seconds: float = 20.0) -> int:
        """Length of the prefix that is in the CPU tier in the end, promoted or not."""
        until = time.monotonic() + seconds
        while True:
            found = [self.lookup(name, context) for name in names]
            self.step()
            if not {"RETRY", "HIT_PENDING"} & set(found):
                return next((i for i, result in enumerate(found) if result != "HIT"), len(names))
            assert time.monotonic() < until, f"lookups never end: {found}"
            time.sleep(0.0005)

    def lookup(self, name: bytes, context: Any) -> str:
        """One call of the manager's."""
        with self.lock():
            return str(self.manager.lookup(name, context).name)

    def load(self, names: Sequence[bytes], context: Any) -> None:
        """The worker copies found blocks to the GPU: their bytes have to be right."""
        with self.lock():
            rows = _rows(self.manager.prepare_load(names, context))
        for name, row in zip(names, rows):
            held = bytes(self.view[row * self.row_bytes : (row + 1) * self.row_bytes])
            assert held == content(name, self.row_bytes), "WRONG BYTES"
        with self.lock():
            self.manager.complete_load(names, context)

    def use(self, names: Sequence[bytes]) -> int:
        """A request with this prompt: loads the prefix that is there, stores the rest; its length."""
        with self.request() as context:
            found = self.find(names, context)
            self.load(names[:found], context)
            self.store(names[found:], context)
        return found

    def forget(self) -> None:
        """Empties the CPU tier, as a weight update does; the pool keeps everything."""
        with self.lock():
            self.manager.reset_cache()
            getattr(self.manager, "on_reset_flushed", lambda: None)()

    def close(self) -> None:
        """Ends the engine in order."""
        self.view.release()
        self.manager.shutdown()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/vllm_offload_{self.id}.mmap")


def _rows(spec: Any) -> List[int]:
    rows: Optional[Any] = getattr(spec, "chunk_ids", None)
    return [int(row) for row in (spec.block_ids if rows is None else rows)]
