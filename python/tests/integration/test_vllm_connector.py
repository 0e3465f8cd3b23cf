"""The namespace of real engine configurations, each built in a process of its own, without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

vllm = pytest.importorskip("vllm")
if "cpu" not in vllm.__version__ and vllm.__version__.startswith("0.33"):
    pytest.skip("this wheel is for CUDA, and makes no configuration without a GPU", allow_module_level=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    config = LlamaConfig(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=1024,
                         architectures=["LlamaForCausalLM"])  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
    return str(directory)


def namespace(model, **options):
    script = Path(__file__).parent / "connector.py"
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run([sys.executable, str(script), model, json.dumps(options)], env=environment,
                          stdout=subprocess.PIPE, text=True, timeout=180)  # fmt: skip
    assert done.returncode == 0
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def first(model):
    return namespace(model)


def test_one_configuration_is_one_namespace_in_every_process(model, first):
    assert first == namespace(model)
    assert first["hash_algorithm"] == "sha256" and first["kv_dtype"] == "bfloat16"
    assert "engine_configuration" in first["extra"] and first["revision"].startswith("files-")


@pytest.mark.parametrize(
    "options",
    [{"dtype": "float16"}, {"hf_overrides": {"rope_theta": 5000.0}}, {"prefix_caching_hash_algo": "sha256_cbor"}],
)
def test_another_configuration_is_another(model, first, options):
    assert namespace(model, **options)["id"] != first["id"]


def test_other_weights_are_another(model, first):
    weights = Path(model) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert namespace(model)["id"] != first["id"]
