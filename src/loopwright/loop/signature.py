"""What a function asks for: parameters the model fills in, and those the runtime does.

The signature is the single source of truth; nothing is written down a second time. Reading one
needs no pydantic, so that a module full of tools imports quickly and a function that can never be
a tool is refused where it is decorated.

Not here: the JSON Schema of the parameters (schema.py).
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from ..errors import Misuse
from ..signals import AbortSignal
from .tool_context import OnUpdate, ToolContext

__all__ = [
    "InvalidTool",
    "Parameter",
    "Signature",
    "raw_annotations",
    "raw_signature",
    "read_signature",
    "resolve_hints",
    "signature_of",
    "underlying",
]

Injection = Literal["context", "signal", "update"]


class InvalidTool(Misuse):
    """Something that was registered as a tool can never be called as one; the text says why."""


class Parameter(Struct, frozen=True):
    """One parameter the model fills in."""

    name: str
    hint: Any
    """The resolved annotation; `Any` where there is none."""
    default: Any
    """`inspect.Parameter.empty` where there is none."""

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


class Signature(Struct, frozen=True):
    """The parameters of one function, sorted by who fills them in."""

    parameters: tuple[Parameter, ...]
    injected: tuple[tuple[str, Injection], ...]
    rest: Any = None
    """The annotation of `**kwargs`, `Any` where it has none; None without `**kwargs`."""
    rest_name: str | None = None
    bound: frozenset[str] = frozenset()
    """Set by `functools.partial`: neither asked for nor shown, they may be secrets."""

    @property
    def names(self) -> frozenset[str]:
        """Every name the function itself knows."""
        names = {parameter.name for parameter in self.parameters} | self.unfillable
        return frozenset(names | ({self.rest_name} if self.rest_name else set()))

    @property
    def unfillable(self) -> frozenset[str]:
        """The names a model may not fill in."""
        return self.bound | {name for name, _ in self.injected}


def signature_of(function: Callable[..., Any], tool: str) -> inspect.Signature:
    """The bare signature, refused if JSON arguments, which come by name, could not be passed."""
    try:
        signature = raw_signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidTool(
            f"tool {tool!r}: the signature of {function!r} cannot be read",
            hint="wrap it in a function of your own with typed parameters",
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidTool(
                f"tool {tool!r}: parameter {parameter.name!r} is positional-only, "
                "but arguments from a model are passed by name",
                hint="remove the `/` from the signature",
            )
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise InvalidTool(
                f"tool {tool!r}: parameter '*{parameter.name}' collects positional arguments, "
                "but arguments from a model are passed by name",
                hint=f"take a list instead: `{parameter.name}: list[str]`",
            )
    return signature


def read_signature(
    function: Callable[..., Any], tool: str, hints: Mapping[str, Any] | None = None
) -> Signature:
    """Sort the parameters of *function*; *hints* are its resolved annotations, if known.

    Raises `InvalidTool`, naming *tool* and parameter, for positional-only parameters, `*args`,
    and annotations that cannot be resolved.
    """
    signature = signature_of(function, tool)
    if hints is None:
        hints = resolve_hints(function, tool)
    parameters: list[Parameter] = []
    injected: list[tuple[str, Injection]] = []
    rest: Any = None
    rest_name: str | None = None
    bound = _bound_by_partial(function)
    for name, parameter in signature.parameters.items():
        hint = hints.get(name, Any)
        role = _injection(hint)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest, rest_name = hint, name
        elif name in bound:
            continue
        elif role is not None:
            injected.append((name, role))
        else:
            parameters.append(Parameter(name, hint, parameter.default))
    return Signature(tuple(parameters), tuple(injected), rest, rest_name, bound)


def resolve_hints(
    function: Callable[..., Any], tool: str, local_names: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The annotations of the parameters of *function* as objects, `Annotated` kept.

    Annotations may be strings. They are looked up where Python would: in the function's module,
    in what it closes over, and in *local_names* (where it was decorated). Raises `InvalidTool`
    naming the parameter whose annotation cannot be resolved.
    """
    plain = underlying(function)
    raw = raw_annotations(plain)
    raw.pop("return", None)
    names = {**(local_names or {}), **_closed_over(plain)}
    hints: dict[str, Any] = {}
    for name, annotation in raw.items():
        try:
            hints |= typing.get_type_hints(
                _probe(name, annotation),
                globalns=getattr(plain, "__globals__", {}),
                localns=names,
                include_extras=True,
            )
        except Exception as error:  # an annotation is code, and may raise anything
            late = isinstance(annotation, typing.ForwardRef)
            written = annotation.__forward_arg__ if late else annotation
            raise InvalidTool(
                f"tool {tool!r}: the annotation {written!r} of parameter {name!r} "
                f"cannot be resolved: {error}",
                hint="import or define the type at module level, not under TYPE_CHECKING",
            ) from error
    return hints


def raw_signature(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, whose errors it raises, but no annotation has to be resolvable."""
    if sys.version_info >= (3, 14):  # it would evaluate them, and raise whatever that raises
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def raw_annotations(function: Any) -> dict[str, Any]:
    """As written: objects, or text where evaluation was put off."""
    if sys.version_info >= (3, 14):  # annotations are read late, and may name what is not there yet
        from annotationlib import Format, get_annotations

        return dict(get_annotations(function, format=Format.FORWARDREF))
    return dict(inspect.get_annotations(function))


def _probe(name: str, annotation: Any) -> Callable[[], None]:
    """Something with this one annotation, so that a failure is that of one parameter."""

    def probe() -> None:
        """Never called."""

    probe.__annotations__ = {name: annotation}
    return probe


def _bound_by_partial(function: Any) -> frozenset[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= set(cast("functools.partial[Any]", function).keywords)
        function = cast("functools.partial[Any]", function).func
    return frozenset(names)


def underlying(function: Callable[..., Any]) -> Any:
    """The function whose code runs: under partials, methods, wrappers and callable objects."""
    found: Any = function
    while True:
        if isinstance(found, functools.partial):
            found = found.func
        elif inspect.ismethod(found):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        elif not hasattr(found, "__code__") and inspect.isroutine(type(found).__call__):
            found = type(found).__call__
            if not hasattr(found, "__code__"):
                return found
        else:
            return found


def _closed_over(function: Any) -> dict[str, Any]:
    names: dict[str, Any] = {}
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars if cells else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return names


_INJECTED: dict[Any, Injection] = {
    ToolContext: "context",
    AbortSignal: "signal",
    OnUpdate: "update",
}


def _injection(hint: Any) -> Injection | None:
    """What the runtime passes for *hint*, also when optional or annotated; None: the model's."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _injection(typing.get_args(hint)[0])
    if origin is typing.Union or origin is types.UnionType:
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return _injection(members[0]) if len(members) == 1 else None
    try:
        return _INJECTED.get(hint)
    except TypeError:  # an unhashable annotation is nothing of ours
        return None
