"""The codec against bytes written down from docs/format/wire.md, and against noise."""

import os
import random
import struct
import unittest
from array import array

from spillway import frames, wire
from spillway.frames import ProtocolError, Reader, Splitter
from spillway.keys import Keys
from spillway.wire import EventKind, Status, Type

SEED = int(os.environ.get("SPILLWAY_TEST_SEED", random.randrange(1 << 32)))


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


class Golden(unittest.TestCase):
    def test_requests(self) -> None:
        keys = Keys([b"ab", b"cd"]).encode(0, 2)
        for name, body, want in [
            ("Hello", wire.hello("c", "tt", bytes([8] + [0] * 15), 3),
             "5350494c4c574159 0100 0100 00000000 08000000000000000000000000000000 0300000000000000 0100 63 0200 7474"),
            ("OpenNamespace", wire.open_namespace(b"{}", "t"), "02000000 7b7d 0100 74"),
            ("RegisterRegion", wire.register_region(1, 4096), "01000000 0010000000000000"),
            ("Match", wire.match(1, 2, 3, 4) + keys,
             "01000000 02000000 00000000 03000000 04000000 02000000 0200 0000 6162 6364"),
            ("Get", wire.get(1, 2, 5, 6), "01000000 02000000 05000000 06000000"),
            ("Put", wire.put(1, 2, 3, 4, 5, 6), "01000000 02000000 03000000 04000000 05000000 06 000000"),
            (
                "Put",
                wire.put(1, 2, 3, 4, 5, 6, b"up"),
                "01000000 02000000 03000000 04000000 05000000 06 00 0200 7570",
            ),
            ("Touch", wire.scope(1, 2), "01000000 02000000"),
            ("Events", wire.events(1, 9), "01000000 00000000 0900000000000000"),
            ("Release", wire.u64(7), "0700000000000000"),
            ("DropRegion", wire.u32(7), "07000000"),
            ("frame", frames.frame(Type.PING, 258, b"p", b"q"), "02000000 13 00 0000 0201000000000000 7071"),
        ]:  # fmt: skip
            self.assertEqual(body.hex(), hexed(want).hex(), name)

    def test_keys(self) -> None:
        self.assertEqual(Keys([b"a", b"bcd"]).encode(0, 2), hexed("02000000 0000 0000 0100 61 0300 626364"))
        self.assertEqual(Keys([b"a", b"bcd"]).encode(1, 2), hexed("01000000 0000 0000 0300 626364"))
        self.assertEqual(Keys([b"ab", b"cd", b"ef"]).encode(1, 3), hexed("02000000 0200 0000 6364 6566"))
        self.assertEqual(Keys([bytearray(b"ab"), memoryview(b"cd")]).encode(0, 2)[-4:], b"abcd")
        self.assertEqual(Keys([memoryview(array("H", [1, 2]))]).encode(0, 1), hexed("01000000 0400 0000 01000200"))

    def test_answers(self) -> None:
        welcome = wire.read_welcome(hexed(
            "0100 0000 00000000 09000000000000000000000000000000 0400000000000000 00000100 02000000 03000000"
            "04000000 05000000 00000000 0600000000000000 07000000 0800000000000000 0100 73"))  # fmt: skip
        self.assertEqual(welcome, (1, 0, bytes([9] + [0] * 15), 4, 65536, 2, 3, 4, 5, 6, 7, 8, "s"))
        self.assertEqual(
            wire.read_matched(hexed("09000000 03000000 02000000 01000000 0500000000000000 0701"), 9),
            (3, 2, 1, 5, b"\x07\x01"))  # fmt: skip
        results = wire.read_results(hexed("01000000 10000000 03000000 01 02 03"), 3, wire.GET_STATUSES)
        self.assertEqual(results, (16, bytes((Status.HIT, Status.MISS, Status.LATE)), b""))
        self.assertEqual(wire.read_released(hexed("02000000 01000000 05000000")), (1, 5))
        self.assertEqual(wire.read_failure(hexed("0600 0100 74 0200 7272")), (6, "t", "rr"))
        self.assertEqual(
            wire.read_event(hexed("0700000000000000 02 000000 01000000 03000000 01000000 0200 0000 6162")),
            (7, EventKind.REMOVED, 1, 3, (b"ab",)))  # fmt: skip
        self.assertEqual(wire.read_opened(hexed("01000000 00100000" + "07" * 32 + "0100 6e")),
                         (1, 4096, b"\x07" * 32, "n"))  # fmt: skip
        self.assertEqual(wire.read_located(hexed("02000000 0001"), 2), b"\0\1")


class Refusals(unittest.TestCase):
    def test_counts(self) -> None:
        match = hexed("09000000 03000000 02000000 01000000 0500000000000000 0701")
        for count in (0, 1, 8, 10, 17, 1 << 20):
            with self.assertRaises(ProtocolError):
                wire.read_matched(match, count)
        with self.assertRaises(ProtocolError):  # a prefix longer than the keys
            wire.read_matched(hexed("01000000 02000000 00000000 00000000 0000000000000000 01"), 1)
        results = hexed("01000000 10000000 03000000 01 02 03")
        for count, allowed in ((2, wire.GET_STATUSES), (4, wire.GET_STATUSES), (3, wire.PUT_STATUSES)):
            with self.assertRaises(ProtocolError):
                wire.read_results(results, count, allowed)
        dropped = wire.read_results(hexed("01000000 10000000 02000000 05 07 00 02"), 2, wire.PUT_STATUSES)
        self.assertEqual(dropped.reasons, bytes((0, wire.Reason.FIRST_SIGHT)))
        with self.assertRaises(ProtocolError):
            wire.read_results(hexed("01000000 10000000 01000000 09"), 1, wire.GET_STATUSES)

    def test_frames(self) -> None:
        for header in ("ffffffff 93 00 0000", "00000000 93 01 0000", "00000000 93 00 0100"):
            with self.assertRaises(ProtocolError):
                list(Splitter().feed(hexed(header) + bytes(8)))

    def test_versions(self) -> None:
        body = bytearray(8 + 16 + 8 + 24 + 8 + 4 + 8 + 2)
        with self.assertRaisesRegex(ProtocolError, "version 0"):
            wire.read_welcome(body)

    def test_bad_keys(self) -> None:
        for keys in ([b""], [b"x" * 1025], [b"x", b""]):
            with self.assertRaises(ValueError):
                Keys(keys)
        for keys in ("ab", b"ab", ["ab"], [b"a", "b"], [1], None, [b"a", None]):
            with self.assertRaises(TypeError):
                Keys(keys)  # type: ignore[arg-type]


class Noise(unittest.TestCase):
    """Whatever comes, it is parsed or refused; nothing else is raised."""

    def setUp(self) -> None:
        self.random = random.Random(SEED)
        self.readers = [
            wire.read_welcome, wire.read_opened, wire.read_released, wire.read_event, wire.read_failure,
            wire.read_u32, wire.read_empty, lambda b: wire.read_matched(b, 9), lambda b: wire.read_located(b, 3),
            lambda b: wire.read_results(b, 5, wire.PUT_STATUSES), lambda b: wire.read_u64s(b, 2),
        ]  # fmt: skip

    def test_bodies(self) -> None:
        for _ in range(3000):
            size = self.random.choice((0, 1, 4, 8, 17, 100, 300))
            body = bytes(self.random.choice((0, 0, 1, 255, self.random.randrange(256))) for _ in range(size))
            for read in self.readers:
                try:
                    read(body)
                except ProtocolError:
                    pass
                except Exception as err:
                    self.fail(f"seed {SEED}: {read} of {body.hex()}: {err!r}")

    def test_stream_in_any_pieces(self) -> None:
        for _ in range(200):
            sent = [(self.random.randrange(256), self.random.randrange(1 << 64), self.random.randbytes(self.random.randrange(50)))
                    for _ in range(self.random.randrange(6))]  # fmt: skip
            stream = b"".join(frames.frame(t, r, b) for t, r, b in sent)
            splitter, got, at = Splitter(), [], 0
            while at < len(stream):
                step = self.random.randrange(1, 40)
                got += [tuple(f) for f in splitter.feed(stream[at : at + step])]
                at += step
            self.assertEqual(got, sent, f"seed {SEED}")

    def test_keys_round_trip(self) -> None:
        for _ in range(300):
            widths = self.random.choice(((36, 36), (1, 1), (1, 1024), (1, 3)))
            keys = [self.random.randbytes(self.random.randint(*widths)) for _ in range(self.random.randrange(20))]
            start = self.random.randrange(len(keys) + 1)
            stop = self.random.randint(start, len(keys))
            reader = Reader(Keys(keys).encode(start, stop))
            self.assertEqual(list(reader.keys()), keys[start:stop], f"seed {SEED}")
            reader.end()


class Places(unittest.TestCase):
    def test_rows_and_pieces_say_the_same(self) -> None:
        from spillway import Piece
        from spillway.places import as_places, rows

        class Memory:  # what a region is to its places
            base, nbytes = 4096, 1 << 20

        k, v = Memory(), Memory()
        handles = {k: 3, v: 9}
        column = rows(k, range(5, 0, -1), 512) + rows(v, [7, 8, 9, 1, 2], 1024)  # type: ignore[arg-type]
        blocks = [[Piece(k, i * 512, 512), Piece(v, j * 1024, 1024)] for i, j in zip(range(5, 0, -1), [7, 8, 9, 1, 2])]  # type: ignore[arg-type]
        pieces = as_places(blocks)
        for places in (column, pieces):
            places.check(5, 1536)
            self.assertRaises(ValueError, places.check, 4, 1536)
            self.assertRaises(ValueError, places.check, 5, 1535)
            self.assertIsNone(places.encode(0, 5, {k: 3}))
        for start, stop in ((0, 5), (1, 3), (2, 2)):
            got = column.encode(start, stop, handles)
            self.assertEqual(got, pieces.encode(start, stop, handles))
        want = struct.pack("<HHIIQIIQ", 2, 0, 3, 512, 4096 + 5 * 512, 9, 1024, 4096 + 7 * 1024)
        self.assertEqual(column.encode(0, 1, handles), want)
        # One piece a block, as tuples.
        self.assertEqual(as_places([(k, 0, 512)]).encode(0, 1, handles), struct.pack("<HHIIQ", 1, 0, 3, 512, 4096))

    def test_outside(self) -> None:
        from spillway.places import as_places, rows

        class Memory:
            base, nbytes = 4096, 1 << 20

        for indices in ([-1], [1 << 70], [256], [0, 255, 256]):
            self.assertRaises(ValueError, rows, Memory(), indices, 4096)
        for piece in ((Memory(), -1, 4096), (Memory(), 1 << 20, 1), (Memory(), 0, 0), (Memory(), 0, 1 << 32)):
            self.assertRaises(ValueError, as_places, [piece])
        rows(Memory(), [], 4096)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
