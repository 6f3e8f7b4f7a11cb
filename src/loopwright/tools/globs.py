"""Globs as regular expressions that are quick whatever the glob.

`*` and `?` match within one part of a path, `**` any number of parts, `[abc]` and `[!abc]` one
character, `{a,b}` either. Names that begin with a dot are names like others. A glob comes from a
model or from a stranger's .gitignore, so each star is matched once and for all (an atomic group):
trying the first place where the rest fits is enough for globs, and nothing is ever tried again.

Not here: which files a glob is about (find.py, ignore_files.py).
"""

from __future__ import annotations

import re

__all__ = ["BadGlob", "compile_glob", "wants_hidden"]

MOST_ALTERNATIVES = 100
"""What the braces of one glob may stand for: they multiply."""


class BadGlob(ValueError):
    """The glob cannot be used; the text says why."""


def compile_glob(glob: str) -> re.Pattern[str]:
    """What fully matches the relative paths, with forward slashes, that *glob* means.

    Raises `BadGlob`.
    """
    alternatives = "|".join(map(_translate, _expand(glob)))
    return re.compile(rf"(?:{alternatives})\Z", re.DOTALL)


def wants_hidden(glob: str) -> bool:
    """Whether *glob* names something that begins with a dot, and so asks for hidden files."""
    return any(
        part.startswith(".") for part in re.split(r"[/{},]", glob) if part not in (".", "..")
    )


def _expand(glob: str) -> list[str]:
    """Without braces. One that has no partner stands for itself."""
    found = _first_braces(glob)
    if found is None:
        return [glob]
    start, end, options = found
    expanded: list[str] = []
    for option in options:
        expanded += _expand(glob[:start] + option + glob[end:])
        if len(expanded) > MOST_ALTERNATIVES:
            raise BadGlob(f"its braces stand for more than {MOST_ALTERNATIVES} patterns")
    return expanded


def _first_braces(glob: str) -> tuple[int, int, list[str]] | None:
    """Where the first pair of braces begins and ends, and what its commas part."""
    at = 0
    depth = start = option = 0
    options: list[str] = []
    while at < len(glob):
        character = glob[at]
        if character == "\\":
            at += 1
        elif character == "[":
            at = max(at, _class_end(glob, at) - 1)
        elif character == "{":
            if depth == 0:
                start, option = at, at + 1
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                options.append(glob[option:at])
                return start, at + 1, options
        elif character == "," and depth == 1:
            options.append(glob[option:at])
            option = at + 1
        at += 1
    return None


def _translate(glob: str) -> str:
    parts = [part for part in glob.split("/") if part]
    if not parts:
        raise BadGlob("it is empty")
    groups: list[list[str]] = [[]]
    for part in parts:
        if part != "**":
            groups[-1].append(_part(part))
        elif groups[-1] or len(groups) == 1:
            groups.append([])
    first, *others = groups
    if not others:
        return "/".join(first)
    made = "".join(f"{part}/" for part in first)
    for group in others[:-1]:
        made += f"(?>(?:[^/]+/)*?{'/'.join(group)}/)"
    last = others[-1]
    return made + ("(?:[^/]+/)*" + "/".join(last) if last else ".+")


def _part(part: str) -> str:
    """One part of a path, between slashes."""
    pieces = [""]
    at = 0
    while at < len(part):
        character = part[at]
        if character == "*":
            while part[at : at + 1] == "*":
                at += 1
            pieces.append("")
            continue
        if character == "?":
            pieces[-1] += "[^/]"
        elif character == "[" and (end := _class_end(part, at)) > at:
            pieces[-1] += _class(part[at + 1 : end - 1])
            at = end
            continue
        else:
            if character == "\\" and at + 1 < len(part):
                at += 1
            pieces[-1] += re.escape(part[at])
        at += 1
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    return f"{first}{middle}[^/]*{others[-1]}(?=/|\\Z)"


def _class_end(glob: str, start: int) -> int:
    """Behind the `]` that closes the class begun at *start*, or *start* if none does."""
    at = start + 1
    if glob[at : at + 1] in ("!", "^"):
        at += 1
    if glob[at : at + 1] == "]":  # in the first place it stands for itself
        at += 1
    end = glob.find("]", at)
    slash = glob.find("/", start)
    return start if end < 0 or 0 <= slash < end else end + 1


def _class(content: str) -> str:
    negated = content[:1] in ("!", "^")
    if negated:
        content = content[1:]
    members: list[str] = []
    at = 0
    while at < len(content):
        low = content[at]
        if low == "\\" and at + 1 < len(content):
            at += 1
            low = content[at]
        if content[at + 1 : at + 2] == "-" and at + 2 < len(content):
            high = content[at + 2]
            if low <= high:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            members.append(re.escape(low))
            at += 1
    if not members:
        return r"[^/]" if negated else r"(?!)"
    return f"[^/{''.join(members)}]" if negated else f"(?!/)[{''.join(members)}]"
