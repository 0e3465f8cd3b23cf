"""A subscription to what happens to blocks."""

from __future__ import annotations

import queue
from collections.abc import Iterator

from . import wire
from .frames import ProtocolError
from .job import Moment
from .session import Session
from .wire import Event, EventKind, Failure, Type

_LOST = Event(0, EventKind.LOST, 0, 0, ())


class Events:
    """Events in order, until one of kind LOST: the connection ended, or whoever takes the
    events was too slow. Who mirrors the store then starts over with a new subscription.
    """

    def __init__(self, session: Session | None, namespace: int | None, since: int, buffered: int) -> None:
        self._session = session
        self._queue: queue.Queue[Event] = queue.Queue(buffered)
        self._begun = Moment()
        self._lost = False
        self._number = 0
        self.oldest = 0  #: sequence of the oldest event that the daemon keeps
        self.next = 0  #: sequence of the next event at subscription
        if session is None or namespace is None:
            self.lost(False)
        else:
            self._number = session.request(Type.EVENTS, [wire.events(namespace, since)], self)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the daemon has confirmed the subscription; False if it has not."""
        return self._begun.wait(timeout) and not self._lost

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event, waiting at most timeout seconds; None if none came. After the
        last one, LOST for ever."""
        if self._lost and self._queue.empty():
            return _LOST
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return None

    def __iter__(self) -> Iterator[Event]:
        """Yields events until LOST, which is the last."""
        while True:
            event = self.get(1.0)
            if event is not None:
                yield event
                if event.kind == EventKind.LOST:
                    return

    def close(self) -> None:
        """Ends the subscription."""
        if self._session and self._number:
            self._session.cancel(self._number)
        self.lost(True)

    # Called by the reader.

    def answer(self, body: bytes) -> bool:
        self.oldest, self.next = wire.read_u64s(body, 2)
        self._begun.bring()
        return True

    def unasked(self, type: int, body: bytes) -> bool:
        if type != Type.EVENT:
            raise ProtocolError(f"a frame of type {type:#x} for a subscription")
        event = wire.read_event(body)
        if self._lost:
            return True
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.lost(True)
        if event.kind == EventKind.LOST:
            self._lost = True
            return False
        return True

    def refused(self, failure: Failure | None) -> None:
        self.lost(False)

    def lost(self, sent: bool) -> None:
        if not self._lost:
            self._lost = True
            try:
                self._queue.put_nowait(_LOST)  # wakes whoever waits
            except queue.Full:
                pass
        self._begun.bring()
