"""What is to become of a call: it is allowed, denied, or somebody is asked.

Rules come first (deny, then ask, then allow), and the mode settles what no rule speaks of:

    ask         reading inside the workspace is allowed; the rest is asked for
    auto-edit   so is changing files inside the workspace
    yolo        everything is allowed
    read-only   nothing but reading is allowed, and nobody is asked; rules cannot widen that

Where it is not clear what a command would run, a pattern does not allow it, and where a ban might
apply, it is asked for, in every mode.

Not here: asking (gate.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from ..errors import ConfigurationError
from .command_line import Command, CommandLine, Redirect
from .command_rules import Match, command_pattern
from .file_paths import Located, Places
from .named_files import changes_nothing, put_into
from .rules import CHANGING_TOOLS, FILE_TOOLS, READING_TOOLS, Effect, Rule
from .runs_by_itself import runs_by_itself
from .shell_command import parse_command_line

__all__ = ["MODES", "Decision", "Mode", "Policy"]

Mode = Literal["ask", "auto-edit", "yolo", "read-only"]
MODES: tuple[Mode, ...] = get_args(Mode)

LONGEST_TO_KEEP = 2000
"""Characters of a command that is worth a rule: nobody asks for a here-document a second time."""

MOST_FOLDERS = 20
"""In so many folders that a line may go to by `cd` its names are looked for."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a call, and why."""

    effect: Effect
    reason: str
    """For people and for the model; a part of a sentence."""
    rule: Rule | None = None
    """The rule that decided. None: it was the mode."""
    real: tuple[str, ...] = field(default=(), compare=False)
    """Of a call of a tool that works on files: the real paths by which it was judged."""


class _Opened(NamedTuple):
    """A file that a command line opens itself."""

    decision: Decision
    unknown: bool
    """Which file it is can not be said before it runs."""


_OF_A_PROCESS = re.compile(r"/+(?:proc(?:/|$)|dev/(?:fd|stdin|stdout|stderr|tty)(?:/|$))")
"""`/proc/self/cwd/f` is another file in each process, so it is known only when it is opened."""


class Policy:
    """Rules and a mode for one workspace. Both may be changed between calls."""

    def __init__(
        self,
        mode: Mode = "ask",
        rules: Iterable[Rule] = (),
        workspace_root: str | os.PathLike[str] = ".",
        *,
        home: str | os.PathLike[str] | None = None,
        readable: Iterable[str | os.PathLike[str]] = (),
        writable: Iterable[str | os.PathLike[str]] = (),
        searches_skip_denied: bool = False,
    ) -> None:
        """*home* is what `~/` stands for, by default the user's. In folders that are *writable* a
        mode allows what it does in the workspace, in those that are *readable* just the reading.

        *searches_skip_denied* says that the tool `grep` leaves out every file that `hides` names.
        Without that, a search of a folder in which something may not be read is asked for.

        Raises `ConfigurationError` for a mode that there is not.
        """
        self.mode = mode
        self.rules = list(rules)
        self.searches_skip_denied = searches_skip_denied
        self._places = Places(
            workspace_root,
            os.path.expanduser("~") if home is None else home,
            readable=readable,
            writable=writable,
        )

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in MODES:
            raise ConfigurationError(
                f"there is no permission mode {mode!r}", hint=f"there are {', '.join(MODES)}"
            )
        self._mode: Mode = mode

    def decide(self, tool_name: str, args: Mapping[str, Any]) -> Decision:
        """What is to become of a call of *tool_name* with *args*, which have been validated.

        Looks at the file system for links, so it may block for a moment. Never raises.
        """
        decision = self._decide(tool_name, args)
        if self._mode == "read-only" and decision.effect == "ask":
            reason = f"{decision.reason}, and in read-only nobody is asked"
            return Decision("deny", reason, real=decision.real)
        return decision

    def _decide(self, tool_name: str, args: Mapping[str, Any]) -> Decision:
        if tool_name == "bash":
            return self._decide_bash(args.get("command"))
        if tool_name in FILE_TOOLS:
            return self._decide_file(tool_name, args.get("path", "."))
        return self._by_rules(tool_name) or self._by_mode(tool_name)

    def hides(self, path: str) -> bool:
        """Whether a rule denies reading *path*, absolute or relative to the workspace."""
        located = self._places.locate(path)
        return located is None or any(
            rule.effect == "deny" and rule.covers("read") and self._places.catches(rule, located)
            for rule in self.rules
        )

    def rule_for(self, tool_name: str, args: Mapping[str, Any]) -> Rule | None:
        """The narrowest rule that would allow such a call for good; None if there is none."""
        if tool_name == "bash":
            command = args.get("command")
            # What ends in `:*` would mean more as a rule than as a command.
            if not isinstance(command, str) or not command.strip() or command.endswith(":*"):
                return None
            if len(command) > LONGEST_TO_KEEP:
                return None
            return None if command == "*" else Rule("allow", "bash", command)
        if tool_name not in FILE_TOOLS:
            plain = tool_name and not set(tool_name) & set("*?[]() \t\n")
            return Rule("allow", tool_name) if plain else None
        path = args.get("path", ".")
        located = self._places.locate(path) if isinstance(path, str) else None
        if located is None or len(located.real) != 1:
            return None
        shown = self._places.shown(located.real[0])
        if set(shown) & set("*?!~\\") or shown != shown.strip() or shown == ".":
            return None
        if "/" not in shown:
            shown = f"./{shown}"  # a bare name would stand for that name in any folder
        if tool_name in ("grep", "find") and os.path.isdir(located.real[0]):
            shown += "/"
        return Rule("allow", tool_name, shown)

    # -- files ---------------------------------------------------------------------------------

    def _decide_file(self, tool_name: str, path: object) -> Decision:
        if not isinstance(path, str):
            return Decision("ask", f"the path of {tool_name} is not a text")
        located = self._places.locate(path)
        if located is None:
            return Decision("deny", f"{path[:200]!r} can be no path")
        decision = self._by_rules(tool_name, located) or self._by_mode(tool_name, located)
        reason = decision.reason
        # Whoever is asked should not have to guess where a link leads.
        if decision.effect == "ask" and (elsewhere := self._elsewhere(located)):
            reason = f"{reason}: {elsewhere}"
        return replace(decision, reason=reason, real=located.real)

    def _elsewhere(self, located: Located) -> str:
        """The real paths that are not what *located* is spelled like, or are outside."""
        inside = self._places.inside
        paths = [r for r in located.real if r not in located.spelled or not inside(r)]
        return " or ".join(repr(_middle_cut(self._places.shown(path))) for path in paths)

    def _by_rules(self, tool_name: str, located: Located | None = None) -> Decision | None:
        for effect in ("deny", "ask", "allow"):
            for rule in self.rules:
                if rule.effect != effect or not rule.covers(tool_name):
                    continue
                if located is None or rule.pattern is None:
                    fits = rule.pattern is None
                elif effect == "allow":
                    fits = self._places.allows(rule, located)
                else:
                    fits = self._places.catches(rule, located)
                if fits and not (effect == "allow" and self._is_beyond_mode(tool_name)):
                    return _ruled(rule)
            if effect == "ask" and tool_name == "grep" and located is not None:
                searched = self._searches_what_is_denied(located)
                if searched is not None:
                    return searched
        return None

    def _searches_what_is_denied(self, located: Located) -> Decision | None:
        for rule in self.rules:
            if rule.effect == "allow" or rule.pattern is None or not rule.covers("grep"):
                continue
            if rule.effect == "deny" and self.searches_skip_denied:
                continue
            if self._places.may_catch_below(rule, located) and any(
                map(os.path.isdir, located.real)
            ):
                return Decision(
                    "ask", f"the search may show what the rule {str(rule)!r} is about", rule
                )
        return None

    def _is_beyond_mode(self, tool_name: str) -> bool:
        return self._mode == "read-only" and tool_name not in READING_TOOLS

    def _by_mode(self, tool_name: str, located: Located | None = None) -> Decision:
        mode = self._mode
        reading = tool_name in READING_TOOLS
        outside = located is not None and not all(
            self._places.open_to(real, reading=reading) for real in located.real
        )
        if mode == "yolo":
            return Decision("allow", "the mode yolo allows everything")
        if mode == "read-only":
            if not reading:
                return Decision("deny", f"the mode read-only does not allow {tool_name}")
            if outside:
                return Decision("deny", "the mode read-only allows reading in the workspace only")
        if reading and not outside:
            return Decision("allow", "it reads in the workspace")
        if outside:
            return Decision("ask", "it is outside the workspace")
        if tool_name in CHANGING_TOOLS and mode == "auto-edit" and located is not None:
            if not any(map(runs_by_itself, located.real + located.spelled)):
                return Decision("allow", "the mode auto-edit allows changes in the workspace")
            return Decision("ask", "what is in there may be run without anybody starting it")
        return Decision("ask", f"the mode {mode} asks before {tool_name} is used")

    # -- commands ------------------------------------------------------------------------------

    def _decide_bash(self, text: object) -> Decision:
        if self._mode == "read-only":
            return self._by_mode("bash")
        line = parse_command_line(text) if isinstance(text, str) else CommandLine((), "no text")
        text = text if isinstance(text, str) else ""
        banned = self._ban(line, text)
        if banned is not None and banned.effect == "deny":
            return banned
        redirects = self._redirects(line)
        refused = next((o.decision for o in redirects if o.decision.effect == "deny"), None)
        if refused is not None:
            return refused
        banned = banned or self._names_what_is_banned(line)
        if banned is not None:
            return banned
        same = next((r for r in self._bash_rules("allow") if _is_same(r, text)), None)
        if same is not None:
            return _ruled(same)
        everything = next((r for r in self._bash_rules("allow") if r.pattern is None), None)
        if everything is not None or self._mode == "yolo":
            doubt = self._doubt(line, redirects)
            if doubt is not None:
                return doubt
            return Decision("allow", "every command is allowed", everything)
        return self._each(line, redirects)

    def _bash_rules(self, effect: Effect) -> list[Rule]:
        return [rule for rule in self.rules if rule.effect == effect and rule.covers("bash")]

    def _ban(self, line: CommandLine, text: str) -> Decision | None:
        """What deny and ask rules say of the commands of *line*."""
        maybe: Rule | None = None
        for effect in ("deny", "ask"):
            for rule in self._bash_rules(effect):
                match = _catches(rule, line, text)
                if match == "yes":
                    return _ruled(rule)
                if match == "maybe":
                    maybe = maybe or rule
        if maybe is None:
            return None
        return Decision("ask", f"it may be what the rule {str(maybe)!r} is about", maybe)

    def _names_what_is_banned(self, line: CommandLine) -> Decision | None:
        """Whether a command is given the name of a file that may not be read, or changed. What it
        would do with it is not known: `cat .env`, `git rm .env`, `tee .env`."""
        bans = [rule for rule in self.rules if rule.effect != "allow" and rule.pattern is not None]
        on_all = [rule for rule in bans if rule.covers("read")]
        on_changes = [rule for rule in bans if rule.covers("write")]
        if not on_all and not on_changes:
            return None
        folders = [self._places.root]  # where it may be, once there was a `cd`
        for command in line.commands:
            rules = on_all if changes_nothing(command) else on_all + on_changes
            names = dict.fromkeys([*command.names, *put_into(command)])
            paths = dict.fromkeys(
                path
                for name in names
                for folder in folders
                for path in self._places.named(name, folder)
            )
            for path in paths:
                located = self._places.locate(path)
                for rule in rules:
                    if located is not None and self._places.catches(rule, located):
                        reason = f"it names what the rule {str(rule)!r} is about"
                        return Decision("ask", reason, rule)
            if command.words[:1] == ("cd",):
                reached = paths if command.names else self._places.named("~")
                new = [path for path in reached if path not in folders]
                folders += new[: MOST_FOLDERS - len(folders)]
        return None

    def _doubt(self, line: CommandLine, redirects: list[_Opened]) -> Decision | None:
        """Whether a ban could apply to what is not known of *line*."""
        reason = _unclear(line)
        bans = [rule for rule in self.rules if rule.effect != "allow"]
        if reason and any(rule.covers("bash") for rule in bans):
            return Decision("ask", f"a rule may deny it, and what it runs is not clear: {reason}")
        unknown = reason or any(opened.unknown for opened in redirects)
        if unknown and any(rule.covers("write") or rule.covers("read") for rule in bans):
            return Decision("ask", "a rule may deny a file that it reads or writes")
        ruled = (o.decision for o in redirects if o.decision.effect == "ask" and o.decision.rule)
        return next(ruled, None)

    def _redirects(self, line: CommandLine) -> list[_Opened]:
        """What would be said of each file that the shell itself opens, in a call of its own."""
        found: list[_Opened] = []
        moved = False
        for command in line.commands:
            found += [self._opened(redirect, moved) for redirect in command.redirects]
            moved = moved or bool(command.words and command.words[0] == "cd")
        return found

    def _opened(self, redirect: Redirect, moved: bool) -> _Opened:
        path = redirect.path
        if path is None:
            return _Opened(Decision("ask", "a file that it opens is only known when it runs"), True)
        if moved and not os.path.isabs(path):
            return _Opened(Decision("ask", "a file that it opens depends on where cd leads"), True)
        full = os.path.normpath(os.path.join(self._places.root, path))
        if _OF_A_PROCESS.match(full) or (moved and os.path.realpath(full) != full):
            said = "a file that it opens depends on the process that opens it"
            return _Opened(Decision("ask", said), True)
        if path.startswith(("@", "~")):  # of which the tools make more than the shell
            path = os.path.join(self._places.root, path)
        return _Opened(self._decide_file(redirect.kind, path), False)

    def _each(self, line: CommandLine, redirects: list[_Opened]) -> Decision:
        """Allowed if every single command is, and every file that is opened."""
        unclear = _unclear(line)
        if unclear:
            return Decision("ask", f"it is not clear what it runs: {unclear}")
        if not line.commands:
            return Decision("ask", "it runs nothing")
        used: Rule | None = None
        moved = False
        for command in line.commands:
            name = command.words[0] if command.words else None
            if moved and name is not None and "/" in name and not os.path.isabs(name):
                return Decision("ask", f"which {name!r} it runs depends on where cd leads")
            if moved and name == "git":
                return Decision("ask", "which repository git reads its orders from depends on cd")
            rule = next((r for r in self._bash_rules("allow") if _allows(r, command)), None)
            if rule is None and name is not None and not self._is_step_inside(command, moved):
                return Decision("ask", f"no rule allows {' '.join(map(_shown, command.words))!r}")
            used = used or rule
            moved = moved or name == "cd"
        asked = next((o.decision for o in redirects if o.decision.effect != "allow"), None)
        if asked is not None:
            return asked
        if used is None:
            return Decision("allow", "it stays in the workspace")
        return _ruled(used)

    def _is_step_inside(self, command: Command, moved: bool) -> bool:
        """A plain `cd` into the workspace, which reads nothing and writes nothing."""
        if len(command.words) != 2 or command.words[0] != "cd":
            return False
        path = command.words[1]
        if path is None or path.startswith(("-", "~", "@")) or ".." in path.split("/"):
            return False
        if moved and not os.path.isabs(path):
            return False
        return self._decide_file("ls", path).effect == "allow"


def _unclear(line: CommandLine) -> str:
    """Why it is not known what *line* runs; empty if it is."""
    return line.unclear or next((c.unclear for c in line.commands if c.unclear), "")


def _ruled(rule: Rule) -> Decision:
    verb = {"allow": "allows", "deny": "denies", "ask": "asks before"}[rule.effect]
    where = f" ({rule.where})" if rule.where else ""
    return Decision(rule.effect, f"the rule {str(rule)!r}{where} {verb} it", rule)


def _is_same(rule: Rule, text: str) -> bool:
    return rule.pattern is not None and command_pattern(rule.pattern).equals(text)


def _allows(rule: Rule, command: Command) -> bool:
    return rule.pattern is not None and command_pattern(rule.pattern).allows(command)


def _catches(rule: Rule, line: CommandLine, text: str) -> Match:
    if rule.pattern is None or _is_same(rule, text):
        return "yes"
    pattern = command_pattern(rule.pattern)
    matches = {pattern.catches(command) for command in line.commands}
    return "yes" if "yes" in matches else "maybe" if "maybe" in matches else "no"


def _middle_cut(path: str) -> str:
    return path if len(path) <= 400 else f"{path[:200]}…{path[-200:]}"


def _shown(word: str | None) -> str:
    return "…" if word is None else word[:200]
