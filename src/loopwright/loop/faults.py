"""Faults of foreign code: which of them end a program, their words, and telling `on_error` once."""

from __future__ import annotations

import logging
from typing import cast

from .hooks import OnError

__all__ = ["in_words", "is_failure", "is_group", "leaves_of", "report", "text_of", "told"]

_log = logging.getLogger("loopwright")

_SHOWN_CHARACTERS = 20_000
_SHOWN_LEAVES = 20


def is_group(error: BaseException) -> bool:
    """It holds other exceptions."""
    return isinstance(error, BaseExceptionGroup)


def leaves_of(error: BaseException) -> list[BaseException]:
    """The exceptions of a group and of the groups in it, in order; *error* itself if it is none."""
    leaves: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", one)
            waiting.extend(reversed(group.exceptions))
        else:
            leaves.append(one)
    return leaves


def is_failure(error: BaseException) -> bool:
    """It concerns only the code that raised it: an `Exception`, or a group in which nothing is meant
    to end the program. A task group puts cancellations of its own tasks into such a group."""
    if is_group(error):
        ends = (KeyboardInterrupt, SystemExit)
        return not any(isinstance(leaf, ends) for leaf in leaves_of(error))
    return isinstance(error, Exception)


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
    text = text_of(error)
    if not text:
        return type(error).__name__
    return f"KeyError: {text}" if isinstance(error, KeyError) else text


def told(error: BaseException) -> str:
    """The name of its class, and its text if it has one."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """Its text, bounded; a group's is followed by the exceptions in it."""
    try:
        text = _bounded(str(error), _SHOWN_CHARACTERS)
    except Exception:  # noqa: BLE001 - making it is foreign code, too
        text = "(its text cannot be read)"
    if not is_group(error):
        return text
    leaves = leaves_of(error)
    shown = leaves[:_SHOWN_LEAVES]
    each = _SHOWN_CHARACTERS // (len(shown) + 1)
    words = [_bounded(told(leaf), each) for leaf in shown]
    if len(leaves) > len(shown):
        words.append(f"and {len(leaves) - len(shown)} more")
    return f"{_bounded(text, each)}: {'; '.join(words)}"


def _bounded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text)} characters in all)"
