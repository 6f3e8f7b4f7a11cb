"""Our files opened by pp-agent-core, theirs opened by us, and both writing to one file in turn.

The real package does its half. Where it is not installed (`pip install pp-agent-core`) nothing of
this can be shown, and the tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from loopwright.errors import SessionDamaged
from loopwright.messages import (
    AssistantMessage,
    Cost,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.session.columns import shown
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
    to_row,
)
from loopwright.session.export.pi_v4 import export_pi_v4
from loopwright.session.formats.importing import import_file
from loopwright.session.jsonl import JsonlStore
from loopwright.session.jsonl_log import SessionLog
from loopwright.session.leases import new_owner
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import Fact, InboxItem, Lane, LaneConfig, Operation, SessionInfo
from loopwright.session.rows import UsageRow as OurUsageRow
from loopwright.session.store import Commit, Lease, SessionStore
from loopwright.session.tree import branch_rows, context_of

from .commits import commits

pytest.importorskip("pi_agent", reason="pp-agent-core is not installed")

import pi_ai.types as pi
from pi_agent.harness import session as theirs
from pi_agent.harness.session.jsonl.codec import decode_mutation

CWD = "/srv/project"


class Aside(CustomMessage, tag="test-aside"):
    """A role of a program's own, which pi does not know."""

    text: str


# -- ours, read by them ----------------------------------------------------------------------


async def test_a_session_of_ours_has_the_same_tree_lanes_and_labels_there(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _conversation(store)

        session = await _open_theirs(tmp_path, "ours")

        found = await _tree(session)
        assert [entry[:3] for entry in found] == [
            ("u1", None, "message"),
            ("a1", "u1", "message"),
            ("r1", "a1", "message"),
            ("r2", "r1", "message"),
            ("a2", "r2", "message"),
            ("u2", "a2", "message"),
            ("a3", "u2", "message"),
            ("s1", "a2", "branch_summary"),
            ("u3", "s1", "message"),
            ("note", "u3", "custom"),
            ("aside", "note", "custom"),
            ("c1", "aside", "compaction"),
            ("u4", "c1", "message"),
        ]
        lanes = {pointer.lane: pointer.leaf_id for pointer in await session.get_lanes()}
        assert lanes == {"main": "u4", "side": "a3"}
        assert await session.get_name() == "Größe\u2028"
        assert await session.get_label("a2") == "good"
        assert await session.get_label("u1") is None


async def test_a_session_of_ours_shows_their_model_the_same_messages(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _conversation(store)

        session = await _open_theirs(tmp_path, "ours")
        before = theirs.build_session_context(await _branch(session, "side")).messages
        after = theirs.build_session_context(await _branch(session, "main")).messages

        ours = _context(await _our_branch(store, "ours", "side"))
        assert [_plain(message) for message in before] == [_plain(message) for message in ours]
        kept = [_plain(message) for message in after[1:]]
        ours = _context(await _our_branch(store, "ours", "main"))
        assert kept == [_plain(m) for m in ours[1:] if not isinstance(m, Aside)]
        assert after[0].role == "compactionSummary"
        assert after[0].summary == "All went well."


async def test_the_ledger_of_ours_adds_up_there_and_no_unknown_price_is_counted(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _conversation(store)

        stats = await (await _open_theirs(tmp_path, "ours")).get_stats()

        assert stats.total_tokens == 30
        assert stats.cost_total == 0.5


async def test_what_they_cannot_say_comes_back_from_the_file_all_the_same(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _conversation(store)
        before = [await store.state("ours"), await store.entries("ours"), await store.usage("ours")]

    async with await JsonlStore.open(tmp_path) as store:
        after = [await store.state("ours"), await store.entries("ours"), await store.usage("ours")]

        assert after == before
        by_id = {row.id: row.entry() for row in await store.entries("ours")}
        assert by_id == {entry.id: _numbered(entry, by_id) for entry in _entries()}


@given(commits())
@settings(max_examples=40)
def test_whatever_we_write_they_take_line_by_line(made: list[Commit]) -> None:
    log = SessionLog(SessionInfo(id="s"), header_bytes=0)
    state = theirs.SessionState()

    for commit in made:
        try:
            data = log.lines_of(commit, 1)
        except SessionDamaged:
            continue  # two rows of the ledger with one id
        log.feed(data)
        for line in data.decode().split("\n")[:-1]:
            state.apply_mutation(decode_mutation(line))

    lanes = {pointer.lane: pointer.leaf_id for pointer in state.get_lanes()}
    for name, leaf_id in log.rows.leaves.items():
        if leaf_id != "nowhere":
            assert lanes[name] == leaf_id
    parents = {entry.id: entry.parent_id for entry in state.find_entries()}
    for row in log.rows.entries:
        assert parents[row.id] == row.parent_id
    assert shown(state.get_name()) == log.rows.name


# -- theirs, read by us ----------------------------------------------------------------------


async def test_a_session_of_theirs_is_opened_with_its_tree_and_lanes(tmp_path: Path) -> None:
    await _their_conversation(tmp_path)

    async with await JsonlStore.open(tmp_path) as store:
        state = await store.state("theirs")
        rows = await store.entries("theirs")

        assert [(row.id, row.parent_id, row.type) for row in rows] == [
            ("q1", None, "message"),
            ("p1", "q1", "message"),  # a change of model stood between them
            ("t1", "p1", "message"),
            ("p2", "t1", "message"),
            ("k1", "p2", "compaction"),
            ("n1", "k1", "custom"),
        ]
        assert {lane.name: lane.leaf_id for lane in state.lanes} == {"main": "n1", "side": "q1"}
        assert (state.info.name, state.info.cwd) == ("theirs, named", CWD)
        assert state.info.preview == "what is it?"
        assert [(fact.namespace, fact.key, fact.value) for fact in state.facts] == [
            ("name", "", "theirs, named"),
            ("label", "p1", "look"),
        ]
        assert state.operations == []
        assert state.lanes[0].operation_id is None  # they left one open; it is theirs
        assert state.info.usage.total_tokens == 20
        assert [info.id for info in await store.list(cwd=CWD)] == ["theirs"]


async def test_messages_of_theirs_are_read_and_a_deferred_reply_is_shown_to_no_model(
    tmp_path: Path,
) -> None:
    await _their_conversation(tmp_path)

    async with await JsonlStore.open(tmp_path) as store:
        entries = {row.id: row.entry() for row in await store.entries("theirs")}
        shown = _context(await _our_branch(store, "theirs", "main"))

        first = entries["p1"]
        assert isinstance(first, MessageEntry)
        assert isinstance(first.message, AssistantMessage)
        assert first.message.tool_calls == [ToolCall("c1", "look", {"path": "a.txt"})]
        assert first.message.usage.cost.total == 0.25
        deferred = entries["p2"]
        assert isinstance(deferred, MessageEntry)
        assert isinstance(deferred.message, AssistantMessage)
        assert deferred.message.stop_reason == "error"
        # The summary, and the tail as they copied it.
        assert [message.role for message in shown] == ["user", "user"]
        assert shown[1] == UserMessage("kept", timestamp=5)


async def test_an_import_of_theirs_and_an_export_lose_nothing_they_can_hold(
    tmp_path: Path,
) -> None:
    path = await _their_conversation(tmp_path)
    store = MemoryStore()

    info = await import_file(store, path)
    (tmp_path / "again" / "--x--").mkdir(parents=True)
    copy = await export_pi_v4(store, info.id, tmp_path / "again" / "--x--" / "copy.jsonl")

    original = await _open_path(tmp_path, path)
    exported = await _open_path(tmp_path / "again", copy)
    # What they keep in the tree and we do not is gone from it, and stands with the lane.
    wanted = [entry for entry in await _tree(original) if entry[2] not in _CONFIG]
    assert await _tree(exported) == [
        (entry_id, "q1" if parent_id == "m1" else parent_id, *rest)
        for entry_id, parent_id, *rest in wanted
    ]
    assert await exported.get_name() == "theirs, named"
    assert await exported.get_label("p1") == "look"
    assert await _ledger(exported) == await _ledger(original)
    (main, _) = (await store.state(info.id)).lanes
    assert main.config == LaneConfig(
        provider="acme", model_id="large", thinking_level="high", active_tools=["look"]
    )
    assert [item.message for item in await store.inbox(info.id)] == [
        UserMessage("later, please", timestamp=6)
    ]


async def test_half_a_surrogate_pair_of_theirs_does_not_close_the_file_to_us(
    tmp_path: Path,
) -> None:
    session = await _repo(tmp_path).create(theirs.JsonlSessionCreateOptions(id="half", cwd=CWD))
    await session.append_message(pi.UserMessage(content="cut \ud83d", timestamp=1))

    async with await JsonlStore.open(tmp_path) as store:
        (row,) = await store.entries("half")

        entry = row.entry()
        assert isinstance(entry, MessageEntry)
        assert entry.message == UserMessage("cut \ufffd", 1)


# -- both, in turn ---------------------------------------------------------------------------


async def test_they_append_to_a_file_of_ours_and_we_go_on_behind_them(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _conversation(store)
        head = (await store.state("ours")).head

        session = await _open_theirs(tmp_path, "ours")
        added = await session.append_message(pi.UserMessage(content="from there", timestamp=9))
        await session.set_label("u1", "first")
        seen = await store.state("ours")

        assert seen.lanes[0].leaf_id == added
        assert seen.head == head + 2
        assert ("label", "u1", "first") in [(f.namespace, f.key, f.value) for f in seen.facts]
        entry = MessageEntry(id="back", parent_id=added, message=UserMessage("from here"))
        await store.commit(
            lease, Commit(entries=[to_row(entry)], lanes=[Lane(name="main", leaf_id="back")])
        )

        session = await _open_theirs(tmp_path, "ours")
        assert await session.get_leaf_id() == "back"
        assert (await session.get_entry("back")).parent_id == added


async def test_we_append_to_a_file_of_theirs_behind_a_node_we_do_not_show(tmp_path: Path) -> None:
    path = await _their_conversation(tmp_path)
    session = await _open_path(tmp_path, path)
    await session.append_entry(
        theirs.ModelChangeEntry(id="m2", provider="acme", model_id="small"), "main"
    )
    before = path.read_bytes()

    async with await JsonlStore.open(tmp_path) as store:
        lease = await store.claim("theirs", new_owner(), 60)
        (main, _) = (await store.state("theirs")).lanes
        assert main.leaf_id == "n1"
        entry = MessageEntry(id="ours", parent_id="n1", message=UserMessage("hello"))
        spent = Usage(input=1, total_tokens=1)
        await store.commit(
            lease,
            Commit(
                entries=[to_row(entry)],
                lanes=[Lane(name="main", leaf_id="ours", operation_id="o")],
                operations=[Operation(id="o", lane="main")],
                usage=[OurUsageRow(cause="retry", usage=spent, operation_id="o")],
                usage_total=spent,
            ),
        )
        (row,) = await store.find("theirs", ["ours"])

        assert row.parent_id == "n1"
        assert path.read_bytes().startswith(before)  # what was there is there still
        session = await _open_path(tmp_path, path)
        assert await session.get_leaf_id() == "ours"
        assert (await session.get_entry("ours")).parent_id == "m2"
        added = await session.append_message(pi.UserMessage(content="and you?", timestamp=1))
        (row,) = await store.find("theirs", [added])
        assert row.parent_id == "ours"


async def test_a_fork_by_them_of_a_session_of_ours_keeps_the_tree_and_none_of_its_work(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _conversation(store)
        repo = _repo(tmp_path)
        (source,) = await repo.list()

        await repo.fork(source, theirs.JsonlForkOptions(scope="tree", id="forked", cwd=CWD))
        state = await store.state("forked")
        rows = await store.entries("forked")

        assert state.info.parent_id == "ours"
        assert (state.operations, state.intents, state.inbox) == ([], [], [])
        assert {lane.name: lane.leaf_id for lane in state.lanes} == {"main": "u4", "side": "a3"}
        theirs_of = {row.id: row for row in rows}
        for row in await store.entries("ours"):
            assert theirs_of[row.id].parent_id == row.parent_id
            if row.type != "compaction":
                assert theirs_of[row.id].type == row.type
        # The pointer of a compaction is ours; what they copied is the tail itself.
        compaction = theirs_of["c1"].entry()
        assert isinstance(compaction, CompactionEntry)
        assert compaction.first_kept_id is None
        assert compaction.retained_tail == [UserMessage("on the branch", timestamp=12)]


async def test_their_append_waits_for_ours_and_ours_for_theirs(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s", cwd=CWD))
        path = await store.path("s")
        lease = await store.claim("s", new_owner(), 60)
        guard = path.with_name(path.name + ".lock")

        guard.write_text("4194305")  # no process has that number; theirs died in an append
        os.utime(guard, (1, 1))
        entry = to_row(MessageEntry(id="m", parent_id=None, message=UserMessage("hello")))
        await store.commit(lease, Commit(entries=[entry], lanes=[Lane(name="main", leaf_id="m")]))

        assert not guard.exists()
        session = await _open_theirs(tmp_path, "s")
        await session.append_message(pi.UserMessage(content="not held up", timestamp=1))
        assert len(await store.entries("s")) == 2


# -- what the tests use ----------------------------------------------------------------------

_CONFIG = ("model_change", "thinking_level_change", "active_tools_change")


def _usage(total: int, cost: float | None) -> Usage:
    prices = Cost() if cost is None else Cost(cost, 0.0, 0.0, 0.0, cost)
    return Usage(input=total, total_tokens=total, cost=prices)


def _entries() -> list[Entry]:
    """A conversation with everything in it: tools, a branch, a summary, a compaction."""
    calls = [
        ToolCall("c1", "read", {"path": "a", "note": "\U0001f600 \u2028"}, raw_arguments="{..}"),
        ToolCall("c2", "read", {}, raw_arguments="{broken", arguments_error="no JSON"),
    ]
    first: list[TextContent | ThinkingContent | ToolCall]
    first = [ThinkingContent("hm", thinking_signature="sig"), TextContent("I look."), *calls]
    replied: dict[str, Any] = {
        "api": "scripted",
        "provider": "acme",
        "model": "large",
        "timestamp": 3,
    }
    picture = ImageContent("aGk=", "image/png")
    return [
        MessageEntry(
            id="u1", parent_id=None, message=UserMessage([TextContent("Look"), picture], 1)
        ),
        MessageEntry(
            id="a1",
            parent_id="u1",
            message=AssistantMessage(
                first, usage=_usage(10, 0.5), stop_reason="toolUse", **replied
            ),
        ),
        MessageEntry(
            id="r1",
            parent_id="a1",
            message=ToolResultMessage(
                "c1", "read", [TextContent("a")], details={"snake_key": [1, None]}, timestamp=4
            ),
        ),
        MessageEntry(
            id="r2",
            parent_id="r1",
            message=ToolResultMessage(
                "c2", "read", [TextContent("not JSON")], is_error=True, timestamp=5
            ),
            terminate=True,
        ),
        MessageEntry(
            id="a2",
            parent_id="r2",
            message=AssistantMessage([TextContent("Seen.")], usage=_usage(20, None), **replied),
        ),
        MessageEntry(id="u2", parent_id="a2", message=UserMessage("elsewhere", 6)),
        MessageEntry(
            id="a3", parent_id="u2", message=AssistantMessage([TextContent("there")], **replied)
        ),
        BranchSummaryEntry(id="s1", parent_id="a2", from_id="a3", summary=" "),
        MessageEntry(id="u3", parent_id="s1", message=UserMessage("on the branch", 12)),
        CustomEntry(id="note", parent_id="u3", custom_type="app", data={"a_b": 1}),
        MessageEntry(id="aside", parent_id="note", message=Aside(text="psst", timestamp=13)),
        CompactionEntry(
            id="c1",
            parent_id="aside",
            summary="All went well.",
            first_kept_id="u3",
            tokens_before=100,
            usage=_usage(0, None),
        ),
        MessageEntry(id="u4", parent_id="c1", message=UserMessage("go on", 14)),
    ]


def _numbered(entry: Entry, by_id: dict[str, Entry]) -> Entry:
    kept = by_id[entry.id]
    return msgspec.structs.replace(entry, seq=kept.seq, timestamp=kept.timestamp)


async def _conversation(store: SessionStore) -> Lease:
    """The session `ours`, written in several commits; its lease."""
    await store.create(SessionInfo(id="ours", cwd=CWD, metadata={"by": "a test"}))
    lease = await store.claim("ours", new_owner(), 60)
    rows = {entry.id: to_row(entry) for entry in _entries()}

    def part(*ids: str) -> list[EntryRow]:
        return [rows[entry_id] for entry_id in ids]

    operation = Operation(id="o", lane="main", request_id="r")
    await store.commit(
        lease,
        Commit(
            entries=part("u1"),
            lanes=[Lane(name="main", leaf_id="u1", operation_id="o")],
            operations=[operation],
            preview="Look",
        ),
    )
    await store.commit(
        lease,
        Commit(
            entries=part("a1", "r1", "r2", "a2"),
            lanes=[
                Lane(
                    name="main",
                    leaf_id="a2",
                    operation_id="o",
                    config=LaneConfig(provider="acme", model_id="large"),
                )
            ],
            usage=[
                OurUsageRow(id="x1", cause="assistant", usage=_usage(10, 0.5), operation_id="o"),
                OurUsageRow(id="x2", cause="retry", usage=_usage(20, None), details={"n": 1}),
            ],
            usage_total=_usage(10, 0.5) + _usage(20, None),
        ),
    )
    await store.commit(
        lease, Commit(entries=part("u2", "a3"), lanes=[Lane(name="side", leaf_id="a3")])
    )
    await store.commit(
        lease,
        Commit(
            entries=part("s1", "u3", "note", "aside"),
            lanes=[Lane(name="main", leaf_id="aside")],
            facts=[
                Fact(namespace="custom", key="k", value=None),
                Fact(namespace="name", value="Größe\u2028"),
                Fact(namespace="label", key="u1", value="begin"),
                Fact(namespace="label", key="a2", value="good"),
            ],
        ),
    )
    await store.commit(
        lease,
        Commit(
            entries=part("c1", "u4"),
            lanes=[Lane(name="main", leaf_id="u4")],
            facts=[Fact(namespace="label", key="u1", deleted=True)],
        ),
    )
    await store.enqueue(
        "ours", InboxItem(id="q", lane="main", queue="steer", message=UserMessage("psst", 15))
    )
    return lease


def _repo(root: Path) -> Any:
    return theirs.JsonlSessionRepo(theirs.JsonlSessionRepoOptions(sessions_root=root))


async def _open_theirs(root: Path, session_id: str) -> Any:
    repo = _repo(root)
    (metadata,) = [found for found in await repo.list() if found.id == session_id]
    return await repo.open(metadata)


async def _open_path(root: Path, path: Path) -> Any:
    repo = _repo(root)
    (metadata,) = [found for found in await repo.list() if Path(found.path) == path]
    return await repo.open(metadata)


async def _tree(session: Any) -> list[Any]:
    """What they see, but for our state."""
    query = theirs.EntryQuery(order="oldestFirst")
    return [
        (entry.id, entry.parent_id, entry.type, _shorn(entry))
        for entry in await session.find_entries(query)
        if getattr(entry, "custom_type", None) != "loopwright.state"
    ]


def _shorn(entry: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(entry).items() if k not in ("seq", "parent_id", "id", "type")}


async def _ledger(session: Any) -> list[Any]:
    records = await session.find_records(theirs.RecordQuery(type="usage", order="oldestFirst"))
    return [{k: v for k, v in vars(r).items() if k != "seq"} for r in records]


async def _branch(session: Any, lane: str) -> list[Any]:
    query = theirs.EntryQuery(order="oldestFirst")
    return await session.view(lane).find_entries_on_branch(query)


async def _our_branch(store: SessionStore, session_id: str, lane: str) -> list[EntryRow]:
    state = await store.state(session_id)
    (leaf,) = [found.leaf_id for found in state.lanes if found.name == lane]
    return branch_rows(await store.entries(session_id, newest_first=True), leaf)


def _context(rows: list[EntryRow]) -> list[Any]:
    return list(context_of([row.entry() for row in rows]))


def _plain(message: Any) -> tuple[Any, ...]:
    """A message of either side, for comparison."""
    content = message.content
    if not isinstance(content, str):
        content = [
            (
                block.type,
                getattr(block, "text", None),
                getattr(block, "thinking", None),
                getattr(block, "thinking_signature", None),
                getattr(block, "data", None),
                getattr(block, "mime_type", None),
                getattr(block, "id", None),
                getattr(block, "arguments", None),
            )
            for block in content
        ]
    names = ("stop_reason", "tool_call_id", "tool_name", "is_error", "details", "model", "api")
    rest = tuple(getattr(message, name, None) for name in names)
    return message.role, message.timestamp, content, *rest


async def _their_conversation(root: Path) -> Path:
    """The session `theirs`, made by them, with an operation left open; its file."""
    repo = _repo(root)
    session = await repo.create(theirs.JsonlSessionCreateOptions(id="theirs", cwd=CWD))
    cost = pi.Cost(input=0.25, output=0.0, cache_read=0.0, cache_write=0.0, total=0.25)
    usage = pi.Usage(input=20, total_tokens=20, cache_write_1h=3, cost=cost)
    call = pi.ToolCall(id="c1", name="look", arguments={"path": "a.txt"}, namespace="n")
    reply: dict[str, Any] = {"api": "x", "provider": "acme", "model": "large"}
    for entry in (
        theirs.MessageEntry(id="q1", message=pi.UserMessage(content="what is it?", timestamp=1)),
        theirs.ModelChangeEntry(id="m0", provider="acme", model_id="large"),
        theirs.ThinkingLevelEntry(id="m00", thinking_level="high"),
        theirs.ActiveToolsEntry(id="m1", active_tool_names=["look"]),
        theirs.MessageEntry(
            id="p1",
            message=pi.AssistantMessage(
                content=[call],
                usage=usage,
                stop_reason="toolUse",
                response_model="large-2",
                end_turn=False,
                timestamp=2,
                **reply,
            ),
        ),
        theirs.MessageEntry(
            id="t1",
            message=pi.ToolResultMessage(
                tool_call_id="c1",
                tool_name="look",
                content=[pi.TextContent(text="a")],
                added_tool_names=["more"],
                timestamp=3,
            ),
            terminate=False,
        ),
        theirs.MessageEntry(
            id="p2",
            message=pi.AssistantMessage(
                content=[],
                usage=pi.Usage(),
                stop_reason="deferred",
                deferred=pi.DeferredHandle(provider="acme", model_id="l", api="x", id="later"),
                timestamp=4,
                **reply,
            ),
        ),
        theirs.CompactionEntry(
            id="k1",
            summary="It was looked at.",
            retained_tail=[pi.UserMessage(content="kept", timestamp=5)],
            tokens_before=7,
            details={"files": ["a"]},
        ),
        theirs.CustomEntry(id="n1", custom_type="app", data=[1, {"b": None}]),
    ):
        await session.append_entry(entry, "main")
    await session.create_lane("side", "m0")
    await session.set_name("theirs, named")
    await session.set_label("p1", "look")
    await session.append_record(
        theirs.UsageRecord(
            id="x1",
            lane="main",
            usage=usage,
            cause="hook",
            run_id="o1",
            attempt=2,
            details={"d": 1},
        )
    )
    await session.append_record(
        theirs.OperationStartedRecord(
            id="o1",
            lane="main",
            source_leaf_id=None,
            intent=theirs.RunIntent(original_prompt=[], initial_messages=[]),
        )
    )
    later = pi.UserMessage(content="later, please", timestamp=6)
    await session.append_record(
        theirs.QueueEnqueuedRecord(
            id="e1",
            lane="main",
            queue="nextRun",
            target=theirs.MessageEntry(id="w1", message=later),
        )
    )
    return Path((await session.get_metadata()).path)
