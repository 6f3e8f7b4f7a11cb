"""Which function asks the model: the one given, the program's default, or the built-in vendors."""

from __future__ import annotations

from ..errors import Misuse, ModelNotFound, NoStreamFunction
from ..models.model import Model
from .run import StreamFn

__all__ = ["chosen_stream_function", "set_default_stream_fn", "stream_function"]

_default: StreamFn | None = None


def set_default_stream_fn(stream_fn: StreamFn | None) -> None:
    """Use *stream_fn* wherever none is given; None goes back to the built-in vendors."""
    global _default
    _default = stream_fn


def chosen_stream_function(given: StreamFn | None) -> StreamFn | None:
    """*given*, else the program's default; None where the built-in vendors are meant."""
    return given if given is not None else _default


def stream_function(given: StreamFn | None, model: Model) -> StreamFn:
    """The function that will serve *model*. Raises `NoStreamFunction` naming the remedies."""
    chosen = chosen_stream_function(given)
    if chosen is not None:
        if not callable(chosen):
            raise Misuse(f"stream_fn is a function, not {type(chosen).__name__}")
        return chosen
    from ..models import default_models

    models = default_models()
    try:
        models.provider_of(model)
    except ModelNotFound:
        raise NoStreamFunction(
            f"nothing here can ask the model {model.id!r}: the provider {model.provider!r} is not "
            "known",
            hint="pass stream_fn=..., call set_default_stream_fn(...), or add the provider to "
            "default_models()",
        ) from None
    return models.stream_simple
