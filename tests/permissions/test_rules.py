"""Rules are read as people write them, and a wrong one says where it stands."""

from __future__ import annotations

import pytest

from loopwright.permissions import MalformedRule, Rule, parse_rule, parse_rules


@pytest.mark.parametrize(
    ("text", "tool", "pattern"),
    [
        ("bash(git status:*)", "bash", "git status:*"),
        ("bash(npm run test)", "bash", "npm run test"),
        ("bash((cd src && make) > out)", "bash", "(cd src && make) > out"),
        ("edit(src/**)", "edit", "src/**"),
        ("edit(app/[id]/(group)/page.tsx)", "edit", "app/[id]/(group)/page.tsx"),
        ("read(~/.ssh/**)", "read", "~/.ssh/**"),
        ("write", "write", None),
        ("mcp__*", "mcp__*", None),
        ("*", "*", None),
    ],
)
def test_a_rule_is_read_and_written_the_same(text: str, tool: str, pattern: str | None) -> None:
    rule = parse_rule("allow", text)

    assert (rule.tool, rule.pattern) == (tool, pattern)
    assert str(rule) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("bash(", "no tool's name"),
        ("bash)", "no tool's name"),
        ("bash(git) x", "no tool's name"),
        ("(git)", "no tool's name"),
        ("two words", "no tool's name"),
        ("bash()", "narrows nothing"),
        ("bash(*)", "narrows nothing"),
        ("bash(:*)", "narrows nothing"),
        ("edit( )", "narrows nothing"),
        ("[a]", "has a ["),
        ("*(src)", "not one tool"),
        ("mcp__files(src)", "have none"),
        ("edit(src/**x)", "** within a name"),
        ("edit(!src)", "turns nothing round"),
        ("read(~root/x)", "somebody else's home"),
        ("read(a\0b)", "NUL"),
        ("read( a)", "blank"),
        ("bash(a; b:*)", "more than one plain command"),
        ("bash(X=1 npm:*)", "more than one plain command"),
        ("bash($CMD x:*)", "more than one plain command"),
        ("bash(sudo:*)", "would allow nothing"),
        ("bash(xargs rm:*)", "would allow nothing"),
        ("bash(bash -c:*)", "would allow nothing"),
        ("bash(/usr/bin/env:*)", "would allow nothing"),
        ("Bash", "no tool"),
        ("Bash(rm:*)", "no tool"),
        ("READ(.env)", "no tool"),
    ],
)
def test_a_malformed_rule_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MalformedRule) as caught:
        parse_rule("allow", text, where="settings.toml: permissions.allow[3]")

    assert caught.value.message.startswith("settings.toml: permissions.allow[3]: the rule ")
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["bash(rm *)", "bash(rm -rf ~)", "bash(a && b)", "bash(rm $X)"])
def test_a_ban_that_would_catch_one_spelling_only_is_refused(text: str) -> None:
    with pytest.raises(MalformedRule, match="no other spelling"):
        parse_rule("deny", text)


def test_a_ban_may_name_what_starts_other_programs() -> None:
    assert parse_rule("deny", "bash(sudo:*)").pattern == "sudo:*"


def test_a_settings_table_becomes_rules_that_know_where_they_stand() -> None:
    rules = parse_rules({"allow": ["write", "bash(ls:*)"], "deny": ["read(.env)"]}, where="s.toml")

    assert rules == [
        Rule("allow", "write"),
        Rule("allow", "bash", "ls:*"),
        Rule("deny", "read", ".env"),
    ]
    assert [rule.where for rule in rules] == [
        "s.toml.allow[1]",
        "s.toml.allow[2]",
        "s.toml.deny[1]",
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"dney": ["bash"]}, "s.toml.dney: no such list"),
        ({"deny": "bash"}, "s.toml.deny: is not a list"),
        ({"deny": ["bash", 5]}, r"s.toml.deny\[2\]: 5 is no text"),
        ({"deny": ["bash", "bash("]}, r"s.toml.deny\[2\]: the rule"),
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(MalformedRule, match=said):
        parse_rules(table, where="s.toml")


def test_read_stands_for_every_tool_that_shows_files_and_edit_for_write() -> None:
    read, edit = parse_rule("allow", "read"), parse_rule("allow", "edit")

    assert [t for t in ("read", "grep", "find", "ls", "edit", "write", "bash") if read.covers(t)] == [
        "read", "grep", "find", "ls",
    ]  # fmt: skip
    assert edit.covers("write")
    assert not edit.covers("read")
    assert parse_rule("deny", "read(x)").covers("edit")
    assert not parse_rule("allow", "grep").covers("read")
