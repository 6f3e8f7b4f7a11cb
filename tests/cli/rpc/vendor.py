"""A vendor on this machine that calls tools and thinks, as the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_SECONDS = 60

Hold = threading.Event


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    status: int
    message: str


Piece = str | Hold | Thought | Call


@dataclass
class ToolVendor:
    """Answers Chat Completions in the order of `will`; then always "Done."."""

    base_url: str = ""
    answers: list[list[Piece] | Refusal] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    sent: int = 0
    """Pieces so far."""

    def will(self, *pieces: Piece | Refusal) -> None:
        """Answer the next request with *pieces*; an `Event` among them is waited for."""
        first = pieces[0] if pieces else ""
        if isinstance(first, Refusal):
            self.answers.append(first)
            return
        said = [piece for piece in pieces if not isinstance(piece, Refusal)]
        self.answers.append(said)
        self.holds += [piece for piece in said if isinstance(piece, Hold)]

    def hold(self) -> Hold:
        """Something to wait for, which the end of the test sets free."""
        held = Hold()
        self.holds.append(held)
        return held

    def heard(self) -> list[tuple[str, str]]:
        """Of the last request: role and text of each message, the system prompt left out."""
        return [
            (message["role"], _text(message.get("content")))
            for message in self.requests[-1]["messages"]
            if message["role"] not in ("system", "developer")
        ]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


class Serving:
    """The vendor's server, while entered."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.vendor = ToolVendor(f"http://127.0.0.1:{self._server.server_port}/v1")
        self._server.vendor = self.vendor  # pyright: ignore[reportAttributeAccessIssue]
        serve: Callable[[float], None] = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.01,))

    def __enter__(self) -> ToolVendor:
        self._thread.start()
        return self.vendor

    def __exit__(self, *exc_info: object) -> None:
        for hold in self.vendor.holds:
            hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        vendor: ToolVendor = self.server.vendor  # pyright: ignore[reportAttributeAccessIssue]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        vendor.requests.append(json.loads(body))
        answer = vendor.answers.pop(0) if vendor.answers else ["Done."]
        self.close_connection = True
        if isinstance(answer, Refusal):
            refusal = json.dumps({"error": {"message": answer.message}}).encode()
            self.send_response(answer.status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(refusal)))
            self.end_headers()
            self.wfile.write(refusal)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self._stream(vendor, answer)
        except OSError:  # the program has gone
            pass

    def _stream(self, vendor: ToolVendor, pieces: Sequence[Piece]) -> None:
        calls = 0
        for piece in pieces:
            if isinstance(piece, Hold):
                piece.wait(TIMEOUT_SECONDS)
                continue
            if isinstance(piece, Call):
                self._call(calls, f"call_{len(vendor.requests)}_{calls}", piece)
                calls += 1
            elif isinstance(piece, Thought):
                self._delta({"reasoning_content": piece.text})
            else:
                self._delta({"content": piece})
            vendor.sent += 1
        finish = "tool_calls" if calls else "stop"
        self._send([{"index": 0, "delta": {}, "finish_reason": finish}])
        self._send([], usage={"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55})
        self.wfile.write(b"data: [DONE]\n\n")

    def _call(self, index: int, call_id: str, call: Call) -> None:
        text = json.dumps(call.arguments)
        half = len(text) // 2
        function = {"name": call.name, "arguments": text[:half]}
        head = {"index": index, "id": call_id, "type": "function", "function": function}
        self._delta({"tool_calls": [head]})
        self._delta({"tool_calls": [{"index": index, "function": {"arguments": text[half:]}}]})

    def _delta(self, delta: dict[str, Any]) -> None:
        self._send([{"index": 0, "delta": delta}])

    def _send(self, choices: list[Any], **more: Any) -> None:
        self.wfile.write(b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
