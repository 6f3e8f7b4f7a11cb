"""Globs as regular expressions that are quick whatever the glob.

`*` and `?` match within one part of a path, `**` any number of parts, `[abc]` and `[!abc]` one
character, `{a,b}` either. Names that begin with a dot are names like others. A glob comes from a
model or from a stranger's .gitignore, so each star is matched once and for all (an atomic group):
trying the first place where the rest fits is enough for globs, and nothing is ever tried again.

Not here: which files a glob is about (find.py, ignore_files.py).
"""

from __future__ import annotations

import re
import unicodedata

__all__ = [
    "BadGlob",
    "compile_glob",
    "composed",
    "from_folder",
    "in_any_folder",
    "wants_hidden",
]

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


def composed(text: str) -> str:
    """*text* with each accent part of its letter: macOS keeps names with the two apart, and nobody
    sees which it is."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def from_folder(glob: str, folder: str) -> str:
    """*glob*, relative to *folder*, however a model spelled it: absolute, or with `./`."""
    glob = glob.removeprefix(folder if folder.endswith("/") else folder + "/")
    while glob.startswith("./"):
        glob = glob[2:]
    return glob


def in_any_folder(glob: str) -> str:
    """*glob* as one about whole paths, with all that a model may have meant by it.

    Without a slash it is about names, in whatever folder. Commas outside braces part alternatives,
    as some tools have it; blanks beside those in braces are no part of a name. `[id].tsx` and
    `{name}.md` are also names that stand in many projects just so.
    """
    if glob.count("{") != glob.count("}"):
        return _about_paths(glob)
    if "{" in glob:
        glob = re.sub(r"([{,]) +|(?<! ) +(?=[,}])", r"\1", glob)
    forms = [glob]
    parts = [part.strip() for part in _at_commas(glob)]
    if len(parts) > 1 and all(parts):
        forms = [*parts, _escaped(glob, ",")]
    if "[" in glob:
        forms += [_escaped(form, "[]") for form in forms]
    if re.search(r"\{[^{},]*\}", glob):
        forms.append(_escaped(glob, "[]{},"))
    if len(forms) == 1:
        return _about_paths(glob)
    return "{" + ",".join(map(_about_paths, dict.fromkeys(forms))) + "}"


def _escaped(glob: str, signs: str) -> str:
    """*glob* with *signs* standing for themselves."""
    return re.sub(rf"\\.|[{re.escape(signs)}]", lambda sign: _literal(sign[0]), glob)


def _literal(sign: str) -> str:
    return sign if len(sign) == 2 else f"\\{sign}"


def _about_paths(glob: str) -> str:
    return glob if "/" in glob else f"**/{glob}"


def _at_commas(glob: str) -> list[str]:
    """The parts of *glob* between commas outside braces and brackets; those are left as they are."""
    parts = [""]
    depth = at = 0
    while at < len(glob):
        end = at + 1
        if glob[at] == "\\":
            end += 1
        elif glob[at] == "[":
            end = max(end, _class_end(glob, at))
        depth += (glob[at] == "{") - (glob[at] == "}" and depth > 0)
        if glob[at] == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += glob[at:end]
        at = end
    return parts


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
