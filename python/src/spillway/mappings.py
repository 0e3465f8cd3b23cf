"""Finds the file behind memory of this process, so that a daemon can map it too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

ADVICE = "use memory of a memfd or of a file in /dev/shm, or client.allocate(nbytes)"


class _Mapping(NamedTuple):
    start: int
    end: int
    shared: bool
    offset: int
    device: int
    inode: int
    path: str


def buffer_address(obj: Any) -> tuple[int, int]:
    """Address and bytes of a numpy array, a tensor, or any writable contiguous buffer.

    Raises TypeError for anything else, ValueError for one with gaps.
    """
    if hasattr(obj, "data_ptr"):  # a tensor
        if not obj.is_contiguous() or obj.device.type != "cpu":
            raise ValueError("a tensor has to be contiguous and in the memory of the host")
        return obj.data_ptr(), obj.numel() * obj.element_size()
    if hasattr(obj, "__array_interface__"):
        if not obj.flags["C_CONTIGUOUS"]:
            raise ValueError("an array has to be contiguous")
        return obj.__array_interface__["data"][0], obj.nbytes
    with memoryview(obj) as view:
        if view.readonly or not view.c_contiguous:
            raise ValueError("a buffer has to be writable and contiguous")
        with view.cast("B") as flat:
            return ctypes.addressof(ctypes.c_char.from_buffer(flat)), flat.nbytes


def open_behind(address: int, nbytes: int) -> tuple[int, int]:
    """A new descriptor of the file mapped at address, and where in the file that is.

    Raises ValueError if there is no such file, as with ordinary memory, or if it
    cannot be opened.
    """
    offset, device, inode, candidates = _file_at(address, nbytes)
    for path in candidates:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        stat = os.fstat(fd)
        if (stat.st_dev, stat.st_ino) == (device, inode):
            return fd, offset
        os.close(fd)
    raise ValueError(f"the file behind this memory cannot be opened any more: {ADVICE}")


def _file_at(address: int, nbytes: int) -> tuple[int, int, int, Iterator[str]]:
    """Offset in the file, its device and inode, and paths that may lead to it."""
    covering = [m for m in _mappings() if m.start < address + nbytes and address < m.end]
    if not nbytes or not covering:
        raise ValueError("there is no memory at this address")
    first, at = covering[0], covering[0].start
    for m in covering:
        whole = m.start == at and m.offset - m.start == first.offset - first.start
        if not m.shared or not m.inode or (m.device, m.inode) != (first.device, first.inode) or not whole:
            raise ValueError(f"this memory is not a shared mapping of one file: {ADVICE}")
        at = m.end
    if first.start > address or at < address + nbytes:
        raise ValueError(f"this memory is not mapped whole: {ADVICE}")
    return first.offset + address - first.start, first.device, first.inode, _paths(first)


def _paths(mapping: _Mapping) -> Iterator[str]:
    yield mapping.path
    for name in os.listdir("/proc/self/fd"):
        yield f"/proc/self/fd/{name}"
    yield f"/proc/self/map_files/{mapping.start:x}-{mapping.end:x}"  # needs privileges


def _mappings() -> Iterator[_Mapping]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            span, mode, offset, device, inode, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(n, 16) for n in span.split("-"))
            major, minor = (int(n, 16) for n in device.split(":"))
            yield _Mapping(
                start,
                end,
                mode[3] == "s",
                int(offset, 16),
                os.makedev(major, minor),
                int(inode),
                path[0] if path else "",
            )
