"""One connection to a daemon, from its Welcome to its end."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, Callable, Protocol

from . import frames, wire
from .frames import Buffer, Frame, ProtocolError
from .job import Job, Pending
from .wire import ANSWER, ErrorCode, Failure, Type, Welcome

_READ_BYTES = 256 << 10


class Entry(Protocol):
    """A request whose answer, or part of it, is still to come. Called by the reader only,
    except ``refused``."""

    def answer(self, body: bytes) -> bool:
        """The answer is here; True if more comes. Raises ProtocolError if it does not parse."""

    def refused(self, failure: Failure | None) -> None:
        """The daemon answered an Error, or the request was never sent."""

    def unasked(self, type: int, body: bytes) -> bool:
        """Something more about the request; True if yet more comes."""

    def lost(self, sent: bool) -> Doubt | None:
        """The connection ended. What memory is in doubt by that."""

    def orphaned(self) -> None:
        """In the child of a fork, whose parent gets the answer. May take no lock: a thread
        that is not here any more may hold it."""


class Doubt:
    """Items of a job that a connection was lost with: it may still move their bytes."""

    def __init__(self, job: Job, items: int) -> None:
        self.job = job
        self._items = items

    def settle(self) -> None:
        """Nothing moves them any more."""
        self.job.items_released(self._items)


class Call:
    """A request with one answer, which take puts where it belongs."""

    def __init__(
        self,
        pending: Pending[Any],
        take: Callable[[bytes], object] = wire.read_empty,
        complain: Callable[[Failure], object] = lambda failure: None,
    ) -> None:
        self._pending = pending
        self._take = take
        self._complain = complain

    def answer(self, body: bytes) -> bool:
        self._take(body)
        self._pending.part_done()
        return False

    def refused(self, failure: Failure | None) -> None:
        if failure:
            self._complain(failure)
        self._pending.part_done()

    def unasked(self, type: int, body: bytes) -> bool:
        raise ProtocolError(f"a frame of type {type:#x} that nobody asked for")

    def lost(self, sent: bool) -> None:
        self._pending.part_done()

    def orphaned(self) -> None:
        self._pending.answered.come = True


class Session:
    """Sends requests from any thread, reads answers on one.

    ``handles`` are the daemon's numbers of namespaces and regions on this connection.
    """

    def __init__(self, sock: socket.socket, welcome: Welcome, splitter: frames.Splitter) -> None:
        self.welcome = welcome
        self.handles: dict[object, int] = {}
        self.tried: set[object] = set()  # namespaces and regions asked for
        self.setting_up = False  # one of them is asked for now
        self.heard = time.monotonic()  # when the daemon last said anything
        self.silent = False  # it owed an answer for too long: nothing is asked until it speaks
        self._sock = sock
        self._splitter = splitter
        splitter.body_bytes_max = welcome.frame_bytes
        self._lock = threading.Lock()  # guards _pending, _ended
        self._send_lock = threading.Lock()  # one frame at a time
        self._pending: dict[int, tuple[int, Entry]] = {}
        self._sent: set[int] = set()  # those of which a byte may have left
        self._ended = False
        self._numbers = itertools.count(1)
        self._spare = min(8, welcome.requests // 4)

    def request(
        self, type: int, parts: Sequence[Buffer], entry: Entry, fds: Sequence[int] = (), small: bool = False
    ) -> int:
        """Sends a request and returns its number. Where the connection has ended or holds
        as many requests as it may, entry is refused at once and the number is 0. A few
        requests are kept for small ones."""
        refusal = None
        most = self.welcome.requests - (0 if small else self._spare)
        with self._lock:
            number = 0 if self._ended else next(self._numbers)
            if number and len(self._pending) >= most:
                number, refusal = 0, Failure(ErrorCode.LIMIT, "too many requests are in flight", "")
            if number:
                self._pending[number] = (type, entry)
        if not number:
            entry.refused(refusal)
            return 0
        self._send(number, frames.frame(type, number, *parts), fds)
        return number

    def _send(self, number: int, data: bytes, fds: Sequence[int]) -> None:
        """A frame that leaves only in part makes the stream useless, so any failure ends it."""
        try:
            with self._send_lock:
                self._sent.add(number)
                at = 0
                if fds:
                    rights = struct.pack(f"{len(fds)}i", *fds)
                    at = self._sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                self._sock.sendall(memoryview(data)[at:])
        except OSError:  # also a daemon that reads nothing for the send timeout
            self.end()
        except BaseException:  # an interrupt in the middle of a frame
            self.end()
            raise

    def end(self) -> None:
        """Ends the connection, from any thread; the reader then answers what is open."""
        with self._lock:
            if not self._ended:
                _shut(self._sock)

    def read(self) -> None:
        """Reads and hands out answers until the connection ends. Raises ProtocolError."""
        while True:
            try:
                data = self._sock.recv(_READ_BYTES)
            except OSError:
                return
            if not data:
                return
            self.heard = time.monotonic()
            self.silent = False
            for frame in self._splitter.feed(data):
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        type, entry = self._pending.get(frame.request, (0, None))
        if frame.type == Type.ERROR:
            failure = wire.read_failure(frame.body)
            if failure.code == ErrorCode.PROTOCOL:
                raise ProtocolError(f"the daemon says: {failure.text}")
            if entry is not None:
                self._forget(frame.request)
                entry.refused(failure)
            return
        if entry is None and frame.type == Type.EVENT:
            return  # of a subscription that has just ended
        if entry is None:
            raise ProtocolError(f"a frame of type {frame.type:#x} for no request ({frame.request})")
        if frame.type == type | ANSWER:
            more = entry.answer(frame.body)
        else:
            more = entry.unasked(frame.type, frame.body)
        if not more:
            self._forget(frame.request)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._pending.pop(number, None)
        self._sent.discard(number)

    def close(self) -> list[Doubt]:
        """The connection is over: answers everything that is open. Returns what is in doubt."""
        with self._lock:
            if not self._ended:
                _shut(self._sock)
            self._ended = True
            pending, self._pending = self._pending, {}
        # Whoever has not begun to send by now finds the socket shut.
        sent = set(self._sent)
        with self._send_lock:
            self._sock.close()
        doubts = [entry.lost(number in sent) for number, (_, entry) in pending.items()]
        return [doubt for doubt in doubts if doubt is not None]

    def abandon(self) -> None:
        """In the child of a fork: the connection and its jobs stay the parent's."""
        self._lock, self._send_lock = threading.Lock(), threading.Lock()
        self._ended = True
        self._sock.close()
        for _, entry in self._pending.values():
            entry.orphaned()

    def ask(self, type: int, body: bytes) -> None:
        """Sends a request whose answer matters to nobody."""
        self.request(type, [body], Call(Pending(1, None), lambda body: None), small=True)

    def release_lease(self, number: int) -> None:
        """Ends a lease; one of a connection that is over has ended."""
        self.ask(Type.RELEASE, wire.u64(number))

    def cancel(self, number: int) -> None:
        """Cancels a request if it is still open."""
        if number in self._pending:
            self.ask(Type.CANCEL, wire.u64(number))

    def unsubscribe(self, number: int) -> None:
        """Ends a subscription."""
        call = Call(Pending(1, None), lambda body: self._forget(number))
        self.request(Type.CANCEL, [wire.u64(number)], call, small=True)


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was faster
