"""A quick look at a daemon: ``python -m spillway ping`` and ``stats``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys

from . import DEFAULT_SOCKET, Client


def main() -> int:
    """0: the daemon answered. 1: it did not. 2: wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m spillway", description=__doc__)
    parser.add_argument("command", choices=("ping", "stats"))
    parser.add_argument("--socket", default=DEFAULT_SOCKET, help="default %(default)s")
    parser.add_argument(
        "--token",
        default=os.environ.get("SPILLWAY_TOKEN", ""),
        help="what the daemon wants to see; better in the variable SPILLWAY_TOKEN",
    )
    parser.add_argument(
        "--timeout", type=float, default=5.0, help="seconds to wait for the daemon, default 5"
    )
    options = parser.parse_args()
    quiet = logging.getLogger("spillway.command")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    with Client(options.socket, token=options.token, name="python -m spillway", logger=quiet) as client:
        if not client.connect(options.timeout):
            print(f"no daemon: {client.problem or 'no answer'}", file=sys.stderr)
            return 1
        if options.command == "stats":
            json.dump(client.stats(), sys.stdout, indent=2)
            print()
            return 0
        seconds = client.ping()
        welcome = client.welcome
        if seconds is None or welcome is None:
            print("no answer", file=sys.stderr)
            return 1
        print(f"{welcome.server} answered in {seconds * 1e6:.0f} us")
        return 0


if __name__ == "__main__":
    sys.exit(main())
