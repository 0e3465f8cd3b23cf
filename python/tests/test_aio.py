"""The client for asyncio against the real daemon, and without one."""

import asyncio
import logging
import unittest
from typing import Any, Coroutine

from daemon import PATIENCE, DaemonTest, content, keys_of

from spillway import Descriptor, EventKind, Status, aio

BLOCK = 64 << 10
DESCRIPTOR = Descriptor(name="aio", block_bytes=BLOCK)


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main, PATIENCE)

    asyncio.run(bounded())


class Present(DaemonTest):
    def test_calls(self) -> None:
        async def main() -> None:
            async with aio.Client(self.daemon.socket) as client:
                space, region = client.namespace(DESCRIPTOR), client.allocate(64 * BLOCK, row_bytes=BLOCK)
                self.assertTrue(await client.connect(PATIENCE))
                keys = keys_of("a", 32)
                for i, key in enumerate(keys):
                    region.memory[i * BLOCK : (i + 1) * BLOCK] = content(key, BLOCK)
                puts = await asyncio.gather(*(space.put([key], [region.row(i)]) for i, key in enumerate(keys)))
                self.assertTrue(all(put.ok for put in puts))
                found = await space.match([*keys, b"x"], trailing=1, lease=1.0)
                self.assertEqual((found.prefix, found.trailing), (32, 0))
                gets = await asyncio.gather(
                    *(space.get([key], [region.row(32 + i)], deadline=30.0) for i, key in enumerate(keys)))  # fmt: skip
                self.assertTrue(all(get.ok for get in gets))
                for i, key in enumerate(keys):
                    self.assertEqual(bytes(region.memory[(32 + i) * BLOCK :][:BLOCK]), content(key, BLOCK))
                self.assertEqual(await space.touch(keys), 32)
                self.assertEqual(await space.locate([keys[0], b"x"]), [1, 0])
                self.assertEqual(await space.delete(keys[8:]), 24)
                result = await space.match_get(keys, region.rows(range(32)))
                self.assertEqual(result.prefix, 8)
                self.assertIsNotNone(await client.ping())
                self.assertEqual((await client.stats(space))["name"], "aio")
                self.assertTrue(await space.drop())
                self.assertEqual((await space.match(keys)).prefix, 0)
                self.assertTrue(await client.drain(PATIENCE))

        run(main())

    def test_cancelled(self) -> None:
        async def main() -> None:
            client = aio.Client(self.daemon.socket)
            space, region = client.namespace(DESCRIPTOR), client.allocate(64 * BLOCK, row_bytes=BLOCK)
            self.assertTrue(await client.connect(PATIENCE))
            task = asyncio.create_task(space.put(keys_of("c", 64), region.rows(range(64)), durable=True))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(await client.drain(PATIENCE))
            self.assertTrue(await client.close())

        run(main())


class Away(unittest.TestCase):
    def test_no_daemon(self) -> None:
        logging.getLogger("spillway").setLevel(logging.CRITICAL)

        async def main() -> None:
            async with aio.Client("/nonexistent/socket") as client:
                space, region = client.namespace(DESCRIPTOR), client.allocate(BLOCK, row_bytes=BLOCK)
                self.assertEqual((await space.get([b"k"], [region.row(0)])).statuses, (Status.MISS,))
                self.assertEqual((await space.put([b"k"], [region.row(0)])).statuses, (Status.DROPPED,))
                self.assertEqual((await space.match([b"k"])).prefix, 0)
                self.assertEqual((await space.touch([b"k"]), await space.drop(), await client.ping()), (0, False, None))
                self.assertEqual([event.kind async for event in space.events()], [EventKind.LOST])

        run(main())


if __name__ == "__main__":
    unittest.main()
