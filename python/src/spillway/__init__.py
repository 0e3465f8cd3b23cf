"""Client of Spillway, a store for KV-cache blocks of LLM inference.

Block bytes never pass through Python: requests name keys, and places in memory that
the daemon maps too. See Client, Namespace, Region; ``spillway.aio`` for asyncio.
"""

from .client import DEFAULT_SOCKET, Client
from .descriptor import Descriptor
from .events import Events
from .job import Job, Pending, Result
from .match import Bitmap, Lease, MatchResult
from .namespace import Namespace
from .places import Piece, Places, Rows
from .region import Region
from .wire import Event, EventKind, Reason, Status

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_SOCKET",
    "Bitmap",
    "Client",
    "Descriptor",
    "Event",
    "EventKind",
    "Events",
    "Job",
    "Lease",
    "MatchResult",
    "Namespace",
    "Pending",
    "Piece",
    "Places",
    "Reason",
    "Region",
    "Result",
    "Rows",
    "Status",
]
