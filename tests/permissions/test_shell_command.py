"""The commands of a line, as far as they are known, held against the real bash."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.permissions.real_shell import SHELLS, RealShell

from loopwright.permissions.command_line import CommandLine
from loopwright.permissions.shell_command import parse_command_line

needs_bash = pytest.mark.skipif(not SHELLS, reason="there is no bash")


def words(line: str) -> list[str]:
    parsed = parse_command_line(line)
    assert parsed.unclear == ""
    return [" ".join("…" if word is None else word for word in c.words) for c in parsed.commands]


def files(line: str) -> list[tuple[str, str | None]]:
    return [(r.kind, r.path) for c in parse_command_line(line).commands for r in c.redirects]


def is_clear(line: CommandLine) -> bool:
    return not line.unclear and not any(command.unclear for command in line.commands)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git status", ["git status"]),
        ("a; b & c && d || e | f |& g\nh", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("(a; b) | { c; d; }", ["a", "b", "c", "d", ""]),
        ("echo $(a) \"$(b 'c')\" `d`", ["a", "b c", "d", "echo … … …"]),
        ("diff <(sort a) >(x)", ["sort a", "x", "diff … …"]),
        ("git commit -m 'a; b' \"c && d\" e\\;f", ["git commit -m a; b c && d e;f"]),
        ("ls # ; rm x\npwd", ["ls", "pwd"]),
        ("git log \\\n  --oneline", ["git log --oneline"]),
        ("! time -p make", ["make"]),
        ("cat <<'E' | x\n$(rm x)\nE\nls", ["cat", "x", "ls"]),
        ("cat <<-E\n\t$HOME\n\tE\nls", ["cat", "ls"]),
        ("CI=1 NO_COLOR=1 npm test", ["npm test"]),
        ("timeout 5 nohup env CI=1 make x", ["make x"]),
        ("ls *.py ~ {a,b} a=~", ["ls … … … …"]),
        ("git show HEAD~1 HEAD^ a:b", ["git show HEAD~1 HEAD^ a:b"]),
        ("", []),
        ("# nothing", []),
    ],
)
def test_the_commands_of_a_line(line: str, expected: list[str]) -> None:
    found = [w for w in words(line) if w]

    assert found == [w for w in expected if w]
    assert is_clear(parse_command_line(line))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a > f", [("write", "f")]),
        ("a >> f 2> 'g h'", [("write", "f"), ("write", "g h")]),
        ("a &> f", [("write", "f")]),
        ("a >| f <> g", [("write", "f"), ("read", "g"), ("write", "g")]),
        ("a < f <<< x", [("read", "f")]),
        ("a > $f", [("write", None)]),
        ("a > *.py", [("write", None)]),
        ("a > /dev/null 2>&1 <&- 2>&-", []),
        ("a > /dev/tcp/host/80", [("write", "/dev/tcp/host/80")]),
        ("> f", [("write", "f")]),
        ("(a) > f", [("write", "f")]),
        ("$(a > f)", [("write", "f")]),
        ("a < <(b)", []),
    ],
)
def test_the_files_that_a_line_opens(line: str, expected: list[tuple[str, str | None]]) -> None:
    assert files(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        # What is not on the short list.
        "if a; then b; fi", "for x in a; do b; done", "while a; do b; done", "case x in x) a;; esac",
        "f() { a; }; f", "function f { a; }", "select x in a; do b; done", "coproc a", "[[ a ]]",
        "((x))", "echo $((a[$(evil)]))", "echo $[1]", "x=(a b)", "a ;; b", "a & ; b", "&& a", "a ||",
        # What is expanded where it does not look so.
        "echo ${x:-$(evil)}", "echo ${x@P}", "echo \"${x:=`evil`}\"", "echo $'a\\'; evil'", 'echo $"a"',
        "cat <<E\n$(evil)\nE", "cat <<E\n`evil`\nE", "cat <<E\n${x:-$(evil)}\nE",
        "echo `echo \\`evil\\``", "echo \"`echo \"a\"`\"", "echo x >& '$(evil)'", ">&-evil", ">& 1x",
        # Lines that are joined, or end, where it does not look so.
        "git status\\\n; evil", "cat <<E\nx\\\nE\nevil\nE", "cat <<E\nE\\\n\nevil\nE",
        "cat <<\\E\nE\nevil", "cat <<'E\n'\nE\nevil", "cat <<E'F'\nE\nevil\nEF", "cat <<$x\n\nevil",
        "cat <<E 'a\nE\nevil'\nE", "$(cat <<E\nE\n)", "echo \"a\\\nb\"", "$\\\n(evil)", "cat <<E \\\nE\nE",
        "cat <<E\nx",
        # Characters that are taken for others.
        "git\u00a0status", "git status\u2028evil", "a\rb", "a\0b", "a\x1bb", "a\u200bb", "a\u202eb",
        "a\ud800", "git status\x0bevil", "a\u3000b", "\ufeffgit status",
        # What is left open.
        "'a", '"a', "`a", "$(a", "(a", "{ a", "a)", "{ a; } b", "(a) b", "a <", "a > ; b", "a <<",
        "a \\", "a (b)", "()", "{x}> f a", "123> f", "a <&x", "a 2>&x", "a &> f evil",
        "x" * 70_000, "(" * 100 + "a" + ")" * 100, "$(" * 100 + "a" + ")" * 100,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said_to_be_unclear(line: str) -> None:
    assert not is_clear(parse_command_line(line))
    assert parse_command_line(line).unclear


@pytest.mark.parametrize(
    "line",
    [
        "eval evil", ". ./evil", "source evil", "exec evil", "builtin eval evil", "trap evil EXIT",
        "command eval evil", "alias git=evil", "bash -c evil", "sh evil", "/bin/sh -c evil",
        "\\bash -c evil", "'bash' -c evil", "busybox sh -c evil", "sudo evil", "doas evil", "xargs evil",
        "env -S 'evil x'", "env -i evil", "env PATH=. git status", "/usr/bin/env evil", "nohup -- evil",
        "nice -n 5 evil", "timeout -k 5 5 evil", "timeout $x evil", "command -p evil", "setsid evil",
        "find . -exec evil ;", "find . -okdir evil ;", "find . -delete", "find $x", "fd -x evil",
        "fd -Hx evil", "git -c alias.status=!evil status", "git --exec-path=. status", "git -C x status",
        "git grep -Oevil x", "git fetch --upload-pack=evil", "git fetch --upl=evil", "git fetch -uevil",
        "git bisect run evil", "git submodule foreach evil", "git rebase -x evil", "git log --output=x",
        "git clone ext::evil", "git config alias.x !evil", "git --no-pager -c a=b log", "git $x",
        "rg --pre evil x", "sort --compress-prog=evil", "tar -cf x --checkpoint-action=exec=evil x",
        "tar xIf evil x", "tar -xf host:x", "sed 1e x", "sed s/a/b/e x", "sed -n -e 1e x", "sed 1e./x",
        "sed 's/a/b/;1e evil'", "sed -f x", "awk 'BEGIN{system(\"evil\")}'", "awk '{print | \"evil\"}'",
        "awk -f x", "awk '{printf(\"a\") > \"x\"}'", "awk '{print $1; x = \"}\"} $3 > 5'", "sed '/a/w x' y",
        "sed '/a/e evil' x", "sed '/a/,/b/w x' y", "sed '/a//e evil/p' x", "awk '\"evil\" | getline'",
        "printf -v 'a[$(evil)]' x", "printf $x y", "test -v 'a[$(evil)]'",
        "[ -v 'a[$(evil)]' ]", "read 'a[$(evil)]'", "unset 'a[$(evil)]'", "let 'a[$(evil)]'",
        "declare 'a[$(evil)]=1'", "export PATH=.", "set -k", "shopt -s extglob", "mapfile -C evil -c 1 x",
        "compgen -C evil", "hash -p ./evil git", "enable -f ./evil git", "jobs -x evil", "bind -x evil",
        "LD_PRELOAD=./evil.so git status", "PATH=. git status", "PATH=.", "GIT_PAGER=evil git log",
        "X=1; git status", "IFS=x git status", "BASH_ENV=evil git", "$X status", "g*t status", "~/evil",
        "{git,status}", "`evil` status", "g$(evil)t", "go test -exec evil", "man -P evil x",
        "rsync -e evil a b", "ssh -oProxyCommand=evil x", "split --filter=evil x", "zip -TT evil x y",
        "ssh -I evil.so x", "ssh-keygen -D evil.so", "wget --use-askpass=evil x", "wget -e use_askpass=evil x",
        "man -C evil x", "ack --pager=evil x", "git merge-index evil -a", "git remote-ext x 'evil y'",
        "git web--browse x", "ld.so ./evil", "/lib64/ld-linux-x86-64.so.2 ./evil", "gtimeout 5 evil",
        "toybox sh", "sort -o x y", "sort --outp=x y", "sort -uo x y", "uniq x y", "uniq -f 1 x y", "uniq $x",
        "xxd -r x y", "tree -o x", "file -C -m x", "uniq -c 5 x", "uniq -- -x y", "uniq -f 1 5 x", "uniq - x",
        "xxd -r 5 x", "xxd -p -- -x y", "xxd -s -l 5 x",
    ],
)  # fmt: skip
def test_what_may_start_something_else_is_unclear(line: str) -> None:
    assert not is_clear(parse_command_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "find . -name '*.py'", "git status --short", "git --no-pager log -3", "git push -u origin x",
        "sed -n 1,20p x", "sed -E 's/a(b)/\\1/g' x", "sed 's|a|b|'", "sort -n x", "tar xzf x.tgz",
        "rg -n x src", "awk -F, '{print $1}' x", "printf '%s\\n' \"$x\"", "test -f x", "[ -f x ]",
        "command -v git", "env", "go test ./...", "cargo test",
        "sed -n '/def foo/,/^$/p' x", "sed -n '10,+5p' x", "sed '/a\\/b/d' x", "sed -n '$p' x",
        "awk '$3 > 5' x", "awk '$1 == 2 || /a|b/ {print $1}' x",
    ],
)  # fmt: skip
def test_everyday_commands_are_clear(line: str) -> None:
    assert is_clear(parse_command_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "uniq -f 1 x",
        "uniq -c",
        "uniq -c -- -x",
        "xxd -l 16 x",
        "xxd -s -9 x",
        "xxd -s 0x10 x",
        "sort -k 2 x",
        "tree -L 2",
    ],
)
def test_what_reads_one_file_is_clear(line: str) -> None:
    assert is_clear(parse_command_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "CI=1 <<EOF <<<$(CI=1\nevil\nEOF\n)",
        "cat <<EOF <(a\nevil\nEOF\n)",
        "cat <<'EOF' \"$(a\nevil\nEOF\n)\"",
        "cat <<-EOF `a\nevil\nEOF\n`",
        "cat <<A <<B $(a\nevil\nA\nB\n)",
    ],
)
def test_case_157_a_line_that_ends_in_a_substitution_begins_no_document(line: str) -> None:
    assert parse_command_line(line).unclear


@pytest.mark.parametrize(
    ("setting", "clear"),
    [
        ("LC_ALL=zh_CN.GBK", False),
        ("LANG=ja_JP.SJIS", False),
        ("LC_CTYPE=zh_CN", False),
        ("LC_ALL=$X", False),
        ("LC_ALL+=x", False),
        ("env LC_ALL=zh_CN.GBK", False),
        ("LC_ALL=C", True),
        ("LANG=POSIX", True),
        ("LC_ALL=C.UTF-8", True),
        ("env LANG=de_DE.UTF-8", True),
        ("TZ=UTC", True),
    ],
)
def test_case_158_a_locale_is_harmless_in_utf_8_only(setting: str, clear: bool) -> None:
    assert is_clear(parse_command_line(f"{setting} sort x")) is clear


def test_a_ban_sees_into_the_text_that_a_shell_is_given() -> None:
    line = parse_command_line("bash -c 'ls; rm -rf x'")

    assert ("rm", "-rf", "x") in [command.words for command in line.commands]


# -- against the real thing ---------------------------------------------------------------------

PIECES = [
    "evil", "evil", "git status", "cat", "x", "a", "echo", " ", " ", " ", ";", "&&", "||", "|", "&",
    "\n", "\n", "$(", "`", ")", ")", "(", "((", "))", "{ ", "; }", "'", "'", '"', '"', "\\", "\\\n",
    " \\\n", " #", "<", ">", ">>", "<<E", "<<-E", "<<'E'", "\nE\n", "E", "<<<", "$'", '$"', "${", "$",
    "$((", "$[", "]", "[[", "]]", "a[", "=", "CI=", "PATH=", "+=", "! ", "time ", "*", "?", "~", "{a,b}",
    "\t", "if ", "; then ", "; fi", "; done", "for ", "do ", "case ", "esac", " in ", "function ", "a()",
    "coproc ", "2", "2>&1", ">&", "<&", "&>", ">|", "<>", "<(", ">(", "-", "\r", "\u00a0", "eval ",
    "env ", "nohup ", "command ", "timeout 5 ", "bash -c ", "/dev/null", "$X", "${X}", "$$", "@", "+(",
    ":-", "\u00e9", "\\'", '\\"', "\\`", "\\$",
]  # fmt: skip
TEMPLATES = [
    "git status{}", "git status {} {}", 'echo "{}" {}', "echo '{}' {}", "cat <<E{}\nE\n{}", "echo `{}` {}",
    "cat <<'E'{}\n{}\nE\n{}", "echo $({}) {}", "( {} ) {}", "{{ {} ; }} {}", "cat <({}) {}", "git > {}",
    "git 2>&1{}", "cat <<<{}", "{}", "CI=1 {}",
]  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines that begin harmlessly and go on as an attacker might try."""
    template = draw(st.sampled_from(TEMPLATES))
    piece = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
    return template.format(*(draw(piece) for _ in range(template.count("{}"))))


@needs_bash
@given(line=lines())
@example(line="echo hi >& '$(evil)'")  # bash expands this target twice
@example(line="x+=1 evil")
@example(line=">&-evil")  # bash takes the dash for "close"
@example(line="cat <<E\nx\\\nE\nevil\nE")
@example(line="git status &>x evil")  # dash ends the command at the &
@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])
def test_bash_runs_nothing_but_what_is_said(line: str, shell: RealShell) -> None:
    parsed = parse_command_line(line)
    if not is_clear(parsed):
        return  # nobody will believe it

    said = {command.words[0] for command in parsed.commands if command.words}
    paths = [r.path for c in parsed.commands for r in c.redirects if r.kind == "write"]
    for program in SHELLS:
        started, made = shell.run(line, program)
        assert started <= said
        assert None in paths or made <= {path.partition("/")[0] for path in paths if path}


@needs_bash
@pytest.mark.parametrize(
    "line",
    ["cat <<E\nx$(evil)\nE", "echo ${x:-$(evil)}", "git status\\\n; evil"],
)
def test_the_real_shell_of_these_tests_can_catch_a_liar(line: str, shell: RealShell) -> None:
    started, _ = shell.run(line)

    assert "evil" in started


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> RealShell:
    return RealShell(tmp_path_factory.mktemp("shell"))


@given(text=st.text(max_size=60) | lines())
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert isinstance(parse_command_line(text), CommandLine)
