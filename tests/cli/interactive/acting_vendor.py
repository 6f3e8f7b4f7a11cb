"""A vendor on this machine that does in each reply what the test says, piece by piece.

    hold = threading.Event()
    actor.will_answer("Let me look.", ToolCall("bash", {"command": "ls"}))
    actor.will_answer(Thinking("Three files."), "There ", hold, "are three.")
    actor.will_refuse(429, "slow down")

Replies are used up in order, one for each request. It speaks Chat Completions. A request for which
nothing is left is refused with words that say so, and stands in `requests` like any other.

Not here: the program (conftest.py).
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = [
    "ActingVendor",
    "BreakOff",
    "Pause",
    "Piece",
    "Thinking",
    "ToolCall",
    "Used",
]

WAIT_SECONDS = 60.0
"""Far beyond what anything takes here; a hang becomes a failure."""


@dataclass(frozen=True)
class Thinking:
    """What the model thinks aloud."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. Its arguments come in pieces of *size* characters, *pause* seconds apart."""

    name: str
    arguments: Mapping[str, Any]
    size: int = 1 << 20
    pause: float = 0.0


@dataclass(frozen=True)
class Pause:
    """So many seconds without a word: for a pace that people can follow."""

    seconds: float


@dataclass(frozen=True)
class BreakOff:
    """The connection is closed in the middle of the reply."""


@dataclass(frozen=True)
class Used:
    """What the reply cost, in tokens."""

    prompt: int = 1200
    completion: int = 5
    cached: int = 0
    """Of the prompt."""
    reasoning: int = 0
    """Of the completion."""


Piece = str | Thinking | ToolCall | Pause | BreakOff | threading.Event
"""A str is text. An event is waited for, so that the test can look meanwhile."""

Request = dict[str, Any]


@dataclass
class _Refusal:
    status: int
    message: str
    retry_after: float


@dataclass
class _Answer:
    pieces: Callable[[Request], Sequence[Piece]]
    used: Used | None
    finish: str | None


@dataclass
class ActingVendor:
    """The vendor. Safe to be used while it serves."""

    base_url: str
    requests: list[Request] = field(default_factory=list)
    """The bodies, in order."""
    headers: list[dict[str, str]] = field(default_factory=list)
    hang_ups: int = 0
    """How many replies the program did not want to hear to their end."""

    def __post_init__(self) -> None:
        self._plan: list[_Refusal | _Answer] = []
        self._holds: list[threading.Event] = []
        self._changed = threading.Condition()
        self._calls = 0

    # -- the script ------------------------------------------------------------------------------

    def will_answer(
        self, *pieces: Piece, used: Used | None = Used(), finish: str | None = None
    ) -> None:
        """Say *pieces*. The reason to finish is `tool_calls` or `stop`, unless it is given; without
        *used* no usage is told."""
        self._holds += [piece for piece in pieces if isinstance(piece, threading.Event)]
        self._add(_Answer(lambda _request: pieces, used, finish))

    def will_react(
        self, pieces: Callable[[Request], Sequence[Piece]], used: Used | None = Used()
    ) -> None:
        """Say what *pieces* makes of the request."""
        self._add(_Answer(pieces, used, None))

    def will_refuse(self, status: int, message: str, *, retry_after: float = 0) -> None:
        """Answer with an error. 429 and 5xx make the program try again, after *retry_after* s."""
        self._add(_Refusal(status, message, retry_after))

    def _add(self, planned: _Refusal | _Answer) -> None:
        with self._changed:
            self._plan.append(planned)

    # -- what came of it -------------------------------------------------------------------------

    def wait_for_requests(self, count: int, seconds: float = WAIT_SECONDS) -> Request:
        """The last of the first *count* requests, as soon as that many have come."""
        self._wait(lambda: len(self.requests) >= count, seconds, f"{count} requests")
        return self.requests[count - 1]

    def wait_for_hang_ups(self, count: int, seconds: float = WAIT_SECONDS) -> None:
        """Returns as soon as the program has closed so many connections in mid-reply."""
        self._wait(lambda: self.hang_ups >= count, seconds, f"{count} closed connections")

    def said(self, index: int = -1) -> list[tuple[str, str]]:
        """Role and text of each message of a request, by default the last."""
        return [
            (message["role"], _text(message.get("content")))
            for message in self.requests[index]["messages"]
        ]

    def _wait(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, seconds):
                raise AssertionError(
                    f"after {seconds:g} seconds there were not {what}, but "
                    f"{len(self.requests)} requests and {self.hang_ups} closed connections"
                )

    # -- setting it up ---------------------------------------------------------------------------

    def models_file(self, *, context_window: int = 8000) -> str:
        """A models.toml that knows this vendor as `toy`. Its models think and have prices."""
        rows = "\n".join(
            f'[[providers.toy.models]]\nid = "{name}"\nname = "Toy {name.title()}"\n'
            f"context_window = {context_window}\nmax_tokens = 2000\n"
            'thinking_levels = ["low", "medium", "high"]\n'
            "cost = { input = 2.0, output = 10.0, cache_read = 0.2, cache_write = 2.5 }\n"
            for name in ("one", "two")
        )
        return f'default = "toy/one"\n[providers.toy]\nbase_url = "{self.base_url}"\n{rows}'

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator[ActingVendor]:
        """One that answers on a free port of this machine until the block ends."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Exchange)
        server.daemon_threads = True
        vendor = cls(f"http://127.0.0.1:{server.server_port}/v1")
        server.vendor = vendor  # pyright: ignore[reportAttributeAccessIssue]
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield vendor
        finally:
            for hold in vendor._holds:
                hold.set()
            server.shutdown()
            thread.join()
            server.server_close()

    # -- for the exchange ------------------------------------------------------------------------

    def take_request(self, body: Request, headers: dict[str, str]) -> _Refusal | _Answer:
        """What to do with the next request."""
        with self._changed:
            self.requests.append(body)
            self.headers.append(headers)
            planned = (
                self._plan.pop(0)
                if self._plan
                else _Refusal(400, "the test has scripted no answer for this request", 0)
            )
            self._changed.notify_all()
        return planned

    def note_hang_up(self) -> None:
        with self._changed:
            self.hang_ups += 1
            self._changed.notify_all()

    def next_call_id(self) -> str:
        with self._changed:
            self._calls += 1
            return f"call_{self._calls}"


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text", "") for part in content)


class _HungUp(Exception):
    """The program has closed the connection."""


class _BrokenOff(Exception):
    """The script wants the connection closed."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connection: socket.socket

    def do_POST(self) -> None:
        vendor: ActingVendor = self.server.vendor  # pyright: ignore[reportAttributeAccessIssue]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        planned = vendor.take_request(
            body, {name.lower(): value for name, value in self.headers.items()}
        )
        self.close_connection = True
        try:
            if isinstance(planned, _Refusal):
                self._refuse(planned)
            else:
                self._answer(vendor, planned, body)
        except _BrokenOff:
            return
        except (_HungUp, OSError):
            vendor.note_hang_up()

    def _refuse(self, refusal: _Refusal) -> None:
        body = json.dumps({"error": {"message": refusal.message}}).encode()
        self.send_response(refusal.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", f"{refusal.retry_after:g}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, vendor: ActingVendor, answer: _Answer, body: Request) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        calls = 0
        for piece in answer.pieces(body):
            match piece:
                case str():
                    self._delta({"content": piece})
                case Thinking(text):
                    self._delta({"reasoning_content": text})
                case ToolCall():
                    self._call(vendor, piece, calls)
                    calls += 1
                case Pause(seconds):
                    self._wait(threading.Event(), seconds)
                case threading.Event():
                    self._wait(piece, WAIT_SECONDS)
                case BreakOff():
                    raise _BrokenOff
        finish = answer.finish or ("tool_calls" if calls else "stop")
        self._send([{"index": 0, "delta": {}, "finish_reason": finish}])
        if answer.used is not None:
            self._send([], usage=_usage(answer.used))
        self.wfile.write(b"data: [DONE]\n\n")

    def _call(self, vendor: ActingVendor, call: ToolCall, index: int) -> None:
        function = {"name": call.name, "arguments": ""}
        whole = {"index": index, "id": vendor.next_call_id(), "type": "function"}
        self._delta({"tool_calls": [{**whole, "function": function}]})
        text = json.dumps(call.arguments)
        for start in range(0, len(text), call.size):
            if start and call.pause:
                self._wait(threading.Event(), call.pause)
            part = {"index": index, "function": {"arguments": text[start : start + call.size]}}
            self._delta({"tool_calls": [part]})

    def _wait(self, hold: threading.Event, seconds: float) -> None:
        """Wait for *hold*, and notice meanwhile when the other side goes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not hold.wait(min(left, 0.02)):
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _HungUp

    def _delta(self, delta: dict[str, Any]) -> None:
        self._send([{"index": 0, "delta": delta}])

    def _send(self, choices: list[Any], **more: Any) -> None:
        self.wfile.write(b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _usage(used: Used) -> dict[str, Any]:
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt + used.completion,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }
