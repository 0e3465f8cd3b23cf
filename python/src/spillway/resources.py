"""What is opened anew on every connection: namespaces and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .frames import ProtocolError
from .session import Session
from .wire import Failure

if TYPE_CHECKING:
    from .link import Link


class Resource(Protocol):
    """What has to be opened anew on every connection: a namespace or a region."""

    problem: str

    def open_request(self) -> tuple[int, bytes, list[int]]:
        """Type, body and descriptors of the request."""

    def opened(self, body: bytes) -> int | None:
        """The number in the answer; None if the answer does not suit, and problem says why."""


class SetUp:
    """The request that opens a namespace or region."""

    def __init__(self, link: Link, session: Session, resource: Resource) -> None:
        self._link, self._session, self._resource = link, session, resource

    def answer(self, body: bytes) -> bool:
        self._resource.problem = ""
        number = self._resource.opened(body)
        if number is not None:
            self._session.handles[self._resource] = number
        else:
            self._link.log.warning("spillway: %s", self._resource.problem)
        self._link.set_up_next(self._session)
        return False

    def refused(self, failure: Failure | None) -> None:
        if failure is None:  # the connection has ended
            return
        self._resource.problem = f"{self._resource} refused: {failure.text} {failure.remedy}".rstrip()
        self._link.log.warning("spillway: %s", self._resource.problem)
        self._link.set_up_next(self._session)

    def unasked(self, type: int, body: bytes) -> bool:
        raise ProtocolError(f"a frame of type {type:#x} for a set-up")

    def lost(self, sent: bool) -> None:
        pass

    def orphaned(self) -> None:
        pass
