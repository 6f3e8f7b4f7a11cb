"""A vendor to play with: a server on this machine that speaks the OpenAI chat dialect.

The other examples import it, so that they need no key and no network; point them to a real server
and they work the same. Its "model" knows one thing: sums are made by the tool `add`.

Run by itself it is asked with nothing but an HTTP client. Prints:
    status 200, text/event-stream, 7 events
    arguments: {"a": 17, "b": 25}
"""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


def reply_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What the toy model says: a sum becomes a call, the tool's answer becomes a sentence."""
    last = messages[-1]
    text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"That makes {text}."}
    sum_wanted = re.search(r"(\d+) \+ (\d+)", text)
    if sum_wanted is None:
        return {"role": "assistant", "content": "I only do sums."}
    arguments = json.dumps({"a": int(sum_wanted[1]), "b": int(sum_wanted[2])})
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chunks_of(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The reply in pieces, as vendors stream it: text and arguments come cut anywhere."""
    for call in reply.get("tool_calls", []):
        text = call["function"]["arguments"]
        opening = {**call, "index": 0, "function": {"name": "add", "arguments": ""}}
        yield {"role": "assistant", "tool_calls": [opening]}
        for start in range(0, len(text), 6):
            piece = {"index": 0, "function": {"arguments": text[start : start + 6]}}
            yield {"tool_calls": [piece]}
    for word in re.findall(r"\S+\s*", reply["content"] or ""):
        yield {"content": word}


class ChatHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """POST /v1/chat/completions"""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = reply_to(request["messages"])
        finish = "tool_calls" if reply.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        if not request.get("stream"):
            choice = {"index": 0, "message": reply, "finish_reason": finish}
            body = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.answer("application/json", body)
            return
        lines: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta}]} for delta in chunks_of(reply)
        ]
        lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        lines.append({"choices": [], "usage": usage})
        events = [f"data: {json.dumps(line)}\n\n" for line in lines] + ["data: [DONE]\n\n"]
        self.answer("text/event-stream", "".join(events).encode())

    def answer(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Stay silent; the examples talk."""


@contextmanager
def toy_vendor() -> Iterator[str]:
    """Serve on a free port of this machine; gives the base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ChatHandler)
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


if __name__ == "__main__":
    with toy_vendor() as base_url:
        connection = http.client.HTTPConnection(base_url.split("/")[2])
        question = {"role": "user", "content": "What is 17 + 25?"}
        body = json.dumps({"model": "toy-1", "stream": True, "messages": [question]})
        connection.request("POST", "/v1/chat/completions", body)
        response = connection.getresponse()
        events = response.read().decode().strip().split("\n\n")
        print(f"status {response.status}, {response.headers['Content-Type']}, {len(events)} events")
        connection.close()
    call = reply_to([question])["tool_calls"][0]
    print("arguments:", call["function"]["arguments"])
