"""The client for asyncio: the same calls, as coroutines.

They run on the loop and on the client's own thread. A daemon that does not read its
socket can hold the loop up for connect_timeout, once. A coroutine that is cancelled
cancels its job, whose memory is the caller's again after ``drain``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from . import client, namespace
from .descriptor import Descriptor
from .frames import Buffer
from .job import Job, Moment, Pending, Result
from .link import Link
from .match import MatchResult
from .namespace import LATE_GRACE
from .places import AnyPlaces
from .region import Region
from .wire import Event, EventKind

T = TypeVar("T")


class Client:
    """See spillway.Client. It may be made outside a loop and used from several."""

    def __init__(self, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.sync = client.Client(path, **options)  #: the client beneath; it may be used as well

    async def connect(self, timeout: float | None = None) -> bool:
        return await asyncio.to_thread(self.sync.connect, timeout)

    def namespace(self, descriptor: Descriptor | Mapping[str, Any], *, token: str | None = None) -> Namespace:
        return Namespace(self.sync.namespace(descriptor, token=token), self.sync.link)

    def allocate(self, nbytes: int, *, row_bytes: int | None = None) -> Region:
        return self.sync.allocate(nbytes, row_bytes=row_bytes)

    def register(self, obj: Any, *, row_bytes: int | None = None, put_only: bool = False) -> Region:
        return self.sync.register(obj, row_bytes=row_bytes, put_only=put_only)

    async def ping(self) -> float | None:
        return await asyncio.to_thread(self.sync.ping)

    async def stats(self, namespace: Namespace | None = None) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.stats, namespace.sync if namespace else None)

    async def drain(self, timeout: float | None = None) -> bool:
        return await asyncio.to_thread(self.sync.drain, timeout)

    async def close(self, timeout: float = 1.0) -> bool:
        return await asyncio.to_thread(self.sync.close, timeout)

    async def __aenter__(self) -> Client:
        self.sync.__enter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Namespace:
    """See spillway.Namespace."""

    def __init__(self, sync: namespace.Namespace, link: Link) -> None:
        self.sync = sync  #: the namespace beneath; it may be used as well
        self._link = link

    async def match(
        self,
        keys: Sequence[Buffer],
        *,
        group: int = 0,
        lease: float = 0.0,
        trailing: int = 0,
        compute: float = 0.0,
        worth: bool = False,
    ) -> MatchResult:
        pending = self.sync.submit_match(
            keys, group=group, lease=lease, trailing=trailing, compute=compute, worth=worth
        )
        return await self._wait(pending, MatchResult(len(keys)))

    async def locate(self, keys: Sequence[Buffer], *, group: int = 0) -> list[int]:
        found = await self._wait(self.sync.submit_locate(keys, group=group), bytearray(len(keys)))
        return list(found)

    async def touch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        return await self._total(self.sync.submit_touch(keys, group=group))

    async def prefetch(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        return await self._total(self.sync.submit_prefetch(keys, group=group))

    async def delete(self, keys: Sequence[Buffer], *, group: int = 0) -> int:
        return await self._total(self.sync.submit_delete(keys, group=group))

    async def drop(self) -> bool:
        done = await self._wait(self.sync.submit_drop(), [])
        return bool(done)

    async def get(
        self, keys: Sequence[Buffer], places: AnyPlaces, *, deadline: float | None = None, **options: Any
    ) -> Result:
        job = self.sync.submit_get(keys, places, deadline=deadline, notify=False, **options)
        return await self._outcome(job, deadline)

    async def match_get(self, keys: Sequence[Buffer], places: AnyPlaces, **options: Any) -> Result:
        return await self.get(keys, places, prefix=True, **options)

    async def put(
        self, keys: Sequence[Buffer], places: AnyPlaces, *, deadline: float | None = None, **options: Any
    ) -> Result:
        job = self.sync.submit_put(keys, places, deadline=deadline, notify=False, **options)
        return await self._outcome(job, deadline)

    async def events(self, since: int = 0, *, buffered: int = 4096) -> AsyncIterator[Event]:
        """Events until LOST, which is the last."""
        events = self.sync.events(since, buffered=buffered)
        try:
            while True:
                event = await asyncio.to_thread(events.get, 1.0)
                if event is not None:
                    yield event
                    if event.kind == EventKind.LOST:
                        return
        finally:
            events.close()

    async def _outcome(self, job: Job, deadline: float | None) -> Result:
        try:
            await self._outlast(job, None if deadline is None else max(0.0, deadline) + LATE_GRACE)
        except asyncio.CancelledError:
            job.cancel()
            raise
        return job.result

    async def _wait(self, pending: Pending[T], otherwise: T) -> T:
        return pending.value if await self._outlast(pending, self._link.call_timeout) else otherwise

    async def _total(self, pending: Pending[list[int]]) -> int:
        counts = await self._wait(pending, [])
        return sum(counts)

    async def _outlast(self, pending: Pending[Any], limit: float | None) -> bool:
        future = _future(pending.answered)
        for step in self._link.patience(limit):
            await asyncio.wait((future,), timeout=step)
            if pending.done():
                return True
        return False


def _future(moment: Moment) -> asyncio.Future[None]:
    """A future of this loop that is done when the moment comes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    def come() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(done)

    moment.call(come)
    return future
