"""The link to a daemon: kept up by one background thread, over any number of connections."""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from . import wire
from .dial import Denied, dial
from .frames import ProtocolError
from .job import Job, Pending, renew_lock
from .notify import Finished
from .resources import Resource, SetUp
from .session import Doubt, Session
from .wire import Failure, Type

_BACKOFF_FIRST, _BACKOFF_MOST = 0.05, 5.0
_STEADY = 1.0  # a connection that held so long did not fail at once
_COMPLAIN_EVERY = 10.0


class Link:
    """Everything between a client and whatever daemon listens at path, also none."""

    def __init__(
        self,
        path: str,
        token: str,
        name: str,
        connect_timeout: float,
        call_timeout: float,
        logger: logging.Logger,
    ) -> None:
        self.path = path
        self.call_timeout = call_timeout
        self.log = logger
        self.problem = ""
        self.session: Session | None = None
        self._name, self.token, self.connect_timeout = name, token, connect_timeout
        self._resources: list[Resource] = []
        self._doubts: list[Doubt] = []
        self._follows = (bytes(16), 0)  # instance and number of the latest connection
        self._complained: dict[object, float] = {}
        self._closed = False
        self._begin()
        _links.add(self)

    def _begin(self) -> None:
        """What is made anew in the child of a fork."""
        self.finished = Finished()
        self._lock = threading.Lock()  # guards the lists above, _jobs and _thread
        self._jobs: set[Job] = set()  # not yet released
        self._ready = threading.Event()
        self._wake = threading.Event()  # the client closes
        self._thread: threading.Thread | None = None

    # For callers.

    def start(self) -> None:
        """Begins to connect, if that has not begun."""
        with self._lock:
            if self._thread or self._closed:
                return
            self._thread = threading.Thread(target=self._run, name="spillway-link", daemon=True)
            self._thread.start()

    def live(self) -> Session | None:
        """The session, if its daemon can be asked now."""
        session = self.session
        if session is None:
            if self._thread is None:
                self.start()
            return None
        return None if session.silent else session

    def handle(self, resource: object) -> int | None:
        """The daemon's number for a namespace or region, if it has one now."""
        session = self.session
        return session.handles.get(resource) if session else None

    def wait_ready(self, timeout: float | None) -> bool:
        """Waits until connected, with every namespace and region answered for."""
        self.start()
        return self._ready.wait(timeout)

    def outlast(self, pending: Pending[Any], limit: float | None = None) -> bool:
        """Waits for an answer as long as the daemon shows life, at most limit seconds."""
        return any(pending.wait(step) for step in self.patience(limit))

    def patience(self, limit: float | None) -> Iterator[float]:
        """How long to wait, again and again: until limit seconds have passed, or the daemon
        has said nothing for call_timeout, though asked whether it lives. Then nothing
        more is asked of it until it speaks."""
        until = math.inf if limit is None else time.monotonic() + limit
        step = self.call_timeout / 2
        asked = math.inf  # when
        while True:
            began = time.monotonic()
            yield max(0.0, min(step, until - began))
            now = time.monotonic()
            session = self.session
            if session and now - began > 0.9 * step:
                if session.heard < asked < began:
                    session.silent = True
                    return
                if session.heard < began:
                    asked = time.monotonic()
                    session.ask(Type.PING, b"")
            if now >= until:
                return

    def add(self, resource: Resource) -> None:
        """Opens it now and on every later connection."""
        with self._lock:
            self._resources.append(resource)
            self._ready.clear()
        session = self.session
        if session:
            self._set_up(session)
        else:
            self.start()

    def reopen(self, session: Session, resource: object) -> None:
        """The daemon does not know the resource's number any more. Not too often."""
        if not self._often(resource):
            session.handles.pop(resource, None)
            session.tried.discard(resource)
            self._set_up(session)

    def drop_region(self, region: Any, timeout: float) -> bool:
        """Takes it from the daemon; whether within timeout all jobs that name it are released."""
        with self._lock:
            if region in self._resources:
                self._resources.remove(region)
        session = self.session
        handle = session.handles.pop(region, None) if session else None
        if session and handle is not None:
            session.ask(Type.DROP_REGION, wire.u32(handle))
        return self.drain(timeout, region)

    def register(self, job: Job, notify: bool) -> None:
        """The link keeps the job until it is released, then offers it to poll if notify."""
        with self._lock:
            self._jobs.add(job)

        def free() -> None:
            with self._lock:
                self._jobs.discard(job)
            if notify:
                self.finished.add(job)

        job.free.call(free)

    def drain(self, timeout: float | None, region: Any = None) -> bool:
        """Waits until all jobs so far, or those that name region, are released."""
        with self._lock:
            jobs = [job for job in self._jobs if region is None or region in job.regions]
        until = None if timeout is None else time.monotonic() + timeout
        return all(
            job.wait_released(None if until is None else max(0.0, until - time.monotonic())) for job in jobs
        )

    def in_doubt(self, region: Any) -> bool:
        """Whether a job that a connection was lost with may still move bytes of region."""
        with self._lock:
            return any(region in doubt.job.regions and not doubt.job.released for doubt in self._doubts)

    def complain(self, what: str, failure: Failure) -> None:
        """Logs that a request was refused; each kind now and then only."""
        if not self._often((what, failure.code)):
            self.log.warning("spillway: %s refused: %s %s", what, failure.text, failure.remedy)

    def _often(self, what: object) -> bool:
        now = time.monotonic()
        if now - self._complained.get(what, -_COMPLAIN_EVERY) < _COMPLAIN_EVERY:
            return True
        self._complained[what] = now
        return False

    def close(self, timeout: float) -> bool:
        """Ends everything; whether all jobs were released within timeout seconds."""
        drained = self.drain(timeout)
        with self._lock:
            self._closed = True
            thread, session = self._thread, self.session
            self._wake.set()
        if session:
            session.end()
        if thread and thread is not threading.current_thread():
            thread.join(self.connect_timeout + 1)
        self.finished.close()
        return drained

    # The background thread.

    def _run(self) -> None:
        failures = 0
        while not self._closed:
            began = time.monotonic()
            session = self._connect()
            if session:
                self._serve(session)
            failures = 0 if session and time.monotonic() - began > _STEADY else failures + 1
            if failures:
                most = min(_BACKOFF_MOST, _BACKOFF_FIRST * 2 ** min(failures - 1, 16))
                self._wake.wait(most * random.uniform(0.5, 1.0))

    def _connect(self) -> Session | None:
        try:
            session = dial(
                self.path, wire.hello(self._name, self.token, *self._follows), self.connect_timeout
            )
        except (OSError, ProtocolError, Denied) as err:
            self._note(f"{self.path}: {err}")
            return None
        # A daemon welcomes us only when no transfer of the connection that we follow
        # touches memory any more, and a new one starts only when those of the one before
        # have ended.
        self._follows = (session.welcome.instance, session.welcome.connection)
        with self._lock:
            doubts, self._doubts = self._doubts, []
        for doubt in doubts:
            doubt.settle()
        return session

    def _serve(self, session: Session) -> None:
        with self._lock:
            if not self._closed:
                self.session = session
        self.problem = ""
        self.log.info("spillway: connected to %s, %s", self.path, session.welcome.server)
        reason = "the daemon ended the connection"
        try:
            if self.session:
                self._set_up(session)
                session.read()
        except ProtocolError as err:
            reason = f"protocol error: {err}"
        except Exception as err:  # a fault of ours must not end the thread
            reason = f"internal error: {err!r}"
            self.log.exception("spillway: internal error")
        with self._lock:
            self.session = None
            self._ready.clear()
        doubts = session.close()
        with self._lock:
            self._doubts += doubts
        if not self._closed:
            self._note(f"{self.path}: {reason}")

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.log.warning("spillway: not connected, all reads miss and puts drop: %s", problem)
        self.problem = problem

    def _set_up(self, session: Session) -> None:
        """Asks for the next namespace or region; its answer asks for the one after."""
        with self._lock:
            if session.setting_up or session is not self.session:
                return
            todo = next((r for r in self._resources if r not in session.tried), None)
            if todo is None:
                self._ready.set()
                return
            session.tried.add(todo)
            session.setting_up = True
            type, body, fds = todo.open_request()
        session.request(type, [body], SetUp(self, session, todo), fds, small=True)

    def set_up_next(self, session: Session) -> None:
        """One namespace or region is answered for."""
        session.setting_up = False
        self._set_up(session)

    def forget_parent(self) -> None:
        """In the child of a fork: starts afresh, and leaves the parent's connection alone."""
        session, self.session = self.session, None
        self.finished.close()
        self._doubts, self._complained, self._follows = [], {}, (bytes(16), 0)
        self._begin()
        if session:
            session.abandon()


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _after_fork() -> None:
    renew_lock()
    for link in list(_links):
        link.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
