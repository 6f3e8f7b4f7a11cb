"""Python, and the packages that are installed with loopwright."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from ... import __version__
from ..extras import install_command
from .lines import Checked, Learned

__all__ = ["check_packages", "check_python"]

TESTED = ((3, 11), (3, 14))
"""The first and the last Python that the tests run on."""
NOT_FOR_USERS = frozenset({"all", "dev"})
"""Extras that are sums of others, or for working on loopwright itself."""

# PEP 508: a name, extras, and behind a semicolon a marker that may name the extra it belongs to.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


class _Requirement(NamedTuple):
    package: str
    extras: tuple[str, ...]
    wanted_by: str | None
    """The extra that brings it; None: always there."""


def check_python(_learned: Learned) -> Iterator[Checked]:
    """The version of Python."""
    running = f"Python {sys.version.split()[0]}, loopwright {__version__}"
    here = sys.version_info[:2]
    first, last = TESTED
    if here < first:
        yield Checked("python", "problem", running, f"Python {_dotted(first)} or later is needed")
    elif here > last:
        hint = f"nothing later than {_dotted(last)} is tested"
        yield Checked("python", "note", running, hint)
    else:
        yield Checked("python", "ok", running)


def check_packages(_learned: Learned) -> Iterator[Checked]:
    """The packages it needs, and those of its extras."""
    try:
        required = [_parsed(text) for text in metadata.requires("loopwright") or []]
    except metadata.PackageNotFoundError:
        yield Checked(
            "packages",
            "note",
            "loopwright runs from its source, so nobody knows which packages belong to it",
            "pip install -e . in its folder",
        )
        return
    missing = _missing(required, None)
    if missing:
        command = f"pip install {' '.join(missing)}"
        yield Checked("packages", "problem", f"missing: {', '.join(missing)}", command)
    extras = sorted({r.wanted_by for r in required if r.wanted_by} - NOT_FOR_USERS)
    lacking = {extra: _missing(required, extra) for extra in extras}
    there = [extra for extra in extras if not lacking[extra]]
    if there:
        yield Checked("packages", "ok", f"extras that are installed: {', '.join(there)}")
    absent = [extra for extra in extras if lacking[extra]]
    if absent:
        names = ", ".join(f"{extra} ({', '.join(lacking[extra])})" for extra in absent)
        hint = f"what you want of them: {install_command(*absent)}"
        yield Checked("packages", "note", f"extras that are not: {names}", hint)


def _parsed(text: str) -> _Requirement:
    found = _REQUIREMENT.match(text)
    if found is None:
        return _Requirement(text, (), None)
    name, extras, marker = found.groups()
    extra = _EXTRA.search(marker or "")
    named = tuple(word.strip() for word in (extras or "").split(",") if word.strip())
    return _Requirement(name, named, None if extra is None else extra.group(1))


def _missing(required: list[_Requirement], extra: str | None) -> list[str]:
    """The packages of *extra* that are not installed; of what is always needed, if None."""
    found: list[str] = []
    for one in required:
        if one.wanted_by != extra:
            continue
        if one.package == "loopwright":  # an extra that includes others
            for inner in one.extras:
                found += _missing(required, inner)
        elif not _is_installed(one.package):
            found.append(one.package)
    return list(dict.fromkeys(found))


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
