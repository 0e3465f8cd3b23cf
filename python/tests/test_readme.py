"""The README's quickstart runs as it stands there."""

import os
import re
import subprocess
import sys
import unittest

from daemon import PATIENCE, ROOT, DaemonTest


class Quickstart(DaemonTest):
    def test_quickstart(self) -> None:
        page = (ROOT / "python" / "README.md").read_text()
        code = re.findall(r"```python\n(.*?)```", page, re.S)
        self.assertEqual(len(code), 1)
        self.assertLessEqual(len(code[0].splitlines()), 25)
        client = self.client()
        self.assertTrue(client.connect(PATIENCE))  # the daemon is up
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src"), "SPILLWAY_SOCKET": self.daemon.socket}
        done = subprocess.run([sys.executable, "-c", code[0]], env=environment, text=True, capture_output=True,
                              timeout=PATIENCE)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("32 of 33 are here\n32 read: b'hello'\n[('step 7', 32)]\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
