"""Gemini, requests: messages -> the bytes of alternating contents.                          (pure)

The user's side and the model take turns; what follows each other on one side becomes one content:
all results of a reply, then what the user said. A content is encoded once and kept beside the
growing list its messages come from; the next request of a run costs its new messages only and
begins with the very bytes of the last.

What the model said goes back part for part, with each signature on the part it came with (see
`google_gemini_decode` for how they are kept). A signature that is no base64 is left out, since the
vendor refuses it. From Gemini 3 on the first call of a step is refused without one: calls of other
models get the documented stand-in there, and only the first of each step does.

Not here: the rest of the body (`google_gemini_encode`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from ...messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..handoff import MessageView, ModelIdentity
from ..model import Model
from .google_gemini_decode import MADE_UP_ID
from .google_gemini_families import Family

__all__ = ["ALL_MESSAGES", "STAND_IN_SIGNATURE", "Contents", "ContentRules", "contents_of"]

STAND_IN_SIGNATURE = "skip_thought_signature_validator"
"""https://ai.google.dev/gemini-api/docs/thought-signatures: for calls no Gemini made."""

NO_OUTPUT = "(no output)"
SEE_IMAGES = "(see the images)"
NOTHING_BEFORE = "(nothing was said before)"
IMAGE_INTRODUCTION = "Images from the tool results above:"
IMAGE_LEFT_OUT = "(an image was left out: this model reads text only)"
IMAGE_TYPE_LEFT_OUT = "(an image was left out: the vendor takes no {})"

IMAGE_TYPES = frozenset(
    {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"}
)
"""https://ai.google.dev/gemini-api/docs/image-understanding"""
RESULT_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
"""Those a result itself may hold. https://ai.google.dev/gemini-api/docs/function-calling"""

ID_PATTERN = "^[a-zA-Z0-9_-]+$"
ID_LENGTH = 64
NAME_LENGTH = 64

ALL_MESSAGES = 1 << 62
"""As `unsigned_before`: no signature at all is sent."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

Role = Literal["user", "model"]
Part = msgspec.Raw


class ContentRules(msgspec.Struct, frozen=True):
    """What decides how a message is written; encoded contents are kept under it."""

    own: ModelIdentity
    images: bool
    unsigned_before: int
    """Signatures in the messages before this one are left out: they were refused."""
    calls_have_ids: bool
    images_in_results: bool
    signed_calls: bool
    id_pattern: str = ID_PATTERN
    id_length: int = ID_LENGTH

    @classmethod
    def of(
        cls, model: Model, family: Family, flags: Mapping[str, Any], *, unsigned_before: int
    ) -> ContentRules:
        """The rules of *model* at a host with *flags*."""
        given: Any = flags.get("tool_call_id")
        limits = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        if flags.get("reasoning_replay") == "none":
            unsigned_before = ALL_MESSAGES
        return cls(
            own=(model.provider, model.api, model.id),
            images="image" in model.input,
            unsigned_before=unsigned_before,
            calls_have_ids=family.calls_have_ids,
            images_in_results=family.images_in_results,
            signed_calls=family.signed_calls,
            id_pattern=limits.get("pattern") or ID_PATTERN,
            id_length=int(limits.get("max") or ID_LENGTH),
        )


class Contents:
    """The contents of one growing list of messages, as far as they are written."""

    __slots__ = (
        "_call_ids", "_closed", "_has_calls", "_moved", "_parts", "_role", "_rules", "_taken",
        "done", "has_signatures",
    )  # fmt: skip

    def __init__(self, rules: ContentRules) -> None:
        self._rules = rules
        self.done = 0
        """How many messages are written."""
        self.has_signatures = False
        """The vendor's own are among them."""
        self._closed: list[msgspec.Raw] = []
        self._role: Role = "user"
        self._parts: list[Part] = []  # of the content that may still grow
        self._has_calls = False  # is there a call in it
        self._moved: list[Part] = []  # images that wait for the end of their results
        self._call_ids: dict[str, str | None] = {}
        self._taken: set[str] = set()

    # -- reading ------------------------------------------------------------------------------

    def encoded(self) -> list[msgspec.Raw]:
        """All contents."""
        contents = list(self._closed)
        parts = [*self._parts, *_introduced(self._moved)] if self._moved else self._parts
        if parts:
            contents.append(_content(self._role, parts))
        return contents or [_content("user", [_text(NOTHING_BEFORE)])]

    # -- writing ------------------------------------------------------------------------------

    def write(self, message: Message) -> None:
        """Add the next message."""
        if type(message) is ToolResultMessage:
            self._result(message)
        elif type(message) is UserMessage:
            self._user(message)
        else:
            self._assistant(cast("AssistantMessage", message))
        self.done += 1

    def _turn_to(self, role: Role) -> None:
        """What is written now is *role*'s."""
        if self._moved:
            self._parts += _introduced(self._moved)
            self._moved = []
        if role == self._role:
            return
        if not self._parts and not self._closed:
            self._parts.append(_text(NOTHING_BEFORE))  # a conversation begins with the user's side
        self._closed.append(_content(self._role, self._parts))
        self._role, self._parts, self._has_calls = role, [], False

    # -- the user's side ----------------------------------------------------------------------

    def _user(self, message: UserMessage) -> None:
        self._turn_to("user")
        if isinstance(message.content, str):
            self._parts.append(_text(message.content))
            return
        for block in message.content:
            if type(block) is TextContent:
                self._parts.append(_text(block.text))
            else:
                self._image(cast("ImageContent", block))

    def _image(self, image: ImageContent) -> None:
        part = _image_part(image) if self._rules.images else None
        if part is None:
            part = _text(self._left_out(image))
            if self._parts and bytes(self._parts[-1]) == bytes(part):
                return  # one line stands for a run of images
        self._parts.append(part)

    def _left_out(self, image: ImageContent) -> str:
        if not self._rules.images:
            return IMAGE_LEFT_OUT
        kind = image.mime_type
        shown = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "such type"
        return IMAGE_TYPE_LEFT_OUT.format(shown)

    def _result(self, result: ToolResultMessage) -> None:
        lines: list[str] = []
        inside: list[Part] = []
        images = 0
        for block in result.content:
            if type(block) is TextContent:
                lines.append(block.text)
                continue
            image = cast("ImageContent", block)
            part = _image_part(image) if self._rules.images else None
            if part is None:
                line = self._left_out(image)
                if not lines or lines[-1] != line:
                    lines.append(line)
                continue
            images += 1
            if self._rules.images_in_results and _type_of(image) in RESULT_IMAGE_TYPES:
                inside.append(part)
            else:
                self._moved.append(part)
        text = "\n".join(lines) or (SEE_IMAGES if images else NO_OUTPUT)
        fields: dict[str, Any] = {}
        sent_id = self._call_ids.get(result.tool_call_id)
        if sent_id is not None:
            fields["id"] = sent_id
        fields["name"] = _sendable_name(result.tool_name)
        fields["response"] = {"error" if result.is_error else "output": text}
        if inside:
            fields["parts"] = inside
        moved, self._moved = self._moved, []
        self._turn_to("user")
        self._moved = moved
        self._parts.append(_raw({"functionResponse": fields}))

    # -- the model's side ---------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> None:
        own = (message.provider, message.api, message.model) == self._rules.own
        signed = own and self.done >= self._rules.unsigned_before
        before = self.has_signatures
        parts: list[Part] = []
        has_calls = self._has_calls and self._role == "model"
        for content in message.content:
            if type(content) is TextContent:
                parts += self._said(content, signed=signed, cut=message.stop_reason == "length")
            elif type(content) is ThinkingContent:
                signature = _base64(content.thinking_signature) if signed else None
                if signature is not None:
                    self.has_signatures = True
                    thought = {"text": content.thinking, "thought": True}
                    parts.append(_raw({**thought, "thoughtSignature": signature}))
            else:
                call = cast("ToolCall", content)
                parts.append(self._called(call, own=own, signed=signed, first=not has_calls))
                has_calls = True
        if not parts:
            self.has_signatures = before
            return
        self._turn_to("model")
        self._parts += parts
        self._has_calls = has_calls

    def _said(self, content: TextContent, *, signed: bool, cut: bool) -> list[Part]:
        """The parts a text came in, as far as their borders matter; or a part that only the vendor
        understands, kept as the signature of an empty text."""
        text, signature = content.text, content.text_signature
        if signature is None or signature[:1] != "{":
            bare = _base64(signature) if signed else None
            self.has_signatures = self.has_signatures or bare is not None
            return _text_parts(text, bare)
        if signature.startswith('{"part":') and not text:
            return self._opaque(signature, signed=signed, cut=cut)
        marks = _marks(signature, len(text)) if signed else []
        self.has_signatures = self.has_signatures or bool(marks)
        parts: list[Part] = []
        at = 0
        for start, end, one in marks:
            parts += _text_parts(text[at:start], None)
            parts += _text_parts(text[start:end], one)
            at = end
        return parts + _text_parts(text[at:], None)

    def _opaque(self, signature: str, *, signed: bool, cut: bool) -> list[Part]:
        raw = signature[len('{"part":') : -1]
        try:
            fields: Any = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeError):
            return []
        if not isinstance(fields, dict):
            return []
        if cut and ("toolCall" in fields or "executableCode" in fields):
            return []  # its result never came
        part = cast("dict[str, Any]", fields)
        if "thoughtSignature" in part:
            if not signed:
                return [_raw({k: v for k, v in part.items() if k != "thoughtSignature"})]
            self.has_signatures = True
        return [msgspec.Raw(raw.encode())]

    def _called(self, call: ToolCall, *, own: bool, signed: bool, first: bool) -> Part:
        fields: dict[str, Any] = {}
        sent_id = self._call_id(call.id, own=own)
        if sent_id is not None:
            fields["id"] = sent_id
        fields["name"] = _sendable_name(call.name)
        fields["args"] = call.arguments
        part: dict[str, Any] = {"functionCall": fields}
        signature = _base64(call.thought_signature) if signed else None
        if signature is not None:
            self.has_signatures = True
        elif first and self._rules.signed_calls:
            signature = STAND_IN_SIGNATURE
        if signature is not None:
            part["thoughtSignature"] = signature
        return _raw(part)

    def _call_id(self, own_id: str, *, own: bool) -> str | None:
        """The id to send for *own_id*; the same each time, and no other call's. Older models get
        only what they gave themselves."""
        if not self._rules.calls_have_ids and (not own or own_id.startswith(MADE_UP_ID)):
            self._call_ids[own_id] = None
            return None
        sent = own_id.partition("|")[0] or own_id  # Responses ids carry the item's id behind a bar
        length = self._rules.id_length
        if len(sent) > length or not re.fullmatch(self._rules.id_pattern, sent):
            sent = _hashed(own_id, length)
        n = 2
        while sent in self._taken:
            sent, n = _hashed(f"{own_id}#{n}", length), n + 1
        self._taken.add(sent)
        self._call_ids[own_id] = sent
        return sent


def contents_of(view: MessageView, rules: ContentRules) -> Contents:
    """*view*'s messages as contents; encoded are only those that were not before."""
    key = ("google-gemini", rules)
    contents: Contents | None = view.memo.get(key)
    if contents is None or contents.done > len(view):  # an earlier state is asked for again
        fresh = Contents(rules)
        if contents is None:
            view.memo[key] = fresh
        contents = fresh
    if contents.done < len(view):
        for message in view[contents.done :]:
            contents.write(message)
    return contents


# -- parts -------------------------------------------------------------------------------------

_encode = msgspec.json.encode


def _raw(fields: dict[str, Any]) -> msgspec.Raw:
    """*fields*, encoded now and copied as they are later."""
    return msgspec.Raw(_encode(fields))


def _content(role: Role, parts: list[Part]) -> msgspec.Raw:
    return _raw({"role": role, "parts": parts})


def _text(text: str) -> Part:
    return _raw({"text": text})


def _text_parts(text: str, signature: str | None) -> list[Part]:
    """A text of the model's; one that is blank is sent only as the carrier of a signature."""
    if signature is not None:
        return [_raw({"text": text, "thoughtSignature": signature})]
    return [_text(text)] if text.strip() else []


def _marks(kept: str, length: int) -> list[tuple[int, int, str]]:
    """Where signatures stand in a text of *length* characters; none if that cannot be right."""
    try:
        marks = msgspec.json.decode(kept, type=_Kept).signatures
    except (msgspec.MsgspecError, UnicodeError):
        return []
    at = 0
    for start, end, signature in marks:
        if not at <= start <= end <= length or _base64(signature) is None:
            return []
        at = end
    return marks


class _Kept(msgspec.Struct):
    signatures: list[tuple[int, int, str]] = []


def _base64(signature: str | None) -> str | None:
    return signature if signature and _BASE64.fullmatch(signature) else None


def _type_of(image: ImageContent) -> str:
    return "image/jpeg" if image.mime_type == "image/jpg" else image.mime_type


def _image_part(image: ImageContent) -> Part | None:
    """None for a type the vendor does not take."""
    kind = _type_of(image)
    if kind not in IMAGE_TYPES:
        return None
    return _raw({"inlineData": {"mimeType": kind, "data": image.data}})


def _introduced(images: list[Part]) -> list[Part]:
    return [_text(IMAGE_INTRODUCTION), *images]


def _sendable_name(name: str) -> str:
    """A name some model made up must not make every later request invalid."""
    if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name):
        return name
    name = re.sub(r"[^a-zA-Z0-9_.:-]", "_", name)[: NAME_LENGTH - 1]
    return (name if re.match(r"[a-zA-Z_]", name) else f"_{name}") if name else "unnamed"


def _hashed(text: str, length: int) -> str:
    """Letters and digits only, which every host takes."""
    return hashlib.blake2s(text.encode("utf-8", "replace")).hexdigest()[: min(length, 32)]
