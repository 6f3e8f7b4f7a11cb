"""What can follow what is typed: slash commands, their arguments, and files after an `@`.

Files are looked for in a thread (workspace_files.py); what is offered never leaves the folder.

Not here: what the commands are (commands.py), reading the files (bench/prompt_message.py).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion

from ...loop.threads import run_in_thread
from ..bench.prompt_message import MENTION_START, mention
from ..streams import visible
from .matching import matcher
from .one_line import one_line
from .workspace_files import WorkspaceFiles

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

__all__ = ["PromptCompleter"]

MOST_OFFERED = 50

Words = Sequence[tuple[str, str]]
"""Names and what they stand for."""

_MENTION = re.compile(MENTION_START + r'(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>[^\s"]*))\Z')
_COMMAND = re.compile(r"/(?P<name>\S*)\Z")
_ARGUMENT = re.compile(r"/(?P<name>\S+)[ \t]+(?P<word>\S*)\Z")


class PromptCompleter(Completer):
    """For the input of the interactive mode."""

    def __init__(
        self,
        folder: Path,
        commands: Callable[[], Words],
        arguments: Callable[[str, str], Words] | None = None,
    ) -> None:
        """*commands* gives names with their slash (`/help`) and descriptions; *arguments* what can
        stand behind one (`/model`), given what is typed of it."""
        self._commands = commands
        self._arguments = arguments
        self._files = WorkspaceFiles(folder)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Commands and their arguments only: files may take a while."""
        before = document.text_before_cursor
        if found := _COMMAND.match(before):
            yield from self._command_names(found["name"])
        elif self._arguments is not None and (found := _ARGUMENT.match(before)):
            yield from _of_words(self._arguments(found["name"], found["word"]), found["word"])

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """All of them. Never holds up the event loop."""
        before = document.current_line_before_cursor
        found = _MENTION.search(before[-4096:])
        if found is None:
            for completion in self.get_completions(document, complete_event):
                yield completion
            return
        quoted, plain = found["quoted"], found["plain"]
        typed = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        if typed.startswith(("~", "/", "../")):
            return
        best = await run_in_thread(_best, await self._files.paths(), typed.removeprefix("./"))
        length = len(found.group())
        for path in best:
            name = path.rstrip("/").rpartition("/")[2]
            yield Completion(
                mention(path),
                start_position=-length,
                display=f"{visible(name)}{'/' if path.endswith('/') else ''}",
                display_meta=visible(path),
            )

    def _command_names(self, typed: str) -> Iterable[Completion]:
        words = [(name.removeprefix("/"), meaning) for name, meaning in self._commands()]
        return _of_words(words, typed)


def _of_words(words: Words, typed: str) -> Iterable[Completion]:
    """Those that fit, the best first; equally good ones in the order they were given."""
    rank = matcher(typed)
    ranked = [(rank(name), place) for place, (name, _) in enumerate(words)]
    fitting = sorted((found, place) for found, place in ranked if found is not None)
    for _, place in fitting[:MOST_OFFERED]:
        name, meaning = words[place]
        yield Completion(
            name,
            start_position=-len(typed),
            display=visible(name),
            display_meta=one_line(meaning),
        )


def _best(paths: Sequence[str], typed: str) -> list[str]:
    """The paths that fit *typed*, the likeliest first. Without anything typed: what is nearest."""
    if not typed:
        return list(paths[:MOST_OFFERED])
    rank = matcher(typed)
    ranked = [(found, len(path), path) for path in paths if (found := rank(path)) is not None]
    if len(ranked) > MOST_OFFERED:
        import heapq

        ranked = heapq.nsmallest(MOST_OFFERED, ranked)
    return [path for _, _, path in sorted(ranked)]
