"""What vendors' servers send: the events of one long reply on each wire, as those servers write them.

Every list holds what comes with one event: its bytes, framing included. The fields, their order and
their length are those of real replies, since what is passed over costs time, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import pack

import msgspec

__all__ = ["MODES", "REPLIES", "argument_text", "words"]

MODES = ("bursts", "singly")
"""How a reply is sent: 64 KB at a time, or each event in a chunk and a packet of its own."""

_PIECE = 20
"""Characters of tool arguments per event."""


def words(count: int) -> Iterator[str]:
    """The *count* pieces of text that a reply consists of."""
    some = (
        " the",
        " stream",
        " of",
        " tokens",
        ",",
        " each",
        " small",
        "\n",
        " \u00e9t\u00e9",
        " end",
    )
    return (some[n % len(some)] for n in range(count))


def argument_text(size: int) -> str:
    """About *size* bytes of arguments: source code being written to a file, with escapes."""
    line = "    print(\"line\", number, 'of', total)\n"
    content = line * (size // (len(line) + 3))  # three of its characters are escaped
    return msgspec.json.encode({"path": "main.py", "content": content}).decode()


def _pieces(size: int) -> list[str]:
    text = argument_text(size)
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


# -- Chat Completions --------------------------------------------------------------------------

_CHAT_HEAD = (
    '{"id":"chatcmpl-CMa5kTz0Q2yVbYh3nPq8sWx1LrDgE","object":"chat.completion.chunk",'
    '"created":1760000000,"model":"gpt-5-mini-2025-08-07","service_tier":"default",'
    '"system_fingerprint":"fp_44added55e",'
)


def _chat(delta: str, finish: str = "null") -> bytes:
    return (
        f'data: {_CHAT_HEAD}"choices":[{{"index":0,"delta":{delta},"logprobs":null,'
        f'"finish_reason":{finish}}}],"usage":null}}\n\n'
    ).encode()


def _chat_end(finish: str) -> list[bytes]:
    usage = '{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}'
    return [
        _chat("{}", finish),
        f'data: {_CHAT_HEAD}"choices":[],"usage":{usage}}}\n\n'.encode(),
        b"data: [DONE]\n\n",
    ]


def _chat_text(count: int) -> list[bytes]:
    start = _chat('{"role":"assistant","content":"","refusal":null}')
    return [
        start,
        *[_chat(f'{{"content":{_json(word)}}}') for word in words(count)],
        *_chat_end('"stop"'),
    ]


def _chat_call(size: int) -> list[bytes]:
    call = (
        '{"index":0,"id":"call_Zq8sWx1LrDgE","type":"function",'
        '"function":{"name":"write_file","arguments":""}}'
    )
    start = _chat(f'{{"role":"assistant","content":null,"tool_calls":[{call}],"refusal":null}}')
    pieces = [
        _chat(f'{{"tool_calls":[{{"index":0,"function":{{"arguments":{_json(piece)}}}}}]}}')
        for piece in _pieces(size)
    ]
    return [start, *pieces, *_chat_end('"tool_calls"')]


# -- Anthropic Messages ------------------------------------------------------------------------


def _named(name: str, fields: str) -> bytes:
    return f'event: {name}\ndata: {{"type":"{name}",{fields}}}\n\n'.encode()


def _anthropic(block: str, deltas: Iterator[str], stop: str) -> list[bytes]:
    usage = '"usage":{"input_tokens":9,"output_tokens":1,"service_tier":"standard"}'
    message = (
        '"message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant",'
        f'"content":[],"model":"claude-sonnet-4-5","stop_reason":null,"stop_sequence":null,{usage}}}'
    )
    return [
        _named("message_start", message),
        _named("content_block_start", f'"index":0,"content_block":{block}'),
        b'event: ping\ndata: {"type": "ping"}\n\n',
        *[_named("content_block_delta", f'"index":0,"delta":{delta}') for delta in deltas],
        _named("content_block_stop", '"index":0'),
        _named(
            "message_delta",
            f'"delta":{{"stop_reason":"{stop}","stop_sequence":null}},"usage":{{"output_tokens":9}}',
        ),
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]


def _anthropic_text(count: int) -> list[bytes]:
    deltas = (f'{{"type":"text_delta","text":{_json(word)}}}' for word in words(count))
    return _anthropic('{"type":"text","text":""}', deltas, "end_turn")


def _anthropic_call(size: int) -> list[bytes]:
    block = '{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2t","name":"write_file","input":{}}'
    deltas = (
        f'{{"type":"input_json_delta","partial_json":{_json(piece)}}}' for piece in _pieces(size)
    )
    return _anthropic(block, deltas, "tool_use")


# -- Responses ---------------------------------------------------------------------------------

_RESPONSE = (
    '"response":{"id":"resp_68e6a1b2c3d4","object":"response","created_at":1760000000,'
    '"status":"%s","error":null,"incomplete_details":null,"instructions":null,'
    '"model":"gpt-5-mini-2025-08-07","output":[%s],"parallel_tool_calls":true,'
    '"tool_choice":"auto","tools":[],"usage":%s}'
)
_RESPONSE_USAGE = (
    '{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},"output_tokens":9,'
    '"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}'
)


def _responses(item: str, opening: list[bytes], deltas: list[bytes], done: str) -> list[bytes]:
    created = _RESPONSE % ("in_progress", "", "null")
    completed = _RESPONSE % ("completed", done, _RESPONSE_USAGE)
    return [
        _named("response.created", f'"sequence_number":0,{created}'),
        _named("response.output_item.added", f'"sequence_number":1,"output_index":0,"item":{item}'),
        *opening,
        *deltas,
        _named("response.output_item.done", f'"sequence_number":9,"output_index":0,"item":{done}'),
        _named("response.completed", f'"sequence_number":10,{completed}'),
    ]


def _message_item(status: str, content: str) -> str:
    return (
        f'{{"id":"msg_68e6a1b2c3d4","type":"message","status":"{status}",'
        f'"content":[{content}],"role":"assistant"}}'
    )


def _responses_text(count: int) -> list[bytes]:
    part = '{"type":"output_text","annotations":[],"logprobs":[],"text":%s}'
    where = '"item_id":"msg_68e6a1b2c3d4","output_index":0,"content_index":0'
    added = f'"sequence_number":2,{where},"part":{part % _json("")}'
    deltas = [
        _named(
            "response.output_text.delta",
            f'"sequence_number":{n},{where},"delta":{_json(word)},"logprobs":[],'
            '"obfuscation":"8sWx1LrDgE"',
        )
        for n, word in enumerate(words(count), 3)
    ]
    whole = part % _json("".join(words(count)))
    return _responses(
        _message_item("in_progress", ""),
        [_named("response.content_part.added", added)],
        deltas,
        _message_item("completed", whole),
    )


def _call_item(status: str, arguments: str) -> str:
    return (
        f'{{"id":"fc_68e6a1b2c3d4","type":"function_call","status":"{status}",'
        f'"arguments":{_json(arguments)},"call_id":"call_Zq8sWx1LrDgE","name":"write_file"}}'
    )


def _responses_call(size: int) -> list[bytes]:
    deltas = [
        _named(
            "response.function_call_arguments.delta",
            f'"sequence_number":{n},"item_id":"fc_68e6a1b2c3d4","output_index":0,'
            f'"delta":{_json(piece)},"obfuscation":"8sWx1LrDgE"',
        )
        for n, piece in enumerate(_pieces(size), 2)
    ]
    done = _call_item("completed", argument_text(size))
    return _responses(_call_item("in_progress", ""), [], deltas, done)


# -- Gemini ------------------------------------------------------------------------------------

_GEMINI_USAGE = (
    '"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 9,"totalTokenCount": 18,'
    '"promptTokensDetails": [{"modality": "TEXT","tokenCount": 9}]},'
    '"modelVersion": "gemini-2.5-flash","responseId": "bE3maLm8Npf7sWx1LrDgE"'
)


def _gemini(part: str, finish: str = "") -> bytes:
    return (
        f'data: {{"candidates": [{{"content": {{"parts": [{part}],"role": "model"}},{finish}'
        f'"index": 0}}],{_GEMINI_USAGE}}}\r\n\r\n'
    ).encode()


def _gemini_text(count: int) -> list[bytes]:
    texts = [_gemini(f'{{"text": {_json(word)}}}') for word in words(count)]
    return [*texts, _gemini('{"text": ""}', '"finishReason": "STOP",')]


def _gemini_call(size: int) -> list[bytes]:
    call = f'{{"functionCall": {{"name": "write_file","args": {argument_text(size)}}}}}'
    return [_gemini(call, '"finishReason": "STOP",')]


# -- Bedrock Converse --------------------------------------------------------------------------


def _frame(name: str, payload: str) -> bytes:
    fields = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join([
        pack("!B", len(key)) + key.encode() + b"\x07" + pack("!H", len(value)) + value.encode()
        for key, value in fields.items()
    ])  # fmt: skip
    body = payload.encode()
    prelude = pack("!II", 16 + len(headers) + len(body), len(headers))
    start = prelude + pack("!I", zlib.crc32(prelude)) + headers + body
    return start + pack("!I", zlib.crc32(start))


def _bedrock(opening: list[bytes], deltas: Iterator[str], stop: str) -> list[bytes]:
    return [
        _frame("messageStart", '{"p":"abcdefghijklmno","role":"assistant"}'),
        *opening,
        *[
            _frame(
                "contentBlockDelta",
                f'{{"contentBlockIndex":0,"delta":{delta},"p":"abcdefghijklmnopqrstuv"}}',
            )
            for delta in deltas
        ],
        _frame("contentBlockStop", '{"contentBlockIndex":0,"p":"abcdefg"}'),
        _frame("messageStop", f'{{"p":"abcdefghijk","stopReason":"{stop}"}}'),
        _frame(
            "metadata",
            '{"metrics":{"latencyMs":900},"p":"abc",'
            '"usage":{"inputTokens":9,"outputTokens":9,"totalTokens":18}}',
        ),
    ]


def _bedrock_text(count: int) -> list[bytes]:
    return _bedrock([], (f'{{"text":{_json(word)}}}' for word in words(count)), "end_turn")


def _bedrock_call(size: int) -> list[bytes]:
    start = (
        '{"contentBlockIndex":0,"p":"abcd",'
        '"start":{"toolUse":{"name":"write_file","toolUseId":"tooluse_Zq8sWx1L"}}}'
    )
    deltas = (f'{{"toolUse":{{"input":{_json(piece)}}}}}' for piece in _pieces(size))
    return _bedrock([_frame("contentBlockStart", start)], deltas, "tool_use")


REPLIES: dict[tuple[str, str], Callable[[int], list[bytes]]] = {
    ("openai-chat", "text"): _chat_text,
    ("openai-chat", "call"): _chat_call,
    ("anthropic-messages", "text"): _anthropic_text,
    ("anthropic-messages", "call"): _anthropic_call,
    ("openai-responses", "text"): _responses_text,
    ("openai-responses", "call"): _responses_call,
    ("google-gemini", "text"): _gemini_text,
    ("google-gemini", "call"): _gemini_call,
    ("bedrock-converse", "text"): _bedrock_text,
    ("bedrock-converse", "call"): _bedrock_call,
}
"""By wire and kind: a reply of so many pieces of text, or a call with so many bytes of arguments."""
