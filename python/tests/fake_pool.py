"""A client of no daemon: a dict, with failures and delays as a test orders them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence

from spillway.descriptor import Descriptor
from spillway.wire import Status


class FakeJob:
    """Runs when the test says so, at once by default."""

    def __init__(self, statuses: Sequence[int], released: bool) -> None:
        self.result = SimpleNamespace(statuses=tuple(Status(s) for s in statuses))
        self._free = threading.Event()
        if released:
            self._free.set()

    @property
    def released(self) -> bool:
        return self._free.is_set()

    def wait_released(self, timeout: Optional[float] = None) -> bool:
        return self._free.wait(timeout)

    def release(self) -> None:
        self._free.set()


class FakeRegion:
    def __init__(self, memory: memoryview, row_bytes: int) -> None:
        self.memory, self.nbytes, self.row_bytes = memory, memory.nbytes, row_bytes
        self.closed = False

    def rows(self, indices: Sequence[int], row_bytes: int) -> List[memoryview]:
        return [self.memory[i * row_bytes : (i + 1) * row_bytes] for i in indices]

    def close(self) -> bool:
        self.closed = True
        return True


class FakePool:
    """A namespace. ``blocks`` is what it holds."""

    def __init__(self, client: "FakeClient", descriptor: Descriptor) -> None:
        self.client, self.descriptor, self.ready = client, descriptor, True
        self.blocks: Dict[bytes, bytes] = {}
        self.touched: List[List[bytes]] = []
        self.matches = 0
        self.leases: List[float] = []
        self.prefetched: List[List[bytes]] = []

    def submit_prefetch(self, keys: Sequence[bytes]) -> None:
        self.prefetched.append(list(keys))

    def match(self, keys: Sequence[bytes], lease: float = 0.0) -> Any:
        self.client.fail()
        self.matches += 1
        self.leases.append(lease)
        return SimpleNamespace(present=[self.client.alive and key in self.blocks for key in keys])

    def submit_get(self, keys: Sequence[bytes], places: Sequence[memoryview], deadline: float) -> FakeJob:
        assert len(keys) == len(places)
        statuses = []
        for key, place in zip(keys, places):
            if key in self.client.late:
                statuses.append(Status.LATE)
            elif self.client.alive and key in self.blocks:
                place[:] = self.blocks[key]
                statuses.append(Status.HIT)
            else:
                statuses.append(Status.MISS)
        return self.client.job(statuses)

    def submit_put(self, keys: Sequence[bytes], places: Sequence[memoryview]) -> FakeJob:
        assert len(keys) == len(places)
        statuses = []
        for key, place in zip(keys, places):
            status = Status.PRESENT if key in self.blocks else Status.STORED
            if not self.client.alive or key in self.client.refused:
                status = Status.DROPPED
            else:
                self.blocks.setdefault(key, bytes(place))
            statuses.append(status)
        return self.client.job(statuses)

    def submit_touch(self, keys: Sequence[bytes]) -> None:
        self.touched.append(list(keys))

    def events(self, buffered: int) -> Any:
        return SimpleNamespace(get=lambda timeout: self.client.events.pop(0) if self.client.events else None)


class FakeClient:
    """Stands for spillway.Client in the tier's module."""

    def __init__(self, path: str, token: str = "", name: str = "") -> None:
        self.path = path
        self.alive = True
        self.anonymous = False  # memory cannot be passed on
        self.held = False  # jobs are not released by themselves
        self.late: set = set()
        self.refused: set = set()
        self.events: List[Any] = []
        self.jobs: List[FakeJob] = []
        self.raising: Optional[Exception] = None
        self.spaces: Dict[bytes, FakePool] = {}
        self.closed = 0
        self.problem = ""
        made.append(self)
        for order in orders:
            order(self)

    def fail(self) -> None:
        if self.raising:
            raise self.raising

    def job(self, statuses: Sequence[int]) -> FakeJob:
        self.fail()
        job = FakeJob(statuses, released=not self.held)
        self.jobs.append(job)
        return job

    def namespace(self, descriptor: Descriptor) -> FakePool:
        self.fail()
        return self.spaces.setdefault(descriptor.id(), FakePool(self, descriptor))

    def register(self, view: memoryview, row_bytes: int) -> FakeRegion:
        if self.anonymous:
            raise ValueError("this memory is not a shared mapping of one file")
        return FakeRegion(view.cast("B"), row_bytes)

    def allocate(self, nbytes: int, row_bytes: int) -> FakeRegion:
        return FakeRegion(memoryview(bytearray(nbytes)), row_bytes)

    def connect(self) -> bool:
        return self.alive

    def close(self, timeout: float) -> bool:
        self.closed += 1
        return True


made: List[FakeClient] = []  # every client, oldest first
orders: List[Callable[[FakeClient], None]] = []  # carried out on each new one
