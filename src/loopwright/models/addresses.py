"""Where a vendor is: base URLs with gaps that the user's environment fills, or that it replaces.

A cloud gives every customer a host, a region or an account of their own. A vendor's row says which
variables know it; they are read when a request is made.

Not here: keys (auth.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import ConfigurationError

__all__ = ["Address", "Found", "look_up"]

_GAP = re.compile(r"\{(\w+)\}")
_FILLING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A value becomes part of a URL; nothing in it may move the request to another host."""


class Found(NamedTuple):
    """A variable of the environment and what it holds."""

    name: str
    value: str


def look_up(names: Iterable[str], env: Mapping[str, str] | None = None) -> Found | None:
    """The first of *names* that has a value: in *env* of the request, else in the process's."""
    wanted = list(names)
    for place in (env, os.environ) if env else (os.environ,):
        for name in wanted:
            value = place.get(name, "").strip()
            if value:
                return Found(name, value)
    return None


@dataclass(frozen=True, slots=True)
class Address:
    """How a vendor's base URLs become those of a user."""

    gaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What stands in braces -> the variables that fill it, in the order to look."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables that hold a whole base URL, and what belongs behind their value."""

    def base_url(
        self, base_url: str | None, vendor: str, env: Mapping[str, str] | None = None
    ) -> str | None:
        """The URL to use in place of a row's *base_url*.

        Raises `ConfigurationError` if a gap stays open.
        """
        whole = look_up([name for name, _ in self.variables], env)
        if whole is not None:
            behind = dict(self.variables)[whole.name]
            given = whole.value.rstrip("/")
            return given if given.endswith(behind) else given + behind
        return base_url if base_url is None else self.fill(base_url, vendor, env)

    def fill(self, text: str, vendor: str, env: Mapping[str, str] | None = None) -> str:
        """*text*, such as a base URL, with its gaps filled. Raises `ConfigurationError`."""
        if not self.gaps or "{" not in text:
            return text

        def filling(gap: re.Match[str]) -> str:
            name = gap[1]
            if name not in self.gaps:
                return gap[0]
            found = look_up(self.gaps[name], env)
            if found is None:
                raise ConfigurationError(
                    f"{vendor}: {text} needs a value for {name!r}", hint=self._hint(name)
                )
            value = re.sub(r"^https?://", "", found.value).rstrip("/")
            if not _FILLING.fullmatch(value):
                raise ConfigurationError(
                    f"{vendor}: {found.name} becomes part of {text}, so it may hold letters, "
                    f"digits, '.', '-' and '_' only"
                )
            return value

        return _GAP.sub(filling, text)

    def _hint(self, gap: str) -> str:
        names = [*self.gaps[gap], *[name for name, _ in self.variables]]
        given = f"set {' or '.join(names)}, or " if names else ""
        return f"{given}pass base_url=... with the request"
