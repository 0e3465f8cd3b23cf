"""A prefix cache for programs on Hugging Face transformers.

    pool = PrefixCache(Client(), model)
    tokens = pool.generate(input_ids, max_new_tokens=100)

Keys and values of the longest prefix that the pool has are loaded instead of computed,
and what generating computed is stored, in blocks of tokens_per_block tokens.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import struct
from typing import Any, List, NamedTuple, Sequence, Tuple

import torch
from transformers import DynamicCache

from .client import Client
from .descriptor import Descriptor

_LAYOUT, _LAYOUT_VERSION = "layers-kv-heads-tokens-dim", 1
_PAGE = 4096
_SEED = hashlib.sha256(b"spillway transformers 1").digest()


class PrefixCache:
    """The blocks of one model. One thread at a time.

    Only models whose every layer attends to all tokens before; others raise ValueError.
    Nothing raises because of the pool: without a daemon, no prefix is found.

    Args:
        weights: text that names the weights, as a revision does; by default a digest of
            them, which reads them all once. Weights or adapters that are changed later
            need another PrefixCache.
        salt: keeps what is stored from those who use another.
        deadline: seconds after which a load is given up and computed instead.
        memory_bytes: memory that blocks pass through, so many at a time.
    """

    def __init__(self, client: Client, model: Any, *, tokens_per_block: int = 64, weights: str = "", salt: str = "",
                 deadline: float = 2.0, memory_bytes: int = 64 << 20) -> None:  # fmt: skip
        self._client, self._model = client, model
        # transformers renames its options: past_key_values is on its way out.
        known = inspect.signature(type(model).forward).parameters
        self._cache_option = "cache" if "cache" in known else "past_key_values"
        self._tokens = tokens_per_block
        self._deadline = deadline
        self._layers = _layers_of(model)
        self._payload = sum(layer.bytes_per_token for layer in self._layers) * tokens_per_block
        self._block_bytes = -(-self._payload // _PAGE) * _PAGE
        self._space = client.namespace(
            Descriptor(
                name=f"transformers {model.config.model_type}",
                model=model.config.model_type,
                revision=weights or _weights_digest(model),
                kv_dtype=str(self._layers[0].dtype).replace("torch.", ""),
                layout=_LAYOUT,
                layout_version=_LAYOUT_VERSION,
                tokens_per_block=tokens_per_block,
                block_bytes=self._block_bytes,
                pieces=1,
                hash_algorithm="sha256-chain-u32le",
                hash_seed=_SEED.hex(),
                salt_domain=salt,
                extra={"config": _config_digest(model.config), "layers": repr(self._layers)},
            )
        )
        self._frames = max(1, memory_bytes // self._block_bytes)
        self._region = self._allocate()
        client.connect()

    def _allocate(self) -> Any:
        return self._client.allocate(self._frames * self._block_bytes, row_bytes=self._block_bytes)

    def generate(self, input_ids: torch.Tensor, **options: Any) -> Any:
        """As model.generate, for one sequence without padding."""
        cache = self.load(input_ids)
        found = cache.get_seq_length()
        result = self._model.generate(input_ids, **{self._cache_option: cache}, **options)
        sequences = result if isinstance(result, torch.Tensor) else result.sequences
        if sequences.shape[0] == 1:
            self.store(sequences, cache, skip=found)
        return result

    def load(self, input_ids: torch.Tensor) -> DynamicCache:
        """A cache with the longest prefix of whole blocks that the pool has. At least the
        last token is left for the model to compute."""
        tokens = _single(input_ids)
        keys = self._keys(tokens, (len(tokens) - 1) // self._tokens)
        blocks: List[torch.Tensor] = []
        while len(blocks) < len(keys):
            batch = keys[len(blocks) : len(blocks) + self._frames]
            loaded = self._load(batch)
            blocks += loaded
            if len(loaded) < len(batch):
                break
        return self._assemble(blocks)

    def store(self, input_ids: torch.Tensor, cache: Any, skip: int = 0) -> int:
        """Stores the whole blocks of input_ids that cache has, from token skip on; returns
        how many the pool holds now."""
        tokens = _single(input_ids)
        count = min(len(tokens), cache.get_seq_length()) // self._tokens
        keys = self._keys(tokens, count)
        first = skip // self._tokens
        stored = 0
        for start in range(first, count, self._frames):
            stop = min(start + self._frames, count)
            for frame, index in enumerate(range(start, stop)):
                self._fill(frame, index, cache)
            result = self._space.put(keys[start:stop], self._region.rows(range(stop - start)), depth=start)
            self._renew(result)
            stored += result.prefix
            if not result.ok:
                break
        return stored

    def _keys(self, tokens: Sequence[int], count: int) -> List[bytes]:
        """A digest a block, of the block before it and its own tokens."""
        keys, parent = [], _SEED
        for start in range(0, count * self._tokens, self._tokens):
            block = tokens[start : start + self._tokens]
            parent = hashlib.sha256(parent + struct.pack(f"<{len(block)}I", *block)).digest()
            keys.append(parent)
        return keys

    def _load(self, keys: Sequence[bytes]) -> List[torch.Tensor]:
        """Bytes of the leading blocks that arrived, copied out of the region."""
        places = self._region.rows(range(len(keys)))
        result = self._space.match_get(keys, places, deadline=self._deadline, bounce=True)
        memory, size = torch.frombuffer(self._region.memory, dtype=torch.uint8), self._block_bytes
        blocks = [memory[i * size : i * size + self._payload].clone() for i in range(result.prefix)]
        self._renew(result)
        return blocks

    def _renew(self, result: Any) -> None:
        """Takes other memory if what a request was given may still be touched for it."""
        if not result.released:
            self._region.close(0)
            self._region = self._allocate()

    def _fill(self, frame: int, index: int, cache: Any) -> None:
        """Puts block index of the cache into a frame."""
        memory = torch.frombuffer(self._region.memory, dtype=torch.uint8)
        at = frame * self._block_bytes
        span = slice(index * self._tokens, (index + 1) * self._tokens)
        for layer, pair in zip(self._layers, _tensors(cache)):
            for tensor in pair:
                part = tensor[0, :, span].detach().to("cpu").contiguous().view(torch.uint8).flatten()
                memory[at : at + part.numel()] = part
                at += part.numel()

    def _assemble(self, blocks: List[torch.Tensor]) -> DynamicCache:
        cache = DynamicCache()
        if not blocks:
            return cache
        at = 0
        for number, layer in enumerate(self._layers):
            pair = []
            for heads, dim in ((layer.heads, layer.key_dim), (layer.heads, layer.value_dim)):
                size = heads * self._tokens * dim * layer.dtype.itemsize
                parts = [
                    b[at : at + size].view(layer.dtype).view(1, heads, self._tokens, dim) for b in blocks
                ]
                pair.append(torch.cat(parts, dim=2).to(layer.device))
                at += size
            cache.update(pair[0], pair[1], number)
        return cache


class _Layer(NamedTuple):
    """What the keys and values of one layer look like."""

    heads: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    device: str

    @property
    def bytes_per_token(self) -> int:
        return self.heads * (self.key_dim + self.value_dim) * int(self.dtype.itemsize)

    def __repr__(self) -> str:  # where it is computed does not tell blocks apart
        return f"{self.heads}x{self.key_dim}+{self.value_dim} {self.dtype}"


def _layers_of(model: Any) -> List[_Layer]:
    """Asks the model itself, with one token."""
    with torch.no_grad():
        token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        cache = model(input_ids=token, use_cache=True).past_key_values
    if not isinstance(cache, DynamicCache) or any(
        getattr(layer, "is_sliding", False) for layer in cache.layers
    ):
        raise ValueError(f"{type(model).__name__} has layers that do not attend to all tokens before")
    layers = []
    for keys, values in _tensors(cache):
        if keys.shape[:3] != values.shape[:3] or keys.shape[0] != 1 or keys.shape[2] != 1:
            raise ValueError(
                f"{type(model).__name__} does not keep keys and values as [batch, heads, tokens, dim]"
            )
        layers.append(_Layer(keys.shape[1], keys.shape[3], values.shape[3], keys.dtype, str(keys.device)))
    return layers


def _tensors(cache: Any) -> List[Tuple[torch.Tensor, torch.Tensor]]:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _single(input_ids: torch.Tensor) -> List[int]:
    if input_ids.dim() != 2 or input_ids.shape[0] != 1:
        raise ValueError(f"one sequence at a time, not input_ids of shape {tuple(input_ids.shape)}")
    tokens: List[int] = input_ids[0].tolist()
    return tokens


def _config_digest(config: Any) -> str:
    """Of everything but names and versions."""
    said = config.to_dict()
    for name in ("_name_or_path", "_commit_hash", "transformers_version", "architectures", "use_cache"):
        said.pop(name, None)
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _weights_digest(model: Any) -> str:
    """SHA-256 over every parameter and buffer, by name."""
    sums = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        sums.update(f"{name}\0{tuple(tensor.shape)}\0{tensor.dtype}\0".encode())
        plain = tensor.detach().to("cpu").contiguous().reshape(-1)
        sums.update(memoryview(plain.view(torch.uint8).numpy()) if plain.numel() else b"")
    return f"sha256-{sums.hexdigest()}"
