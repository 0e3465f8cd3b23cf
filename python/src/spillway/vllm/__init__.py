"""Spillway as a secondary tier of vLLM's TieringOffloadingSpec, for vLLM 0.25 to 0.33.

    "secondary_tiers": [{"type": "SpillwayTier", "module_path": "spillway.vllm",
                         "socket": "/run/spillway/spillway.sock"}]

vLLM before 0.28 knows no ``module_path``; there, and elsewhere, too, the package's entry
point has registered the type by name.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["SpillwayTier", "register"]


def register() -> None:
    """Entry point of ``vllm.general_plugins``: makes the type known. Never raises."""
    try:
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

        SecondaryTierFactory.register_tier("SpillwayTier", __name__, "SpillwayTier")
    except ValueError:
        pass  # registered before: the plugins of a process may be loaded twice
    except Exception as cause:
        # Every process of every vLLM loads its plugins, also where no tier is asked for.
        logging.getLogger("spillway").info("this vLLM has no secondary tiers: %s", cause)


def __getattr__(name: str) -> Any:
    # The tier imports much of vLLM; the entry point runs where none of it is needed.
    if name == "SpillwayTier":
        from .tier import SpillwayTier

        return SpillwayTier
    raise AttributeError(name)
