"""Faults of a program's own listeners and hooks that do not stop a run: told once, to `on_error`."""

from __future__ import annotations

import logging

from .hooks import OnError

__all__ = ["in_words", "report"]

_log = logging.getLogger("loopwright")


def report(on_error: OnError | None, error: BaseException, where: str) -> None:
    """Hand *error* to the program, or to the logger "loopwright" if it did not ask for faults."""
    if on_error is not None:
        try:
            on_error(error, where)
        except Exception:  # noqa: BLE001 - it is foreign code, and the last resort
            _log.exception("on_error raised while it was told of a fault in %s", where)
        return
    _log.error("%s raised", where, exc_info=(type(error), error, error.__traceback__))


def in_words(error: BaseException) -> str:
    """The text of *error*; with its name in front where the text alone says nothing."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - making it is foreign code, too
        text = ""
    if not text:
        return type(error).__name__
    return f"KeyError: {text}" if isinstance(error, KeyError) else text
