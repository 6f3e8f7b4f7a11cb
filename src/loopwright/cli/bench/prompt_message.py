"""What a person typed, with the files it names put beside it: `@path` and `@"a path with blanks"`.

Read are only files inside the workspace, and none that the policy hides. What names no file stays
as it is: an e-mail address, a decorator, a package; a note says so if it looks like a path. A
folder is meant only if a slash says so (`@src/`). Between fences of three backticks nothing is
looked for, since that is code.

An image that is dropped on the terminal may lie anywhere: its path arrives as a paste of nothing
else, which a model cannot make. Such paths are remembered by this process (`pasted_image`), and
later read as images and as nothing else.

Not here: templates and skills (harness/resources.py), reading (tools/read.py).
"""

from __future__ import annotations

import html
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from ...errors import ToolError
from ...harness.framing import framed
from ...loop.threads import run_in_thread
from ...messages import AgentToolResult, ImageContent, TextContent
from ...models import Model
from ...tools import LocalWorkspace, images
from ...tools.ls import DEFAULT_LIMIT, ls_tool
from ...tools.paths import PathRefused, shown
from ...tools.read import read_tool
from ...tools.text_limits import MAX_LINES, byte_size, show_size
from ...tools.workspace import Workspace
from .missing_files import MissingFiles, is_decorator

__all__ = ["MENTION_START", "Said", "mention", "message_parts", "pasted_image", "typed_text"]

MOST_MENTIONS = 200
"""How many places of a text are looked at."""
MOST_ATTACHED = 50
MOST_ATTACHED_BYTES = 512 * 1024
"""Of text, all files together; each of them keeps to what the tool `read` gives at once."""
LONGEST_PATH = 4096

MENTION_START = r"(?:^|(?<=[\s(\[{<\"'`,;]))@"
"""Where a mention can begin: not within a word, so not in an address."""

_MENTION = re.compile(
    MENTION_START + r'(?:"(?P<quoted>(?:[^"\\\n]|\\.)+)"|(?P<plain>[^\s"]\S*))', re.M
)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_AFTER_PATH = ".,;:!?)]}>'\"`*"
"""What may follow a path in a sentence."""
_NEEDS_QUOTES = re.compile(r"[\s\"'\\]")

_dropped: set[str] = set()
"""Real paths of images that the user dropped on this process's terminal."""


@dataclass(frozen=True, slots=True)
class Said:
    """What is to be sent."""

    typed: str
    """The text as it was given."""
    attached: str = ""
    """What the files hold, as blocks that begin with an empty line; empty if there are none."""
    images: list[ImageContent] = field(default_factory=list[ImageContent])
    notes: list[str] = field(default_factory=list[str])
    """What the user should be told: what was cut or left out. May hold names of files: neutralize."""

    @property
    def text(self) -> str:
        """All of the text. Where templates are expanded, do that with `typed` alone, and put
        `attached` behind it."""
        return self.typed + self.attached


async def message_parts(
    text: str,
    folder: Path | Workspace,
    *,
    model: Model | None = None,
    hidden: Callable[[str], bool] | None = None,
) -> Said:
    """*text* with the files in *folder* that it mentions. Never raises for a file; `notes` says
    what is wrong.

    *text* is to be what a person typed, nothing that came through a pipe. A *model* that reads no
    images is sent none. *hidden* is `Policy.hides`. Each file is attached once.
    """
    if "@" not in text:
        return Said(text)
    try:
        workspace = LocalWorkspace(folder) if isinstance(folder, Path) else folder
    except OSError:  # the folder is gone, and all files in it
        return Said(text)
    reads_images = model is None or "image" in model.input
    return await _Attaching(workspace, hidden, reads_images).said(text)


class _Found(NamedTuple):
    """What a mention leads to."""

    real: str
    name: str
    """For people and models."""
    is_folder: bool
    is_dropped: bool = False


class _Attaching:
    """Collects what one text mentions."""

    def __init__(
        self, workspace: Workspace, hidden: Callable[[str], bool] | None, reads_images: bool
    ) -> None:
        self._workspace = workspace
        self._hidden = hidden
        self._reads_images = reads_images
        self._blocks: list[str] = []
        self._images: list[ImageContent] = []
        self._notes: list[str] = []
        self._seen: set[str] = set()
        self._missing = MissingFiles(workspace)
        self._bytes = 0

    async def said(self, text: str) -> Said:
        for candidates, is_code in _mentions(text):
            found = await self._find(candidates, is_code=is_code)
            if found is None or found.real in self._seen:
                continue
            self._seen.add(found.real)
            if self._bytes > MOST_ATTACHED_BYTES or len(self._blocks) >= MOST_ATTACHED:
                self._note(found, "there is too much already; the model can read it itself")
                continue
            try:
                await self._attach(found)
            except ToolError as error:
                self._note(found, error.message.rstrip("."))
        self._notes += self._missing.notes()
        attached = "".join([f"\n\n{block}" for block in self._blocks])
        return Said(text, attached, self._images, self._notes)

    def _note(self, found: _Found, why: str) -> None:
        self._notes.append(f"{found.name} was not included: {why}")

    # -- finding -------------------------------------------------------------------------------

    async def _find(self, candidates: list[str], *, is_code: bool) -> _Found | None:
        """The first of *candidates* that may be read; says so if there is one that may not, or
        none at all though a path was meant, which it was not if it *is_code*."""
        outside: str | None = None
        is_there = False
        for path in candidates:
            try:
                real = await self._workspace.resolve(path)
                status = await self._workspace.stat(real)
            except PathRefused:
                real = await run_in_thread(_file_outside, path, self._workspace.root)
                if real is not None and real in _dropped:
                    if await self._is_hidden(real):
                        self._note_once(path, "a rule denies reading it")
                        return None
                    return _Found(real, real, is_folder=False, is_dropped=True)
                outside = outside or (None if real is None else path)
                continue
            except ToolError:  # no path at all
                continue
            if status is None:
                continue
            is_there = True
            if status.kind == "folder" and "/" not in path:
                continue
            found = _Found(real, shown(real, self._workspace.root), status.kind == "folder")
            if await self._is_hidden(real) or await self._is_hidden(path):
                self._note_once(found.name, "a rule denies reading it")
                return None
            return found
        if outside is not None:
            self._note_once(outside, "it is outside the workspace")
        elif not is_there and not is_code:
            await self._missing.hear(candidates[-1])
        return None

    def _note_once(self, name: str, why: str) -> None:
        note = f"{name} was not included: {why}"
        if note not in self._notes:
            self._notes.append(note)

    async def _is_hidden(self, path: str) -> bool:
        return self._hidden is not None and await run_in_thread(self._hidden, path)

    # -- attaching -----------------------------------------------------------------------------

    async def _attach(self, found: _Found) -> None:
        """Raises `ToolError` with the reason why not."""
        if found.is_folder:
            result: AgentToolResult = await ls_tool(self._workspace)(found.real, DEFAULT_LIMIT)
            details = _details(result)
            if details.get("truncated"):
                self._notes.append(
                    f"{found.name} has {details['entries']:,} names; the first ones were included"
                )
            self._add("folder", found.name, _text(result))
            return
        if found.is_dropped:
            result = await run_in_thread(_show_dropped, found.real)
        else:
            result = await read_tool(self._workspace)(found.real, 1, MAX_LINES)
        pictures = [block for block in result.content if isinstance(block, ImageContent)]
        if pictures and not self._reads_images:
            self._note(found, "the model does not read images")
            return
        details = _details(result)
        if "startLine" not in details and not pictures:
            why = _text(result).strip("[]").removeprefix("The image is not shown: ")
            self._note(found, why.rstrip("."))
            return
        if details.get("truncated"):
            self._notes.append(_what_was_cut(found.name, details))
        self._add("file", found.name, _text(result))
        self._images += pictures

    def _add(self, tag: str, name: str, content: str) -> None:
        block = framed(tag, content, path=name)
        self._bytes += byte_size(block)
        self._blocks.append(block)


def _text(result: AgentToolResult) -> str:
    return "".join([block.text for block in result.content if isinstance(block, TextContent)])


def _details(result: AgentToolResult) -> dict[str, Any]:
    details: Any = result.details
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def _what_was_cut(name: str, details: dict[str, Any]) -> str:
    end, total = details["endLine"], details["totalLines"]
    if end == total:
        return f"{name} has {show_size(details['size'])}; only its beginning was included"
    of = "more" if total is None else f"{total:,}"
    return f"{name}: lines 1 to {end:,} of {of} were included"


def _mentions(text: str) -> Iterator[tuple[list[str], bool]]:
    """Of each mention what its path may be, the longest first; and whether it looks like a
    decorator."""
    text = _without_code(text)
    for found in islice(_MENTION.finditer(text), MOST_MENTIONS):
        quoted, plain = found["quoted"], found["plain"]
        if quoted is not None:
            yield [re.sub(r"\\(.)", r"\1", quoted)], False
        elif len(plain) <= LONGEST_PATH:
            is_code = is_decorator(text, found.start(), found.end())
            yield list(_shorter_and_shorter(plain)), is_code


def _shorter_and_shorter(path: str) -> Iterator[str]:
    yield path
    for _ in range(8):
        if path[-1:] not in _AFTER_PATH or len(path) < 2:
            return
        path = path[:-1]
        yield path


def _without_code(text: str) -> str:
    """*text* without what stands between fences."""
    if "```" not in text and "~~~" not in text:
        return text
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        mark = found.group().strip() if found else ""
        if fence:
            fence = "" if mark == fence else fence
        elif mark:
            fence = mark
        else:
            lines.append(line)
    return "\n".join(lines)


def _file_outside(path: str, root: str) -> str | None:
    """The real path of a file that *path* leads to, wherever that is."""
    try:
        real = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
        return real if os.path.isfile(real) else None
    except (OSError, ValueError):
        return None


# -- images dropped on the terminal ----------------------------------------------------------


def pasted_image(text: str, folder: Path) -> str | None:
    """What to put into the input for a paste of *text* that names image files and nothing else.

    Terminals give dropped files as paths: bare, in quotes, with escaped blanks, or as `file://`
    URLs, several with blanks between them. None if that is not what *text* is. From now on
    `message_parts` takes these files, also outside the workspace. Reads some bytes of each, so it
    blocks for a moment.
    """
    text = text.strip()
    if not text or len(text) > 8 * LONGEST_PATH or "\n" in text:
        return None
    for paths in _readings(text):
        reals = [_image(path, folder) for path in paths]
        if paths and all(reals):
            found = [real for real in reals if real is not None]
            _dropped.update(found)
            root = os.path.realpath(folder)
            return " ".join([mention(shown(real, root)) for real in found])
    return None


def mention(path: str) -> str:
    """*path* as it is written into a prompt."""
    if not _NEEDS_QUOTES.search(path):
        return f"@{path}"
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{escaped}"'


def _readings(text: str) -> Iterator[list[str]]:
    import shlex

    yield [text]
    if not re.search(r"[\s'\"\\]", text):
        return
    try:
        yield shlex.split(text)
    except ValueError:  # an apostrophe, so it is a sentence
        return


def _image(path: str, folder: Path) -> str | None:
    """The real path of the image file *path*; None if it is none."""
    if path.startswith("file://"):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            return None
        path = unquote(parts.path)
    try:
        real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
        if len(real) > LONGEST_PATH or not real.isprintable():
            return None
        with _open_regular(real) as file:
            return real if images.is_image(file.read(64 * 1024)) else None
    except (OSError, ValueError):
        return None


def _open_regular(path: str) -> Any:
    """Opened without waiting for a pipe's other end. Raises OSError for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return os.fdopen(descriptor, "rb")


def _show_dropped(real: str) -> AgentToolResult:
    """Raises `ToolError` if the file has become something else since it was dropped."""
    try:
        if os.path.realpath(real) != real:
            raise ToolError("it is a link by now")
        with _open_regular(real) as file:
            data = file.read(images.MOST_BYTES_READ + 1)
    except OSError as error:
        raise ToolError(f"it cannot be read: {error.strerror or error}") from error
    if not images.is_image(data):
        raise ToolError("it is no image any more")
    return images.show(data)


# -- back again --------------------------------------------------------------------------------

_BLOCK_END = re.compile(r"\n</((?:file|folder)(?:-[0-9]+)?)>\Z")
_SKILL = re.compile(r'<(skill(?:-[0-9]+)?) name="([^"\n]*)"[^>\n]*>\n')


def typed_text(text: str) -> str:
    """What somebody typed to make *text*, as far as it can be told: without the files that were
    put behind it, and with `/skill:name` in place of the skill's words."""
    while ends := _BLOCK_END.search(text):
        start = text.rfind(f'\n\n<{ends[1]} path="', 0, ends.start())
        if start < 0:
            break
        text = text[:start]
    if skill := _SKILL.match(text):
        content, closed, rest = text.partition(f"\n</{skill[1]}>")
        if closed and content:
            return f"/skill:{html.unescape(skill[2])} {rest.strip()}".rstrip()
    return text
