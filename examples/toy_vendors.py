"""Three vendors on your machine, each with a dialect of its own.

They stand in for the real ones, like `toy_vendor.py`, and know as much: sums are made by the tool
`add`. Each notes what it was shown in `asked`, and each thinks before it speaks, in its own form.

Run by itself it asks all three with nothing but an HTTP client. Prints:
    anthropic-messages: 10 events
    openai-responses: 8 events
    openai-chat: 5 events
"""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Item = tuple[str, str]
"""What a vendor is shown: its kind, and its text."""


def thought(items: list[Item]) -> tuple[str, Any]:
    """The toy model: a sum becomes a call, a tool's answer becomes a sentence."""
    kind, text = items[-1]
    if kind == "result":
        return "text", f"That makes {text}."
    wanted = re.search(r"(\d+) \+ (\d+)", text)
    if wanted:
        return "call", {"a": int(wanted[1]), "b": int(wanted[2])}
    sums = [text for kind, text in items if kind == "result"]
    return "text", f"We came to {' and '.join(sums)}."


# -- each dialect: what a request shows, and how a reply is streamed ------------------------------


class AnthropicMessages:
    path = "/v1/messages"

    def items(self, request: dict[str, Any]) -> Iterator[Item]:
        for message in request["messages"]:
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            for block in blocks:
                match block["type"]:
                    case "text":
                        yield message["role"], block["text"]
                    case "thinking":
                        yield "thinking", block["thinking"] + block["signature"]
                    case "tool_use":
                        yield "call", json.dumps(block["input"])
                    case _:
                        content = block["content"]
                        yield "result", content if isinstance(content, str) else content[0]["text"]

    def events(self, kind: str, said: Any, number: int) -> Iterator[dict[str, Any]]:
        yield {
            "type": "message_start",
            "message": {"id": f"m{number}", "usage": {"input_tokens": 9}},
        }
        block: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        for delta in (
            {"type": "thinking_delta", "thinking": "A sum?"},
            {"type": "signature_delta", "signature": f"signed-{number}"},
        ):
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        if kind == "call":
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": "add", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
        reason = "tool_use" if kind == "call" else "end_turn"
        usage = {"output_tokens": 5}
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
        yield {"type": "message_stop"}


class OpenAIResponses:
    path = "/responses"

    def items(self, request: dict[str, Any]) -> Iterator[Item]:
        for item in request["input"]:
            match item.get("type", "message"):
                case "message":
                    content = item["content"]
                    text = content if isinstance(content, str) else content[0]["text"]
                    if item["role"] in ("user", "assistant"):
                        yield item["role"], text
                case "reasoning":
                    yield "thinking", item.get("encrypted_content") or ""
                case "function_call":
                    yield "call", item["arguments"]
                case _:
                    yield "result", item["output"]

    def events(self, kind: str, said: Any, number: int) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": {"id": f"r{number}"}}
        reasoning: dict[str, Any] = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        reasoning["encrypted_content"] = f"sealed-{number}"
        yield {"type": "response.output_item.added", "output_index": 0, "item": reasoning}
        yield {"type": "response.output_item.done", "output_index": 0, "item": reasoning}
        if kind == "call":
            text, growing = json.dumps(said), "response.function_call_arguments.delta"
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            item |= {"name": "add", "arguments": ""}
            whole = {**item, "arguments": text}
        else:
            text, growing = said, "response.output_text.delta"
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": []}
            whole = {**item, "content": [{"type": "output_text", "text": text, "annotations": []}]}
        yield {"type": "response.output_item.added", "output_index": 1, "item": item}
        place = {"item_id": item["id"], "output_index": 1, "content_index": 0}
        if kind == "text":
            part = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **place, "part": part}
        for start in range(0, len(text), 10):
            yield {"type": growing, **place, "delta": text[start : start + 10]}
        yield {"type": "response.output_item.done", "output_index": 1, "item": whole}
        usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
        done = {"id": f"r{number}", "status": "completed", "usage": usage}
        yield {"type": "response.completed", "response": done}


class OpenAIChat:
    path = "/chat/completions"

    def items(self, request: dict[str, Any]) -> Iterator[Item]:
        for message in request["messages"]:
            if message["role"] == "tool":
                yield "result", message["content"]
                continue
            if message.get("reasoning_content"):
                yield "thinking", message["reasoning_content"]
            if message.get("content") and message["role"] in ("user", "assistant"):
                content = message["content"]
                yield message["role"], content if isinstance(content, str) else content[0]["text"]
            for call in message.get("tool_calls") or ():
                yield "call", call["function"]["arguments"]

    def events(self, kind: str, said: Any, number: int) -> Iterator[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "reasoning_content": "A sum?"}]
        if kind == "call":
            function = {"name": "add", "arguments": json.dumps(said)}
            deltas.append({"tool_calls": [{"index": 0, "id": f"c{number}", "function": function}]})
        else:
            deltas += [{"content": word} for word in re.findall(r"\S+\s*", said)]
        for delta in deltas:
            yield {"id": f"c{number}", "choices": [{"index": 0, "delta": delta}]}
        finish = "tool_calls" if kind == "call" else "stop"
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        yield {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}


DIALECTS = {
    "anthropic-messages": AnthropicMessages(),
    "openai-responses": OpenAIResponses(),
    "openai-chat": OpenAIChat(),
}


# -- the server -----------------------------------------------------------------------------------


@dataclass
class Vendors:
    """All three, at one address each."""

    url: str = ""
    asked: list[tuple[str, list[Item]]] = field(default_factory=list)
    """Every request: the dialect, and what was shown."""

    def base_url(self, api: str) -> str:
        """Where the dialect *api* is spoken."""
        return f"{self.url}/{api}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    vendors: Vendors

    def do_POST(self) -> None:
        api = self.path.split("/")[1]
        dialect = DIALECTS[api]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        items = list(dialect.items(request))
        self.vendors.asked.append((api, items))
        kind, said = thought(items)
        lines: list[str] = []
        for event in dialect.events(kind, said, len(self.vendors.asked)):
            name = f"event: {event['type']}\n" if "type" in event else ""
            lines.append(f"{name}data: {json.dumps(event)}\n\n")
        if api == "openai-chat":
            lines.append("data: [DONE]\n\n")
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Stay silent; the examples talk."""


@contextmanager
def toy_vendors() -> Iterator[Vendors]:
    """Serve on a free port of this machine."""
    vendors = Vendors()
    handler = type("Here", (Handler,), {"vendors": vendors})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    vendors.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield vendors
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


if __name__ == "__main__":
    question = {"role": "user", "content": "What is 17 + 25?"}
    with toy_vendors() as vendors:
        connection = http.client.HTTPConnection(vendors.url.removeprefix("http://"))
        for api, dialect in DIALECTS.items():
            body = json.dumps({"messages": [question], "input": [question]})
            connection.request("POST", f"/{api}{dialect.path}", body)
            events = connection.getresponse().read().decode().strip().split("\n\n")
            print(f"{api}: {len(events)} events")
        connection.close()
