"""Tokens that end: renewed in time, once for all who wait, and once more if one is refused."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from loopwright.errors import AuthenticationFailed
from loopwright.messages import UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.credentials import CredentialFile
from loopwright.models.tokens import RENEW_SECONDS_BEFORE_END, Token, refreshing

from .fault_server import answer, serving, text_reply

CONTEXT = Context("", [UserMessage("Hi", 1)])
MODEL = Model("acme", "m", "openai-chat")


class Issuer:
    """Gives tokens `token-1`, `token-2`, ... which last for an hour."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.given = 0
        self.seen: list[Token | None] = []
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, last: Token | None) -> Token:
        self.seen.append(last)
        await self.open.wait()
        self.given += 1
        return Token(f"token-{self.given}", self.now + 3600, f"refresh-{self.given}")

    def clock(self) -> float:
        return self.now


async def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    issuer = Issuer()
    token = refreshing(issuer.fetch, clock=issuer.clock)

    assert await token() == await token() == "token-1"
    issuer.now += 3600 - RENEW_SECONDS_BEFORE_END - 1
    assert await token() == "token-1"
    issuer.now += 2
    assert await token() == "token-2"
    assert issuer.seen[1] is not None
    assert issuer.seen[1].refresh == "refresh-1"


async def test_those_who_wait_share_one_renewal() -> None:
    issuer = Issuer()
    issuer.open.clear()
    token = refreshing(issuer.fetch, clock=issuer.clock)

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(token()) for _ in range(20)]
        await asyncio.sleep(0)
        issuer.open.set()

    assert {task.result() for task in waiting} == {"token-1"}
    assert issuer.given == 1


async def test_whoever_gives_up_does_not_take_the_renewal_away_from_others() -> None:
    issuer = Issuer()
    issuer.open.clear()
    token = refreshing(issuer.fetch, clock=issuer.clock)
    first, second, third = (asyncio.ensure_future(token()) for _ in range(3))
    await asyncio.sleep(0)

    first.cancel()  # the one that fetches
    second.cancel()  # one that waits
    await asyncio.wait([first, second])
    issuer.open.set()

    assert await third == "token-1"
    assert first.cancelled()
    assert second.cancelled()


async def test_a_failed_renewal_fails_for_all_and_the_next_call_tries_again() -> None:
    calls: list[int] = []

    async def fetch(last: Token | None) -> Token:
        calls.append(1)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise AuthenticationFailed("the issuer is away")
        return Token("good")

    token = refreshing(fetch)
    results = await asyncio.gather(token(), token(), return_exceptions=True)

    assert [str(result) for result in results] == ["the issuer is away"] * 2
    assert len(calls) == 1
    assert await token() == "good"


async def test_a_plain_function_runs_in_a_thread() -> None:
    threads: list[int] = []

    def fetch(last: Token | None) -> Token:
        threads.append(threading.get_ident())
        return Token("t")

    assert await refreshing(fetch)() == "t"
    assert threads != [threading.get_ident()]


def test_one_renewal_serves_several_event_loops() -> None:
    started, given = threading.Barrier(4), [0]

    def fetch(last: Token | None) -> Token:
        given[0] += 1
        return Token("t")

    token = refreshing(fetch)
    got: list[str] = []

    def run() -> None:
        started.wait()
        got.append(asyncio.run(_awaited(token)))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert got == ["t"] * 4
    assert given == [1]


async def _awaited(token: Callable[[], Awaitable[str]]) -> str:
    return await token()


@pytest.mark.parametrize("wrong", ["a-text", None, Token("")])
async def test_what_is_no_token_is_told_without_showing_it(wrong: object) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        await refreshing(lambda last: wrong)()  # pyright: ignore[reportArgumentType]

    assert "a-text" not in str(caught.value)


# -- among processes ---------------------------------------------------------------------------

PROCESS = """
import asyncio, json, pathlib, sys, time
from loopwright.models.credentials import CredentialFile
from loopwright.models.tokens import Token, refreshing
folder = pathlib.Path(sys.argv[1])
async def fetch(last):
    with (folder / "fetched").open("a") as log:
        log.write((last.value if last else "none") + chr(10))
    await asyncio.sleep(0.1)
    return Token("shared-token", time.time() + 3600, "r")
token = refreshing(fetch, name="acme", file=CredentialFile(folder / "home" / "c.json"))
print(asyncio.run(token()))
"""


def test_several_processes_fetch_one_token(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"{PROCESS}", str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]

    outputs = [process.communicate(timeout=60)[0] for process in processes]

    assert outputs == ["shared-token\n"] * 4
    assert (tmp_path / "fetched").read_text() == "none\n"
    kept = json.loads((tmp_path / "home" / "c.json").read_text())
    assert kept["vendors"]["acme"]["token"]["refresh"] == "r"


async def test_the_refresh_token_of_the_file_is_what_counts(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path / "c" / "c.json")
    file.set_token("acme", Token("old", 1.0, "from-another-process"))
    issuer = Issuer()

    await refreshing(issuer.fetch, name="acme", file=file, clock=issuer.clock)()

    assert issuer.seen[0] is not None
    assert issuer.seen[0].refresh == "from-another-process"
    kept = file.token("acme")
    assert kept is not None
    assert kept.value == "token-1"


# -- refused by the vendor ---------------------------------------------------------------------

REFUSED = answer(401, {"error": {"message": "token expired"}})


async def test_a_refused_token_is_renewed_once_and_the_request_sent_again() -> None:
    issuer = Issuer()
    token = refreshing(issuer.fetch, clock=issuer.clock)
    async with serving(REFUSED, text_reply("Hello")) as server:
        models = Models([Provider(id="acme", base_url=server.base_url, api_key=token)])

        message = await models.complete(MODEL, CONTEXT, max_retries=0)
        await models.aclose()

    assert message.text == "Hello"
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer token-1", "Bearer token-2"]
    assert server.requests[0].body == server.requests[1].body


async def test_a_token_that_is_refused_again_ends_the_request() -> None:
    issuer = Issuer()
    token = refreshing(issuer.fetch, clock=issuer.clock)
    async with serving(REFUSED, REFUSED, text_reply("Hello")) as server:
        models = Models([Provider(id="acme", base_url=server.base_url, api_key=token)])

        message = await models.complete(MODEL, CONTEXT)
        await models.aclose()

    assert message.stop_reason == "error"
    assert len(server.requests) == 2
    assert "token-" not in (message.error_message or "")


async def test_a_plain_key_that_is_refused_is_not_sent_again() -> None:
    async with serving(REFUSED, text_reply("Hello")) as server:
        models = Models([Provider(id="acme", base_url=server.base_url, api_key="plain-key")])

        message = await models.complete(MODEL, CONTEXT)
        await models.aclose()

    assert message.stop_reason == "error"
    assert len(server.requests) == 1


async def test_a_token_may_be_given_with_the_request() -> None:
    issuer = Issuer()
    token = refreshing(issuer.fetch, clock=issuer.clock)
    async with serving(REFUSED, text_reply("Hello")) as server:
        models = Models([Provider(id="acme", base_url=server.base_url)])

        message = await models.complete(MODEL, CONTEXT, api_key=token)
        await models.aclose()

    assert message.text == "Hello"


async def test_a_failing_issuer_is_an_error_in_band() -> None:
    def fetch(last: Token | None) -> Token:
        raise OSError("no route to the issuer")

    models = Models([Provider(id="acme", base_url="http://127.0.0.1:1", api_key=refreshing(fetch))])

    message = await models.complete(MODEL, CONTEXT, max_retries=0)

    assert message.stop_reason == "error"
    assert "no route to the issuer" in (message.error_message or "")
