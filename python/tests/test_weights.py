"""Which weights a name means."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from spillway import weights

COMMIT = "c" * 40


class Weights(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def test_a_directory_is_its_files(self):
        model = self.directory / "model"
        model.mkdir()
        self.assertIsNone(weights.identify(str(model)))  # no weights in it
        (model / "config.json").write_text("{}")
        (model / "model.safetensors").write_bytes(b"x" * 100)
        first = weights.identify(str(model))
        self.assertTrue(first)
        self.assertEqual(first, weights.identify(str(model)))
        (model / "config.json").write_text("{ }")
        second = weights.identify(str(model))
        os.utime(model / "model.safetensors", ns=(1, 1))
        self.assertEqual(len({first, second, weights.identify(str(model))}), 3)

    def test_a_snapshot_of_the_hub_is_its_commit(self):
        repository = self.directory / "hub" / "models--org--name"
        snapshot = repository / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMIT)
        with mock.patch.dict(os.environ, {"HF_HUB_CACHE": str(self.directory / "hub")}):
            self.assertEqual(weights.identify(str(snapshot)), COMMIT)
            self.assertEqual(weights.identify("org/name"), COMMIT)
            self.assertEqual(weights.identify("org/name", "main"), COMMIT)
            self.assertIsNone(weights.identify("org/name", "other"))
            self.assertEqual(weights.identify("org/name", "d" * 40), "d" * 40)
            self.assertIsNone(weights.identify("org/unknown"))


if __name__ == "__main__":
    unittest.main()
