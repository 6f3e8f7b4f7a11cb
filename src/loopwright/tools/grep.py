"""The tool `grep`: which lines of the files in the workspace match a pattern.

Through ripgrep where it is installed, else through our own worker, with the same result: files in
the order of their names; ignored, hidden and binary ones left out; links not followed. Long lines
are shown around the hit.

Not here: the process (search_process.py) and what it says (grep_matches.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from ..errors import ToolError
from ..loop.tool import ToolContext
from ..messages import AgentToolResult, TextContent
from .file_tool import FileTool
from .globs import BadGlob, compile_glob, composed, in_any_folder, wants_hidden
from .grep_fallback import BadPattern, compile_pattern
from .grep_matches import LINE_CHARACTERS, FoundLine, Matches
from .ripgrep import find_ripgrep, name_filter, which_files
from .search_process import SearchEnd, SearchRequest, end_notices, run_search, worker
from .searched_folder import SearchedFolder, searched_folder
from .shown_names import one_line
from .text_limits import MAX_BYTES, NOTICE_BYTES, head
from .workspace import Workspace

__all__ = ["DEFAULT_LIMIT", "grep_tool"]

DEFAULT_LIMIT = 100
MAX_CONTEXT = 100

_DESCRIPTION = f"""\
Search the content of files for a regular expression, line by line. Shows path, line number and
line.

Paths are relative to the root of the workspace. Ignored files (.gitignore) and binary ones are left \
out, hidden ones too unless path or glob names them. Lines longer than {LINE_CHARACTERS} characters are \
shown around the hit."""

_WITHHELD = " Files that may not be read are left out."


def grep_tool(
    workspace: Workspace, *, hidden: Callable[[str], bool] | None = None
) -> FileTool[...]:
    """The tool `grep` for *workspace*.

    Of a file for which *hidden* is true nothing is shown, not even that it has a hit. It is asked
    with the file's path in the workspace, absolute, in a thread, and about files with hits only;
    what it raises ends the search.
    """
    description = _DESCRIPTION if hidden is None else _DESCRIPTION + _WITHHELD

    async def grep(
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignoreCase: bool = False,  # noqa: N803 - as models know it
        literal: bool = False,
        context: int = 0,
        limit: int = DEFAULT_LIMIT,
        *,
        ctx: ToolContext,
    ) -> AgentToolResult:
        """Search.

        Args:
            pattern: A regular expression; plain text with literal.
            path: The folder or file to search; the whole workspace if it is left out.
            glob: Search only files like this, such as "*.py" or "src/**/*.ts"; "!*.md" leaves such
                files out.
            ignoreCase: Take upper and lower case for the same.
            literal: Take the pattern as plain text.
            context: Show so many lines before and after each hit, too.
            limit: Show at most so many lines with a hit.
        """
        if not pattern:
            raise ToolError("The pattern is empty.", hint="use find or ls to list files")
        if "\n" in pattern or "\0" in pattern:
            raise ToolError(
                "The pattern holds a line break or NUL, but grep looks at one line at a time."
            )
        if limit < 1:
            raise ToolError(f"The limit is {limit}, but it must be at least 1.")
        if not 0 <= context <= MAX_CONTEXT:
            raise ToolError(f"The context is {context}, but it must be 0 to {MAX_CONTEXT} lines.")
        async with searched_folder(workspace, path) as place:
            only = place.glob(glob or "") or None
            excluded = only is not None and only.startswith("!")
            only = place.glob(only.removeprefix("!")) if only else None
            if only is not None and only.endswith("/"):  # a folder, so what is in it
                only = in_any_folder(only.rstrip("/")) + "/**"
            dotted = only is not None and not excluded and wants_hidden(only)
            request = SearchRequest(
                place.folder,
                place.file,
                dotted,
                pattern,
                ignoreCase,
                literal,
                context,
                in_any_folder(only) if only is not None and not excluded else None,
            )
            wanted = _compiled(only)
            matches = Matches(
                place.folder,
                limit,
                context,
                wanted if place.file is None else None,
                excluded and place.file is None,
                dotted or place.file is not None,
                None if hidden is None else _withheld(place, hidden),
            )
            end = await _search(request, matches, ctx)
        return _result(place, request, matches, end, limit)

    return FileTool(grep, workspace, label="Grep", description=description, replay="safe")


def _withheld(place: SearchedFolder, hidden: Callable[[str], bool]) -> Callable[[str], bool]:
    """*hidden*, asked with a path below the searched folder, which may be a copy."""
    return lambda path: hidden(os.path.join(place.named, path))


def _compiled(glob: str | None) -> re.Pattern[str] | None:
    if glob is None:
        return None
    try:
        return compile_glob(composed(in_any_folder(glob)))
    except BadGlob as error:
        raise ToolError(f"The glob {glob!r} cannot be used: {error}.") from error


async def _search(request: SearchRequest, matches: Matches, ctx: ToolContext) -> SearchEnd:
    assert request.pattern is not None
    ripgrep = find_ripgrep()
    if ripgrep is not None:
        command = _ripgrep(ripgrep, request, request.pattern)
        try:
            end = await run_search(command, request.folder, matches.take, ctx.signal)
        except OSError:  # it is there, but cannot be run
            end = SearchEnd(2, "", timed_out=False)
        if end.exit_code != 2 or matches.lines or end.timed_out:
            return end
        # It did not understand the pattern, or could not read something: Python may do better.
    try:
        compile_pattern(request.pattern, literal=request.literal, ignore_case=request.ignore_case)
    except BadPattern as error:
        raise ToolError(
            f"The pattern {_quoted(request.pattern)} is no valid regular expression: {error}.",
            hint="set literal to true to search for it as plain text",
        ) from error
    return await run_search(worker(request), request.folder, matches.take, ctx.signal)


def _ripgrep(ripgrep: str, request: SearchRequest, pattern: str) -> Sequence[str]:
    command = [ripgrep, "--json", "--crlf"]
    command += ["--sort=path", "--case-sensitive" if not request.ignore_case else "--ignore-case"]
    if request.literal:
        command.append("--fixed-strings")
    if request.context:
        command.append(f"--context={request.context}")
    command += which_files(request)
    return [*command, *name_filter(request.glob), f"--regexp={pattern}", "--", _target(request)]


def _target(request: SearchRequest) -> str:
    return "." if request.file is None else os.path.join(".", request.file)


# -- the result ------------------------------------------------------------------------------


def _result(
    place: SearchedFolder, request: SearchRequest, matches: Matches, end: SearchEnd, limit: int
) -> AgentToolResult:
    notices: list[str] = []
    text = "\n".join(_rows(place, matches.lines, request.context))
    cut = head(text, max_lines=1 << 62, max_bytes=MAX_BYTES - 2 * NOTICE_BYTES)
    if cut.by is not None:
        notices.append("50 KiB are shown, there is more: search for less, or in fewer files.")
    elif matches.more:
        notices.append(f"There are more than {_hits(limit)}: search for less, or raise the limit.")
    cut_lines = sum(1 for line in matches.lines if line.left_out)
    if cut_lines:
        notices.append(
            f"{_lines(cut_lines)} shown in part: longer than {LINE_CHARACTERS} characters. "
            "Use bash (cut -c, grep -o) to see more."
        )
    if matches.unread:
        notices.append(f"Hits in {_lines(matches.unread)} too long to be read are not shown.")
    notices += end_notices(end)
    if not matches.lines and not notices and place.file is not None and matches.binary:
        notices.append("The file is binary and was not searched.")
    if not matches.lines and not notices:
        notices += _doubts(request)
    details = {
        "matches": matches.count,
        "truncated": bool(cut.by or matches.more or cut_lines or matches.unread or end.timed_out),
    }
    body = cut.text or "No matches found"
    if notices:
        body += "\n\n" + "\n".join(f"[{notice}]" for notice in notices)
    return AgentToolResult([TextContent(body)], details, end.timed_out)


def _doubts(request: SearchRequest) -> list[str]:
    """Why a pattern that found nothing may not mean what it was meant to."""
    pattern = "" if request.literal else request.pattern or ""
    # Pairs of backslashes are one that stands for itself.
    signs = set(re.findall(r"\\(.)", pattern, re.DOTALL))
    doubts: list[str] = []
    if "|" in signs:
        doubts.append(r"\| is a plain bar here; write | between alternatives.")
    if "n" in signs:
        doubts.append(r"\n never matches: grep looks at one line at a time.")
    return doubts


def _rows(place: SearchedFolder, lines: Sequence[FoundLine], context: int) -> list[str]:
    rows: list[str] = []
    previous: FoundLine | None = None
    for line in lines:
        adjoins = previous is not None and (previous.path, previous.number + 1) == line[:2]
        if context and previous is not None and not adjoins:
            rows.append("--")
        mark = ":" if line.is_match else "-"
        row = f"{one_line(place.shown(line.path))}{mark}{line.number}{mark} {line.text}"
        if line.left_out:
            at = f"at column {line.column:,}; " if line.column is not None else ""
            row += f" [{at}{line.left_out:,} characters left out]"
        rows.append(row)
        previous = line
    return rows


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _hits(count: int) -> str:
    return "this one" if count == 1 else f"these {count:,}"


def _quoted(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 200 else pattern[:200] + "…")
