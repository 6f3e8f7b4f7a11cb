"""A line of the input as a command, or what is wrong with it in words.                    (pure)

Every line is answered, so whatever can be known of a wrong one, its id above all, is found out.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from ...messages import ImageContent
from .commands import COMMANDS, Command, FollowUp, Image, Prompt, Steer
from .output import ErrorKind

__all__ = ["LINE_LIMIT", "LineRefused", "images_of", "read_command", "too_long"]

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line, without its end."""

_decode = msgspec.json.Decoder(Command).decode
_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<name>.*)`(?: - at `\$(?P<place>.*)`)?", re.DOTALL)
_ID_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*"(?P<id>[^"\\\x00-\x1f]{1,200})"')
_BOM = b"\xef\xbb\xbf"


class LineRefused(Exception):
    """A line that is no command; what the response to it says."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        hint: str | None = None,
        *,
        id: str | None = None,
        command: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.hint = hint
        self.id = id
        self.command = command


def read_command(line: bytes) -> Command:
    """The command on *line*, which has no line break. Raises `LineRefused`."""
    try:
        command = _decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _refusal(line, error) from error
    if isinstance(command, Prompt | Steer | FollowUp) and not (
        command.text.strip() or command.images
    ):
        raise LineRefused(
            "invalid",
            "there is nothing to say: the text is empty",
            id=command.id,
            command=str(command.__struct_config__.tag),
        )
    return command


def too_long(start: bytes) -> LineRefused:
    """The refusal of a line of which only the *start* was kept."""
    return LineRefused(
        "too_long",
        f"the line is longer than {LINE_LIMIT // 1024**2} MiB",
        "send smaller images, or say where the file is",
        id=_id_at_start(start),
    )


def images_of(images: Iterable[Image]) -> list[ImageContent]:
    """*images* as content of a message. Raises `LineRefused` for what cannot be one."""
    found: list[ImageContent] = []
    for number, image in enumerate(images):
        if not image.mime_type.startswith("image/"):
            raise LineRefused(
                "invalid",
                f"images[{number}]: {image.mime_type!r} is no type of an image",
                'write the MIME type, such as "image/png"',
            )
        try:
            empty = not base64.b64decode(image.data, validate=True)
        except (binascii.Error, ValueError):
            empty = True
        if empty:
            raise LineRefused("invalid", f"images[{number}]: the data is not base64")
        found.append(ImageContent(image.data, image.mime_type))
    return found


def _refusal(line: bytes, error: Exception) -> LineRefused:
    if not line.strip():
        return LineRefused("malformed", "the line is empty", "one JSON object a line")
    if line.startswith(_BOM):
        return LineRefused(
            "malformed",
            "the line begins with a byte order mark",
            "send UTF-8 without one",
            id=_id_at_start(line.removeprefix(_BOM)),
        )
    try:
        data: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError) as fault:
        return LineRefused(
            "malformed",
            f"the line is not JSON: {fault}",
            "one object a line, UTF-8, no line breaks inside",
            id=_id_at_start(line),
        )
    except RecursionError:
        return LineRefused("malformed", "the line is nested too deeply", id=_id_at_start(line))
    if not isinstance(data, dict):
        return LineRefused(
            "malformed", "the line is not a JSON object", 'such as {"id":"1","type":"state"}'
        )
    return _not_a_command(cast("dict[str, Any]", data), error)


def _not_a_command(data: dict[str, Any], error: Exception) -> LineRefused:
    said_id, kind = data.get("id"), data.get("type")
    id = said_id if isinstance(said_id, str) else None
    if not isinstance(kind, str):
        what = "has no type" if "type" not in data else "has a type that is no string"
        return LineRefused(
            "malformed", f"the command {what}", 'such as {"id":"1","type":"state"}', id=id
        )
    known = COMMANDS.get(kind)
    if known is None:
        return LineRefused(
            "unknown_command",
            f"there is no command {_short(kind)!r}",
            _nearest(kind, COMMANDS) or f"there are {', '.join(COMMANDS)}",
            id=id,
        )
    said = str(error)
    unknown = _UNKNOWN_FIELD.search(said)
    if unknown is not None:
        name, place = unknown["name"], (unknown["place"] or "").lstrip(".")
        owner: type[msgspec.Struct] = Image if place.startswith("images") else known
        names = [field.encode_name for field in msgspec.structs.fields(owner)]
        names = [one for one in names if not (one == "id" and owner is known)]
        of_what = f"{place} of {kind}" if place else kind
        return LineRefused(
            "invalid",
            f"{of_what} has no field {_short(name)!r}",
            _nearest(name, names)
            or (f"its fields are {', '.join(names)}" if names else "it has none but id"),
            id=id,
            command=kind,
        )
    return LineRefused("invalid", f"{kind}: {said}", id=id, command=kind)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _id_at_start(line: bytes) -> str | None:
    """The id of a line that cannot be read, if that is where such a line usually has it."""
    found = _ID_FIRST.match(line[:1000])
    if found is None:
        return None
    try:
        return found["id"].decode()
    except UnicodeDecodeError:
        return None
