"""`python -m benchmarks [WORK ...]`: measure, and print the table."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version

from . import measure
from .peers import known_peers, load_peer
from .report import Row, table
from .sizes import SIZES
from .subject import Peer
from .work import WORKS


def main() -> int:
    """Run what the command line asks for. 1 if `--check` and a target was missed."""
    arguments = _parse()
    print(f"Python {platform.python_version()}, msgspec {version('msgspec')}; {measure.pin()}")
    peers: list[Peer] = []
    for name in known_peers() if arguments.peers else ["loopwright"]:
        loaded = load_peer(name)
        if isinstance(loaded, str):
            print(f"left out: {loaded}")
        else:
            peer, found = loaded
            peers.append(peer)
            print(f"{peer.name} {found}")
    if arguments.cpu:
        measure.use_cpu_time()
        print("processor time, not the clock on the wall")
    rows: list[Row] = []
    for work in arguments.work or WORKS:
        print(f"... {work}", file=sys.stderr, flush=True)
        rows += WORKS[work](peers, SIZES[arguments.size])
    print()
    print(table(rows, [peer.name for peer in peers]))
    missed = [row.work for row in rows if row.met is False]
    return 1 if arguments.check and missed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "work", nargs="*", metavar="WORK", help=f"what to measure: {', '.join(WORKS)}; default all"
    )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="full",
        help="full: what the targets speak of; quick: fewer rounds; tiny: only to see that it runs",
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time instead of the clock: for busy machines"
    )
    parser.add_argument("--peers", action="store_true", help="the other libraries as well")
    parser.add_argument("--check", action="store_true", help="leave with 1 if a target is missed")
    arguments = parser.parse_args()
    unknown = [work for work in arguments.work if work not in WORKS]
    if unknown:
        parser.error(f"no work is named {unknown[0]!r}; known: {', '.join(WORKS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
