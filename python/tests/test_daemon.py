"""The client against the real daemon."""

import ctypes
import logging
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from typing import Any, Dict, List

from daemon import PATIENCE, ROOT, DaemonTest, content, keys_of

import spillway.link
from spillway import Client, Descriptor, Reason, Region, Status

SEED = int(os.environ.get("SPILLWAY_TEST_SEED", random.randrange(1 << 32)))
BLOCK = 64 << 10
DESCRIPTOR = Descriptor(name="test", block_bytes=BLOCK, model="m", kv_dtype="bf16", extra={"é": "<&>", "a": "\u2028"})
HIT, MISS, LATE, BUSY, STORED, PRESENT, DROPPED = (
    Status.HIT, Status.MISS, Status.LATE, Status.BUSY, Status.STORED, Status.PRESENT, Status.DROPPED)  # fmt: skip


def setUpModule() -> None:
    logging.getLogger("spillway").setLevel(logging.CRITICAL)


def fill(region: Region, row: int, data: bytes) -> None:
    region.memory[row * BLOCK : row * BLOCK + len(data)] = data


def row(region: Region, index: int) -> bytes:
    return bytes(region.memory[index * BLOCK : (index + 1) * BLOCK])


class Calls(DaemonTest):
    def setUp(self) -> None:
        super().setUp()
        self.c = self.client()
        self.space = self.c.namespace(DESCRIPTOR)
        self.region = self.c.allocate(64 * BLOCK, row_bytes=BLOCK)
        self.assertTrue(self.c.connect(PATIENCE), self.c.problem)

    def put(self, keys: List[bytes], **options: Any) -> Any:
        for i, key in enumerate(keys):
            fill(self.region, i, content(key, BLOCK))
        return self.space.put(keys, self.region.rows(range(len(keys))), **options)

    def test_worth(self) -> None:
        keys = keys_of("w", 8)
        self.put(keys)
        self.assertEqual(self.space.match(keys, compute=10.0).prefix, 8)  # no drive is that slow
        self.assertEqual(self.space.match(keys, worth=True).prefix, 8)  # the daemon knows nothing of the model
        self.assertTrue(self.space.get(keys, self.region.rows(range(8)), worth=True).ok)
        with self.assertRaises(ValueError):
            self.space.match(keys, compute=-1.0)

    def test_events(self) -> None:
        events = self.space.events()
        self.assertTrue(events.wait(PATIENCE))
        keys = keys_of("e", 32)
        have: set[bytes] = set()
        last = 0

        def follow(want: set[bytes]) -> None:
            nonlocal last
            while have != want:
                event = events.get(PATIENCE)
                self.assertIsNotNone(event)
                self.assertGreater(event.sequence, last)
                last = event.sequence
                if event.kind.name == "STORED":
                    have.update(event.keys)
                elif event.kind.name == "REMOVED":
                    have.difference_update(event.keys)
                else:
                    self.assertEqual(event.kind.name, "CLEARED")
                    have.clear()

        self.put(keys)
        follow(set(keys))
        self.space.delete(keys[:5])
        follow(set(keys[5:]))
        self.space.drop()
        follow(set())
        events.close()
        self.put(keys[:2])
        events = self.space.events(last + 1)
        follow(set(keys[:2]))
        self.daemon.stop()
        self.assertEqual([event.kind.name for event in events], ["LOST"])

    def test_blocks(self) -> None:
        keys = keys_of("k", 32)
        self.assertEqual(set(self.put(keys, durable=True, depth=0).statuses), {STORED})
        self.assertEqual(set(self.put(keys).statuses), {PRESENT})
        ends = keys_of("end", 3)
        result = self.put(ends, partial=True)
        self.assertEqual((result.statuses, result.reasons), ((STORED, STORED, DROPPED), bytes((0, 0, Reason.PARTIAL))))
        found = self.space.match([*keys, b"other"], trailing=4)
        self.assertEqual((found.prefix, found.trailing, found.present.total()), (32, 0, 32))
        found = self.space.match([*keys[:3], b"other", *keys[3:6]], trailing=2, lease=5.0)
        self.assertEqual((found.prefix, found.trailing, list(found.present)), (3, 2, [True] * 3 + [False] + [True] * 3))
        self.assertTrue(found.lease)
        with found.lease as lease:
            self.assertEqual(lease.count, 6)
        self.assertFalse(found.lease)
        order = list(range(32))
        random.Random(SEED).shuffle(order)
        result = self.space.get([keys[i] for i in order] + [b"other"], self.region.rows(range(31, 64)))
        self.assertEqual((result.prefix, result.statuses[32], result.released), (32, MISS, True))
        for at, i in enumerate(order):
            self.assertEqual(row(self.region, 31 + at), content(keys[i], BLOCK))
        self.assertEqual(self.space.locate([keys[0], b"other"]), [1, 0])
        self.assertEqual(self.space.touch([*keys, b"other"]), 32)
        self.assertEqual(self.space.delete(keys[:2]), 2)
        self.assertEqual(self.space.match(keys).present.total(), 30)
        self.assertEqual(self.space.match(keys, group=1).present.total(), 0)
        self.assertEqual(self.c.stats(self.space)["id"], DESCRIPTOR.id().hex())
        self.assertGreater(self.c.stats()["requests"], 0)
        self.assertGreater(self.c.ping(), 0)
        self.assertTrue(self.space.drop())
        self.assertEqual(self.space.match(keys).present.total(), 0)
        self.assertTrue(self.put(keys).ok)

    def test_match_get(self) -> None:
        keys = keys_of("p", 8)
        self.assertTrue(self.put(keys).ok)
        self.space.delete([keys[5]])
        result = self.space.match_get(keys, self.region.rows(range(20, 28)), deadline=10.0)
        self.assertEqual(result.statuses, (HIT,) * 5 + (MISS,) * 3)

    def test_places(self) -> None:
        """Pieces of all shapes, aligned or not, come back as they were."""
        keys = keys_of("piece", 4)
        rand = random.Random(SEED)
        whole = rand.randbytes(2 * self.region.nbytes // 4)
        self.region.memory[: len(whole)] = whole
        k, v = self.region.rows(range(4), BLOCK // 2), self.region.rows(range(8, 12), BLOCK // 2)
        self.assertTrue(self.space.put(keys, k + v).ok)
        want = [whole[i * BLOCK // 2 :][: BLOCK // 2] + whole[(8 + i) * BLOCK // 2 :][: BLOCK // 2] for i in range(4)]
        at, places = self.region.nbytes // 2 + 1, []
        for _ in keys:
            pieces = []
            for length in (1, 4095, 100, BLOCK - 4196):
                pieces.append(self.region.piece(at, length))
                at += length + 3
            places.append(pieces)
        result = self.space.get(keys, places)
        self.assertTrue(result.ok, result)
        for block, pieces in zip(want, places):
            self.assertEqual(b"".join(bytes(self.region.memory[p.offset : p.offset + p.length]) for p in pieces), block)

    def test_odd_keys(self) -> None:
        keys = [b"\0", b"\0\0", b"x" * 1024, os.urandom(255)]
        self.assertTrue(self.put(keys).ok)
        self.assertEqual(self.space.match(keys).prefix, 4)
        self.assertTrue(self.space.get(keys, self.region.rows(range(10, 14))).ok)
        for i, key in enumerate(keys):
            self.assertEqual(row(self.region, 10 + i), content(key, BLOCK))

    def test_nothing(self) -> None:
        empty = self.region.rows([])
        self.assertEqual((self.space.get([], empty).statuses, self.space.put([], []).statuses), ((), ()))
        self.assertEqual((self.space.match([]).prefix, self.space.touch([])), (0, 0))

    def test_jobs(self) -> None:
        import select

        keys = keys_of("job", 16)
        fd = self.c.fileno()
        for i, key in enumerate(keys):
            fill(self.region, i, content(key, BLOCK))
        jobs = [self.space.submit_put([key], [self.region.row(i)], tag=i) for i, key in enumerate(keys)]
        seen: List[int] = []
        while len(seen) < 16:
            self.assertTrue(select.select([fd], [], [], PATIENCE)[0])
            seen += [job.tag for job in self.c.poll(5)]
        self.assertEqual((sorted(seen), select.select([fd], [], [], 0)[0]), (list(range(16)), []))
        self.assertTrue(all(job.done() and job.released and job.result.ok for job in jobs))
        got = self.space.submit_get(keys, self.region.rows(range(20, 36)), notify=False)
        got.cancel()
        self.assertTrue(got.wait_released(PATIENCE))
        self.assertLessEqual(set(got.result.statuses), {HIT, LATE, MISS})
        self.assertTrue(self.c.drain(PATIENCE))
        self.assertEqual(self.c.poll(), [])

    def test_deadlines(self) -> None:
        keys = keys_of("late", 32)
        self.assertTrue(self.put(keys).ok)
        for bounce in (False, True):
            for deadline in (0.000001, 0.0001, 0.001, 30.0):
                result = self.space.get(keys, self.region.rows(range(32, 64)), deadline=deadline, bounce=bounce)
                self.assertLessEqual(set(result.statuses), {HIT, LATE, MISS})
                self.assertTrue(result.wait_released(PATIENCE))
                for i, status in enumerate(result.statuses):
                    if status == HIT:
                        self.assertEqual(row(self.region, 32 + i), content(keys[i], BLOCK))
        self.assertTrue(result.ok)

    def test_refusals(self) -> None:
        """What the daemon refuses is said, and costs misses only."""
        wrong = self.c.namespace({"name": "x" * 255, "block_bytes": 4096})
        with tempfile.TemporaryFile(dir=self.daemon.dir.name) as file:  # not memory
            file.truncate(1 << 20)
            disk = self.c.register(file, row_bytes=BLOCK)
        self.assertTrue(self.c.connect(PATIENCE))
        self.assertTrue(wrong.ready)
        self.assertFalse(disk.ready)
        self.assertTrue(disk.problem)
        self.assertEqual(self.space.get([b"k"], disk.rows([0])).statuses, (MISS,))
        self.assertTrue(disk.close())

    def test_fork(self) -> None:
        keys = keys_of("fork", 2)
        self.assertTrue(self.put(keys).ok)
        child = os.fork()
        if child == 0:
            try:
                fine = self.c.connect(PATIENCE) and self.space.match(keys).prefix == 2
                fine = fine and self.space.get(keys, self.region.rows([8, 9])).ok
                os._exit(0 if fine and row(self.region, 9) == content(keys[1], BLOCK) else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(row(self.region, 9), content(keys[1], BLOCK))  # shared memory
        self.assertEqual(self.space.match(keys).prefix, 2)


class Memory(DaemonTest):
    def round_trip(self, client: Client, region: Region, name: str) -> None:
        space = client.namespace(DESCRIPTOR)
        self.assertTrue(client.connect(PATIENCE))
        self.assertTrue(region.ready, region.problem)
        key, data = keys_of(name, 1)[0], random.Random(name).randbytes(BLOCK)
        fill(region, 0, data)
        self.assertTrue(space.put([key], [region.row(0)]).ok)
        fill(region, 0, bytes(BLOCK))
        self.assertTrue(space.get([key], [region.row(1)]).ok)
        self.assertEqual((row(region, 1), row(region, 0)), (data, bytes(BLOCK)))

    def test_kinds(self) -> None:
        client = self.client()
        fd = os.memfd_create("test")
        os.ftruncate(fd, 8 * BLOCK)
        self.addCleanup(os.close, fd)
        self.round_trip(client, client.register(fd, row_bytes=BLOCK), "memfd")
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.truncate(4 * BLOCK)
            self.round_trip(client, client.register(file.name, row_bytes=BLOCK), "path")
            self.round_trip(client, client.register(file, row_bytes=BLOCK), "file")
            named = mmap.mmap(file.fileno(), 2 * BLOCK, offset=2 * BLOCK)
        # The file has lost its name, but an open descriptor leads to it.
        whole = mmap.mmap(fd, 8 * BLOCK)
        for name, obj in (("mmap", whole), ("slice", memoryview(whole)[4 * BLOCK :]), ("page", memoryview(whole)[4096 : 4096 + 3 * BLOCK])):
            region = client.register(obj, row_bytes=BLOCK)
            self.assertEqual(region.nbytes, len(obj))
            self.round_trip(client, region, name)
        for name, obj in (("deleted", named), ("anonymous shared", mmap.mmap(-1, 2 * BLOCK))):
            try:
                region = client.register(obj, row_bytes=BLOCK)
            except ValueError as err:
                self.assertIn("allocate", str(err), name)  # without privileges
            else:
                self.round_trip(client, region, name)

    def test_refused_kinds(self) -> None:
        client = self.client()
        private = mmap.mmap(-1, BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for obj in (bytearray(BLOCK), (ctypes.c_char * BLOCK)(), private):
            with self.assertRaisesRegex(ValueError, "allocate"):
                client.register(obj)
        for obj in (b"read only", memoryview(bytearray(8))[::2]):
            with self.assertRaises(ValueError):
                client.register(obj)
        with self.assertRaises(TypeError):
            client.register(3.5)
        with self.assertRaises(OSError):
            client.register("/dev/shm/nothing-of-this-name")

    def test_arrays(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        client = self.client()
        region = client.allocate(4 * BLOCK, row_bytes=BLOCK)
        array = region.numpy("uint16").reshape(4, -1)
        self.round_trip(client, client.register(array, row_bytes=BLOCK), "array")
        self.round_trip(client, client.register(array[1:3], row_bytes=BLOCK), "rows")
        self.assertRaises(ValueError, client.register, array[:, :8])
        self.assertRaises(ValueError, client.register, numpy.zeros(BLOCK, "uint8"))
        rows = region.rows(numpy.array([1, 3], dtype="int64"))
        space = client.namespace(DESCRIPTOR)
        self.assertTrue(space.put([b"a", b"b"], rows).ok)
        try:
            import torch
        except ImportError:
            return
        self.round_trip(client, client.register(torch.from_numpy(array.view("int16")), row_bytes=BLOCK), "tensor")


class Away(DaemonTest):
    def test_restarts(self) -> None:
        client = self.client()
        space, region = client.namespace(DESCRIPTOR), client.allocate(8 * BLOCK, row_bytes=BLOCK)
        self.assertTrue(client.connect(PATIENCE))
        keys = keys_of("r", 4)
        for i, key in enumerate(keys):
            fill(region, i, content(key, BLOCK))
        self.assertTrue(space.put(keys, region.rows(range(4)), durable=True).ok)
        for number in (signal.SIGTERM, signal.SIGKILL):
            job = space.submit_get(keys, region.rows(range(4)))
            self.daemon.stop(number)
            self.assertTrue(job.wait(PATIENCE))
            self.assertEqual(space.match(keys).prefix, 0)
            self.assertEqual(set(space.put([b"x"], region.rows([7])).statuses), {DROPPED})
            self.daemon.start()
            self.assertTrue(client.connect(PATIENCE))
            self.assertTrue(client.drain(PATIENCE))
            self.assertEqual(space.match(keys).prefix, 4)
            self.assertTrue(space.get(keys, region.rows(range(4, 8))).ok)
            self.assertEqual(row(region, 7), content(keys[3], BLOCK))

    def test_stopped_process(self) -> None:
        """A daemon that hangs costs one call its patience, and the others nothing."""
        client = self.client(call_timeout=0.3, connect_timeout=0.3)
        space, region = client.namespace(DESCRIPTOR), client.allocate(8 * BLOCK, row_bytes=BLOCK)
        self.assertTrue(client.connect(PATIENCE))
        self.assertTrue(space.put([b"k"], region.rows([0])).ok)
        self.daemon.send(signal.SIGSTOP)
        result = space.get([b"k"], region.rows([1]))
        self.assertEqual((result.statuses, result.released), ((LATE,), False))
        began = time.monotonic()
        for _ in range(1000):
            self.assertEqual(space.match([b"k"]).prefix, 0)
        self.assertLess(time.monotonic() - began, PATIENCE)
        self.assertFalse(client.drain(0.01))
        self.daemon.send(signal.SIGCONT)
        self.assertTrue(result.wait_released(PATIENCE))
        self.assertTrue(client.drain(PATIENCE))
        until = time.monotonic() + PATIENCE
        while not space.match([b"k"]).prefix:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.assertTrue(space.get([b"k"], region.rows([1])).ok)

    def test_no_leaks(self) -> None:
        """Clients come and go, and connections break: descriptors, threads and maps do not add up."""

        def once() -> None:
            with Client(self.daemon.socket) as client:
                space, region = client.namespace(DESCRIPTOR), client.allocate(2 * BLOCK, row_bytes=BLOCK)
                self.assertTrue(client.connect(PATIENCE))
                client.fileno()
                self.assertTrue(space.put([b"k"], region.rows([0])).ok)
                client.link.session.end()
                until = time.monotonic() + PATIENCE
                while not space.get([b"k"], region.rows([1])).ok:
                    self.assertLess(time.monotonic(), until)
                    time.sleep(0.001)
                self.assertTrue(region.close(PATIENCE))

        def state() -> Any:
            with open("/proc/self/maps") as maps:
                return len(os.listdir("/proc/self/fd")), threading.active_count(), "memfd:spillway" in maps.read()

        once()
        before = state()
        for _ in range(10):
            once()
        descriptors, threads, mapped = state()
        self.assertLessEqual(descriptors, before[0])  # fewer: of other tests, collected meanwhile
        self.assertLessEqual(threads, before[1])
        self.assertEqual(mapped, before[2])

    def test_memory_after_a_loss(self) -> None:
        """What a lost connection had under way does not touch memory that was released."""
        patched = unittest.mock.patch.object(spillway.link, "_BACKOFF_MOST", 0.01)
        patched.start()
        self.addCleanup(patched.stop)
        client = self.client()
        size, rows = 1 << 20, 16
        space = client.namespace(Descriptor(name="loss", block_bytes=size))
        region = client.allocate(rows * size, row_bytes=size)
        self.assertTrue(client.connect(PATIENCE))
        rand = random.Random(SEED)
        whole = region.rows(range(rows))
        stored = keys_of("stored", rows)
        for i, key in enumerate(stored):
            region.memory[i * size : (i + 1) * size] = content(key, size)
        self.assertTrue(space.put(stored, whole).ok)
        doubts = 0
        for turn in range(40):
            self.assertTrue(client.connect(PATIENCE))
            keys = keys_of(f"turn-{turn}", rows)
            putting = turn % 2 == 0
            for i, key in enumerate(keys):
                region.memory[i * size : (i + 1) * size] = content(key, size)
            job = space.submit_put(keys, whole) if putting else space.submit_get(stored, whole)
            time.sleep(rand.uniform(0, 0.004))
            client.link.session.end()
            self.assertTrue(job.wait_released(PATIENCE))
            doubts += LATE in job.result.statuses
            mine = bytes([turn + 1]) * (rows * size)
            region.memory[:] = mine
            self.assertTrue(client.connect(PATIENCE))
            if not putting:
                time.sleep(0.01)
                self.assertTrue(bytes(region.memory) == mine, f"turn {turn}, seed {SEED}")
                continue
            for i, status in enumerate(space.get(keys, whole).statuses):
                if status == HIT:
                    got = bytes(region.memory[i * size : (i + 1) * size])
                    self.assertTrue(got == content(keys[i], size), f"turn {turn}, seed {SEED}")
        self.assertGreater(doubts, 0)

    def test_chaos(self) -> None:
        """The daemon is killed again and again under load: every hit is exact, memory that is
        released may be used again, and all jobs end."""
        rand = random.Random(SEED)
        client = self.client(call_timeout=0.5, connect_timeout=0.5)
        space = client.namespace(DESCRIPTOR)
        keys = keys_of("chaos", 200)
        stop = threading.Event()
        failures: List[BaseException] = []
        counts: Dict[Status, int] = dict.fromkeys(Status, 0)

        def work(seed: int) -> None:
            rand = random.Random(seed)
            region = client.allocate(4 * BLOCK, row_bytes=BLOCK)
            try:
                while not stop.is_set():
                    some = rand.sample(keys, 4)
                    if rand.random() < 0.5:
                        for i, key in enumerate(some):
                            fill(region, i, content(key, BLOCK))
                        job = space.submit_put(some, region.rows(range(4)), notify=False)
                    else:
                        deadline = rand.choice((None, 0.001))
                        job = space.submit_get(some, region.rows(range(4)), deadline=deadline, notify=False)
                    assert job.wait_released(PATIENCE), "not released"
                    result = job.result
                    for i, status in enumerate(result.statuses):
                        counts[status] += 1
                        if status == HIT:
                            assert row(region, i) == content(some[i], BLOCK), f"wrong bytes of {some[i]!r}"
                    fill(region, rand.randrange(4), rand.randbytes(BLOCK))  # it is ours again
                    if not client.connected:
                        time.sleep(0.001)
            except BaseException as err:
                failures.append(err)

        threads = [threading.Thread(target=work, args=(rand.random(),)) for _ in range(4)]
        self.assertTrue(client.connect(PATIENCE))
        for thread in threads:
            thread.start()
        for _ in range(5):
            time.sleep(rand.uniform(0.2, 1.0))
            if rand.random() < 0.3:
                client.link.session and client.link.session.end()
                continue
            self.daemon.stop(rand.choice((signal.SIGKILL, signal.SIGTERM)))
            time.sleep(rand.uniform(0.0, 0.2))
            self.daemon.start()
        self.assertTrue(client.connect(PATIENCE))
        time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join(2 * PATIENCE)
        self.assertFalse(failures, f"seed {SEED}: {failures}")
        self.assertTrue(counts[HIT] and counts[STORED] and counts[DROPPED], counts)


class Command(DaemonTest):
    def run_it(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src")}
        return subprocess.run([sys.executable, "-m", "spillway", *arguments], env=environment, text=True,
                              capture_output=True, timeout=PATIENCE)  # fmt: skip

    def test_command(self) -> None:
        done = self.run_it("ping", "--socket", self.daemon.socket, "--timeout", "20")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, "answered in")
        done = self.run_it("stats", "--socket", self.daemon.socket)
        self.assertIn('"requests"', done.stdout)
        done = self.run_it("ping", "--socket", "/nonexistent", "--timeout", "0.2")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
