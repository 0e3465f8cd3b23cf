"""Spillway's tier and vLLM's own file tier, under vLLM's real manager, side by side.

    python bench/vllm_tiers.py --spillway bin/spillway --dir DIR [--json FILE]

Run it in an environment with vLLM (tests/environments.py). Rounds alternate between the
tiers; each runs in processes of its own, the daemon included, in one memory cgroup of
the same size. *Busy* is the same with a thread that computes in Python all the time, as
an engine does that tokenises or samples. Bytes of every loaded block are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "integration")]

TIERS = ("spillway", "fs")
REQUESTS, BLOCKS = 8, 32  # of a step, and of each
LOOKUP_KEYS, LOOKUPS = 128, 60
SECONDS = 600  # of one round


# One round of one tier, in a process of its own.


def run_round(args: argparse.Namespace) -> Dict[str, float]:
    """Figures of one tier in an empty directory."""
    os.environ["SPILLWAY_BIN"] = args.spillway
    tempfile.tempdir = args.dir
    from serving import Serving

    import spillway.vllm

    spillway.vllm.register()
    directory = Path(args.dir)
    running = None
    if args.tier == "spillway":
        running = Serving(f"{args.capacity_mib}MiB")
        running.start()
        tier = {"type": "SpillwayTier", "socket": running.socket, "weights": "w"}
    else:
        tier = {"type": "fs", "root_dir": str(directory / "files")}
    try:
        return measure(tier, directory, args, running.process.pid if running else 0)
    finally:
        if running:
            running.close()


def measure(tier: Dict[str, Any], directory: Path, args: argparse.Namespace, daemon: int) -> Dict[str, float]:
    """daemon is its process, 0 for none."""
    from scheduler import Engine, keys

    row = args.row_kib << 10
    steps = max(2, args.total_mib // (REQUESTS * BLOCKS * args.row_kib >> 10))
    prompts = [[keys(f"{step} {r}", BLOCKS) for r in range(REQUESTS)] for step in range(steps)]
    engine = Engine(tier, REQUESTS * BLOCKS, row)
    engine.use(keys("the first request opens the namespace", 1))
    engine.settle()
    figures: Dict[str, float] = {}
    began = cpu_seconds(daemon)
    stored = [store_step(engine, batch) for batch in prompts]
    nbytes = REQUESTS * BLOCKS * row
    figures["store MB/s"] = nbytes * len(stored) / sum(stored) / 1e6
    figures["store, CPU s/GB"] = (cpu_seconds(daemon) - began) / (nbytes * len(stored) / 1e9)
    for mode in ("idle", "busy"):
        with busy(mode == "busy"):
            found = [lookup_time(engine, [k for r in batch for k in r][:LOOKUP_KEYS]) for batch in
                     (prompts[i % steps] for i in range(LOOKUPS))]  # fmt: skip
            missed = [lookup_time(engine, keys(f"absent {i}", LOOKUP_KEYS)) for i in range(LOOKUPS)]
            began = cpu_seconds(daemon)
            loaded = [load_step(engine, batch) for batch in prompts]
            used = cpu_seconds(daemon) - began
        figures[f"lookup of {LOOKUP_KEYS} found, ms, {mode}"] = 1e3 * statistics.median(found)
        figures[f"lookup of {LOOKUP_KEYS} absent, ms, {mode}"] = 1e3 * statistics.median(missed)
        figures[f"load MB/s, {mode}"] = nbytes * len(loaded) / sum(loaded) / 1e6
        if mode == "idle":  # checking and filling included, alike for both
            figures["load, CPU s/GB"] = used / (nbytes * len(loaded) / 1e9)
    figures.update(at_capacity(engine, directory, args, row))
    engine.close()
    return figures


def cpu_seconds(daemon: int) -> float:
    """Of this process and the daemon."""
    seconds = time.process_time()
    if daemon:
        fields = Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def store_step(engine: Any, batch: List[List[bytes]]) -> float:
    """Seconds from the moment that blocks are in the CPU tier until the other tier has them."""
    contexts = []
    ready = []
    for names in batch:
        manager = engine.request()
        context = manager.__enter__()
        contexts.append(manager)
        ready.append((engine.fill(names, context), context))
    began = time.perf_counter()
    for names, context in ready:
        with engine.lock():
            engine.manager.complete_store(names, context)
    engine.settle()
    seconds = time.perf_counter() - began
    for manager in contexts:
        manager.__exit__(None, None, None)
    return seconds


def lookup_time(engine: Any, names: List[bytes]) -> float:
    """Seconds until a new request knows which of its blocks the tier has."""
    with engine.request() as context:
        began = time.perf_counter()
        while "RETRY" in [engine.tier.lookup(name, context).name for name in names]:
            engine.tier.on_schedule_end(None)
            time.sleep(0.0001)
        seconds = time.perf_counter() - began
    return seconds


def load_step(engine: Any, batch: List[List[bytes]]) -> float:
    """Seconds from the first lookup until all blocks of all requests are in the CPU tier."""
    engine.forget()
    managers = [engine.request() for _ in batch]
    contexts = [manager.__enter__() for manager in managers]
    began = time.perf_counter()
    while True:
        found = [[engine.lookup(name, context) for name in names] for names, context in zip(batch, contexts)]
        if all(result == "HIT" for results in found for result in results):
            break
        assert not any(result == "MISS" for results in found for result in results), "a block is lost"
        engine.step()
        time.sleep(0.0002)
    seconds = time.perf_counter() - began
    for names, context, manager in zip(batch, contexts, managers):
        engine.load(names, context)
        manager.__exit__(None, None, None)
    return seconds


def at_capacity(engine: Any, directory: Path, args: argparse.Namespace, row: int) -> Dict[str, float]:
    """Twice the capacity is stored; then a byte of one block is changed behind the tier."""
    from scheduler import keys

    rounds = 2 * args.capacity_mib // (BLOCKS * args.row_kib >> 10)
    for i in range(rounds):
        engine.use(keys(f"capacity {i}", BLOCKS))
        engine.settle()
    late = [
        store_step(engine, [keys(f"late {step} {r}", BLOCKS) for r in range(REQUESTS)]) for step in range(4)
    ]
    used = sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())
    engine.forget()
    newest = sum(engine.use(keys(f"late 3 {r}", BLOCKS)) for r in range(REQUESTS))
    engine.settle()
    engine.forget()
    return {
        "disk used of capacity, %": 100 * used / (args.capacity_mib << 20),
        "store MB/s, at capacity": 4 * REQUESTS * BLOCKS * row / sum(late) / 1e6,
        "newest found at capacity, %": 100 * newest / (REQUESTS * BLOCKS),
        "wrong blocks served after damage": damaged(
            engine, directory, keys(f"capacity {rounds - 1}", 1)[0], row
        ),
    }


def damaged(engine: Any, directory: Path, name: bytes, row: int) -> int:
    """Changes a byte of the block's data on disk, wherever it is; whether it is then served."""
    from scheduler import content

    whole = content(name, row)
    for file in (f for f in directory.rglob("*") if f.is_file() and f.stat().st_size >= row):
        with open(file, "r+b") as data:
            at = find(data, whole[:4096])
            if at >= 0:
                data.seek(at + row // 2)
                byte = data.read(1)
                data.seek(at + row // 2)
                data.write(bytes((byte[0] ^ 1,)))
                os.fsync(data.fileno())
                break
    else:
        raise AssertionError("the block is not on the disk")
    with engine.request() as context:
        if not engine.find([name], context):
            return 0
        try:
            engine.load([name], context)
        except AssertionError:
            return 1
        raise AssertionError("the byte that was changed is not the block's")


def find(data: Any, pattern: bytes) -> int:
    """Where it is in a file, page by page; -1 if it is not."""
    at = 0
    while page := data.read(1 << 20):
        for start in range(0, len(page), 4096):
            if page[start : start + len(pattern)] == pattern:
                return at + start
        at += len(page)
    return -1


class busy:
    """Within, a thread computes in Python, if so wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._over = wanted, False

    def __enter__(self) -> None:
        if self._wanted:
            self._thread = threading.Thread(target=self._spin, daemon=True)
            self._thread.start()

    def _spin(self) -> None:
        n = 0
        while not self._over:
            n += 1

    def __exit__(self, *exc: object) -> None:
        self._over = True
        if self._wanted:
            self._thread.join()


# All rounds.


def cgroup(mib: int) -> Iterator[Path]:
    """A memory cgroup of so many MiB, until it is closed."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"spillway-bench-{os.getpid()}"
        try:
            group.mkdir()
            (group / limit).write_text(str(mib << 20))
        except OSError:
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    raise SystemExit("no memory cgroup can be made")


def child(tier: str, args: argparse.Namespace, group: Path) -> Dict[str, float]:
    directory = tempfile.mkdtemp(dir=args.dir)
    command = [sys.executable, __file__, "--tier", tier, "--dir", directory, "--spillway", args.spillway,
               "--row-kib", str(args.row_kib), "--total-mib", str(args.total_mib),
               "--capacity-mib", str(args.capacity_mib)]  # fmt: skip
    environment = {**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=True,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
        )  # fmt: skip
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spillway", required=True, help="the binary")
    parser.add_argument("--dir", required=True, help="directory on the drive to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--row-kib", type=int, default=1024, help="bytes of a block")
    parser.add_argument("--total-mib", type=int, default=1024, help="stored and loaded in a round")
    parser.add_argument("--capacity-mib", type=int, default=2048, help="of the store; fs has none")
    parser.add_argument("--memory-mib", type=int, default=3072, help="limit of engine and daemon together")
    parser.add_argument("--json", help="file for the figures of every round")
    parser.add_argument("--tier", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.spillway = os.path.abspath(args.spillway)
    if args.tier:
        print(json.dumps(run_round(args)))
        return
    rounds: Dict[str, List[Dict[str, float]]] = {tier: [] for tier in TIERS}
    (group_of,) = (cgroup(args.memory_mib),)
    group = next(group_of)
    try:
        for number in range(args.rounds):
            for tier in TIERS if number % 2 == 0 else reversed(TIERS):
                rounds[tier].append(child(tier, args, group))
                print(f"round {number + 1} {tier}", file=sys.stderr)
    finally:
        group_of.close()
    show(rounds, args)


def show(rounds: Dict[str, List[Dict[str, float]]], args: argparse.Namespace) -> None:
    import vllm

    print(
        f"vLLM {vllm.__version__}, blocks of {args.row_kib} KiB, {args.rounds} alternating rounds: median (least..most)\n"
    )
    print("| | " + " | ".join(TIERS) + " |\n|---|" + "---|" * len(TIERS))
    for name in rounds[TIERS[0]][0]:
        cells = []
        for tier in TIERS:
            values = [figures[name] for figures in rounds[tier]]
            cells.append(f"{statistics.median(values):.4g} ({min(values):.4g}..{max(values):.4g})")
        print(f"| {name} | " + " | ".join(cells) + " |")
    if args.json:
        about = {
            "vllm": vllm.__version__,
            **{k: v for k, v in vars(args).items() if k not in ("tier", "json")},
        }
        Path(args.json).write_text(json.dumps({"about": about, "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
