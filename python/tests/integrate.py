"""Runs the heavy tests: every release of vLLM that is tested, then transformers.

    SPILLWAY_BIN=bin/spillway python tests/integrate.py [vllm|transformers]

The first run installs some GB (environments.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import environments
from daemon import BINARY

HERE = Path(__file__).resolve().parent


def run(python: Path, *tests: str) -> bool:
    """Whether the tests of some files pass under a python."""
    paths = [HERE.parent / "src", HERE, HERE / "integration"]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "SPILLWAY_BIN": os.path.abspath(BINARY),
        "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "WARNING",
    }  # fmt: skip
    print(*tests, "with", python, flush=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str(HERE / "integration" / test) for test in tests]
    return subprocess.run(command, env=environment, cwd=HERE, timeout=900).returncode == 0


def main(wanted: List[str]) -> int:
    good = True
    if not wanted or "vllm" in wanted:
        for version in environments.TESTED:
            good &= run(environments.vllm(version), "test_vllm_manager.py")
        for version in environments.CONFIGURED:
            good &= run(environments.vllm(version), "test_vllm_connector.py")
    if not wanted or "transformers" in wanted:
        good &= run(environments.base(), "test_transformers.py")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
