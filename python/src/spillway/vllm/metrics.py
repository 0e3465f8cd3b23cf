"""What the tier counts, for vLLM's Prometheus endpoint."""

from __future__ import annotations

from typing import Any, Dict

from . import compat

_PREFIX = "vllm:kv_offload_spillway_"

TEXTS = {
    "lookup_keys": "Blocks looked up in the pool.",
    "lookup_hits": "Blocks found in the pool.",
    "loaded_blocks": "Blocks loaded from the pool.",
    "missing_blocks": "Blocks that were gone, damaged or busy when they were to be loaded.",
    "late_blocks": "Blocks whose load passed its deadline or lost its connection.",
    "stored_blocks": "Blocks stored in the pool.",
    "present_blocks": "Blocks offered to the pool that it had already.",
    "dropped_blocks": "Blocks that the pool refused or could not store.",
}


class Counters(Dict[str, int]):
    """Counts since they were last taken."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(TEXTS, 0))

    def take(self) -> Any:
        """vLLM's form of them, or None if nothing happened; begins again at zero."""
        if not any(self.values()):
            return None
        stats = compat.Stats()
        for name, count in self.items():
            if count:
                stats.increase_counter(_PREFIX + name, count)
        self.update(dict.fromkeys(TEXTS, 0))
        return stats


def definitions() -> Dict[str, Any]:
    """Of every counter, for vLLM's registry."""
    return {_PREFIX + name: compat.counter(text) for name, text in TEXTS.items()}
