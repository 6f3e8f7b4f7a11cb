"""Messages between our rows and pi's v4 lines: the same JSON, but for what one side cannot say.

Ours may leave a price unknown where pi demands numbers; pi has reasons to stop and blocks that
ours lack. Either is kept under a key of its own beside the nearest thing the other side knows, so
that it comes back unchanged: `costUnknown`, `piStopReason`, `piBlock`. Keys that one side does not
know pass through both ways. All functions return new data and leave what they were given alone.

Not here: lines and entries (pi_v4_lines).
"""

from __future__ import annotations

from typing import Any, cast

from ...messages import MOST_TOKENS

__all__ = [
    "OUR_USAGE",
    "PI_ROLES",
    "message_from_pi",
    "message_to_pi",
    "usage_from_pi",
    "usage_to_pi",
]

Json = dict[str, Any]

PI_ROLES = frozenset({"user", "assistant", "toolResult"})
"""The roles that may stand in a line; pp-agent-core refuses the whole file for any other."""

_PRICES = ("input", "output", "cacheRead", "cacheWrite", "total")
_COUNTS = ("input", "output", "cacheRead", "cacheWrite", "totalTokens", "reasoning", "toolInput")
OUR_USAGE = frozenset({*_COUNTS, "cost", "known", "doubtful"})
"""What of a usage our own class has fields for."""
_STOP_REASONS = frozenset({"stop", "length", "toolUse", "error", "aborted"})
_OTHER_WORDS = {"tool_use": "toolUse", "tool_calls": "toolUse", "end_turn": "stop"} | {
    "max_tokens": "length"
}
_BLOCKS = {
    "user": frozenset({"text", "image"}),
    "assistant": frozenset({"text", "thinking", "toolCall"}),
    "toolResult": frozenset({"text", "image"}),
}


# -- to pi -----------------------------------------------------------------------------------


def message_to_pi(message: Json) -> Json | None:
    """*message* as pi-agent-core reads it; None for a role that it would refuse."""
    if message.get("role") not in PI_ROLES:
        return None
    written = dict(message)
    if "piStopReason" in written:
        written["stopReason"] = written.pop("piStopReason")
    content = written.get("content")
    if isinstance(content, list):
        blocks = cast("list[Any]", content)
        if any(isinstance(block, dict) and "piBlock" in block for block in blocks):
            written["content"] = [_block_to_pi(block) for block in blocks]
    _replace_usage(written, usage_to_pi)
    return written


def _block_to_pi(block: Any) -> Any:
    return cast("Json", block).get("piBlock", block) if isinstance(block, dict) else block


def usage_to_pi(usage: Json) -> Json:
    """*usage* with a number for every price; those nobody knows are 0 and named beside it."""
    cost = cast("Json", usage.get("cost") or {})
    unknown = [name for name in _PRICES if cost.get(name) is None]
    if not unknown:
        return usage
    prices: Json = dict.fromkeys(_PRICES, 0) if len(unknown) == len(_PRICES) else dict(cost)
    for name in unknown:
        prices[name] = 0
    return {**usage, "cost": prices, "costUnknown": True if len(unknown) == 5 else unknown}


# -- from pi ---------------------------------------------------------------------------------


def message_from_pi(message: Json, timestamp: int) -> Json:
    """*message* as our rows keep it. One without a time of its own gets *timestamp* (ms).

    Roles of a program's own are kept as they are.
    """
    role = message.get("role")
    if role not in PI_ROLES:
        return message
    read = dict(message)
    when = read.get("timestamp")
    if type(when) is not int:
        read["timestamp"] = int(when) if isinstance(when, float) else timestamp
    if role == "assistant":
        _read_stop_reason(read)
    content = read.get("content")
    if content is None:
        read["content"] = "" if role == "user" else []
    elif isinstance(content, str) and role != "user":
        read["content"] = [{"type": "text", "text": content}] if content else []
    elif isinstance(content, list):
        read["content"] = _read_blocks(cast("list[Any]", content), _BLOCKS[str(role)])
    _replace_usage(read, usage_from_pi)
    return read


def usage_from_pi(usage: Json) -> Json:
    """*usage* as we keep it: prices that were not known are absent again."""
    read = usage
    marked = usage.get("costUnknown")
    if marked:
        read = {name: value for name, value in usage.items() if name != "costUnknown"}
        names = _PRICES if marked is True else cast("list[str]", marked)
        cost = cast("Json", usage.get("cost") or {})
        # A price that is not 0 any more was set by somebody who knew it.
        read["cost"] = {k: v for k, v in cost.items() if k not in names or v}
    if any(type(count := read.get(name, 0)) is not int or count > MOST_TOKENS for name in _COUNTS):
        read = {
            name: int(min(value, MOST_TOKENS))
            if name in _COUNTS and isinstance(value, int | float)
            else value
            for name, value in read.items()
            if value is not None  # JavaScript writes 12.0, and null for what it does not know
        }
    return read


def _replace_usage(message: Json, convert: Any) -> None:
    usage = message.get("usage")
    if isinstance(usage, dict):
        message["usage"] = convert(usage)
    elif "usage" in message:
        del message["usage"]


def _read_stop_reason(message: Json) -> None:
    reason = message.get("stopReason")
    if reason in _STOP_REASONS:
        return
    if isinstance(reason, str):
        message["piStopReason"] = reason
    # `deferred` and `pending` too: no model is shown a reply that never came.
    message["stopReason"] = _OTHER_WORDS.get(str(reason), "error")


def _read_blocks(blocks: list[Any], known: frozenset[str]) -> list[Any]:
    if all(
        isinstance(block, dict)
        and cast("Json", block).get("type") in known
        and (cast("Json", block).get("arguments", known) is not None)
        for block in blocks
    ):
        return blocks
    return [_read_block(block, known) for block in blocks]


def _read_block(block: Any, known: frozenset[str]) -> Any:
    if not isinstance(block, dict):
        return block  # wrong, and said so when the message is decoded
    data = cast("Json", block)
    kind = data.get("type")
    if kind == "toolCall" and kind in known and data.get("arguments") is None:
        return {**data, "arguments": {}}
    if kind in known or kind not in {"text", "thinking", "image", "toolCall"}:
        return data
    text = str(data.get("thinking") or f"[{kind}]")  # pi allows any block in any message
    return {"type": "text", "text": text, "piBlock": data}
