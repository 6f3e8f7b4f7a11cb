"""Programs that run what others are told to be: `env`, `sudo`, `xargs`, `find -exec`.        (pure)

A rule for `find:*` means looking, not `find -exec rm`. A few plain ones are looked behind: of
`timeout 5 make` it is `make` that must be allowed. With all others no pattern fits, unless it is
the whole command. The list is of what people know and meet; a program that is not on it may do
anything it likes with its arguments, and a rule for it says that it may. With a ban it is the other
way round: any program may pass on what it is given, unless it is known not to.

Not here: programs that are made to run any text, such as python, node or make. Whoever allows
`python:*` has allowed everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .command_line import Words

__all__ = ["is_harmless_variable", "look_behind", "may_pass_on", "program", "runs_others"]

_HARMLESS = re.compile(
    r"CI|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|COLUMNS|LINES|TZ|NODE_ENV"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE|RUST_LOG|GIT_TERMINAL_PROMPT"
)
_LOCALE = re.compile(r"LANG|LC_[A-Z]+")
_SAFE_LOCALE = re.compile(r"C|POSIX|(C|[a-z]{2,3}_[A-Z]{2})\.(UTF-8|utf8)")
"""In other encodings a byte of a character may be a quote or a backslash to the shell."""
_LOADER = re.compile(r"ld(-linux.*|-musl.*)?\.so(\.[0-9]+)?")
_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STEP_ASIDE = frozenset({"nohup", "nice", "command", "time", "timeout", "env"})

# Builtins that run text, change what a name means, or evaluate a subscript such as a[$(rm x)].
_BUILTINS = _words(
    "eval . source exec builtin trap alias enable bind complete compgen compopt let declare typeset"
    " local export readonly unset read mapfile readarray getopts wait hash fc shopt set jobs pushd"
    " popd dirs history"
)
_SHELLS = _words("sh bash rbash dash ash zsh ksh mksh yash fish csh tcsh pwsh busybox")
_RUNNERS = _words(
    "sudo su doas pkexec runuser setpriv xargs parallel watch entr script setsid strace ltrace"
    " chroot unshare nsenter flock ionice chrt taskset stdbuf unbuffer prlimit numactl setarch"
    " start-stop-daemon systemd-run at batch crontab run-parts fakeroot proot xvfb-run rlwrap"
    " dbus-run-session logsave expect gtimeout gnice gnohup gstdbuf genv toybox gosu su-exec sg"
)

# What is not here, and starts nothing that is named behind it. Other words after these are files,
# texts and subcommands: `git rm`, `apt install curl`, `grep rm`.
_KEEPS_TO_ITSELF = _words(
    "cat head tail tac less more wc sort uniq cut paste tr nl fold column comm join diff cmp tee"
    " echo printf true false : test [ pwd cd ls tree stat file du df mkdir rmdir rm unlink cp mv ln"
    " touch chmod chown install dd sync realpath readlink basename dirname mktemp seq yes sleep date"
    " cal uname hostname whoami id groups which whereis whatis apropos man info type hash tput"
    " grep egrep fgrep zgrep rg ag ack find fd sed awk gawk mawk jq yq xxd od hexdump strings base64"
    " md5sum sha1sum sha256sum cksum tar gzip gunzip zcat bzip2 xz zstd zip unzip 7z curl wget rsync"
    " scp sftp ping dig host nslookup ss netstat ps top pgrep pkill kill killall lsof free uptime"
    " git gh glab hub hg svn jj make ninja gcc g++ clang cc ld ar python python3 node ruby"
    " perl php lua go rustc java javac tsc deno pip pip3 apt apt-get apt-cache aptitude dpkg dnf yum"
    " rpm pacman apk zypper brew port snap flatpak systemctl service journalctl pytest ruff black mypy"
    " pyright flake8 isort eslint prettier jest vitest vim vi nano emacs code export"
)


def is_harmless_variable(name: str, value: str | None) -> bool:
    """Whether setting *name* to *value*, None if that is only known when it runs, makes no program
    do something else. PATH or PAGER would."""
    if _LOCALE.fullmatch(name):
        return value is not None and _SAFE_LOCALE.fullmatch(value) is not None
    return _HARMLESS.fullmatch(name) is not None


def program(name: str) -> str:
    """*name* of a command without the folder in front."""
    return name.rpartition("/")[2]


def may_pass_on(words: Words) -> bool:
    """Whether what *words* run may start what stands behind its name: `uv run rm`, `ssh host rm`."""
    return bool(words) and words[0] is not None and program(words[0]) not in _KEEPS_TO_ITSELF


def look_behind(words: Words) -> tuple[Words, str]:
    """The command that *words* run in the end, and why it is not clear, if so."""
    while len(words) > 1 and words[0] in _STEP_ASIDE:
        behind = _behind(words)
        if behind is None:
            return words, f"what {words[0]} starts is not plain"
        if not behind or behind == words:
            break
        words = behind
    if not words:
        return words, ""
    if words[0] is None:
        return words, "its name is only known when it runs"
    return words, runs_others(words)


def _behind(words: Words) -> Words | None:
    """What a program that steps aside starts; the same words if nothing; None if not plain."""
    rest = words[1:]
    match words[0]:
        case "timeout":
            duration = rest[0]
            if duration is None or not _DURATION.fullmatch(duration):
                return None
            rest = rest[1:]
        case "env":
            while rest and (word := rest[0]) and "=" in word:
                if not is_harmless_variable(*word.split("=", 1)):
                    return None
                rest = rest[1:]
        case "command" if rest[0] in ("-v", "-V"):
            return words
        case _:
            pass
    if rest and (rest[0] is None or rest[0].startswith("-")):
        return None
    return rest


def runs_others(words: Words) -> str:
    """Why *words*, whose first is known, may run other commands than they seem to; empty: no."""
    name = program(words[0] or "")
    if words[0] in _STEP_ASIDE:
        return ""
    if name in _SHELLS or name in _RUNNERS or name in _STEP_ASIDE or _LOADER.fullmatch(name):
        return f"{name} runs other commands"
    if name in _BUILTINS:
        return f"{name} is not plain"
    suspicious = _BY_ARGUMENT.get(name)
    argument = None if suspicious is None else suspicious(words[1:])
    return "" if argument is None else f"{name} may do more than it seems by {argument[:40]!r}"


# -- programs of which some arguments run others, or change files one does not think of ---------

Suspicion = Callable[[Words], str | None]
"""The argument that may make a program run another; None if there is none."""

UNKNOWN = "an argument only known when it runs"


def _any(test: Callable[[str], bool], words: Words) -> str | None:
    for word in words:
        if word is None:
            return UNKNOWN
        if test(word):
            return word
    return None


def _options(letters: str = "", *names: str) -> Suspicion:
    """Short options by their letters, long ones by their names, which may be shortened."""

    def test(argument: str) -> bool:
        if argument.startswith("--"):
            name = argument[2:].partition("=")[0]
            return bool(name) and any(known.startswith(name) for known in names)
        return argument.startswith("-") and any(letter in argument for letter in letters)

    return lambda words: _any(test, words)


def _second_file(numbered: str) -> Suspicion:
    """`uniq IN OUT` writes its second file. *numbered* are the options that a number follows: the
    word behind one is no file, and no option."""

    def test(words: Words) -> str | None:
        files: list[str] = []
        may_be_option, is_number = True, False
        for word in words:
            if word is None:
                return UNKNOWN
            if is_number:
                is_number = False
            elif may_be_option and word.startswith("-") and word != "-":
                may_be_option = word != "--"
                is_number = word[1:] in tuple(numbered)
            else:
                files.append(word)
        return files[1] if len(files) > 1 else None

    return test


def _starting(*beginnings: str) -> Suspicion:
    return lambda words: _any(lambda argument: argument.startswith(beginnings), words)


_tar_options = _options(
    "IF", "to-command", "checkpoint-action", "use-compress-program", "rsh-command",
    "rmt-command", "info-script", "new-volume-script",
)  # fmt: skip


def _tar(words: Words) -> str | None:
    if words and words[0] and re.search("[IF]", words[0]):  # `tar xIf`, without a dash
        return words[0]
    return _tar_options(words) or _any(lambda word: ":" in word, words)  # host:file starts a shell


_git_options = _options(
    "cOx", "upload-pack", "receive-pack", "exec", "open-files-in-pager", "output", "extcmd",
    "config", "config-env", "edit-description", "ext-diff", "exec-path", "template", "upload-archive",
)  # fmt: skip
_GIT_RUNS_OTHERS = _words(
    "bisect submodule filter-branch config difftool mergetool hook for-each-repo send-email daemon"
    " instaweb merge-index remote-ext remote-fd web--browse"
)
_GIT_TRANSFERS = frozenset({"clone", "fetch", "pull", "ls-remote"})


def _git(words: Words) -> str | None:
    if words[:1] == ("--no-pager",):
        words = words[1:]
    if not words:
        return None
    command = words[0]
    if command is None:
        return UNKNOWN
    # Whatever stands before the subcommand is about where and how git runs.
    if command in _GIT_RUNS_OTHERS or (command.startswith("-") and command != "--version"):
        return command
    if command in _GIT_TRANSFERS and (found := _any(lambda word: word.startswith("-u"), words)):
        return found
    if command == "archive" and (found := _any(lambda word: word.startswith("-o"), words)):
        return found
    # ext::command is an address.
    return _git_options(words) or _any(lambda word: bool(re.match(r"\w+::", word)), words)


def _awk(words: Words) -> str | None:
    """awk starts a program or writes a file by `print | "x"` and `print > "x"`; without a print
    before it, `>` compares."""

    def test(argument: str) -> bool:
        option = argument.startswith("-") and not argument.startswith(("-F", "-v"))
        return option or _AWK_RUNS.search(argument) is not None

    return _any(test, words)


_AWK_RUNS = re.compile(r"system|getline|@|print.*[|>]", re.DOTALL)

_SED_PLACE = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_SCRIPT = re.compile(
    rf"(?:{_SED_PLACE}(?:,(?:{_SED_PLACE}|\+[0-9]+))?)?[pdq=]"
    r"|s(?P<d>[/|#,:!@])(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)"
    r"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)[gpiI0-9]*"
)


def _sed(words: Words) -> str | None:
    """sed has a command that runs others; only the plainest scripts are known not to."""
    found = _any(lambda word: word.startswith("-") and not re.fullmatch("-[nErs]+", word), words)
    if found is not None:
        return found
    script = next((word for word in words if word and not word.startswith("-")), "")
    return None if not script or _SED_SCRIPT.fullmatch(script) else script


def _printf(words: Words) -> str | None:
    """`-v` and the conversion `%n` set a variable; a subscript in its name is evaluated, as in
    `printf -v 'a[$(rm x)]'`."""
    return _any(
        lambda word: word.startswith("-") or bool(_COUNTING.search(word.replace("%%", ""))),
        words[:1],
    )


_COUNTING = re.compile(r"%[^a-zA-Z%]*[hlqjztL]*n")


def _sets_the_clock(words: Words) -> str | None:
    """`date -s` sets it, and so does an argument that is no format."""
    set_by_option = _options("s", "set")(words)
    return set_by_option or _any(lambda word: not word.startswith(("-", "+")), words[:1])


def _sets_the_name(words: Words) -> str | None:
    """`hostname x` sets it; `-F` reads it from a file and sets it."""
    return _any(
        lambda word: not word.startswith("-") or word.startswith(("-F", "-b", "--file", "--boot")),
        words,
    )


_journal_options = _options(
    "", "vacuum-size", "vacuum-time", "vacuum-files", "rotate", "flush", "sync", "cursor-file",
    "relinquish-var", "smart-relinquish-var", "setup-keys", "update-catalog",
)  # fmt: skip

_BY_ARGUMENT: dict[str, Suspicion] = {
    "find": _starting("-exec", "-ok", "-delete", "-fprint", "-fls"),
    "fd": _options("xX", "exec", "exec-batch"),
    "fdfind": _options("xX", "exec", "exec-batch"),
    "rg": _options("", "pre", "hostname-bin"),
    "sort": _options("o", "compress-program", "output"),
    "tree": _options("oR", "output"),  # -R writes a page into each folder
    "yq": _options("is", "inplace", "in-place", "split-exp"),
    "mlr": _options("I", "split", "tee"),
    "xmllint": _starting("-o", "--output", "-shell", "--shell"),
    "base64": _options("o", "output"),
    "date": _sets_the_clock,
    "hostname": _sets_the_name,
    "journalctl": _journal_options,
    "shuf": _options("o", "output"),
    "iconv": _options("o", "output"),
    "sdiff": _options("o", "output"),
    "less": _options("oO", "log-file", "LOG-FILE"),
    "csplit": lambda words: _any(lambda word: True, words),  # whatever it is given, it writes
    "uniq": _second_file("fsw"),
    "xxd": _second_file("cglos"),
    "file": _options("C", "compile"),
    "split": _options("", "filter"),
    "ag": _options("", "pager"),
    "ack": _options("", "pager", "ackrc", "output"),
    "bat": _options("", "pager"),
    "man": _options("PHC", "pager", "html", "preprocessor", "config-file"),
    "wget": _options("e", "execute", "use-askpass", "config"),
    "rsync": _options("e", "rsh", "rsync-path"),
    "scp": _options("SoFD"),
    "sftp": _options("SoFD"),
    "ssh": _options("oFI"),
    "ssh-keygen": _options("Dw"),
    "ssh-add": _options("sS"),
    "zip": _options("T", "test", "unzip-command"),
    "go": _starting("-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"),
    "cargo": _options("", "config"),
    "git": _git,
    "tar": _tar,
    "bsdtar": _tar,
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "printf": _printf,
    "test": _options("vR"),
    "[": _options("vR"),
}
