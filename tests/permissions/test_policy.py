"""What becomes of a call: modes, rules for files, rules for commands."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.permissions.real_shell import SHELLS, RealShell
from tests.permissions.test_shell_command import PIECES

from loopwright.errors import ConfigurationError
from loopwright.permissions import (
    MODES,
    Decision,
    Mode,
    Policy,
    file_paths,
    parse_rule,
    parse_rules,
)
from loopwright.permissions.file_paths import Places
from loopwright.tools.paths import spellings


class World:
    """A workspace beside a home, and a policy for it."""

    def __init__(self, base: Path) -> None:
        self.root = base / "work"
        self.home = base / "home"
        self.outside = base / "outside"
        for folder in (self.root / "src", self.home / ".ssh", self.outside):
            folder.mkdir(parents=True)
        (self.root / "src" / "a.py").write_text("a")
        (self.home / ".ssh" / "id").write_text("secret")
        (self.outside / "secret.txt").write_text("secret")

    def policy(self, mode: Mode = "ask", **table: list[str]) -> Policy:
        return Policy(mode, parse_rules(table, where="test"), self.root, home=self.home)

    def effect(
        self, tool: str, path: str | os.PathLike[str], mode: Mode = "ask", **table: list[str]
    ) -> str:
        return self.policy(mode, **table).decide(tool, {"path": os.fspath(path)}).effect

    def bash(self, command: str, mode: Mode = "ask", **table: list[str]) -> str:
        return self.policy(mode, **table).decide("bash", {"command": command}).effect


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- modes -------------------------------------------------------------------------------------

CALLS = {
    "read inside": ("read", {"path": "src/a.py"}),
    "grep everything": ("grep", {"pattern": "x"}),
    "read outside": ("read", {"path": "../outside/secret.txt"}),
    "edit inside": ("edit", {"path": "src/a.py"}),
    "write inside": ("write", {"path": "src/new/b.py"}),
    "write outside": ("write", {"path": "../outside/x"}),
    "edit hooks": ("write", {"path": ".git/hooks/pre-commit"}),
    "bash": ("bash", {"command": "ls"}),
    "another tool": ("deploy", {}),
}


@pytest.mark.parametrize(
    ("mode", "allowed", "otherwise"),
    [
        ("ask", {"read inside", "grep everything"}, "ask"),
        ("auto-edit", {"read inside", "grep everything", "edit inside", "write inside"}, "ask"),
        ("yolo", set(CALLS), "ask"),
        ("read-only", {"read inside", "grep everything"}, "deny"),
    ],
)
def test_a_mode_decides_what_no_rule_speaks_of(
    world: World, mode: Mode, allowed: set[str], otherwise: str
) -> None:
    policy = world.policy(mode)

    effects = {name: policy.decide(tool, args).effect for name, (tool, args) in CALLS.items()}

    assert effects == {name: "allow" if name in allowed else otherwise for name in CALLS}


def test_a_mode_reaches_into_the_folders_beside_the_workspace(world: World) -> None:
    for folder in ("books", "notes"):
        (world.outside / folder).mkdir()
    (world.outside / "books" / "link").symlink_to(world.outside / "secret.txt")

    def effect(tool: str, path: str, mode: Mode) -> str:
        policy = Policy(
            mode,
            parse_rules({"deny": ["read(no.txt)"]}, where="test"),
            world.root,
            readable=[world.outside / "books"],
            writable=[world.outside / "notes"],
        )
        return policy.decide(tool, {"path": str(world.outside / path)}).effect

    assert effect("read", "books/a.txt", "ask") == effect("ls", "notes", "read-only") == "allow"
    assert effect("read", "books/no.txt", "yolo") == effect("read", "notes/no.txt", "ask") == "deny"
    assert effect("write", "notes/a.txt", "auto-edit") == "allow"
    assert effect("write", "notes/a.txt", "ask") == effect("write", "books/a", "auto-edit") == "ask"
    assert effect("write", "notes/.git/config", "auto-edit") == "ask"
    assert effect("read", "books/link", "ask") == effect("read", "bookshop", "ask") == "ask"


def test_no_rule_widens_read_only(world: World) -> None:
    table = ["*", "bash(ls:*)", "edit", "write", "deploy"]

    assert world.bash("ls", "read-only", allow=table) == "deny"
    assert world.effect("write", "src/a.py", "read-only", allow=table) == "deny"
    assert world.policy("read-only", allow=table).decide("deploy", {}).effect == "deny"


def test_there_are_four_modes(world: World) -> None:
    with pytest.raises(ConfigurationError, match="yollo"):
        Policy("yollo", (), world.root)  # pyright: ignore[reportArgumentType]

    assert MODES == ("ask", "auto-edit", "yolo", "read-only")


@pytest.mark.parametrize("mode", MODES)
@given(order=st.permutations(["allow write", "ask write", "deny write", "allow *", "ask *"]))
def test_deny_beats_ask_beats_allow_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, mode: Mode, order: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp()
    rules = [parse_rule(*text.split()) for text in order]  # pyright: ignore[reportArgumentType]

    def effect(*without: str) -> str:
        kept = [rule for rule in rules if rule.effect not in without]
        return Policy(mode, kept, root).decide("write", {"path": "x"}).effect

    assert effect() == "deny"
    assert effect("deny") == ("deny" if mode == "read-only" else "ask")
    assert effect("deny", "ask") == ("deny" if mode == "read-only" else "allow")


def test_a_decision_names_its_rule_and_where_it_stands(world: World) -> None:
    decision = world.policy(deny=["write(src/**)"]).decide("write", {"path": "src/x"})

    assert decision.reason == "the rule 'write(src/**)' (test.deny[1]) denies it"
    assert decision.rule == parse_rule("deny", "write(src/**)")


# -- files -------------------------------------------------------------------------------------


def test_a_pattern_is_about_the_real_path(world: World) -> None:
    (world.root / "docs").symlink_to(world.root / "src")
    (world.root / "out").symlink_to(world.outside)
    allow = ["edit(src/**)", "edit(out/**)"]

    assert world.effect("edit", "docs/a.py", allow=allow) == "allow"
    assert world.effect("edit", "src/../docs/./a.py", allow=allow) == "allow"
    assert world.effect("edit", world.root / "src" / "a.py", allow=allow) == "allow"
    assert world.effect("write", "src/../x", allow=allow) == "ask"
    assert world.effect("write", "srcx/a", allow=allow) == "ask"
    # A project's link does not make a rule reach out of the workspace.
    assert world.effect("write", "out/x", allow=allow) == "ask"
    assert (
        world.effect("write", world.outside / "x", allow=[f"write({world.outside}/**)"]) == "allow"
    )


def test_case_041_a_link_out_of_the_workspace_is_outside(world: World) -> None:
    (world.root / "outbox").symlink_to("../outside")
    (world.root / "note.md").symlink_to("../outside/new.md")
    (world.root.parent / "linked").symlink_to(world.root)

    for path in ("outbox/x.txt", "note.md", "outbox/secret.txt", "outbox/none/../x", "outbox"):
        for mode in ("ask", "auto-edit"):
            assert world.effect("write", path, mode) == "ask"
            assert world.effect("read", path, mode) == "ask"
        assert world.effect("read", path, "read-only") == "deny"
    linked = Policy("auto-edit", (), world.root.parent / "linked")
    assert linked.decide("write", {"path": "src/a.py"}).effect == "allow"
    assert linked.decide("write", {"path": str(world.root / "src" / "a.py")}).effect == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/id", "@~/.ssh/id", "../home/.ssh/id", "src/../../home/.ssh/id", "./link", "folder/id",
        "~/.ssh", "~/.ssh/new", "//{home}/.ssh/id", "{home}/.ssh/id", "{home}/./.ssh/../.ssh/id",
        "~/.SSH/id",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["read", "grep", "find", "ls", "edit"])
def test_a_ban_on_reading_holds_however_the_path_is_spelled(
    world: World, path: str, tool: str
) -> None:
    (world.root / "link").symlink_to(world.home / ".ssh" / "id")
    (world.root / "folder").symlink_to(world.home / ".ssh")
    path = path.replace("{home}", str(world.home).lstrip("/") if "//" in path else str(world.home))

    assert world.effect(tool, path, "yolo", deny=["read(~/.ssh/**)"]) == "deny"


@pytest.mark.parametrize(
    "path",
    [".env", "src/.env", "./src/../.env", "@.env", ".ENV", "env-link", "../outside/.env", ".env/x"],
)
def test_a_name_without_a_slash_is_banned_wherever_it_is(world: World, path: str) -> None:
    (world.root / "env-link").symlink_to(".env")

    for rule in ("read(.env)", "read(**/.env)"):
        assert world.effect("read", path, "yolo", deny=[rule]) == "deny"
        assert world.effect("edit", path, "yolo", deny=[rule]) == "deny"
    assert world.effect("read", ".envrc", deny=["read(.env)"]) == "allow"


def test_a_banned_link_is_banned_as_a_link_and_as_what_it_is(world: World) -> None:
    (world.root / "keys").symlink_to(world.outside)

    for path in ("keys/x", world.outside / "x"):
        assert world.effect("read", path, "yolo", deny=["read(keys/**)"]) == "deny"
        assert world.effect("read", path, "yolo", deny=["read(keys)"]) == "deny"


def test_accents_and_odd_blanks_do_not_slip_past_a_ban(world: World) -> None:
    for path in ("cafe\u0301.txt", "caf\u00e9.txt", "CAF\u00c9.txt"):
        assert world.effect("read", path, "yolo", deny=["read(caf\u00e9.txt)"]) == "deny"
    assert world.effect("read", "a\u00a0b", "yolo", deny=["read(a b)"]) == "deny"
    # The tools would take this for the one with the typographic apostrophe.
    (world.root / "it\u2019s").symlink_to(world.outside / "secret.txt")
    assert world.effect("read", "it's") == "ask"


@given(
    names=st.lists(
        st.sampled_from(["a b", "a\u00a0b", "it's", "it\u2019s", "caf\u00e9", "cafe\u0301", "@a", "a",
                         "1 PM", "1\u202fPM", "~", "d"]),
        min_size=1, max_size=3,
    ),
    prefix=st.sampled_from(["", "@", "~/", "@~/", "./", "../", "/"]),
    made=st.sets(st.sampled_from(["a b", "it\u2019s", "cafe\u0301", "@a", "1\u202fPM", "~"])),
)  # fmt: skip
def test_every_file_that_the_tools_would_try_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], prefix: str, made: set[str]
) -> None:
    base = tmp_path_factory.mktemp("spell")
    root, home = base / "work", base / "home"
    for folder in (root, home):
        folder.mkdir()
        for name in made:
            (folder / name).mkdir()
    path = prefix + "/".join(names)

    located = Places(root, home).locate(path)

    assert located is not None
    for spelling in spellings(path, str(home), guess=True):
        full = os.path.join(root, spelling)
        if os.path.lexists(full):
            assert os.path.realpath(full) in located.real


def test_what_can_be_no_path_is_denied_and_what_is_no_text_asked(world: World) -> None:
    assert world.effect("read", "a\0b", "yolo") == "deny"
    assert world.policy().decide("read", {"path": 5}).effect == "ask"
    assert world.policy().decide("read", {"path": None}).effect == "ask"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", "sub/.git/hooks/x", ".GIT/config", ".loopwright/settings.toml", ".envrc", "g/x",
        ".g\u200cit/hooks/x", ".git\ufeff/config", ".cursor/mcp.json", ".claude/settings.json", ".mcp.json",
        ".idea/workspace.xml", ".devcontainer/devcontainer.json", ".bashrc", ".zshenv", ".ssh/config",
        ".gitconfig",
    ],
)  # fmt: skip
def test_auto_edit_alone_changes_nothing_that_runs_by_itself(world: World, path: str) -> None:
    (world.root / ".git" / "hooks").mkdir(parents=True)
    (world.root / "g").symlink_to(".git/hooks")

    assert world.effect("write", path, "auto-edit") == "ask"
    assert world.effect("write", path, "auto-edit", allow=["write"]) == "allow"
    assert world.effect("read", path, "auto-edit") == "allow"


@pytest.mark.parametrize(
    "path",
    [
        ".agents/skills/x/SKILL.md", ".opencode/plugin/x.ts", ".hg/hgrc", ".jj/repo/config", ".svn/wc.db",
        ".gitmodules", "sub/.gitattributes", ".claude-plugin/plugin.json", ".codex/config.toml", ".pi/x",
        ".kiro/hooks/x", ".windsurf/rules", ".windsurfrules", ".roo/mcp.json", ".qwen/settings.json",
        ".cursorrules", ".vs/tasks.vs.json", ".fleet/run.json", "a.code-workspace", ".npmrc",
        "crates/a/.cargo/config.toml", ".pre-commit-config.yaml", ".ripgreprc", ".zlogout", ".BASHRC",
        ".Git/hooks/post-commit", ".g\u00eft/config", ".gi\u0308t/config", ".git./config", "GIT~1/config",
        ".git::$INDEX_ALLOCATION/config", "CLAUDE.md", "docs/agents.md", ".GitHub/copilot-instructions.md",
        "site/x.pth", "link/x", "file",
    ],
)  # fmt: skip
def test_case_165_auto_edit_alone_does_not_write_what_other_programs_obey(
    world: World, path: str
) -> None:
    (world.root / ".hg").mkdir()
    (world.root / "link").symlink_to(".hg")
    (world.root / "file").symlink_to(".npmrc")

    for tool in ("write", "edit"):
        assert world.effect(tool, path, "auto-edit") == "ask"
    assert world.bash(f"git log > '{path}'", "auto-edit", allow=GIT) == "ask"


@pytest.mark.parametrize(
    "path",
    [
        "src/git.py", "agents/a.py", "claude.py", "cargo/config.toml", "x.git.txt", "README.md", ".env.example",
        "package.json", "docs/hg/rc.md", "vscode/x.ts", ".editorconfig", "\u00fcber.py", "src/.hidden",
        ".gitignore", "pi/x.py", "idea.md",
    ],
)  # fmt: skip
def test_case_165_ordinary_files_stay_unasked(world: World, path: str) -> None:
    assert world.effect("write", path, "auto-edit") == "allow"


def test_a_search_that_could_show_what_is_banned_is_asked_for(world: World) -> None:
    for rule in ("read(.env)", "read(src/secret/**)", "read(**/*.pem)"):
        assert world.effect("grep", ".", deny=[rule]) == "ask"
        assert world.effect("grep", "src", "yolo", deny=[rule]) == "ask"
    assert world.effect("grep", "src", deny=["read(~/.ssh/**)"]) == "allow"
    assert world.effect("grep", "src/a.py", deny=["read(.env)"]) == "allow"
    assert world.effect("ls", ".", deny=["read(.env)"]) == "allow"


def test_a_search_that_leaves_out_what_is_banned_is_not_asked_for(world: World) -> None:
    policy = world.policy(deny=["read(.env)"])
    policy.searches_skip_denied = True

    assert policy.decide("grep", {"pattern": "x"}).effect == "allow"
    assert policy.hides("src/.env")
    assert policy.hides(str(world.root / ".env"))
    assert not policy.hides("src/a.py")
    assert policy.decide("grep", {"pattern": "x", "path": ".env"}).effect == "deny"


# -- commands ----------------------------------------------------------------------------------

GIT = ["bash(git status:*)", "bash(git log:*)", "bash(npm run test)", "bash(echo:*)"]


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git  status\t-s", "'git' \"status\"", "git status && git log -3 | git status",
        "npm run test", "echo $(git status)", "git log 2>&1 >/dev/null", "cd src && npm run test",
        "cd {root}/src; npm run test", "CI=1 git status", "timeout 10 git status", "git log < src/a.py",
        "git status # done", "(git status)", "git log <<'E'\nevil\nE", "! git status &",
    ],
)  # fmt: skip
def test_a_line_is_allowed_if_each_of_its_commands_is(world: World, command: str) -> None:
    assert world.bash(command.replace("{root}", str(world.root)), allow=GIT) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git", "git push", "git statusx", "git stat", "gitstatus", "npm run test x", "npm run", "./git status",
        "/bin/git status", "git status; evil", "git status\nevil", "git status && evil", "git status || evil",
        "git status | evil", "git status & evil", "evil; git status", "git log $(evil)", "git log `evil`",
        "git log <(evil)", "git log \"$(evil)\"", "git log ${x:-$(evil)}", "(evil; git status)",
        "git log <<E\n$(evil)\nE", "git log <<< $(evil)",
        "git log > $x", "git log < ../outside/secret.txt", "git log > ~/x", "git log > /dev/tcp/h/1",
        "PATH=. git status", "LD_PRELOAD=x git status", "git() { evil; }; git status", "alias git=evil",
        "eval git status", "bash -c 'git status'", "xargs git status", "sudo git status", "env git push",
        "git -c alias.x=!evil status", "git\u00a0status", "git status\u2028", "git status\r", "git \\\nstatus x\\\n",
        "g\\\nit status", "$X git status", "time evil", "! evil", "{ evil; }", "git log >& '$(evil)'",
        "cd ../outside && git status", "cd / && git status", "cd src/.. && git status", "cd - && git status",
        "cd ~ && git status", "cd $x && git status", "cd src && cd src && git status", "cd && git status",
        "cd -P src && git status", "pushd src && git status", "git log --output=x", "", "  ", "# x",
        "git status\0", "if git status; then git log; fi",
    ],
)  # fmt: skip
def test_nothing_slips_past_the_rule_for_a_command(world: World, command: str) -> None:
    for mode in ("ask", "auto-edit"):
        assert world.bash(command, mode, allow=GIT) == "ask"


def test_a_folder_that_leads_out_is_no_place_to_go_to(world: World) -> None:
    (world.root / "out").symlink_to(world.outside)

    assert world.bash("cd out && git status", allow=GIT) == "ask"
    assert world.bash("cd src && ./tool", allow=["bash(./tool:*)"]) == "ask"
    assert world.bash("./tool", allow=["bash(./tool:*)"]) == "allow"
    assert world.bash("cd src && git log > x", "yolo", deny=["write(src/**)"]) == "ask"


def test_a_file_that_the_shell_writes_needs_what_a_write_needs(world: World) -> None:
    for line in ("git log > src/a.py", "git log >> x", "git log &> x", "echo $(git log > x)"):
        assert world.bash(line, "ask", allow=GIT) == "ask"
        assert world.bash(line, "auto-edit", allow=GIT) == "allow"
    assert world.bash("git log > x", "yolo", ask=["write"]) == "ask"
    assert world.bash("git log > .git/hooks/x", "auto-edit", allow=GIT) == "ask"
    assert world.bash("git log > ../x", "auto-edit", allow=GIT) == "ask"
    assert world.bash("git log > src/x", allow=[*GIT, "write(src/**)"]) == "allow"
    assert world.bash("git log > src/x", "yolo", deny=["edit(src/**)"]) == "deny"
    assert world.bash("cat < .env", "yolo", deny=["read(.env)"]) == "deny"
    assert world.bash("git log > $x", "yolo", deny=["edit(src/**)"]) == "ask"


def test_exactly_this_text_may_be_allowed_though_it_is_not_clear(world: World) -> None:
    line = "for f in *; do rm $f; done"

    assert world.bash(line, allow=[f"bash({line})"]) == "allow"
    assert world.bash(line + " ", allow=[f"bash({line})"]) == "ask"


@pytest.mark.parametrize("allow", [["bash"], ["*"]])
def test_all_of_bash_may_be_allowed(world: World, allow: list[str]) -> None:
    assert world.bash("for f in *; do rm $f; done", allow=allow) == "allow"
    assert world.bash("rm -rf x", allow=allow, deny=["bash(rm:*)"]) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls; rm x", "/bin/rm x", "'r'm x", "\\rm x", "RM x", "echo $(rm x)", "a | xargs rm -f",
        "sudo rm x", "sudo -u root rm x", "env -i rm x", "timeout 5 rm x", "nohup rm x", "command rm x",
        "bash -c 'rm x'", "sh -c 'ls && rm x'", "find . -exec rm {} ;", "CI=1 rm x", "(rm x)", "eval 'rm x'",
        "PATH=. rm x", "X+=1 rm x", "env X+=1 rm x", "env CI=1 rm x", "rm", "rm $x", "time rm x", "git log <(rm x)",
    ],
)  # fmt: skip
def test_a_ban_on_a_command_catches_it_in_its_disguises(world: World, command: str) -> None:
    assert world.bash(command, "yolo", deny=["bash(rm:*)"]) == "deny"
    assert world.bash(command, "ask", allow=["bash"], deny=["bash(rm:*)"]) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "$X push", "git $X", "git -C x push", "git --no-pager push", "eval \"$X\"", "bash -c \"$X\"",
        "for i in a; do git push; done", "g*t push", "$'git' push", "f() { git \"$@\"; }; f push",
        "git pu\\\nsh", "xargs $X", "if true; then git push; fi", "git\u00a0push",
    ],
)  # fmt: skip
def test_where_a_ban_might_apply_it_is_asked_for_even_in_yolo(world: World, command: str) -> None:
    assert world.bash(command, "yolo", deny=["bash(git push:*)"]) == "ask"
    assert world.bash(command, "yolo") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "uv run rm x", "poetry run rm x", "npx -c 'rm x'", "docker exec c rm x", "docker run i sh -c 'rm x'",
        "ssh host rm x", "ssh host 'cd y && rm x'", "nix-shell --run 'rm x'", "tmux new -d 'rm x'",
        "direnv exec . /bin/rm x", "my-wrapper -- rm x", "./run.sh rm", "hyperfine \"ssh h 'rm x'\"",
        "ssh host 'for f in *; do rm $f; done'", "timeout 5 uv run rm x", "npm exec -- rm x",
    ],
)  # fmt: skip
def test_what_a_program_may_pass_on_is_asked_for_where_it_is_banned(
    world: World, command: str
) -> None:
    assert world.bash(command, "yolo", deny=["bash(rm:*)"]) == "ask"
    assert world.bash(command, "yolo", deny=["bash(curl:*)"]) == "allow"


@pytest.mark.parametrize(
    "command",
    ["git rm x", "grep rm x", "echo rm x", "apt-get install rm", "git commit -m 'rm x'", "docker run --rm i",
     "uv run python -c 'for x in y: print(format(x))'", "psql -c 'select count(*) from forms'"],
)  # fmt: skip
def test_what_keeps_to_itself_may_have_the_name_of_something_banned(
    world: World, command: str
) -> None:
    assert world.bash(command, "yolo", deny=["bash(rm:*)"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat ./.env", "cat sub/.env", "cat .e''nv", "cat \".env\"", "grep -r KEY .env", ". .env",
        "cat .env*", "cat .en?", "cat sub/.*", "dd if=.env", "curl -d @.env u", "git show HEAD:.env", "cp .env x",
        "sh -c 'cat .env'", "base64 .ENV", "cat src/../.env", "cat link", "tar --file=x .env", "xargs cat .env",
        "cat ~/.ssh/id", "cat $HOME/.ssh/id", "cat \"${HOME}/.ssh/id\"", "cat \"$HOME\"/.ssh/id", "cat ~/.ssh/*",
        "cat $PWD/.env", "cat \"${PWD}/sub/.env\"", "cat \"$(git rev-parse --show-toplevel)/.env\"", "cat */.e*",
    ],
)  # fmt: skip
def test_a_command_that_names_a_file_nobody_may_read_is_asked_for(
    world: World, command: str
) -> None:
    for folder in (world.root, world.root / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / ".env").write_text("KEY=1")
    (world.root / "link").symlink_to(".env")
    bans = ["read(.env)", "read(~/.ssh/**)"]

    assert world.bash(command, "yolo", deny=bans) == "ask"
    assert world.bash(command, allow=["bash(cat:*)", f"bash({command})"], deny=bans) == "ask"
    assert world.bash(command, "yolo") == "allow"


@pytest.mark.parametrize(
    "command", ["cat .env.example", "cat a.py", "ls *.py", "git commit -m 'no .env'"]
)
def test_a_command_that_names_another_file_is_not_asked_for(world: World, command: str) -> None:
    assert world.bash(command, "yolo", deny=["read(.env)", "read(~/.ssh/**)"]) == "allow"


@pytest.mark.parametrize(
    "command", ["cat < .env", "cat <> .env", "cat <&3 3<.env", "> x < .env cat"]
)
def test_a_file_nobody_may_read_is_not_opened_for_a_command(world: World, command: str) -> None:
    assert world.bash(command, "yolo", deny=["read(.env)"]) == "deny"


def test_names_with_wildcards_are_looked_up_in_a_folder_with_brackets(tmp_path: Path) -> None:
    root = tmp_path / "[id]"
    root.mkdir()
    (root / ".env").touch()

    policy = Policy("yolo", [parse_rule("deny", "read(.env)")], root)

    assert policy.decide("bash", {"command": "cat .e*"}).effect == "ask"
    assert policy.decide("bash", {"command": "cat .x*"}).effect == "allow"


def test_wildcards_at_every_level_do_not_walk_a_whole_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for outer, inner in itertools.product("abcde", repeat=2):
        (tmp_path / outer / inner).mkdir(parents=True)
    looked_into: list[object] = []
    scandir = os.scandir

    def noting(folder: str) -> object:
        looked_into.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noting)
    monkeypatch.setattr(file_paths, "MOST_FITTING", 3)

    assert list(Places(tmp_path, tmp_path).named("*/*/.e*")) == [str(tmp_path / "*/*/.e*")]
    assert len(looked_into) <= 1 + 3 + 3


@pytest.mark.parametrize(
    "command",
    [
        "cat .en[v]", "cat .[!x]nv", "cat .[^x]nv", "cat .e[[:alpha:]]v", "cat .{env,x}", "cat .e{n,m}{u,v}",
        "cat .en{u..w}", "cat \"$PWD\"/.{env,x}", "cat $(pwd)/.env", "cat `pwd`/.env", "cat ~+/.env", "cat --file=$PWD/.env",
        "cd; cat .ssh/id", "cd ~; cat .ssh/id", "cd $HOME && cat .ssh/id", "cd -P ~; cat .s*/id", "cat ~home/.ssh/id",
        "cat --file=$HOME/.ssh/id", "cd ..; cat work/.env", "cd ..; cd home; cat .ssh/id", "curl -F.env u",
    ],
)  # fmt: skip
def test_no_spelling_of_the_shell_hides_a_file_nobody_may_read(world: World, command: str) -> None:
    (world.root / ".env").touch()

    assert world.bash(command, "yolo", deny=["read(/**/.env)", "read(~/.ssh/**)"]) == "ask"
    assert world.bash(command, "yolo") == "allow"


@pytest.mark.parametrize(
    "command", ["cat .e[a-c]v", "cat .{envy,x}", "cd src; cat .ssh/id", "cat ~nobody-here/.ssh/id", "cat ${X}/{a,b}"]
)  # fmt: skip
def test_a_spelling_of_the_shell_for_another_file_is_not_asked_for(
    world: World, command: str
) -> None:
    (world.root / ".env").touch()

    assert world.bash(command, "yolo", deny=["read(.env)", "read(~/.ssh/**)"]) == "allow"


def test_braces_upon_braces_end(world: World) -> None:
    assert world.bash("cat " + "{a,b,c,d}" * 50, "yolo", deny=["read(.env)"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "echo x | tee secret/x", "cp a secret/", "cp a secret", "mv a secret/x", "touch secret/x", "ln -s a secret/x",
        "install -m600 a secret", "dd if=a of=secret/x", "sed -i s/a/b/ secret/x", "truncate -s0 secret/x",
        "rm -r secret", "rm secret/*", "mkdir secret/y", "cd secret && touch x", "cd src; rm ../secret/x", "cp /tmp/lock src",
        "git checkout secret/x", "sort -osecret/x a", "sort -o secret/x a", "git log --output=secret/x", "mv /tmp/lock $PWD/src/",
        "sudo tee secret/x", "touch \"$PWD\"/secret/{x,y}",
    ],
)  # fmt: skip
def test_a_command_that_names_a_file_nobody_may_change_is_asked_for(
    world: World, command: str
) -> None:
    bans = ["edit(secret/**)", "edit(src/lock)"]

    assert world.bash(command, "yolo", deny=bans) == "ask"
    assert world.bash(command, allow=[f"bash({command})"], deny=bans) == "ask"
    assert world.bash(command, "yolo") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat secret/x", "git diff secret/x", "grep -r x secret | head", "ls -l secret", "timeout 5 cat secret/x",
        "touch secrets", "cp a b", "cp /tmp/lock .", "rm -r src/secret", "make secret.o",
    ],
)  # fmt: skip
def test_a_ban_on_changes_lets_commands_read_the_file_and_change_others(
    world: World, command: str
) -> None:
    assert world.bash(command, "yolo", deny=["edit(secret/**)", "edit(src/lock)"]) == "allow"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("shuf", "shuf -o out a"), ("shuf", "shuf --outp=out a"), ("iconv", "iconv -oout a"), ("sdiff", "sdiff -o out a b"),
        ("csplit", "csplit -f out a 1"), ("tree", "tree -o out"), ("tree", "tree --output out"), ("less", "less -o out < a"),
        ("git branch", "git branch --edit-description"),
    ],
)  # fmt: skip
def test_options_by_which_a_reader_writes_are_not_what_its_rule_is_about(
    world: World, rule: str, command: str
) -> None:
    assert world.bash(command, allow=[f"bash({rule}:*)"]) == "ask"


def test_readers_that_could_write_may_read(world: World) -> None:
    for command in ("shuf a", "iconv -f latin1 a", "sdiff a b", "tree -L 2", "git branch -a"):
        assert (
            world.bash(command, allow=[f"bash({command.rpartition(' -')[0] or command}:*)"])
            == "allow"
        )


def test_a_question_says_where_a_link_leads(world: World) -> None:
    (world.root / "out").symlink_to("../outside")
    (world.root / "hooks").symlink_to("src")
    policy = world.policy(ask=["edit(src/**)"])

    def reason(tool: str, path: str) -> str:
        return policy.decide(tool, {"path": path}).reason

    there = world.outside / "x"
    assert reason("write", "out/x") == f"it is outside the workspace: {str(there)!r}"
    assert reason("read", str(there)) == f"it is outside the workspace: {str(there)!r}"
    assert reason("edit", "hooks/a.py").endswith("asks before it: 'src/a.py'")
    assert reason("edit", "src/a.py").endswith("asks before it")


def test_a_ban_leaves_alone_what_it_is_not_about(world: World) -> None:
    for command in ("git commit -m push", "git status", "ls push", "echo 'git push'", "gitx push"):
        assert world.bash(command, "yolo", deny=["bash(git push:*)"]) == "allow"
    assert world.bash("git push --force", "yolo", deny=["bash(git push)"]) == "allow"
    assert world.bash("git  push", "yolo", deny=["bash(git push)"]) == "deny"


def test_an_argument_that_reads_like_a_command_is_not_taken_for_the_reason(world: World) -> None:
    policy = world.policy(allow=["bash(sed:*)"])

    decision = policy.decide("bash", {"command": "sed -i 's/a b/c/' x"})

    assert "sed may do more than it seems by '-i'" in decision.reason


def test_an_ask_rule_is_asked_for_even_in_yolo(world: World) -> None:
    assert world.bash("git push", "yolo", ask=["bash(git push:*)"]) == "ask"
    assert world.bash("git push", allow=["bash(git:*)"], ask=["bash(git push:*)"]) == "ask"


def test_a_command_that_is_no_text_is_not_run_unasked(world: World) -> None:
    assert world.policy().decide("bash", {"command": ["ls"]}).effect == "ask"
    assert world.policy("yolo", deny=["bash(rm:*)"]).decide("bash", {}).effect == "ask"


@pytest.mark.skipif(not SHELLS, reason="there is no bash")
@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.sampled_from(["git status", "git status ", "git log -3", "cd src && npm run test ", "npm run test"]),
    pieces=st.lists(st.sampled_from(PIECES), max_size=8),
)  # fmt: skip
def test_no_ending_makes_an_allowed_prefix_run_a_second_command(
    before: str, pieces: list[str], shell: RealShell, bench: Policy
) -> None:
    command = before + "".join(pieces)
    decision = bench.decide("bash", {"command": command})
    if decision.effect != "allow":
        return

    for program in SHELLS:
        started, made = shell.run(command, program)
        assert started <= {"git", "npm"}
        assert made == set()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> RealShell:
    return RealShell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    root = tmp_path_factory.mktemp("bench")
    (root / "src").mkdir()
    return Policy("ask", parse_rules({"allow": GIT}, where="test"), root)


# -- "always" ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "rule"),
    [
        ("bash", {"command": "npm test"}, "bash(npm test)"),
        ("bash", {"command": "a && b > c"}, "bash(a && b > c)"),
        ("bash", {"command": "rm *"}, "bash(rm *)"),
        ("bash", {"command": "rm :*"}, None),
        ("bash", {"command": "cat <<'E'\n" + 3000 * "x" + "\nE\n"}, None),
        ("bash", {"command": "cat <<'E'\n) (:* \nE"}, "bash(cat <<'E'\n) (:* \nE)"),
        ("bash", {"command": " "}, None),
        ("bash", {"command": "*"}, None),
        ("edit", {"path": "src/a.py"}, "edit(src/a.py)"),
        ("write", {"path": "src/../README.md"}, "write(./README.md)"),
        ("write", {"path": "a*b/c"}, None),
        ("read", {"path": "../outside/secret.txt"}, "read({outside}/secret.txt)"),
        ("grep", {"pattern": "x", "path": "../outside"}, "grep({outside}/)"),
        ("deploy", {}, "deploy"),
        ("de*", {}, None),
    ],
)
def test_always_means_this_call_and_no_more(
    world: World, tool: str, args: dict[str, object], rule: str | None
) -> None:
    policy = world.policy()

    found = policy.rule_for(tool, args)

    if rule is None:
        assert found is None
        return
    assert str(found) == rule.replace("{outside}", str(world.outside))
    kept = parse_rule("allow", str(found))  # as it is read from the settings next time
    assert policy.decide(tool, args).effect == "ask"
    policy.rules.append(kept)
    assert policy.decide(tool, args) == Decision("allow", f"the rule {str(kept)!r} allows it", kept)
    assert policy.decide("write", {"path": "README.md/x"}).effect == "ask"
    assert policy.decide("write", {"path": "src/README.md"}).effect == "ask"


@pytest.mark.parametrize(
    "command",
    ["cd sub && git status", "cd sub; timeout 5 git status", "(cd sub; command git status)"],
)
def test_git_behind_cd_is_asked_for_since_another_repository_may_give_it_orders(
    world: World, command: str
) -> None:
    (world.root / "sub").mkdir(exist_ok=True)

    policy = world.policy("ask", allow=["bash(git status:*)"])

    assert policy.decide("bash", {"command": command}).effect == "ask"
    assert policy.decide("bash", {"command": "git status -s"}).effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cd .git; > /proc/self/cwd/config",
        "> /proc/self/cwd/config",
        "cd src; echo x > /proc/thread-self/cwd/f",
        "echo x > /proc/1/cwd/f",
        "echo x > //proc/self/cwd/f",
        "echo x > /dev/../proc/self/cwd/f",
        "echo x > /dev/fd/3",
        "echo x > /dev/stdin",
        "cat < /dev/stdin",
    ],
)
@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
def test_case_159_a_path_of_the_process_that_opens_it_is_asked_about(
    world: World, command: str, mode: Mode
) -> None:
    allowed = ["bash(echo:*)", "bash(cat:*)", "bash(cd:*)", "edit(**)", "read(**)"]

    assert world.bash(command, mode, allow=allowed) == "ask"
    assert world.bash(command, mode, allow=allowed, deny=["edit(secret/**)"]) != "allow"


def test_case_159_behind_cd_a_link_may_lead_anywhere(world: World) -> None:
    (world.root / "link").symlink_to("/proc/self/cwd")
    command = f"cd src; echo x > {world.root}/link/config"

    assert world.bash(command, "auto-edit", allow=["bash(echo:*)", "bash(cd:*)"]) == "ask"


def test_case_159_ordinary_sinks_stay_plain(world: World) -> None:
    for command in ("echo x > /dev/null", "echo x 2>&1", "echo x 2> /dev/null"):
        assert world.bash(command, allow=["bash(echo:*)"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "printf 'xx%n' PATH",
        "printf '%5ln' PATH",
        "printf '%%%n' PATH",
        'printf "$FORMAT" PATH',
        "printf -v PATH 2",
        "read PATH",
        "mapfile -t PATH",
        "getopts a PATH",
        "declare PATH=2",
        "export -n PATH",
        "wait -p PATH",
        "coproc PATH { ls; }",
    ],
)
def test_case_160_builtins_that_set_a_variable_are_asked_about(world: World, command: str) -> None:
    assert world.bash(f"{command}; ls", allow=["bash(printf:*)", "bash(ls:*)"]) == "ask"


def test_case_160_printf_that_only_prints_stays_plain(world: World) -> None:
    for command in (r"printf '%s\n' text", "printf '%d%% of n' 5", "printf hello"):
        assert world.bash(command, allow=["bash(printf:*)"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "tree -R -L 1 -H . .",
        "tree -o f",
        "yq -i '.a=1' f.yaml",
        "yq --inplace '.a=1' f.yaml",
        "xmllint --output f a.xml",
        "xmllint --shell a.xml",
        "git archive -o f HEAD",
        "date -s 12:00",
        "date 010112002030",
        "hostname other",
        "hostname -F name.txt",
        "sed 'w f' a",
        "sed 1e a",
        "sort -o f a",
        "sort --compress-program=./x a",
        "find . -fprintf f x",
        "find . -execdir x {} +",
        "awk 'BEGIN { print > \"f\" }'",
        "awk 'BEGIN { system(\"x\") }'",
        "journalctl --vacuum-size=1M",
        "base64 -o f a",
    ],
)
def test_case_166_options_by_which_a_reader_writes_are_asked_about(
    world: World, command: str
) -> None:
    name = command.split()[0]

    assert world.bash(command, allow=[f"bash({name}:*)"]) == "ask"


@pytest.mark.parametrize(
    "command",
    ["tree -L 2 src", "yq .a f.yaml", "xmllint --noout a.xml", "date +%s", "date -u", "hostname"],
)
def test_case_166_what_only_reads_stays_plain(world: World, command: str) -> None:
    assert world.bash(command, allow=[f"bash({command.split()[0]}:*)"]) == "allow"
