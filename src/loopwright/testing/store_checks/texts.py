"""Whatever a text holds, it comes back, and nobody changes it from outside."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ...messages import Usage, UserMessage
from ...session.rows import (
    Approval,
    Fact,
    Operation,
    SessionInfo,
    UsageRow,
)
from ...session.store import Commit
from .ground import (
    ODD,
    StoreUnderTest,
    an_intent,
    an_item,
    new_lease,
    said,
    text_of,
)

__all__ = ["TextChecks"]


class TextChecks(StoreUnderTest):
    """Whatever a text holds, it comes back, and nobody changes it from outside."""

    async def test_what_is_read_or_was_given_can_be_changed_without_harm(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            details: dict[str, Any] = {"list": [1]}
            approval = Approval(
                id="p", lane="main", tool_call_id="c", tool_name="t", arguments=details, digest="d"
            )
            commit = Commit(
                entries=[said("one")],
                usage=[UsageRow(cause="tool", usage=Usage(), details=details)],
                usage_total=Usage(),
                facts=[Fact(namespace="custom", key="k", value=details)],
                intents=[msgspec.structs.replace(an_intent("i"), arguments=details)],
                operations=[Operation(lane="main", intent=details)],
                approvals=[approval],
            )
            await store.commit(lease, commit)
            await store.enqueue(session_id, an_item("q"))

            details["list"].append(2)
            commit.entries.clear()
            for _ in range(2):  # the second time sees what the first one did
                state = await store.state(session_id)
                (row,) = await store.usage(session_id)
                (asked,) = await store.approvals(session_id)
                (entry,) = await store.entries(session_id)
                assert entry.entry().seq == 1
                seen = [
                    row.details,
                    asked.arguments,
                    state.approvals[0].arguments,
                    state.intents[0].arguments,
                    state.operations[0].intent,
                    state.facts[0].value,
                ]
                assert seen == [{"list": [1]}] * 6
                for value in cast("list[dict[str, list[int]]]", seen):
                    value["list"].append(9)
                state.inbox.clear()
                state.lanes.clear()

    async def test_odd_strings_come_back(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.commit(
                lease,
                Commit(
                    entries=[said(ODD, entry_id="m")],
                    facts=[Fact(namespace="custom", key="k", value={ODD: ODD})],
                    intents=[msgspec.structs.replace(an_intent("i"), arguments={ODD: ODD})],
                ),
            )
            await store.enqueue(session_id, an_item("q", text=ODD))
            state = await store.state(session_id)
            (row,) = await store.entries(session_id)

            assert text_of(row) == ODD
            assert state.facts[0].value == {ODD: ODD}
            assert state.intents[0].arguments == {ODD: ODD}
            assert cast("UserMessage", state.inbox[0].message).text == ODD

    async def test_halves_of_surrogate_pairs_are_replaced(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            half = "cut \ud83d off"
            await store.commit(
                lease,
                Commit(
                    entries=[said(half)],
                    facts=[
                        Fact(namespace="name", value=half),
                        Fact(namespace="custom", key="k", value=[half]),
                    ],
                    operations=[Operation(lane="main", error_message=half)],
                    intents=[msgspec.structs.replace(an_intent("i"), arguments={"a": half})],
                    preview=half,
                ),
            )
            await store.enqueue(session_id, an_item("q", text=half))
            state = await store.state(session_id)
            (row,) = await store.entries(session_id)

            whole = "cut \ufffd off"
            assert text_of(row) == whole
            assert (state.info.name, state.info.preview) == (whole, whole)
            assert {whole} == {
                state.operations[0].error_message,
                state.intents[0].arguments["a"],
                cast("UserMessage", state.inbox[0].message).text,
                next(f.value[0] for f in state.facts if f.namespace == "custom"),
            }

    async def test_a_folder_whose_name_cannot_be_decoded_is_found_again(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s", cwd="/srv/\udcff"))

            assert [info.id for info in await store.list(cwd="/srv/\udcff")] == ["s"]

    async def test_a_large_message_comes_back(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            text = "é" * self.large_text

            await store.commit(lease, Commit(entries=[said(text)]))
            (row,) = await store.entries(lease.session_id)

            assert text_of(row) == text
