"""Which weights a name means."""

import os

from spillway import weights

COMMIT = "c" * 40


def test_a_directory_is_its_files(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    assert weights.identify(str(model)) is None  # no weights in it
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"x" * 100)
    first = weights.identify(str(model))
    assert first and first == weights.identify(str(model))
    (model / "config.json").write_text("{ }")
    second = weights.identify(str(model))
    os.utime(model / "model.safetensors", ns=(1, 1))
    assert len({first, second, weights.identify(str(model))}) == 3


def test_a_snapshot_of_the_hub_is_its_commit(tmp_path, monkeypatch):
    repository = tmp_path / "hub" / "models--org--name"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert weights.identify(str(snapshot)) == COMMIT
    assert weights.identify("org/name") == COMMIT
    assert weights.identify("org/name", "main") == COMMIT
    assert weights.identify("org/name", "other") is None
    assert weights.identify("org/name", "d" * 40) == "d" * 40
    assert weights.identify("org/unknown") is None
