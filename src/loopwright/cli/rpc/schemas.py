"""The JSON Schemas in docs/schemas, made from the types that are read and written.        (pure)

    python -m loopwright.cli.rpc.schemas docs/schemas

writes them; a test fails when they are not what this makes. Objects are closed: a field that the
schema does not name is an error. Open are the things that others fill: arguments of tools and
their `details`, and messages with a role of a program's own.

Not here: validating anything with them.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from ...events import AgentEvent, AgentStart, ToolExecutionUpdate
from ...messages import CustomMessage
from ...records import Record
from ..json_mode import FORMAT_VERSION, SessionLine
from .commands import COMMANDS
from .output import PROTOCOL_VERSION, Fault, Line, Ready, StartFailed
from .response_data import DATA

__all__ = ["schemas"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_OWN_ROLES = ["user", "assistant", "toolResult"]

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """Every schema by its file name."""
    return {
        "json-mode.schema.json": _json_mode(),
        "rpc-command.schema.json": _rpc_command(),
        "rpc-output.schema.json": _rpc_output(),
    }


def _json_mode() -> Schema:
    walk = _Walk()
    return walk.document(
        "json-mode",
        f"One line of the output of `loopwright --mode json`, version {FORMAT_VERSION}.",
        _event_lines(walk),
    )


def _rpc_command() -> Schema:
    walk = _Walk(reading=True)
    lines = [walk.of(kind) for kind in COMMANDS.values()]
    title = f"One line of the input of `loopwright --mode rpc`, version {PROTOCOL_VERSION}."
    return walk.document("rpc-command", title, lines)


def _rpc_output() -> Schema:
    walk = _Walk()
    lines = [walk.of(kind) for kind in typing.get_args(Line)]
    for versioned in (Ready, StartFailed):
        properties = walk.definitions[versioned.__name__]["properties"]
        properties["version"] = {"const": PROTOCOL_VERSION}
    lines += [_response(walk, name, data) for name, data in DATA.items()]
    lines.append(_refusal(walk))
    title = f"One line of the output of `loopwright --mode rpc`, version {PROTOCOL_VERSION}."
    return walk.document("rpc-output", title, [*lines, *_event_lines(walk)])


def _event_lines(walk: _Walk) -> list[Schema]:
    lines = [walk.of(SessionLine)]
    walk.definitions["SessionLine"]["properties"]["version"] = {"const": FORMAT_VERSION}
    for kind in typing.get_args(AgentEvent):
        if kind is AgentStart:  # on a line of its own it tells the version
            start = walk.object(AgentStart)
            start["properties"]["version"] = {"const": FORMAT_VERSION}
            start["required"].append("version")
            walk.definitions["AgentStartLine"] = start
            lines.append(_reference("AgentStartLine"))
        else:
            lines.append(walk.of(kind))
    walk.definitions["Subagent"] = {
        "description": "An event of a child agent, in the update of the call that started it.",
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "agent": {"type": "string"},
            "depth": {"type": "integer", "minimum": 1},
            "parentId": {"type": ["string", "null"]},
            "seq": {"type": "integer", "minimum": 0},
            "event": {"oneOf": [walk.of(kind) for kind in typing.get_args(AgentEvent)]},
        },
        "required": ["id", "agent", "depth", "parentId", "seq", "event"],
        "additionalProperties": False,
    }
    update = walk.definitions[ToolExecutionUpdate.__name__]
    update["properties"]["partialResult"] = {
        "allOf": [update["properties"]["partialResult"]],
        "properties": {"details": _subagent_details()},
    }
    return lines


def _subagent_details() -> Schema:
    """Free, unless it is the envelope of a child's event (tools/subagent_events.py)."""
    envelope = {"type": "object", "required": ["event"]}
    is_envelope = {
        "type": "object",
        "properties": {"subagent": envelope},
        "required": ["subagent"],
    }
    holds = {"properties": {"subagent": _reference("Subagent")}, "additionalProperties": False}
    return {"if": is_envelope, "then": holds}


def _response(walk: _Walk, name: str, data: type[msgspec.Struct]) -> Schema:
    definition = f"Response_{name}"
    walk.definitions[definition] = {
        "description": f"The command `{name}` was done.",
        "type": "object",
        "properties": {
            "type": {"const": "response"},
            "id": {"type": ["string", "null"]},
            "command": {"const": name},
            "success": {"const": True},
            "data": walk.of(data),
        },
        "required": ["type", "id", "command", "success", "data"],
        "additionalProperties": False,
    }
    return _reference(definition)


def _refusal(walk: _Walk) -> Schema:
    walk.definitions["Refusal"] = {
        "description": "A command was not done, or a line was none; `command` is null if the line "
        "does not say which.",
        "type": "object",
        "properties": {
            "type": {"const": "response"},
            "id": {"type": ["string", "null"]},
            "command": {"enum": [*COMMANDS, None]},
            "success": {"const": False},
            "error": walk.of(Fault),
        },
        "required": ["type", "id", "command", "success", "error"],
        "additionalProperties": False,
    }
    return _reference("Refusal")


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


class _Walk:
    """Types as schemas; those of structs are kept as definitions.

    What we write has every field that has no constant default (records.py); of what we read, a
    field with a default may be left out.
    """

    def __init__(self, *, reading: bool = False) -> None:
        self.definitions: dict[str, Schema] = {}
        self._reading = reading

    def document(self, name: str, title: str, lines: list[Schema]) -> Schema:
        """The whole file: a line is exactly one of *lines*."""
        return {
            "$schema": _DIALECT,
            "$id": f"urn:loopwright:{name}:{PROTOCOL_VERSION}",
            "title": title,
            "oneOf": lines,
            "$defs": dict(sorted(self.definitions.items())),
        }

    def of(self, kind: Any) -> Schema:
        """The schema of a value of *kind*, which may be any type that our structs use."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self.of(arguments[0]) | _bounds(arguments[1:])
        if origin in (typing.Union, types.UnionType):
            return _joined([self.of(argument) for argument in arguments])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            values = arguments[1]
            return {"type": "object"} | (
                {} if values is Any else {"additionalProperties": self.of(values)}
            )
        if kind is Any:
            return {}
        if isinstance(kind, type):
            return self._of_class(cast("type[Any]", kind))
        raise TypeError(f"there is no schema for {kind!r}")

    def _of_class(self, kind: type[Any]) -> Schema:
        plain: dict[type[Any], str] = {
            str: "string",
            int: "integer",
            float: "number",
            bool: "boolean",
            types.NoneType: "null",
        }
        if kind in plain:
            return {"type": plain[kind]}
        if not issubclass(kind, msgspec.Struct):
            raise TypeError(f"there is no schema for {kind!r}")
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # it may contain itself
            self.definitions[name] = (
                _custom_message() if issubclass(kind, CustomMessage) else self.object(kind)
            )
        return _reference(name)

    def object(self, kind: type[msgspec.Struct]) -> Schema:
        """The object that *kind* is written as."""
        config = kind.__struct_config__
        properties: Schema = {}
        required: list[str] = []
        if config.tag is not None:
            properties[str(config.tag_field)] = {"const": config.tag}
            required.append(str(config.tag_field))
        unwritten: frozenset[str] = getattr(kind, "_unwritten_", frozenset())
        for field in msgspec.structs.fields(kind):
            if field.name.startswith("_") or field.name in unwritten:
                continue
            properties[field.encode_name] = self.of(field.type)
            if self._always_there(kind, field):
                required.append(field.encode_name)
        return {
            "description": inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0],
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _always_there(self, kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> bool:
        if self._reading:
            return field.required
        return not issubclass(kind, Record) or field.default is msgspec.NODEFAULT


def _custom_message() -> Schema:
    return {
        "description": "A message with a role of a program's own; its other fields are its own.",
        "type": "object",
        "properties": {"role": {"type": "string", "not": {"enum": _OWN_ROLES}}},
        "required": ["role"],
    }


def _joined(schemas: list[Schema]) -> Schema:
    """Any of *schemas*, as shortly as possible."""
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    if len(schemas) == 2 and {"type": "null"} in schemas:
        other = next(schema for schema in schemas if schema != {"type": "null"})
        if set(other) == {"enum"}:
            return {"enum": [*other["enum"], None]}
    return {"anyOf": schemas}


def _bounds(notes: tuple[Any, ...]) -> Schema:
    lowest = [note.ge for note in notes if isinstance(note, msgspec.Meta) and note.ge is not None]
    return {"minimum": lowest[0]} if lowest else {}


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas"))
