"""How long calls take from Python: ``SPILLWAY_BIN=... python tests/speed.py``. Judges nothing."""

import os
import statistics
import threading
import time
from typing import Callable

from daemon import PATIENCE, Daemon

from spillway import Client, Descriptor

BLOCK = 64 << 10


def timed(what: str, call: Callable[[], object], times: int) -> None:
    spans = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spans.append((time.perf_counter() - began) * 1e6)
    tenths = statistics.quantiles(spans, n=10)
    print(f"{what:28} median {statistics.median(spans):7.0f} us, nine tenths below {tenths[8]:7.0f} us")


def spin(stop: threading.Event) -> None:
    while not stop.is_set():
        pass


def main() -> None:
    daemon = Daemon()
    daemon.start()
    try:
        with Client(daemon.socket) as client:
            space = client.namespace(Descriptor(name="speed", block_bytes=BLOCK))
            region = client.allocate(512 * BLOCK, row_bytes=BLOCK)
            assert client.connect(PATIENCE), client.problem
            keys = [os.urandom(36) for _ in range(8192)]
            assert space.put(keys[:512], region.rows(range(512))).ok
            calls = {
                "match of 1 key": lambda: space.match(keys[:1]),
                "match of 128 keys": lambda: space.match(keys[:128]),
                "match of 8192 keys": lambda: space.match(keys),
                "get of 1 block": lambda: space.get(keys[:1], region.rows([0])),
                "get of 64 blocks": lambda: space.get(keys[:64], region.rows(range(64))),
                "submission of 64 blocks": lambda: space.submit_get(keys[:64], region.rows(range(64)), notify=False),
            }
            for what, call in calls.items():
                timed(what, call, 100)
            client.drain()
            stop = threading.Event()
            busy = threading.Thread(target=spin, args=(stop,))
            busy.start()
            for what in ("match of 1 key", "match of 8192 keys"):
                timed(f"{what}, busy", calls[what], 50)
            stop.set()
            busy.join()
    finally:
        daemon.close()


if __name__ == "__main__":
    main()
