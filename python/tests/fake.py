"""A scripted daemon, for what a real one never does."""

import array
import os
import socket
import struct
import tempfile
import threading
from typing import Callable, List, NamedTuple, Optional

from spillway.frames import HEADER, frame
from spillway.wire import ANSWER, Type


class Asked(NamedTuple):
    type: int
    request: int
    body: bytes


class Gone(Exception):
    """The client hung up."""


def welcome(instance: bytes = b"i" * 16, connection: int = 1, version: int = 1, keys: int = 16384,
            requests: int = 256, frame_bytes: int = 4 << 20) -> bytes:  # fmt: skip
    limits = struct.pack("<IIIIII", frame_bytes, keys, 8 * keys, requests, 64, 0)
    head = struct.pack("<HHI16sQ", version, 0, 0, instance, connection)
    return head + limits + struct.pack("<QIQ", 1 << 40, 4096, 1 << 28) + struct.pack("<H", 4) + b"fake"


class Peer:
    """One connection, as the daemon sees it."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.fds: List[int] = []
        self.handles = 0
        self.hello = b""

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more, ancillary, _, _ = self.sock.recvmsg(count - len(data), socket.CMSG_SPACE(4))
            for _, _, rights in ancillary:
                self.fds += array.array("i", rights).tolist()
            if not more:
                raise Gone
            data += more
        return data

    def next(self) -> Asked:
        """The next frame."""
        size, type, _, _, request = HEADER.unpack(self._exactly(HEADER.size))
        return Asked(type, request, self._exactly(size))

    def send(self, type: int, request: int, body: bytes = b"") -> None:
        self.sock.sendall(frame(type, request, body))

    def answer(self, asked: Asked, body: bytes = b"") -> None:
        self.send(asked.type | ANSWER, asked.request, body)

    def fail(self, asked: Asked, code: int) -> None:
        self.send(Type.ERROR, asked.request, struct.pack("<HH4sH", code, 4, b"text", 0))

    def greet(self, **limits: int) -> None:
        """Hello and Welcome."""
        asked = self.next()
        self.hello = asked.body
        self.answer(asked, welcome(connection=self.number, **limits))

    def later(self) -> Asked:
        """The next frame that is no set-up; set-ups are answered."""
        while True:
            asked = self.next()
            if not self.set_up(asked):
                return asked

    def set_up(self, asked: Asked) -> bool:
        if asked.type not in (Type.OPEN_NAMESPACE, Type.REGISTER_REGION):
            return False
        self.handles += 1
        body = struct.pack("<I", self.handles)
        if asked.type == Type.OPEN_NAMESPACE:
            body += struct.pack("<I", 4096) + bytes(32) + b"\1\0n"
        self.answer(asked, body)
        return True


class Fake:
    """Listens; every connection is played by script on a thread of its own."""

    def __init__(self, script: Callable[[Peer], None]) -> None:
        self.script = script
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "s")
        self.peers: List[Peer] = []
        self.failure: Optional[BaseException] = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            peer = Peer(sock, len(self.peers) + 1)
            self.peers.append(peer)
            threading.Thread(target=self._play, args=(peer,), daemon=True).start()

    def _play(self, peer: Peer) -> None:
        try:
            self.script(peer)
        except (Gone, OSError):
            pass
        except BaseException as err:
            self.failure = err
        finally:
            for fd in peer.fds:
                os.close(fd)
            peer.fds = []
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            peer.sock.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self.peers:
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.dir.cleanup()
        if self.failure:
            raise self.failure


def results(statuses: List[int]) -> bytes:
    return struct.pack("<III", 0, 0, len(statuses)) + bytes(statuses)


def matched(count: int, bits: int, lease: int = 0) -> bytes:
    prefix = 0
    while prefix < count and bits >> prefix & 1:
        prefix += 1
    return struct.pack("<IIIIQ", count, prefix, 0, 0, lease) + bits.to_bytes((count + 7) // 8, "little")


def key_count(asked: Asked) -> int:
    """Of a Match, Get or Put."""
    at = {Type.MATCH: 20, Type.GET: 16, Type.PUT: 24}[Type(asked.type)]
    if asked.type == Type.PUT:
        at += int(struct.unpack_from("<H", asked.body, 22)[0])  # the key before
    return int(struct.unpack_from("<I", asked.body, at)[0])


def good(peer: Peer, asked: Asked) -> None:
    """What a daemon answers that has everything."""
    if asked.type == Type.MATCH:
        peer.answer(asked, matched(key_count(asked), (1 << key_count(asked)) - 1))
    elif asked.type == Type.GET:
        peer.answer(asked, results([1] * key_count(asked)))
    elif asked.type == Type.PUT:
        peer.answer(asked, results([5] * key_count(asked)))
    elif asked.type == Type.PING:
        peer.answer(asked, asked.body)
    elif asked.type in (Type.TOUCH, Type.DELETE):
        peer.answer(asked, struct.pack("<I", 1))
    elif asked.type == Type.EVENTS:
        peer.answer(asked, struct.pack("<QQ", 1, 1))
    else:
        peer.answer(asked)


def serve(peer: Peer) -> None:
    """A good daemon."""
    peer.greet()
    while True:
        good(peer, peer.later())
