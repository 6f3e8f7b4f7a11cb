"""Bodies of the wire openai-responses, written by hand in the vendor's forms."""

from __future__ import annotations

import json
from typing import Any


def event(type: str, **fields: Any) -> bytes:
    data = json.dumps({"type": type, **fields}, ensure_ascii=False)
    return f"event: {type}\ndata: {data}\n\n".encode()


CREATED = event("response.created", response={"id": "resp_1", "status": "in_progress"})
USAGE = {
    "input_tokens": 10,
    "output_tokens": 4,
    "total_tokens": 14,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens_details": {"reasoning_tokens": 1},
}


def added(index: int | None, **item: Any) -> bytes:
    return _about("response.output_item.added", index, item)


def closed(index: int | None, **item: Any) -> bytes:
    return _about("response.output_item.done", index, item)


def _about(type: str, index: int | None, item: dict[str, Any]) -> bytes:
    place = {} if index is None else {"output_index": index}
    return event(type, item=item, **place)


def grown(kind: str, delta: str, **place: Any) -> bytes:
    return event(f"response.{kind}.delta", delta=delta, **place)


def completed(status: str = "completed", **response: Any) -> bytes:
    body = {"id": "resp_1", "status": status, "usage": USAGE, **response}
    return event(f"response.{status}", response=body)


def part(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], **more}


def said(index: int, *pieces: str, **more: Any) -> list[bytes]:
    """A message item as OpenAI sends it."""
    id = f"msg_{index}"
    item = {"type": "message", "id": id, "role": "assistant", **more}
    place = {"item_id": id, "output_index": index, "content_index": 0}
    return [
        added(index, **item, content=[]),
        event("response.content_part.added", part=part(""), **place),
        *(grown("output_text", piece, **place) for piece in pieces),
        event("response.output_text.done", text="".join(pieces), **place),
        event("response.content_part.done", part=part("".join(pieces)), **place),
        closed(index, **item, content=[part("".join(pieces))]),
    ]


def call(index: int, name: str, *pieces: str, **more: Any) -> list[bytes]:
    """A function call as OpenAI sends it."""
    id = f"fc_{index}"
    item = {"type": "function_call", "id": id, "call_id": f"call_{index}", "name": name, **more}
    place = {"item_id": id, "output_index": index}
    return [
        added(index, **item, arguments=""),
        *(grown("function_call_arguments", piece, **place) for piece in pieces),
        event("response.function_call_arguments.done", arguments="".join(pieces), **place),
        closed(index, **item, arguments="".join(pieces)),
    ]
