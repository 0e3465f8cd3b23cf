"""A daemon that lies, stalls or dies: calls answer, nothing is raised, memory is not given back early."""

import logging
import os
import random
import select
import struct
import threading
import time
import unittest
from typing import Any, Callable, List

from fake import Asked, Fake, Peer, good, key_count, matched, results, serve, welcome

from spillway import Client, Descriptor, Status
from spillway.frames import frame
from spillway.wire import ANSWER, ErrorCode, Type

SEED = int(os.environ.get("SPILLWAY_TEST_SEED", random.randrange(1 << 32)))
PATIENCE = 20.0  # seconds after which something hangs
HIT, MISS, LATE, BUSY, STORED, DROPPED = (
    Status.HIT, Status.MISS, Status.LATE, Status.BUSY, Status.STORED, Status.DROPPED)  # fmt: skip


def eventually(what: str, true: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"not in time: {what}")
        time.sleep(0.002)


class Rig(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("spillway").setLevel(logging.CRITICAL)
        self.began = time.monotonic()

    def rig(self, script: Callable[[Peer], None], ready: bool = True, **options: Any) -> Fake:
        """A fake daemon, and a client with a namespace and a region of 16 rows."""
        fake = Fake(script)
        self.addCleanup(fake.close)
        self.client = Client(fake.path, **{"connect_timeout": 0.5, "call_timeout": 0.5, **options})
        self.addCleanup(self.client.close, 0.0)
        self.space = self.client.namespace(Descriptor(name="n", block_bytes=4096))
        self.region = self.client.allocate(16 * 4096, row_bytes=4096)
        if ready:
            self.assertTrue(self.client.connect(PATIENCE), self.client.problem)
        return fake

    def get(self, count: int = 1, **options: Any) -> Any:
        return self.space.submit_get(KEYS[:count], self.region.rows(range(count)), **options)

    def back(self) -> None:
        """Until a good daemon answers again."""
        eventually("a hit", lambda: self.space.get(KEYS[:1], self.region.rows([0])).ok)


KEYS = [bytes([i]) * 36 for i in range(16)]


class Away(Rig):
    def test_no_daemon(self) -> None:
        client = Client("/nonexistent/socket", connect_timeout=0.2)
        self.addCleanup(client.close)
        space, region = client.namespace({"name": "n", "block_bytes": 4096}), client.allocate(8192, row_bytes=4096)
        for _ in range(100):
            self.assertEqual(space.get(KEYS[:2], region.rows([0, 1])).statuses, (MISS, MISS))
            self.assertEqual(space.put(KEYS[:2], region.rows([0, 1])).statuses, (DROPPED, DROPPED))
            self.assertEqual(space.match(KEYS, lease=1.0, trailing=3).prefix, 0)
        self.assertEqual((space.touch(KEYS), space.delete(KEYS), space.drop(), space.prefetch(KEYS)), (0, 0, False, 0))
        self.assertEqual((space.locate(KEYS[:3]), client.stats(), client.ping()), ([0, 0, 0], {}, None))
        self.assertFalse(client.connect(0.1))
        self.assertIn("No such file", client.problem)
        job = space.submit_get(KEYS[:1], region.rows([0]), tag=3)
        self.assertTrue(job.released and client.drain(0))
        self.assertEqual([job.tag for job in client.poll()], [3])
        self.assertEqual([event.kind.name for event in space.events()], ["LOST"])
        self.assertTrue(region.close() and client.close() and client.close())
        self.assertEqual(space.match(KEYS).prefix, 0)

    def test_wrong_calls(self) -> None:
        client = Client("/nonexistent/socket")
        self.addCleanup(client.close)
        space, region = client.namespace(Descriptor("n", 4096)), client.allocate(8192, row_bytes=4096)
        rows = region.rows([0])
        strange = Client("/nonexistent/socket").allocate(8192, row_bytes=4096).rows([0])
        for wrong in (
            lambda: space.get([""], rows), lambda: space.get(b"k", rows), lambda: space.match("k"),  # type: ignore[list-item, arg-type]
        ):  # fmt: skip
            self.assertRaises(TypeError, wrong)
        for wrong in (
            lambda: space.get([b""], rows), lambda: space.get(KEYS[:2], rows), lambda: space.get(KEYS[:1], [(region, 0, 4095)]),
            lambda: region.rows([2]), lambda: region.row(-1), lambda: space.match(KEYS, group=-1),
            lambda: space.match(KEYS, lease=-1), lambda: space.put(KEYS[:1], rows, importance=256),
            lambda: space.get(KEYS[:1], [[]]), lambda: space.get(KEYS[:1], rows, deadline=float("nan")),
            lambda: space.get(KEYS[:1], strange), lambda: space.put(KEYS[:1], rows, depth=(1 << 32) - 1),
            lambda: client.allocate(0), lambda: Descriptor("n", 4095), lambda: Descriptor("", 4096),
            lambda: client.register(bytearray(4096)), lambda: Client(connect_timeout=0),
        ):  # fmt: skip
            self.assertRaises(ValueError, wrong)

    def test_no_welcome(self) -> None:
        for script in (
            lambda peer: None,  # hangs up
            lambda peer: peer.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            lambda peer: peer.send(Type.HELLO | ANSWER, 1, welcome(version=2)),
            lambda peer: peer.send(Type.HELLO | ANSWER, 1, welcome()[:-1]),
            lambda peer: peer.send(Type.HELLO | ANSWER, 2, welcome()),
            lambda peer: peer.send(Type.PING | ANSWER, 1, welcome()),
            lambda peer: peer.send(Type.HELLO | ANSWER, 1, welcome(keys=0)),
            lambda peer: peer.sock.sendall(frame(Type.HELLO | ANSWER, 1, welcome())[:20]) or time.sleep(1),
            lambda peer: peer.fail(Asked(1, 1, b""), ErrorCode.DENIED),
            lambda peer: time.sleep(1),
        ):
            first = threading.Event()

            def play(peer: Peer, script: Any = script, first: Any = first) -> None:
                if first.is_set():
                    return serve(peer)
                peer.next()
                script(peer)
                first.set()

            self.rig(play, ready=False)
            self.assertEqual(self.get().result.statuses, (MISS,))
            eventually("the first try", first.is_set)
            self.assertTrue(self.client.connect(PATIENCE))
            self.back()


class Lost(Rig):
    def test_doubt(self) -> None:
        """A job whose connection breaks is answered, and released by the next Welcome only."""
        may_welcome = threading.Event()

        def script(peer: Peer) -> None:
            if peer.number == 2:
                peer.next()  # this one waits too long, and is given up
                may_welcome.wait(PATIENCE)
                return
            peer.greet()
            while True:
                asked = peer.later()
                if peer.number == 1 and asked.type != Type.PING:
                    if asked.type == Type.GET:
                        continue
                    return  # at the put: hangs up with both under way
                good(peer, asked)

        fake = self.rig(script)
        get = self.get(2, tag="get")
        put = self.space.submit_put(KEYS[2:4], self.region.rows([2, 3]), tag="put")
        for job in (get, put):
            self.assertTrue(job.wait(PATIENCE))
            self.assertEqual(job.result.statuses, (LATE, LATE))
            self.assertFalse(job.released)
        eventually("the doubt is known", lambda: self.region.in_doubt)
        self.assertFalse(self.client.drain(0.01))
        self.assertEqual(self.client.poll(), [])
        self.assertEqual(self.get().result.statuses, (MISS,))  # never sent: at once
        may_welcome.set()
        self.assertTrue(self.client.drain(PATIENCE))
        self.assertFalse(self.region.in_doubt)
        self.assertEqual({job.tag for job in self.client.poll()}, {"get", "put", None})
        self.back()
        # It named the connection that it follows, also when the try before failed.
        follows = [struct.unpack_from("<16sQ", peer.hello, 16) for peer in fake.peers if peer.hello]
        self.assertEqual(follows[0], (bytes(16), 0))
        self.assertEqual(follows[1], (b"i" * 16, 1))

    def test_death_at_any_frame(self) -> None:
        for deadly in range(8):
            for half in (False, True):
                deaths: List[int] = []

                def script(peer: Peer, deadly: int = deadly, half: bool = half, deaths: Any = deaths) -> None:
                    for i in range(1000):
                        asked = peer.next()
                        if i == deadly and peer.number == 1:
                            deaths.append(i)
                            if half:
                                peer.sock.sendall(frame(asked.type | ANSWER, asked.request, bytes(99))[:50])
                            return
                        if asked.type == Type.HELLO:
                            peer.answer(asked, welcome(connection=peer.number))
                        elif not peer.set_up(asked):
                            good(peer, asked)

                self.rig(script, ready=False)
                until = time.monotonic() + PATIENCE
                while not deaths and time.monotonic() < until:
                    self.assertIn(self.space.match(KEYS).prefix, (0, 16))
                    got = self.space.get(KEYS[:2], self.region.rows([0, 1]))
                    self.assertIn(got.statuses, ((HIT, HIT), (MISS, MISS), (LATE, LATE)))
                    self.assertIn(self.space.touch(KEYS), (0, 1))
                self.assertTrue(deaths, f"frame {deadly} never came")
                self.back()
                self.assertTrue(self.client.drain(PATIENCE))
                self.client.close()

    def test_lies(self) -> None:
        """Answers that break the protocol end the connection and are believed in nothing."""
        lies = {
            "count of statuses": lambda p, a: p.answer(a, results([1, 1])),
            "no statuses": lambda p, a: p.answer(a, results([])),
            "a status of puts": lambda p, a: p.answer(a, results([5])),
            "status 0": lambda p, a: p.answer(a, results([0])),
            "another type": lambda p, a: p.send(Type.PUT | ANSWER, a.request, results([1])),
            "another request": lambda p, a: p.send(a.type | ANSWER, a.request + 1000, results([1])),
            "a byte more": lambda p, a: p.answer(a, results([1]) + b"x"),
            "a body too long": lambda p, a: p.sock.sendall(struct.pack("<IBBHQ", (4 << 20) + 1, a.type | ANSWER, 0, 0, a.request)),
            "a flag": lambda p, a: p.sock.sendall(struct.pack("<IBBHQ", 0, a.type | ANSWER, 1, 0, a.request)),
            "released early": lambda p, a: p.send(Type.RELEASED, a.request, struct.pack("<II", 1, 0)),
            "an event": lambda p, a: p.send(Type.EVENT, a.request, bytes(28)),
            "a protocol error": lambda p, a: p.fail(a, ErrorCode.PROTOCOL),
        }  # fmt: skip
        for name, lie in lies.items():
            with self.subTest(name):

                def script(peer: Peer, lie: Any = lie) -> None:
                    peer.greet()
                    while True:
                        asked = peer.later()
                        if peer.number == 1 and asked.type == Type.GET:
                            lie(peer, asked)
                        else:
                            good(peer, asked)

                fake = self.rig(script)
                job = self.get()
                self.assertTrue(job.wait(PATIENCE))
                self.assertEqual(job.result.statuses, (LATE,))
                self.assertTrue(job.wait_released(PATIENCE))
                self.assertEqual(job.result.statuses, (LATE,))
                self.back()
                self.assertGreaterEqual(len(fake.peers), 2)

    def test_match_lies(self) -> None:
        for body in (matched(2, 3), matched(1, 1) + b"x", b"", struct.pack("<IIIIQB", 1, 2, 0, 0, 0, 1)):

            def script(peer: Peer, body: bytes = body) -> None:
                peer.greet()
                while True:
                    asked = peer.later()
                    if peer.number == 1 and asked.type == Type.MATCH:
                        peer.answer(asked, body)
                    else:
                        good(peer, asked)

            self.rig(script)
            self.assertEqual(self.space.match(KEYS[:1]).prefix, 0)
            eventually("found again", lambda: self.space.match(KEYS[:1]).prefix == 1)

    def test_noise(self) -> None:
        """Any frames at any time: no exception, no hang, no hit that was not said."""
        rand = random.Random(SEED)

        def script(peer: Peer) -> None:
            peer.greet()
            while True:
                asked = peer.later()
                body = rand.choice((rand.randbytes(rand.randrange(40)), results([1]), matched(1, 1), b""))
                type = rand.choice((asked.type | ANSWER, rand.randrange(256), Type.RELEASED, Type.ERROR))
                request = rand.choice((asked.request, asked.request, rand.randrange(20)))
                if rand.random() < 0.1:
                    peer.sock.sendall(rand.randbytes(rand.randrange(1, 60)))
                peer.send(type, request, body)

        for _ in range(6):
            fake = self.rig(script, ready=False, call_timeout=0.1)
            until = time.monotonic() + PATIENCE
            while len(fake.peers) < 5 and time.monotonic() < until:
                self.assertIn(self.space.match(KEYS[:1]).prefix, (0, 1), f"seed {SEED}")
                self.assertEqual(len(self.space.get(KEYS[:1], self.region.rows([0]))), 1)
                self.space.touch(KEYS[:1])
                time.sleep(0.001)
            fake.script = serve
            self.back()
            self.assertTrue(self.client.drain(PATIENCE), f"seed {SEED}")
            self.client.close()


class Late(Rig):
    def test_released_in_parts(self) -> None:
        go = [threading.Event() for _ in range(3)]

        def script(peer: Peer) -> None:
            peer.greet()
            asked = peer.later()
            peer.answer(asked, results([1, 3, 2, 3, 3]))
            for event, items in zip(go, ([3], [], [4, 1])):
                event.wait(PATIENCE)
                peer.send(Type.RELEASED, asked.request, struct.pack(f"<I{len(items)}I", len(items), *items))
            while True:
                good(peer, peer.later())

        self.rig(script)
        fd = self.client.fileno()
        job = self.get(5, deadline=0.001)
        self.assertTrue(job.wait(PATIENCE))
        self.assertEqual(job.result.statuses, (HIT, LATE, MISS, LATE, LATE))
        self.assertEqual((job.result.prefix, job.result.ok), (1, False))
        for event in go[:2]:
            event.set()
            self.assertFalse(job.wait_released(0.05))
            self.assertEqual((self.client.poll(), select.select([fd], [], [], 0)[0]), ([], []))
            self.assertFalse(self.client.drain(0.01))
        closing = threading.Thread(target=lambda: self.region.close(PATIENCE))
        closing.start()
        go[2].set()
        self.assertTrue(job.wait_released(PATIENCE))
        closing.join(PATIENCE)
        self.assertEqual(select.select([fd], [], [], PATIENCE)[0], [fd])
        self.assertEqual(self.client.poll(), [job])
        self.assertEqual(select.select([fd], [], [], 0)[0], [])

    def test_false_release(self) -> None:
        for items in ([0], [1, 1], [5], [2]):

            def script(peer: Peer, items: List[int] = items) -> None:
                if peer.number > 1:
                    return serve(peer)
                peer.greet()
                asked = peer.later()
                peer.answer(asked, results([1, 3, 2]))
                peer.send(Type.RELEASED, asked.request, struct.pack(f"<I{len(items)}I", len(items), *items))
                peer.later()

            fake = self.rig(script)
            job = self.get(3)
            self.assertTrue(job.wait_released(PATIENCE))
            self.assertGreaterEqual(len(fake.peers), 2)  # by the next Welcome, not by the lie
            self.assertEqual(job.result.statuses, (HIT, LATE, MISS))

    def test_client_deadline(self) -> None:
        """A daemon that answers no get: the caller is told by his deadline."""

        def script(peer: Peer) -> None:
            peer.greet()
            while True:
                asked = peer.later()
                if asked.type not in (Type.GET, Type.CANCEL):
                    good(peer, asked)
                if asked.type == Type.CANCEL:
                    peer.send(Type.GET | ANSWER, struct.unpack("<Q", asked.body)[0], results([2]))
                    peer.answer(asked)

        self.rig(script)
        result = self.space.get(KEYS[:1], self.region.rows([0]), deadline=0.05)
        self.assertEqual((result.statuses, result.released), ((LATE,), False))
        job = self.get(tag="x")
        self.assertFalse(job.wait(0.05))
        job.cancel()
        self.assertTrue(job.wait_released(PATIENCE))
        self.assertEqual(job.result.statuses, (MISS,))
        self.assertFalse(result.wait_released(0.01))
        self.assertEqual(self.get(deadline=0).result.statuses, (MISS,))  # too late already
        self.assertEqual(self.space.put(KEYS[:1], self.region.rows([0]), deadline=-1).statuses, (DROPPED,))
        self.assertFalse(self.client.close(0.05))
        self.assertFalse(result.released)


class Stalled(Rig):
    def test_silent(self) -> None:
        """No answers: one call waits, the next do not; with the first sign of life all is well."""
        resume = threading.Event()

        def script(peer: Peer) -> None:
            peer.greet()
            quiet = True
            while True:
                asked = peer.later()
                if quiet and asked.type == Type.MATCH:
                    resume.wait(PATIENCE)
                    quiet = False
                good(peer, asked)

        self.rig(script)
        self.assertEqual(self.space.match(KEYS).prefix, 0)
        session = self.client.link.session
        assert session is not None
        self.assertTrue(session.silent)
        for _ in range(100):
            self.assertEqual(self.space.match(KEYS).prefix, 0)
            self.assertEqual(self.space.get(KEYS[:1], self.region.rows([0])).statuses, (MISS,))
        self.assertTrue(self.client.drain(0))
        resume.set()
        eventually("it hears", lambda: not session.silent)
        self.assertEqual(self.space.match(KEYS).prefix, 16)
        self.assertIs(self.client.link.session, session)

    def test_slow_but_alive(self) -> None:
        """A long get without a deadline is waited for while pings are answered."""

        def script(peer: Peer) -> None:
            peer.greet()
            slow: List[Asked] = []
            while True:
                asked = peer.later()
                if asked.type == Type.GET:
                    slow.append(asked)
                    threading.Timer(2.0, good, (peer, asked)).start()
                else:
                    good(peer, asked)

        self.rig(script, call_timeout=0.5)
        self.assertTrue(self.space.get(KEYS[:1], self.region.rows([0])).ok)

    def test_reads_nothing(self) -> None:
        """Full buffers: sending gives up, the connection ends, all is in doubt or dropped."""
        stop = threading.Event()

        def script(peer: Peer) -> None:
            if peer.number > 1:
                return serve(peer)
            peer.greet(requests=1 << 20)
            for _ in range(2):
                self.assertTrue(peer.set_up(peer.next()))
            stop.wait(PATIENCE)

        self.rig(script)
        eventually("set up", lambda: self.region.ready)
        keys = [bytes([i]) * 1000 for i in range(16)]
        jobs = []
        until = time.monotonic() + PATIENCE
        while self.client.connected and time.monotonic() < until:
            jobs.append(self.space.submit_get(keys, self.region.rows(range(16))))
        self.assertLess(time.monotonic(), until)
        self.assertTrue(all(job.wait(PATIENCE) for job in jobs))
        self.assertLessEqual({s for job in jobs for s in job.result.statuses}, {LATE, MISS, BUSY})
        stop.set()
        self.assertTrue(self.client.drain(PATIENCE))
        self.back()


class Bounds(Rig):
    def test_requests_in_flight(self) -> None:
        go = threading.Event()

        def script(peer: Peer) -> None:
            peer.greet(requests=8)
            held = []
            while not go.is_set():
                asked = peer.later()
                if asked.type == Type.PING:
                    good(peer, asked)
                    break
                held.append(asked)
            for asked in held:
                good(peer, asked)
            while True:
                good(peer, peer.later())

        self.rig(script)
        jobs = [self.get() for _ in range(10)]
        puts = [self.space.submit_put(KEYS[:1], self.region.rows([9])) for _ in range(2)]
        self.assertEqual([job.result.statuses[0] for job in jobs[6:]], [BUSY] * 4)
        self.assertEqual([job.result.statuses[0] for job in puts], [DROPPED] * 2)
        self.assertEqual(self.space.match(KEYS).prefix, 0)
        self.assertIsNotNone(self.client.ping())  # a few are kept for small ones
        self.assertTrue(all(job.wait(PATIENCE) for job in jobs))
        self.assertEqual([job.result.statuses[0] for job in jobs[:6]], [HIT] * 6)

    def test_split(self) -> None:
        """More keys than a request may have become several requests, in order."""
        counts: List[int] = []
        before: List[bytes] = []
        gets = [results([1] * 5), results([1, 1, 2, 1, 1]), results([1] * 5), results([1])]

        def script(peer: Peer) -> None:
            peer.greet(keys=5)
            while True:
                asked = peer.later()
                if asked.type in (Type.MATCH, Type.PUT):
                    counts.append(key_count(asked))
                    if asked.type == Type.PUT:
                        counts.append(struct.unpack_from("<I", asked.body, 16)[0])  # depth
                        before.append(asked.body[24 : 24 + struct.unpack_from("<H", asked.body, 22)[0]])
                if asked.type == Type.MATCH and len(counts) == 4:
                    peer.answer(asked, matched(1, 0))
                elif asked.type == Type.GET:
                    peer.answer(asked, gets[len(counts) - 12])
                    counts.append(0)
                else:
                    good(peer, asked)

        self.rig(script)
        found = self.space.match(KEYS, trailing=3)
        self.assertEqual((found.prefix, found.trailing, found.present.total()), (15, 0, 15))
        self.assertEqual(list(found.present), [True] * 15 + [False])
        self.assertTrue(self.space.put(KEYS, self.region.rows(range(16)), depth=100, after=b"up").ok)
        self.assertEqual(before, [b"up", KEYS[4], KEYS[9], KEYS[14]])
        self.assertEqual(counts, [5, 5, 5, 1, 5, 100, 5, 105, 5, 110, 1, 115])
        got = self.space.match_get(KEYS, self.region.rows(range(16)))
        self.assertEqual(got.statuses, (HIT,) * 7 + (MISS,) * 9)
        self.assertEqual(self.space.touch(KEYS), 4)

    def test_errors(self) -> None:
        codes: List[int] = [code for code in ErrorCode if code != ErrorCode.PROTOCOL]
        opened: List[int] = []

        def script(peer: Peer) -> None:
            peer.greet()
            while True:
                asked = peer.next()
                opened.extend([1] * (asked.type == Type.OPEN_NAMESPACE))
                if peer.set_up(asked):
                    continue
                if asked.type in (Type.GET, Type.PUT, Type.MATCH) and codes:
                    peer.fail(asked, codes[0])
                else:
                    good(peer, asked)

        self.rig(script)
        while codes:
            self.assertTrue(self.client.connect(PATIENCE))
            want = BUSY if codes[0] == ErrorCode.LIMIT else MISS
            eventually("open", lambda: self.space.ready)
            self.assertEqual(self.space.get(KEYS[:1], self.region.rows([0])).statuses, (want,))
            eventually("open", lambda: self.space.ready)
            self.assertEqual(self.space.put(KEYS[:1], self.region.rows([0])).statuses, (DROPPED,))
            self.assertEqual(self.space.match(KEYS).prefix, 0)
            codes.pop(0)
        self.back()
        self.assertEqual(len(opened), 2)  # opened again, but not every time

    def test_refused_set_up(self) -> None:
        def script(peer: Peer) -> None:
            peer.greet()
            while True:
                asked = peer.next()
                if asked.type == Type.OPEN_NAMESPACE and b"other" in asked.body:
                    peer.answer(asked, struct.pack("<II32sH", 9, 8192, b"", 0))
                elif asked.type == Type.REGISTER_REGION and len(peer.fds) == 1:
                    peer.fail(asked, ErrorCode.BAD_ARGUMENT)
                elif not peer.set_up(asked):
                    good(peer, asked)

        self.rig(script)
        other = self.client.namespace(Descriptor("other", 4096))
        second = self.client.allocate(4096, row_bytes=4096)
        self.assertTrue(self.client.connect(PATIENCE))
        self.assertIn("8192", other.problem)
        self.assertIn("text", self.region.problem)
        self.assertFalse(other.ready or self.region.ready or self.space.problem or second.problem)
        self.assertEqual(self.space.get(KEYS[:1], self.region.rows([0])).statuses, (MISS,))
        self.assertEqual(self.space.get(KEYS[:1], second.rows([0])).statuses, (HIT,))
        self.assertIs(self.client.namespace(Descriptor("other", 4096)), other)


class Subscriptions(Rig):
    def event(self, sequence: int, kind: int = 1) -> bytes:
        return struct.pack("<QBxxxIIIHH2s", sequence, kind, 1, 0, 1, 2, 0, b"ab")

    def test_events(self) -> None:
        def script(peer: Peer) -> None:
            peer.greet()
            asked = peer.later()
            self.assertEqual(asked.body, struct.pack("<IIQ", 1, 0, 7))
            peer.answer(asked, struct.pack("<QQ", 5, 9))
            for sequence in range(7, 12):
                peer.send(Type.EVENT, asked.request, self.event(sequence))
            again = peer.later()
            peer.answer(again, struct.pack("<QQ", 5, 12))
            for sequence in range(20):
                peer.send(Type.EVENT, again.request, self.event(sequence))
            while True:
                good(peer, peer.later())

        self.rig(script)
        events = self.space.events(7)
        self.assertTrue(events.wait(PATIENCE))
        self.assertEqual((events.oldest, events.next), (5, 9))
        for sequence in range(7, 12):
            event = events.get(PATIENCE)
            assert event is not None
            self.assertEqual((event.sequence, event.kind, event.keys), (sequence, 1, (b"ab",)))
        self.assertIsNone(events.get(0.01))
        slow = self.space.events(buffered=4)
        eventually("too many", lambda: slow.over)
        self.assertEqual([event.sequence for event in slow][:4], [0, 1, 2, 3])
        self.assertEqual(self.space.match(KEYS).prefix, 16)  # the connection goes on
        session = self.client.link.session
        assert session is not None
        eventually("it is forgotten", lambda: len(session._pending) == 1)
        session.end()
        self.assertEqual([event.kind.name for event in events], ["LOST"])
        events.close()


class Threads(Rig):
    def test_many_threads_and_reconnects(self) -> None:
        """Threads call while the connection breaks again and again: every job ends."""
        rand = random.Random(SEED)

        def script(peer: Peer) -> None:
            peer.greet()
            for _ in range(rand.randrange(5, 60)):
                good(peer, peer.later())

        fake = self.rig(script)
        failures: List[BaseException] = []

        def work() -> None:
            try:
                for _ in range(100):
                    self.space.match(KEYS)
                    job = self.get(3)
                    assert job.wait(PATIENCE)
                    assert set(job.result.statuses) <= {HIT, MISS, LATE}
                    time.sleep(0.001)
            except BaseException as err:
                failures.append(err)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * PATIENCE)
        self.assertFalse(failures, f"seed {SEED}")
        fake.script = serve
        self.assertTrue(self.client.drain(PATIENCE))
        self.assertEqual(len(self.client.poll()), 600)

    def test_fork(self) -> None:
        held: List[Asked] = []

        def script(peer: Peer) -> None:
            peer.greet()
            while True:
                asked = peer.later()
                if asked.type == Type.GET and peer.number == 1 and not held:
                    held.append(asked)
                else:
                    good(peer, asked)

        fake = self.rig(script)
        job = self.get()
        events = self.space.events()
        self.assertEqual(self.space.match(KEYS).prefix, 16)
        child = os.fork()
        if child == 0:
            try:
                fine = self.client.connect(PATIENCE) and self.space.match(KEYS).prefix == 16
                fine = fine and self.space.get(KEYS[:1], self.region.rows([0])).ok
                fine = fine and job.wait() and job.result.statuses == (LATE,) and not job.released
                fine = fine and [event.kind.name for event in events] == ["LOST"] and self.client.drain(PATIENCE)
                os._exit(0 if fine else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(self.client.connected)
        self.assertEqual(self.space.match(KEYS).prefix, 16)
        self.assertEqual(len(fake.peers), 2)
        self.assertFalse(job.done())
        good(fake.peers[0], held[0])
        self.assertTrue(job.wait_released(PATIENCE))
        self.assertTrue(job.result.ok)


if __name__ == "__main__":
    unittest.main()
