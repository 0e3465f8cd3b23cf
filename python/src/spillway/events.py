"""A subscription to what happens to blocks."""

from __future__ import annotations

import threading
from collections import deque
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
        self._buffered = buffered
        self._waiting: deque[Event] = deque()
        self._change = threading.Condition()  # guards _waiting and _over
        self._begun = Moment()
        self._over = False  # nothing is added any more
        self._confirmed = False
        self._number = 0
        self.oldest = 0  #: sequence of the oldest event that the daemon keeps
        self.next = 0  #: sequence of the next event at subscription
        if session is None or namespace is None:
            self.lost(False)
        else:
            self._number = session.request(Type.EVENTS, [wire.events(namespace, since)], self)
            if self._over:  # the reader was faster
                self.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the daemon has confirmed the subscription; False if it has not."""
        return self._begun.wait(timeout) and self._confirmed

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event, waiting at most timeout seconds; None if none came. After the
        last one, LOST for ever."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._over, timeout)
            if self._waiting:
                return self._waiting.popleft()
            return _LOST if self._over else None

    def __iter__(self) -> Iterator[Event]:
        """Yields events until LOST, which is the last."""
        while True:
            event = self.get(1.0)
            if event is not None:
                yield event
                if event.kind == EventKind.LOST:
                    return

    @property
    def over(self) -> bool:
        """Whether no further event comes than those that wait."""
        return self._over

    def close(self) -> None:
        """Ends the subscription."""
        self.lost(True)
        number, self._number = self._number, 0
        if self._session and number:
            self._session.unsubscribe(number)

    # Called by the reader.

    def answer(self, body: bytes) -> bool:
        self.oldest, self.next = wire.read_u64s(body, 2)
        self._confirmed = True
        self._begun.bring()
        return True

    def unasked(self, type: int, body: bytes) -> bool:
        if type != Type.EVENT:
            raise ProtocolError(f"a frame of type {type:#x} for a subscription")
        event = wire.read_event(body)
        full = False
        with self._change:
            if not self._over and event.kind != EventKind.LOST:
                full = len(self._waiting) >= self._buffered
                if not full:
                    self._waiting.append(event)
                    self._change.notify()
        if full:
            self.close()
        if event.kind == EventKind.LOST:
            self.lost(True)
        return event.kind != EventKind.LOST

    def refused(self, failure: Failure | None) -> None:
        self.lost(False)

    def lost(self, sent: bool) -> None:
        with self._change:
            self._over = True
            self._change.notify_all()
        self._begun.bring()

    def orphaned(self) -> None:
        self._change = threading.Condition()
        self._over = True
