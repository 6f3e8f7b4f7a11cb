"""Which commands a line of bash would run, or that it is not clear.                         (pure)

A recognizer for the part of bash that people and models write every day: lists and pipelines,
quotes, redirections, here-documents, substitutions, groups. It knows when to give up: whatever is
not on its short list (loops, functions, arithmetic, `$'...'`, `${x:-...}`, odd blanks, a backslash
at the end of a line in an odd place, ...) is `unclear`, and nobody takes a guess at it. To be
believed is only what it says is run; tests/permissions hold that against the real bash.

It is stricter than bash where shells differ, since the tool falls back to `sh` where there is no
bash, and since bash 3.2 is still what macOS has.

Not here: programs that start others (launchers.py), what is allowed (command_rules.py, policy.py).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .command_line import Command, CommandLine, Redirect
from .launchers import is_harmless_variable, look_behind
from .named_files import names_in

__all__ = ["parse_command_line"]

MOST_CHARACTERS = 64 * 1024
MOST_COMMANDS = 500
DEEPEST = 20
"""Levels of substitutions and groups, which each take a level of the stack."""

_META = frozenset(" \t\n;&|()<>")
_RESERVED = frozenset(
    {
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "in",
        "[[",
        "]]",
        "coproc",
    }
)
_DELIMITER = re.compile(
    r"(?P<quote>['\"]?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)(?=[\s;&|()<>]|$)"
)
_REDIRECT = re.compile(r"(?P<fd>[0-9]*)(?P<operator><<<|<<-|<<|<&|<>|<|>>|>&|>\||>|&>>|&>)")
_OTHER_FD = re.compile(r"(?:[0-9]{1,2}-?|-)(?=[\s;&|()<>]|$)")
_PARAMETER = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]|\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+)\}"
)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\+?=")
_EXPANDED_IN_DOCUMENT = re.compile(r"`|\$[({\[]|\\$")
_PLAIN_NAME = re.compile(r"[A-Za-z_./][A-Za-z0-9_./+-]*")
_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


def parse_command_line(text: str) -> CommandLine:
    """The commands that bash would run for *text*. Never raises."""
    return _parse(text, 0)


def _parse(text: str, depth: int) -> CommandLine:
    reader = _Reader(text, depth)
    try:
        reader.check_characters()
        reader.read_script("")
    except _Unclear as unclear:
        return CommandLine(tuple(reader.commands), str(unclear))
    return CommandLine(tuple(reader.commands))


class _Unclear(Exception):
    """This is as far as the recognizer goes."""


@dataclass(slots=True)
class _Word:
    raw: str
    """As it stands there, quotes included."""
    text: str | None
    is_substitution: bool
    """It is one `<(...)` or `>(...)` and nothing else."""


@dataclass(slots=True)
class _Document:
    """A here-document whose body is still to come."""

    delimiter: str
    strip_tabs: bool
    quoted: bool


class _Reader:
    """Reads a text from left to right, once."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.commands: list[Command] = []
        self._documents: list[_Document] = []
        self._substitutions = 0

    def check_characters(self) -> None:
        """What looks like one thing and is another, to the eye or to some shell."""
        if len(self.text) > MOST_CHARACTERS:
            raise _Unclear(f"it is longer than {MOST_CHARACTERS:,} characters")
        if self.text.isascii() and self.text.isprintable():
            return
        for character in self.text:
            if character in "\n\t " or " " < character < "\x7f":
                continue
            # Controls, invisible marks, unpaired surrogates; every blank but the three above.
            if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp"):
                raise _Unclear(f"it holds the character U+{ord(character):04X}")

    # -- lists, groups -------------------------------------------------------------------------

    def read_script(self, closer: str) -> None:
        """Read commands up to *closer*: `)`, `}`, or empty for the end of the text."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unclear("it is nested too deeply")
        needed = True  # a command must come: after `&&`, `|`, `(`
        while True:
            self._skip_blanks()
            here = self._peek()
            if here == "\n":
                self._end_line()
            elif here == "":
                if closer or self._documents:
                    raise _Unclear("something is left open at its end")
                if needed and self.commands:
                    raise _Unclear("a command is missing at its end")
                break
            elif here == closer == ")" or (closer == "}" and self._at_word("}")):
                if needed:
                    raise _Unclear("a group is empty")
                self.at += 1
                break
            else:
                self._read_command()
                needed = self._read_separator(closer)
        self.depth -= 1

    def _read_separator(self, closer: str) -> bool:
        """Go over what ends a command. True if another one must follow."""
        self._skip_blanks()
        for operator in ("&&", "||", "|&", "|", ";", "&", "\n"):
            if self.text.startswith(operator, self.at):
                if operator == "\n":
                    self._end_line()
                    return False
                self.at += len(operator)
                if self._peek() in tuple("&|;"):
                    raise _Unclear(f"{operator}{self._peek()} is not known")
                return operator not in (";", "&")
        if self._peek() == "" or (closer == ")" and self._peek() == ")"):
            return False
        raise _Unclear(f"{self._peek()!r} is not expected there")

    def _end_line(self) -> None:
        if self._documents and self._substitutions:
            raise _Unclear("a line ends within a substitution before a here-document")
        self.at += 1
        documents, self._documents = self._documents, []
        for document in documents:
            self._skip_document(document)

    def _skip_document(self, document: _Document) -> None:
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = end + 1
            if (line.lstrip("\t") if document.strip_tabs else line) == document.delimiter:
                return
            if not document.quoted and _EXPANDED_IN_DOCUMENT.search(line):
                raise _Unclear("something is expanded in a here-document")
        raise _Unclear("a here-document has no end")

    def _read_command(self) -> None:
        while self._at_word("!") or self._at_word("time"):
            self.at += 1 if self._peek() == "!" else 4
            self._skip_blanks()
            if self._at_word("-p"):
                self.at += 2
                self._skip_blanks()
        here = self._peek()
        if here == "(" and not self.text.startswith("((", self.at):
            self.at += 1
            self.read_script(")")
            self._finish([], group=True)
        elif self._at_word("{"):
            self.at += 1
            self.read_script("}")
            self._finish([], group=True)
        elif here in ("(", ")", "&", "|", ";", ""):
            if here == "&" and _REDIRECT.match(self.text, self.at):
                self._finish([])
                return
            raise _Unclear("a command is missing" if here != "(" else "(( is not known")
        else:
            self._finish(self._read_words())

    # -- one command ---------------------------------------------------------------------------

    def _read_words(self) -> list[_Word]:
        """The first word of a command, if it has one before its redirections."""
        if _REDIRECT.match(self.text, self.at) and not self._at_substitution():
            return []
        word = self._read_word()
        if word.raw in _RESERVED or word.raw == "}":
            raise _Unclear(f"{word.raw!r} is not known")
        return [word]

    def _finish(self, words: list[_Word], *, group: bool = False) -> None:
        """Read on to the end of the command that began with *words*, and note it."""
        redirects: list[Redirect] = []
        closed = False  # after `&>` another shell would begin a new command
        while True:
            self._skip_blanks()
            here = self._peek()
            found = _REDIRECT.match(self.text, self.at)
            if found and not self._at_substitution():
                closed = closed or found["operator"].startswith("&")
                self._read_redirect(found, redirects)
            elif here in ("", "\n", ";", "&", "|", ")"):
                break
            elif here == "(" or group or closed:
                raise _Unclear(f"{here!r} is not expected there")
            else:
                words.append(self._read_word())
        self._note(words, redirects)

    def _note(self, words: list[_Word], redirects: list[Redirect]) -> None:
        unclear = ""
        count = 0
        for word in words:
            found = _ASSIGNMENT.match(word.raw)
            if found is None:
                break
            value = None if word.text is None else word.text[found.end() :]
            if "+" in found[0] or not is_harmless_variable(found["name"], value):
                unclear = f"it sets {found['name']}, which may change what a program does"
            count += 1
        spoken = tuple(word.text for word in words[count:])
        behind, reason = look_behind(spoken)
        unclear = unclear or reason
        if unclear and self.depth < DEEPEST:
            # Nothing here is allowed any more; a ban on what is in `sh -c "..."` should see it.
            for text in spoken[1:]:
                if text is not None and " " in text:
                    self.commands += _parse(text, self.depth + 1).commands
        if len(self.commands) > MOST_COMMANDS:
            raise _Unclear(f"it has more than {MOST_COMMANDS} commands")
        if spoken or words or redirects:
            names = tuple(
                name for word in words[count + 1 :] for name in names_in(word.raw, word.text)
            )
            self.commands.append(
                Command(behind, spoken, tuple(redirects), unclear, bare=count == 0, names=names)
            )

    def _read_redirect(self, found: re.Match[str], redirects: list[Redirect]) -> None:
        operator, fd = found["operator"], found["fd"]
        if len(fd) > 2 or (fd and operator.startswith("&")):
            raise _Unclear("a number before a redirection is not plain")
        self.at = found.end()
        self._skip_blanks()
        if operator in ("<<", "<<-"):
            self._read_delimiter(operator)
            return
        other = _OTHER_FD.match(self.text, self.at)
        if operator in (">&", "<&") and other:
            self.at = other.end()
            return
        if operator == "<&" or (operator == ">&" and fd):
            raise _Unclear(f"what {fd}{operator} stands for is not clear")
        if (self._peek() in _META and not self._at_substitution()) or self._peek() == "":
            raise _Unclear(f"{operator} has nothing behind it")
        word = self._read_word()
        if operator == ">&" and not _PLAIN_NAME.fullmatch(word.raw):
            # bash expands this one twice: >& '$(rm x)' runs rm, quoted as it is. And to bash
            # >&-rm is >&- and then rm.
            raise _Unclear(">& is not given a plain name")
        if operator == "<<<" or word.is_substitution or word.text in _SINKS:
            return
        if operator in ("<", "<>"):
            redirects.append(Redirect("read", word.text))
        if operator != "<":
            redirects.append(Redirect("write", word.text))

    def _read_delimiter(self, operator: str) -> None:
        found = _DELIMITER.match(self.text, self.at)
        if found is None or self._substitutions:
            raise _Unclear("a here-document is not plain")
        self.at = found.end()
        self._documents.append(
            _Document(found["name"], operator == "<<-", quoted=bool(found["quote"]))
        )

    # -- one word ------------------------------------------------------------------------------

    def _read_word(self) -> _Word:
        begin = self.at
        pieces: list[str] = []
        known = True
        substitution = 0
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in "<>" and self._at_substitution():
                if self.at == begin:
                    substitution = 1
                self.at += 2
                self._read_substitution()
                known = False
                if substitution == 1:
                    substitution = self.at
            elif here in _META:
                break
            elif here == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise _Unclear("a quote is left open")
                pieces.append(self.text[self.at + 1 : end])
                self.at = end + 1
            elif here == '"':
                self.at += 1
                known = self._read_double_quoted(pieces) and known
            elif here == "\\":
                if self.text[self.at + 1 : self.at + 2] in ("", "\n"):
                    raise _Unclear("a backslash ends a line in the middle of a word")
                pieces.append(self.text[self.at + 1])
                self.at += 2
            elif here == "`":
                self._read_backticks(quoted=False)
                known = False
            elif here == "$":
                known = self._read_dollar(pieces, quoted=False) and known
            else:
                # What stands for file names, a home or several words is not known before it runs.
                if here in "*?{" or (here == "[" and not (self.at == begin and self._at_word("["))):
                    known = False
                if here == "~" and (self.at == begin or self.text[self.at - 1] in ":="):
                    known = False
                pieces.append(here)
                self.at += 1
        raw = self.text[begin : self.at]
        if raw.startswith("{") and self._peek() in ("<", ">"):
            raise _Unclear("a redirection sets a variable")
        if self._documents and "\n" in raw:
            raise _Unclear("a line ends within a word before a here-document")
        return _Word(raw, "".join(pieces) if known else None, substitution == self.at)

    def _read_double_quoted(self, pieces: list[str]) -> bool:
        """Read to the closing quote. False if what is in there is only known when it runs."""
        known = True
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == '"':
                self.at += 1
                return known
            if here == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following == "\n":
                    raise _Unclear("a backslash ends a line within quotes")
                pieces.append(following if following in tuple('$`"\\') else "\\" + following)
                self.at += 2
            elif here == "`":
                self._read_backticks(quoted=True)
                known = False
            elif here == "$":
                known = self._read_dollar(pieces, quoted=True) and known
            else:
                pieces.append(here)
                self.at += 1
        raise _Unclear("a quote is left open")

    def _read_dollar(self, pieces: list[str], *, quoted: bool) -> bool:
        """Read what begins with `$`. False if its value is only known when it runs."""
        self.at += 1
        here = self._peek()
        if here == "(":
            if self.text.startswith("((", self.at):
                raise _Unclear("it calculates")
            self.at += 1
            self._read_substitution()
            return False
        found = _PARAMETER.match(self.text, self.at)
        if found:
            self.at = found.end()
            return False
        if here in ("{", "[", "\\") or (here in ("'", '"') and not quoted):
            raise _Unclear(f"${here} is not known")
        pieces.append("$")
        return True

    def _read_substitution(self) -> None:
        self._substitutions += 1
        self.read_script(")")
        self._substitutions -= 1

    def _read_backticks(self, *, quoted: bool) -> None:
        end = self.text.find("`", self.at + 1)
        inner = self.text[self.at + 1 : end]
        # What a backslash means in there depends on what is around it, and on the shell.
        if end < 0 or "\\" in inner or "#" in inner or "<<" in inner or (quoted and '"' in inner):
            raise _Unclear("what is between the backticks is not plain")
        line = _parse(inner, self.depth + 1)
        self.commands += line.commands
        if line.unclear:
            raise _Unclear(line.unclear)
        self.at = end + 1

    # -- characters ----------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _at_word(self, word: str) -> bool:
        """Whether the very word *word* stands here, without quotes."""
        end = self.at + len(word)
        return self.text.startswith(word, self.at) and (
            end == len(self.text) or self.text[end] in _META
        )

    def _at_substitution(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _skip_blanks(self) -> None:
        """Go over blanks, a comment, and a backslash that joins two lines between two words."""
        while True:
            here = self._peek()
            if here in (" ", "\t"):
                self.at += 1
            elif here == "\\" and self.text.startswith("\\\n", self.at):
                if self.at == 0 or self.text[self.at - 1] not in " \t" or self._documents:
                    raise _Unclear("a backslash ends a line right behind a word")
                self.at += 2
            elif here == "#":
                if self._substitutions:
                    raise _Unclear("there is a comment within a substitution")
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                return
            else:
                return
