"""Descriptors: exactly whose KV bytes a namespace holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

BLOCK_BYTES_MIN = 4 << 10
BLOCK_BYTES_MAX = 64 << 20
_CANONICAL_BYTES_MAX = 8 << 10
_INT_MAX = 1 << 53  # above, JSON numbers are not exact


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """Two descriptors that differ in any field are two namespaces.

    Raises TypeError or ValueError for a field that is out of range.
    """

    name: str  #: the human's handle
    block_bytes: int  #: 4096..67108864
    model: str = ""
    revision: str = ""  #: revision or weights digest
    kv_dtype: str = ""  #: type of one number, as in bf16
    layout: str = ""  #: name of the order of bytes within a block
    layout_version: int = 0
    tokens_per_block: int = 0
    pieces: int = 0  #: pieces a block; informative
    tensor_parallel: int = 0  #: size of the tensor-parallel group
    pipeline_parallel: int = 0  #: number of pipeline stages
    rank: str = ""  #: a number, or "all"
    hash_algorithm: str = ""  #: that makes keys of token prefixes
    hash_seed: str = ""
    salt_domain: str = ""  #: keeps tenants with the same model apart
    extra: Mapping[str, str] = dataclasses.field(default_factory=dict)  #: whatever else tells blocks apart

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_field(field.name, getattr(self, field.name), str(field.type))
        if not 1 <= len(self.name.encode()) <= 255:
            raise ValueError(f"name {self.name!r} must have 1 to 255 bytes")
        if not BLOCK_BYTES_MIN <= self.block_bytes <= BLOCK_BYTES_MAX:
            raise ValueError(f"block_bytes {self.block_bytes} must be {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}")
        if len(self.canonical()) > _CANONICAL_BYTES_MAX:
            raise ValueError(
                f"the descriptor has {len(self.canonical())} bytes, more than {_CANONICAL_BYTES_MAX}"
            )

    def __hash__(self) -> int:
        return hash(self.canonical())

    def json(self) -> dict[str, Any]:
        """The fields that say something."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            k: dict(v) if k == "extra" else v for k, v in fields.items() if v or k in ("name", "block_bytes")
        }

    def canonical(self) -> bytes:
        """The JSON of RFC 8785: one byte string for one meaning."""
        # Sorted here by UTF-16, as the RFC wants; json's own order is by code point.
        fields = self.json()
        if "extra" in fields:
            fields["extra"] = dict(
                sorted(fields["extra"].items(), key=lambda kv: str(kv[0]).encode("utf-16-be"))
            )
        ordered = dict(sorted(fields.items()))
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()

    def id(self) -> bytes:
        """SHA-256 of the canonical form: the namespace's identity."""
        return hashlib.sha256(self.canonical()).digest()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Descriptor:
        """The descriptor of a dict as ``json`` makes; TypeError for a field that is not known."""
        return cls(**fields)


def _check_field(name: str, value: Any, kind: str) -> None:
    if kind == "int":
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} is a number, not {value!r}")
        if not 0 <= value < _INT_MAX:
            raise ValueError(f"{name} {value} is out of range")
        return
    texts = [value] if kind == "str" else [text for pair in value.items() for text in pair]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} holds text, not {text!r}")
        text.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
