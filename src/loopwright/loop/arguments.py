"""From the arguments a model sent to the parameters a tool receives, or a refusal it can act on.

The arguments are copied, unknown ones set aside, and checked as they are; only if that fails is
the copy coerced and checked once more. The message that holds the call is never touched.

Not here: the text of the arguments (stream/tool_arguments.py), and the schemas (schema.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import ToolError
from ..records import clean_text
from .coercion import coerce

if TYPE_CHECKING:
    from .schema import Contract

__all__ = ["ArgumentsRejected", "Binder", "BoundCall", "Fault", "Unfit"]

SHOWN_CHARACTERS = 500
"""How much of the received arguments is shown back to the model."""

SHOWN_FAULTS = 20


class ArgumentsRejected(ToolError):
    """The arguments of a call do not fit its tool, which was not run. Its text is for the model."""


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with the arguments."""

    path: str
    """Such as `items[0].title`; empty for the whole."""
    message: str
    received: Any = msgspec.UNSET
    missing: bool = False


class Unfit(Exception):
    """Raised by the check of a contract."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.faults = faults


class BoundCall(msgspec.Struct, frozen=True):
    """A call whose arguments fit."""

    args: dict[str, Any]
    """As JSON-like data, for hooks and events: coerced, and without what the tool does not know."""
    params: Any
    """What the tool receives."""
    notes: tuple[str, ...] = ()
    """What the model should be told beside the result."""


class Binder:
    """Binds arguments to one tool. Made once, when the tool is registered."""

    def __init__(self, tool: str, contract: Contract, injected: frozenset[str]) -> None:
        """*injected* are parameters of the tool that a model may not fill in."""
        self._tool = tool
        self._schema = contract.schema
        self._check = contract.check
        self._open = contract.open
        self._injected = injected
        self._known: frozenset[str] = frozenset(contract.schema.get("properties", {}))
        self._is_valid: Callable[[Any, dict[str, Any]], bool] | None = None

    def bind(self, arguments: Mapping[str, Any]) -> BoundCall:
        """Check *arguments*. Raises `ArgumentsRejected` listing every problem."""
        known = self._known
        args: dict[str, Any] = {}
        ignored: list[str] = []
        try:
            for name, value in arguments.items():
                if name not in known:
                    name = clean_text(str(name))
                    if not self._open or name in self._injected:
                        ignored.append(name)
                        continue
                kind = value.__class__
                if kind is not int and (kind is not str or not value.isascii()):
                    value = _copy(value, name)
                args[name] = value
        except Unfit as unfit:
            raise self._rejected(unfit.faults, arguments, ignored) from None
        except RecursionError:
            raise self._rejected([Fault("", "they are nested too deeply")], {}, ignored) from None
        try:
            params = self._check(args)
        except Unfit as unfit:
            args, params = self._bind_coerced(args, unfit, arguments, ignored)
        except Exception as error:  # a validator is foreign code, and refuses in its own way
            raise self._rejected([_foreign(error)], arguments, ignored) from error
        return (
            BoundCall(args, params, (self._note(ignored),)) if ignored else BoundCall(args, params)
        )

    def _bind_coerced(
        self, args: dict[str, Any], unfit: Unfit, received: Mapping[str, Any], ignored: list[str]
    ) -> tuple[dict[str, Any], Any]:
        try:
            # Decoded text may hold numbers that are none, so what came out is copied once more.
            coerced = _copy(coerce(args, self._schema, self._validity()), "")
            return coerced, self._check(coerced)
        except Unfit as still_unfit:
            raise self._rejected(still_unfit.faults, received, ignored) from None
        except RecursionError:
            raise self._rejected(unfit.faults, received, ignored) from None
        except Exception as error:
            raise self._rejected([_foreign(error)], received, ignored) from error

    def _validity(self) -> Callable[[Any, dict[str, Any]], bool]:
        if self._is_valid is None:
            from .json_schema_check import branch_check

            self._is_valid = branch_check(self._schema)
        return self._is_valid

    # -- words for the model -----------------------------------------------------------------

    def _note(self, ignored: list[str]) -> str:
        takes = ", ".join(self._schema.get("properties", {})) or "no arguments"
        return (
            f"Note: ignored {', '.join(ignored)}, "
            f"which {self._tool} does not take. It takes: {takes}."
        )

    def _rejected(
        self, faults: list[Fault], received: Mapping[str, Any], ignored: list[str]
    ) -> ArgumentsRejected:
        lines = [f"The arguments do not fit the tool {self._tool!r}, so it was not run."]
        missing = [fault.path for fault in faults if fault.missing]
        if missing:
            lines.append(f"Missing: {', '.join(missing)}.")
        wrong = [fault for fault in faults if not fault.missing]
        lines += [_line(fault) for fault in wrong[:SHOWN_FAULTS]]
        if len(wrong) > SHOWN_FAULTS:
            lines.append(f"- and {len(wrong) - SHOWN_FAULTS} more")
        if missing or ignored:
            required = self._schema.get("required", [])
            names = [
                f"{name} (required)" if name in required else name
                for name in self._schema.get("properties", {})
            ]
            lines.append(f"Accepted: {', '.join(names) or 'no arguments'}.")
        if ignored:
            lines.append(f"Ignored, since the tool has no such argument: {', '.join(ignored)}.")
        lines.append(f"Received: {_shown(received, SHOWN_CHARACTERS)}")
        return ArgumentsRejected("\n".join(lines))


def _foreign(error: Exception) -> Fault:
    return Fault("", f"{type(error).__name__}: {error}")


def _line(fault: Fault) -> str:
    text = f"- {fault.path}: {fault.message}" if fault.path else f"- {fault.message}"
    if fault.received is not msgspec.UNSET:
        text += f"; received {_shown(fault.received, 100)}"
    return text


def _shown(value: Any, limit: int) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    text = clean_text(text)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _copy(value: Any, path: str) -> Any:
    """A deep copy of JSON-like *value*, clean of lone surrogates. Raises `Unfit` for the rest."""
    kind = value.__class__
    if kind is str:
        return value if value.isascii() else clean_text(value)
    if value is None or kind is int or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise Unfit([Fault(path, f"{value} is not a JSON number")])
        return value
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {
            clean_text(str(name)): _copy(item, f"{path}.{name}" if path else str(name))
            for name, item in members.items()
        }
    if isinstance(value, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return [_copy(item, f"{path}[{index}]") for index, item in enumerate(items)]
    if isinstance(value, str | int | float):  # an enum, numpy's float: what JSON makes of it
        return _copy(json.loads(json.dumps(value)), path)
    raise Unfit([Fault(path, f"a {type(value).__name__} is not a JSON value")])
