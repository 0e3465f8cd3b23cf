"""The client: one link to a daemon, with its namespaces, memory and jobs."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from . import wire
from .descriptor import Descriptor
from .job import Job, Pending
from .link import Link
from .namespace import Namespace
from .region import Region, memory_file, open_memory
from .session import Call
from .wire import Type, Welcome

DEFAULT_SOCKET = os.environ.get("SPILLWAY_SOCKET", "/run/spillway/spillway.sock")


class Client:
    """A client of the daemon that listens at path. Safe for many threads.

    It connects in the background, from the first use on, and again after every loss:
    namespaces and regions are then opened again by themselves. Without a daemon every
    call answers at once that nothing is here. No call waits much longer than
    call_timeout for a daemon that is silent, nor than connect_timeout for one that does
    not read. After a fork the child's client connects anew; jobs stay the parent's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        token: str = "",
        name: str = "",
        connect_timeout: float = 1.0,
        call_timeout: float = 1.0,
        logger: logging.Logger | None = None,
    ) -> None:
        if min(connect_timeout, call_timeout) <= 0:
            raise ValueError("a timeout must be more than 0")
        wire.hello(name, token)
        log = logger or logging.getLogger("spillway")
        #: Not for callers: what namespaces and regions share.
        self.link = Link(
            os.fspath(path or DEFAULT_SOCKET), token, name or "python", connect_timeout, call_timeout, log
        )
        self._namespaces: dict[tuple[bytes, str], Namespace] = {}

    # The link.

    def connect(self, timeout: float | None = None) -> bool:
        """Begins to connect, and waits until the daemon has answered for every namespace
        and region made so far; at most timeout seconds, by default as long as one try
        takes. False if it has not, and ``problem`` may say why. Nobody has to call this."""
        if timeout is None:
            timeout = self.link.connect_timeout + self.link.call_timeout
        return self.link.wait_ready(timeout)

    @property
    def connected(self) -> bool:
        """Whether a daemon is there now."""
        return self.link.session is not None

    @property
    def problem(self) -> str:
        """Why there is no connection; empty if there is one, or nothing was tried yet."""
        return self.link.problem

    @property
    def welcome(self) -> Welcome | None:
        """What the daemon said of itself and its limits, while connected."""
        session = self.link.session
        return session.welcome if session else None

    def ping(self) -> float | None:
        """Seconds to the daemon and back; None if it does not answer."""
        began = time.monotonic()
        pending: Pending[list[bytes]] = Pending(1, [])
        self._ask(Type.PING, b"ping", pending)
        return time.monotonic() - began if pending.value == [b"ping"] else None

    def stats(self, namespace: Namespace | None = None) -> dict[str, Any]:
        """Counters of the node, or of one namespace; empty without a daemon."""
        handle = self.link.handle(namespace) if namespace else 0
        pending: Pending[list[bytes]] = Pending(1, [])
        if handle is not None:
            self._ask(Type.STATS, wire.u32(handle), pending)
        try:
            stats = json.loads(pending.value[0]) if pending.value else {}
        except ValueError:
            return {}
        return stats if isinstance(stats, dict) else {}

    def _ask(self, type: Type, body: bytes, pending: Pending[list[bytes]]) -> None:
        session = self.link.live()
        if session:
            complain = lambda failure: self.link.complain(type.name.lower(), failure)  # noqa: E731
            session.request(type, [body], Call(pending, pending.value.append, complain), small=True)
            self.link.outlast(pending, self.link.call_timeout)

    # Namespaces and memory.

    def namespace(self, descriptor: Descriptor | Mapping[str, Any], *, token: str | None = None) -> Namespace:
        """The namespace of a descriptor; the same object for the same one. It is opened in
        the background. token, if the namespace wants another than the client's."""
        if not isinstance(descriptor, Descriptor):
            descriptor = Descriptor.from_json(descriptor)
        token = self.link.token if token is None else token
        wire.string(token)
        key = (descriptor.canonical(), token)
        space = self._namespaces.get(key)
        if space is None:
            space = self._namespaces.setdefault(key, Namespace(self.link, descriptor, token))
            self.link.add(space)
        return space

    def allocate(self, nbytes: int, *, row_bytes: int | None = None) -> Region:
        """New memory, registered: a memfd, zeroed, of whole pages."""
        if nbytes <= 0:
            raise ValueError(f"{nbytes} bytes of memory")
        fd = memory_file(-(-nbytes // 4096) * 4096)
        return self._register(Region(self.link, fd, 0, nbytes, None, row_bytes, False))

    def register(self, obj: Any, *, row_bytes: int | None = None, put_only: bool = False) -> Region:
        """Memory of the caller's: a descriptor of a memfd, the path of a file in /dev/shm,
        or an array, tensor or other writable buffer that is a shared mapping of such a
        file. A descriptor stays the caller's; a buffer is kept alive.

        Raises TypeError, ValueError or OSError for what is not such memory.
        """
        fd, base, nbytes = open_memory(obj)
        owner = None if isinstance(obj, (int, str, os.PathLike)) else obj
        return self._register(Region(self.link, fd, base, nbytes, owner, row_bytes, put_only))

    def _register(self, region: Region) -> Region:
        self.link.add(region)
        return region

    # Jobs.

    def poll(self, most: int = 1 << 30) -> list[Job]:
        """Jobs that are done and released since the last call, each once, at most so many.
        No system call if there are none, or if nobody has asked for fileno."""
        return self.link.finished.poll(most)

    def fileno(self) -> int:
        """A descriptor that is readable while poll has something to give. It stays the
        client's; do not read from it."""
        return self.link.finished.fileno()

    def drain(self, timeout: float | None = None) -> bool:
        """Waits until every job submitted so far is released: nothing moves bytes of its
        memory. False if that is not so after timeout seconds."""
        return self.link.drain(timeout)

    # The end.

    def close(self, timeout: float = 1.0) -> bool:
        """Waits at most timeout seconds for jobs, then ends the connection. False if some
        memory was not released: then it must not be used for anything else. Later calls
        answer as without a daemon. More than one call has no effect."""
        return self.link.close(timeout)

    def __enter__(self) -> Client:
        self.link.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
