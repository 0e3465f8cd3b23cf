"""A small Llama with random weights: what it computes with the pool is what it computes without."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from serving import Serving  # noqa: E402
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM  # noqa: E402

from spillway import Client  # noqa: E402
from spillway.transformers import PrefixCache  # noqa: E402

TOKENS = 16


def llama(seed=1, dtype=torch.float32, **changed):
    torch.manual_seed(seed)
    config = LlamaConfig(**{**dict(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
                                   num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=1024),
                            **changed})  # fmt: skip
    return LlamaForCausalLM(config).eval().to(dtype)


def prompt(length, seed=7):
    return torch.randint(0, 512, (1, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def daemon():
    running = Serving("256MiB")
    running.start()
    yield running
    running.close()


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as connected:
        yield connected


def pool(client, model, **options):
    return PrefixCache(client, model, tokens_per_block=TOKENS, **options)


def computed(model, ids, length):
    """A cache of the first length tokens, computed here."""
    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=ids[:, :length], past_key_values=cache, use_cache=True)
    return cache


def logits(model, ids, cache):
    """Of the tokens that the cache does not have."""
    with torch.no_grad():
        return model(input_ids=ids[:, cache.get_seq_length() :], past_key_values=cache, use_cache=True).logits


def same(one, other):
    return all(
        torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values)
        for a, b in zip(one.layers, other.layers)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_prefix_is_the_computed_one_bit_for_bit(client, dtype):
    model, ids = llama(dtype=dtype), prompt(200)
    cache = pool(client, model)
    here = computed(model, ids, 192)
    assert cache.store(ids, here) == 12
    loaded = cache.load(ids)
    assert loaded.get_seq_length() == 192 and same(loaded, here)
    assert torch.equal(logits(model, ids, loaded), logits(model, ids, here))


def test_generating_with_the_pool_is_generating_without(client):
    model, ids = llama(), prompt(150)
    options = dict(max_new_tokens=40, do_sample=False, pad_token_id=0)
    plain = model.generate(ids, **options)
    cache = pool(client, model)
    assert torch.equal(cache.generate(ids, **options), plain)  # stores
    assert cache.load(plain).get_seq_length() == (plain.shape[1] - 1) // TOKENS * TOKENS
    assert torch.equal(cache.generate(ids, **options), plain)  # loads
    longer = torch.cat([plain, prompt(30, seed=8)], dim=1)
    assert torch.equal(cache.generate(longer, **options), model.generate(longer, **options))


def test_over_a_restart_of_the_daemon(daemon, client):
    model, ids = llama(), prompt(200)
    cache = pool(client, model)
    here = computed(model, ids, 192)
    cache.store(ids, copy.deepcopy(here))
    daemon.stop()
    assert cache.load(ids).get_seq_length() == 0
    assert cache.store(ids, copy.deepcopy(here)) == 0
    daemon.start()
    assert client.connect(10)
    loaded = cache.load(ids)
    assert loaded.get_seq_length() == 192 and same(loaded, here)
    assert torch.equal(logits(model, ids, loaded), logits(model, ids, here))


def test_another_process_of_the_same_model_finds_it(daemon, client):
    ids = prompt(100)
    pool(client, llama()).store(ids, computed(llama(), ids, 96))
    with Client(daemon.socket) as other:
        assert pool(other, llama()).load(ids).get_seq_length() == 96


def test_another_model_finds_nothing(client):
    ids = prompt(100)
    pool(client, llama()).store(ids, computed(llama(), ids, 96))
    assert pool(client, llama()).load(ids).get_seq_length() == 96
    others = [pool(client, llama(seed=2)), pool(client, llama(dtype=torch.float64)), pool(client, llama(), salt="s"),
              pool(client, llama(rope_parameters={"rope_type": "default", "rope_theta": 5000.0})),
              PrefixCache(client, llama(), tokens_per_block=32)]  # fmt: skip
    tuned = llama()
    with torch.no_grad():
        tuned.model.layers[2].mlp.up_proj.weight[0, 0] += 1
    others.append(pool(client, tuned))
    assert [other.load(ids).get_seq_length() for other in others] == [0] * len(others)


def test_the_prefix_ends_where_the_tokens_differ(client):
    model, ids = llama(), prompt(200)
    cache = pool(client, model)
    cache.store(ids, computed(model, ids, 192))
    changed = ids.clone()
    changed[0, 100] = (changed[0, 100] + 1) % 512
    assert cache.load(changed).get_seq_length() == 96
    assert cache.load(ids[:, :96]).get_seq_length() == 80  # the last token is computed
    assert cache.load(ids[:, :97]).get_seq_length() == 96


def test_more_blocks_than_memory(client):
    model, ids = llama(), prompt(500)
    cache = pool(client, model, memory_bytes=5 * 64 << 10)
    here = computed(model, ids, 496)
    assert cache.store(ids, here) == 31
    assert same(cache.load(ids), here)


def test_a_model_with_windows_is_refused(client):
    config = transformers.MistralConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, sliding_window=8)  # fmt: skip
    with pytest.raises(ValueError, match="attend"):
        pool(client, transformers.MistralForCausalLM(config).eval())


def test_more_than_one_sequence_is_refused(client):
    with pytest.raises(ValueError, match="one sequence"):
        pool(client, llama()).load(torch.zeros((2, 20), dtype=torch.long))
