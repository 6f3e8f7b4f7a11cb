"""Questions that nobody will answer any more."""

from __future__ import annotations

import asyncio
from typing import cast

from loopwright.cli.rpc.line_writer import LineWriter
from loopwright.cli.rpc.questions import Questions
from loopwright.permissions import Decision, Deny, Question


class _Unread:
    async def write(self, line: bytes) -> None: ...

    def put(self, line: bytes) -> None: ...


async def test_the_end_of_the_input_is_no_word_of_the_user() -> None:
    asked = Question("call_1", "bash", {"command": "x"}, Decision("ask", "no rule allows it"), None)
    questions = Questions(cast("LineWriter", _Unread()))
    waiting = asyncio.ensure_future(questions.ask(asked))
    while not questions.waiting():
        await asyncio.sleep(0)

    questions.deny_all("the input ended", for_good=True)

    denied = Deny("the input ended", by_user=False)
    assert [await waiting, await questions.ask(asked)] == [denied, denied]
