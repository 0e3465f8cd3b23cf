"""A package ``vllm`` made of recorded signatures, for tests where vLLM is not installed.

Classes have the recorded methods with the recorded parameters, and do nothing; only
the lookup thread is imitated, without a thread.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import sys
import types
from typing import Any, Dict, Iterator, List

import signatures

_OFFLOAD = "vllm.v1.kv_offload"
_ENUMS = ("LookupResult", "Medium", "Locality", "OffloadPolicy")
_RECORDS = ("JobResult", "JobMetadata", "TransferJob", "OffloadingEvent", "ReqContext", "OffloadingConfig",
            "RequestOffloadingContext", "OffloadingCounterMetadata", "OffloadingGroupConfig",
            "OffloadingModelConfig", "OffloadingCacheConfig", "OffloadingParallelConfig")  # fmt: skip


@contextlib.contextmanager
def installed(version: str) -> Iterator[Dict[str, Any]]:
    """Within, ``import vllm`` finds that release, and spillway.vllm is new. Yields its classes."""
    record = signatures.read(version)
    classes = {name: _make(name, about) for name, about in record.items()}
    modules: Dict[str, types.ModuleType] = {}
    for name, about in record.items():
        setattr(_module(modules, about["module"]), name, classes[name])
    _module(modules, "vllm").__version__ = version  # type: ignore[attr-defined]
    utils = _module(modules, "vllm.v1.core.kv_cache_utils")
    utils.NONE_HASH = b"seed"  # type: ignore[attr-defined]
    before = {name: module for name, module in sys.modules.items() if _ours(name)}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield classes
    finally:
        for name in [name for name in sys.modules if _ours(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _ours(name: str) -> bool:
    return name == "vllm" or name.startswith(("vllm.", "spillway.vllm"))


def _module(modules: Dict[str, types.ModuleType], name: str) -> types.ModuleType:
    if name not in modules:
        modules[name] = types.ModuleType(name)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(_module(modules, parent), last, modules[name])
    return modules[name]


def _make(name: str, about: Dict[str, Any]) -> type:
    if name in _ENUMS:
        return enum.Enum(name, {member: member for member in about["members"]})  # type: ignore[return-value]
    if name in _RECORDS:
        fields = about["fields"] or {"documentation": False}
        made = [
            (field, Any, dataclasses.field(default=None)) if default else (field, Any)
            for field, default in fields.items()
        ]
        return dataclasses.make_dataclass(name, made, kw_only=True)
    if name == "AsyncLookupManager":
        return _lookups(about)
    if name == "OffloadingConnectorStats":
        return _Stats
    body = {method: _function(method, said) for method, said in about["methods"].items()}
    base = _Tier if name == "SecondaryTierManager" else abc.ABC
    return type(base)(name, (base,), body)


def _function(name: str, about: Dict[str, Any]) -> Any:
    """A function with the recorded signature."""
    parameters: List[str] = list(about["parameters"])
    first = len(parameters) - about["defaults"]
    text = [p if i < first else f"{p}=None" for i, p in enumerate(parameters)]
    text += ["*"] * bool(about["keywords"]) + [f"{k}=None" for k in about["keywords"]]
    scope: Dict[str, Any] = {}
    exec(f"def {name}({', '.join(text)}):\n    return None", scope)
    function = scope[name]
    for mark in about["marks"]:
        function = {"abstractmethod": abc.abstractmethod, "classmethod": classmethod,
                    "property": property, "staticmethod": staticmethod}.get(mark, lambda f: f)(function)  # fmt: skip
    return function


class _Tier(abc.ABC):
    """Gives the recorded class something to stand on."""


class _Stats:
    def __init__(self) -> None:
        self.counters: Dict[str, float] = {}

    def increase_counter(
        self, counter_name: str, counter_increase_value: float = 1, labelvalues: Any = ()
    ) -> None:
        self.counters[counter_name] = self.counters.get(counter_name, 0) + counter_increase_value

    def is_empty(self) -> bool:
        return not self.counters


@dataclasses.dataclass
class _State:
    context: Any
    result: Any = None


def _lookups(about: Dict[str, Any]) -> type:
    """vLLM's lookup thread, asked at once: what flush sends is answered for the next lookup."""

    class AsyncLookupManager:
        def __init__(self, tier_type: str) -> None:
            self._lookup_state: Dict[bytes, _State] = {}
            self._batch: Dict[bytes, Any] = {}

        def lookup(self, key: bytes, req_context: Any) -> Any:
            if key not in self._lookup_state:
                self._lookup_state[key] = _State(req_context)
                self._batch[key] = req_context
            return self._lookup_state[key].result

        def flush(self) -> None:
            keys, contexts = list(self._batch), list(self._batch.values())
            self._batch = {}
            if keys:
                for key, hit in zip(keys, self.batch_lookup(keys, contexts[0])):  # type: ignore[attr-defined]
                    self._lookup_state[key].result = hit

        def cleanup(self, req_id: str) -> None:
            self._lookup_state = {k: s for k, s in self._lookup_state.items() if s.context.req_id != req_id}

        def shutdown(self) -> None:
            pass

    if "mark_miss" in about["methods"]:

        def mark_miss(self: Any, keys: Any) -> None:
            for key in keys:
                if key in self._lookup_state:
                    self._lookup_state[key].result = False

        AsyncLookupManager.mark_miss = mark_miss  # type: ignore[attr-defined]
    return AsyncLookupManager
