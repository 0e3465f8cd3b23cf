"""The handshake: from a socket's path to a session."""

from __future__ import annotations

import socket
import struct
import time

from . import frames, wire
from .frames import HELLO_BYTES_MAX, ProtocolError
from .session import Session
from .wire import ANSWER, Type

_SEND_BUFFER_BYTES = 4 << 20  # asked for; the system gives what it allows


class Denied(Exception):
    """The daemon answered Hello with an Error."""


def dial(path: str, hello: bytes, timeout: float) -> Session:
    """Connects and shakes hands, within timeout seconds or little more.

    Raises OSError, ProtocolError or Denied.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        _set_timeout(sock, socket.SO_SNDTIMEO, timeout)
        _set_timeout(sock, socket.SO_RCVTIMEO, timeout)
        sock.connect(path)
        try:
            sock.sendall(frames.frame(Type.HELLO, 1, hello))
        except BrokenPipeError:
            pass  # turned away already; why, is there to be read
        splitter = frames.Splitter()
        welcome = _read_welcome(sock, splitter, time.monotonic() + timeout)
        _set_timeout(sock, socket.SO_RCVTIMEO, 0)
        return Session(sock, welcome, splitter)
    except BaseException:
        sock.close()
        raise


def _read_welcome(sock: socket.socket, splitter: frames.Splitter, until: float) -> wire.Welcome:
    came: list[frames.Frame] = []
    while not came:
        if time.monotonic() > until:
            raise TimeoutError("the daemon's Welcome does not come to its end")
        data = sock.recv(HELLO_BYTES_MAX)
        if not data:
            raise ProtocolError("the daemon hung up before its Welcome")
        came = list(splitter.feed(data))
    first = came[0]
    if first.type == Type.ERROR:
        failure = wire.read_failure(first.body)
        raise Denied(f"{failure.text}; {failure.remedy}" if failure.remedy else failure.text)
    if first.type != Type.HELLO | ANSWER or first.request != 1 or len(came) != 1:
        raise ProtocolError(f"a frame of type {first.type:#x} in place of a Welcome")
    return wire.read_welcome(first.body)


def _set_timeout(sock: socket.socket, option: int, seconds: float) -> None:
    """The kernel's own timeout: the socket stays blocking, one call one system call."""
    whole = int(seconds)
    sock.setsockopt(
        socket.SOL_SOCKET,
        option,
        struct.pack("ll", whole, max(int((seconds - whole) * 1e6), int(seconds > 0))),
    )
