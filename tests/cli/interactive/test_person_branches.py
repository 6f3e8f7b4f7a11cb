"""As a person would: going back, in copies, to other sessions, with other models, into files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.cli.interactive.acting_vendor import ActingVendor
from tests.cli.interactive.person_scene import (
    WAIT_SECONDS,
    Start,
    answered,
    at_work,
    both_sizes,
    in_order,
    is_idle,
    say,
    write_settings,
)
from tests.cli.tmux_screen import Tmux

if TYPE_CHECKING:
    from tests.cli.conftest import Program


def talk(screen: Tmux, actor: ActingVendor, *topics: str) -> None:
    for topic in topics:
        actor.will_answer(f"All about {topic}.")
        say(screen, f"Tell me of {topic}.")
        answered(screen, f"All about {topic}.")


def choose(screen: Tmux, title: str, typed: str) -> None:
    """In the list *title*: type until one is left that can be chosen, and choose it."""
    screen.wait_for(re.compile(rf"^{re.escape(title)}  ", re.MULTILINE), WAIT_SECONDS)
    screen.type(typed)
    screen.wait_for(re.compile(rf"^> .*{re.escape(typed)}", re.MULTILINE))
    screen.keys("Enter")
    screen.wait_for(lambda seen: title not in seen)


def conversation(actor: ActingVendor) -> list[str]:
    """What the model was told with the last request, but for the system prompt."""
    return [text for role, text in actor.said() if role not in ("system", "developer")]


@both_sizes
def test_the_tree_leads_back_and_every_branch_stays(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    screen = at_work(tmux, columns=columns, rows=rows)
    talk(screen, actor, "apples", "pears")

    say(screen, "/tree")
    tree = screen.wait_for("go on from")
    choose(screen, "go on from", "Tell me of pears.")
    choose(screen, "the branch that you leave", "is left as it is")
    screen.wait_for("> Tell me of pears.")
    screen.keys("C-u")
    screen.wait_for(is_idle)
    talk(screen, actor, "plums")
    other_branch = conversation(actor)
    say(screen, "/tree")
    choose(screen, "go on from", "All about pears.")
    choose(screen, "the branch that you leave", "is left as it is")
    screen.wait_for(is_idle)
    talk(screen, actor, "grapes")
    first_branch = conversation(actor)
    say(screen, "/tree")
    whole = screen.wait_for("go on from")
    screen.keys("Escape")
    screen.wait_for(is_idle)

    shown = tree[tree.index("go on from") :]
    assert in_order(
        shown,
        [f"{start} {one}." for one in ("apples", "pears") for start in ("Tell me of", "All about")],
    )
    assert other_branch == ["Tell me of apples.", "All about apples.", "Tell me of plums."]
    assert first_branch == [
        *("Tell me of apples.", "All about apples."),
        *("Tell me of pears.", "All about pears."),
        "Tell me of grapes.",
    ]
    for one in ("plums", "grapes"):
        assert f"Tell me of {one}." in whole


def test_a_copy_a_new_session_and_the_way_back(tmux: Start, actor: ActingVendor) -> None:
    screen = at_work(tmux)
    talk(screen, actor, "apples", "pears")
    say(screen, "/name orchard")
    screen.wait_for("the session is called 'orchard'")

    say(screen, "/fork")
    choose(screen, "a copy that ends before", "Tell me of pears.")
    screen.wait_for("going on in a copy")
    screen.wait_for("> Tell me of pears.")
    screen.keys("C-u")
    screen.wait_for(is_idle)
    say(screen, "/name copse")
    screen.wait_for("the session is called 'copse'")
    talk(screen, actor, "plums")
    in_copy = conversation(actor)
    say(screen, "/new")
    screen.wait_for("a new session; the last one is")
    talk(screen, actor, "nuts")
    in_new = conversation(actor)
    say(screen, "/resume")
    choose(screen, "sessions of this folder", "orchard")
    told = screen.wait_for("going on with orchard")
    screen.wait_for(is_idle)
    talk(screen, actor, "grapes")

    assert in_copy == ["Tell me of apples.", "All about apples.", "Tell me of plums."]
    assert in_new == ["Tell me of nuts."]
    assert conversation(actor) == [
        *("Tell me of apples.", "All about apples."),
        *("Tell me of pears.", "All about pears."),
        "Tell me of grapes.",
    ]
    assert in_order(told[told.index("— orchard —") :], ["› Tell me of pears.", "All about pears."])


def test_another_model_a_summary_and_a_file_of_it_all(
    tmux: Start, actor: ActingVendor, program: Program
) -> None:
    write_settings(program.folder, "[compaction]\nkeep_recent_tokens = 20\nreserve_tokens = 1000\n")
    screen = at_work(tmux)
    talk(screen, actor, "apples", "pears", "plums")
    say(screen, "/model toy/two")
    screen.wait_for("  toy/two  ")
    talk(screen, actor, "nuts")
    asked = [request["model"] for request in actor.requests]

    actor.will_answer("SUMMARY: fruits were talked about.")
    say(screen, "/compact heed the pears")
    screen.wait_for("compacted from", WAIT_SECONDS)
    told_to_summarize = str(actor.requests[-1]["messages"])
    screen.wait_for(is_idle)
    talk(screen, actor, "grapes")
    heard = "\n".join(conversation(actor))
    say(screen, "/export talk.md")
    screen.wait_for("exported to")
    exported = (screen.folder / "talk.md").read_text()

    assert asked == ["one", "one", "one", "two"]
    assert "heed the pears" in told_to_summarize
    assert "SUMMARY: fruits were talked about." in heard
    assert "Tell me of apples." not in heard
    assert heard.endswith("Tell me of grapes.")
    for topic in ("nuts", "grapes"):
        assert exported.count(f"All about {topic}.") == 1
