"""Memory that the daemon moves blocks from and to."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import mappings, wire
from .places import Piece, Rows, check_piece, rows
from .wire import Type

if TYPE_CHECKING:
    from .link import Link

_F_ADD_SEALS = 1033
_SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW = 1, 2, 4


class Region:
    """Registered memory: a file that this process and the daemon both map.

    Made by ``client.allocate`` and ``client.register``. It stays valid over the loss
    of a connection: it is registered again by itself.
    """

    def __init__(
        self,
        link: Link,
        fd: int,
        base: int,
        nbytes: int,
        owner: Any,
        row_bytes: int | None,
        put_only: bool,
    ) -> None:
        self.link = link
        self._fd = fd
        self._memory: memoryview | None = None
        self.owner = owner  # what holds the memory, as long as the region lives
        self.base = base  #: where the region begins in its file
        self.nbytes = nbytes
        self.row_bytes = row_bytes
        self.put_only = put_only
        self.problem = ""  #: why the daemon refused the region; empty if it did not

    def fileno(self) -> int:
        """The file's descriptor; it stays the region's."""
        return self._fd

    @property
    def memory(self) -> memoryview:
        """The region's bytes, writable. They stay the caller's after ``close``; ask for them before."""
        if self._memory is None and _is_buffer(self.owner):
            self._memory = memoryview(self.owner).cast("B")
        if self._memory is None:
            if self._fd < 0:
                raise ValueError("the region is closed")
            start = self.base // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            whole = mmap.mmap(self._fd, self.base - start + self.nbytes, offset=start)
            self._memory = memoryview(whole)[self.base - start :]
        return self._memory

    def numpy(self, dtype: Any = "uint8") -> Any:
        """The region's bytes as a numpy array of one dimension. Needs numpy."""
        import numpy

        return numpy.frombuffer(self.memory, dtype=dtype)

    def piece(self, offset: int, length: int) -> Piece:
        """Length bytes at offset; ValueError if they are not within the region."""
        check_piece(self, offset, length)
        return Piece(self, offset, length)

    def row(self, index: int, row_bytes: int | None = None) -> Piece:
        """Row index as one piece. Rows have row_bytes, or what the region was made with."""
        size = self._row_bytes(row_bytes)
        return self.piece(index * size, size)

    def rows(self, indices: Iterable[int], row_bytes: int | None = None) -> Rows:
        """One row a block, for a request of many: the fast way to name places."""
        return rows(self, indices, self._row_bytes(row_bytes))

    def _row_bytes(self, row_bytes: int | None) -> int:
        size = row_bytes or self.row_bytes
        if not size:
            raise ValueError("say row_bytes, here or where the region is made")
        return size

    @property
    def ready(self) -> bool:
        """Whether the daemon has the region now."""
        return self.link.handle(self) is not None

    @property
    def in_doubt(self) -> bool:
        """Whether a lost connection may still move bytes here (``Job.released``)."""
        return self.link.in_doubt(self)

    def close(self, timeout: float = 1.0) -> bool:
        """Takes the region from the daemon; jobs that name it later are misses and drops.

        True if nothing touches its memory any more; after timeout seconds False, and
        the memory must not be used for anything else.
        """
        if self._fd < 0:
            return not self.in_doubt
        free = self.link.drop_region(self, timeout)
        fd, self._fd = self._fd, -1
        os.close(fd)
        return free

    # What the link registers on every connection.

    def open_request(self) -> tuple[int, bytes, list[int]]:
        flags = wire.REGION_PUT_ONLY if self.put_only else 0
        return Type.REGISTER_REGION, wire.register_region(flags, self.base + self.nbytes), [self._fd]

    def opened(self, body: bytes) -> int | None:
        return wire.read_u32(body)

    def __str__(self) -> str:
        return f"a region of {self.nbytes} bytes"


def memory_file(nbytes: int) -> int:
    """A new memfd of nbytes that can neither shrink nor grow."""
    fd = os.memfd_create("spillway", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, nbytes)
        fcntl.fcntl(fd, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_memory(obj: Any) -> tuple[int, int, int]:
    """A descriptor of our own of obj's file, where obj begins in it, and its bytes.

    obj is a descriptor, something with ``fileno``, a path, or memory that is a shared
    mapping of a file. Raises TypeError, ValueError or OSError.
    """
    if isinstance(obj, (str, os.PathLike)):
        fd = os.open(obj, os.O_RDWR | os.O_CLOEXEC)
        return fd, 0, os.fstat(fd).st_size
    if isinstance(obj, int) or (hasattr(obj, "fileno") and not _is_buffer(obj)):
        number = obj if isinstance(obj, int) else obj.fileno()
        fd = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 0)
        return fd, 0, os.fstat(fd).st_size
    address, nbytes = mappings.buffer_address(obj)
    fd, base = mappings.open_behind(address, nbytes)
    return fd, base, nbytes


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True
