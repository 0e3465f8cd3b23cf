"""Which weights a model's name means on this machine, without reading them."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Optional

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz")


def identify(model: str, revision: Optional[str] = None) -> Optional[str]:
    """A text that differs wherever the weights differ, or None if there is none to be had.

    A commit of the hub where the model lies in the hub's cache. For another directory a
    digest of its configuration and of the names, sizes and times of its files: moving or
    touching them makes it another model, which costs misses, never wrong blocks.
    """
    path = Path(model)
    if path.is_dir():
        commit = _commit_in(path.resolve())
        return commit or _digest(path)
    if revision and _COMMIT.fullmatch(revision):
        return revision
    return _cached_commit(model, revision)


def _commit_in(path: Path) -> Optional[str]:
    """Of a snapshot in the hub's cache, .../snapshots/<commit>."""
    if path.parent.name == "snapshots" and _COMMIT.fullmatch(path.name):
        return path.name
    return None


def _digest(directory: Path) -> Optional[str]:
    """None where no file looks like weights."""
    sums = hashlib.sha256()
    seen = False
    for file in sorted(directory.rglob("*")):
        if file.suffix not in (*_WEIGHTS, ".json") or not file.is_file():
            continue
        stat = file.stat()
        sums.update(f"{file.relative_to(directory)}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
        if file.name == "config.json":
            sums.update(file.read_bytes())
        seen = seen or file.suffix in _WEIGHTS
    return f"files-{sums.hexdigest()}" if seen else None


def _cached_commit(model: str, revision: Optional[str]) -> Optional[str]:
    """What the hub's cache says a branch or tag means, by default main."""
    repository = _hub_cache() / ("models--" + model.replace("/", "--"))
    try:
        commit = (repository / "refs" / (revision or "main")).read_text().strip()
    except (OSError, ValueError):
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def _hub_cache() -> Path:
    """Where huggingface_hub keeps it, by its environment variables."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    return Path(home) / "hub"
