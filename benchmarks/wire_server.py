"""A server in a process of its own that plays every vendor, and sends as fast as it can.

The path says what is wanted: `/bursts/openai-chat/text/20000`, and behind it whatever the client
adds. It ends when its standard input does, so it cannot outlive a benchmark.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO

from .wire_bodies import REPLIES

__all__ = ["WireServer", "wire_server"]

BURST_BYTES = 65_536


class WireServer:
    """Where the server is."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, mode: str, wire: str, kind: str, size: int) -> str:
        """The base URL at which a client of *wire* gets the reply of that kind and size."""
        return f"http://127.0.0.1:{self._port}/{mode}/{wire}/{kind}/{size}"


@contextmanager
def wire_server() -> Generator[WireServer]:
    """Have a server until the block ends."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join([root, *[entry for entry in sys.path if entry]])
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.wire_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the benchmark's server did not start")
        yield WireServer(int(line))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


# -- in the other process ----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _chunks(mode: str, wire: str, kind: str, size: int) -> list[bytes]:
    """The body, each part as one chunk of the HTTP body."""
    events = REPLIES[wire, kind](size)
    if mode == "bursts":
        whole = b"".join(events)
        events = [whole[at : at + BURST_BYTES] for at in range(0, len(whole), BURST_BYTES)]
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return [*chunks, b"0\r\n\r\n"]


def _head(wire: str) -> bytes:
    aws = wire == "bedrock-converse"
    kind = b"application/vnd.amazon.eventstream" if aws else b"text/event-stream"
    return b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n"


def _serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as stream:
        try:
            while (target := _read_request(stream)) is not None:
                _, mode, wire, kind, size, *_ = target.split("/")
                connection.sendall(_head(wire))
                for chunk in _chunks(mode, wire, kind, int(size)):
                    connection.sendall(chunk)
        except ConnectionError:
            return  # the client has seen enough


def _read_request(stream: IO[bytes]) -> str | None:
    """The target of the next request; None if there is none any more."""
    line = stream.readline()
    if not line:
        return None
    length = 0
    while (header := stream.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    stream.read(length)
    return line.split()[1].decode()


def _leave_the_core() -> None:
    """Run beside the benchmark, not on its core, where there is another."""
    if hasattr(os, "sched_setaffinity"):
        others = set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, others)
        except OSError:
            return  # there is none, or it is not for us


def main() -> None:
    """Serve until standard input ends."""
    _leave_the_core()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=[listener], daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.buffer.read()


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=[connection], daemon=True).start()


if __name__ == "__main__":
    main()
