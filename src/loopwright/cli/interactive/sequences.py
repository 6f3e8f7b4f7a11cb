"""Escape sequences that a terminal sends: which bytes belong to one, and which key it stands for.

A terminal sends reports (focus, colours, the mouse) in the same form as keys. A whole sequence is
taken off the input however it was cut, and one that stands for no key is dropped.

Not here: what the keys do (keys.py).
"""

from __future__ import annotations

import re
import time

__all__ = ["Sequences", "key_text"]

LONGEST = 64 * 1024
"""Characters after which a sequence without an end is given up."""

GIVE_UP_SECONDS = 1.0
"""A sequence that is not complete so long after its first byte is given up."""

NEW_LINE = "\n"

_STRINGS = "]PX^_"
"""What follows ESC at the beginning of OSC, DCS, SOS, PM and APC: all end with BEL or ST."""

_CANCELS = "\x03\x18\x1a"
"""Ctrl+C, and what ends a string early by the standard (CAN and SUB)."""

_COMPLETE = re.compile(
    r"\x1b(\[M...|\[\[.|\[[0-?]*[ -/]*(?!(?<=\x1b\[)[M\[])[@-~]|O[0-?]*[@-~])", re.S
)
_BEGUN = re.compile(r"\x1b(\[M.{0,2}|\[\[|\[[0-?]*[ -/]*|O[0-?]*)?", re.S)

_KEY = re.compile(r"\x1b\[(\d+)(?::(\d*))?[\d:]*(?:;(\d*)(?::(\d+))?(?:;([\d:]*))?)?u")
_OTHER_KEY = re.compile(r"\x1b\[27;(\d+);(\d+)~")
_WITH_EVENT = re.compile(r"\x1b\[(\d+);(\d+)(?::(\d+))?([A-Z~])")

_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
_RELEASE = "3"
_ENTER, _KEYPAD_ENTER = 13, 57414


class Sequences:
    """Takes characters one by one and puts the sequences among them together."""

    def __init__(self) -> None:
        self._held = ""
        self._length = 0
        self._began = 0.0

    def take(self, char: str) -> list[str]:
        """What is complete with *char*: characters, `ESC` and a character, or a whole sequence.
        Strings (OSC and its like) are dropped: none stands for a key."""
        if len(self._held) > 1 and time.monotonic() - self._began > GIVE_UP_SECONDS:
            self._held = ""
        if not self._held:
            if char != "\x1b":
                return [char]
            self._begin()
            return []
        self._length += 1
        if self._length > LONGEST:
            self._held = ""
            return []
        if self._held[1:2] and self._held[1] in _STRINGS:
            return self._take_of_string(char)
        held = self._held + char
        if _COMPLETE.fullmatch(held):
            self._held = ""
            return [held]
        if _BEGUN.fullmatch(held) or held[1] in _STRINGS:
            self._held = held
            return []
        if char == "\x1b":
            alone = self._held == "\x1b"
            self._begin()
            return ["\x1b"] if alone else []
        alone = self._held == "\x1b"
        self._held = ""
        return [held] if alone else [char]

    def flush(self) -> str:
        """An `ESC` that nothing followed, which is the key Esc; else nothing."""
        if self._held != "\x1b":
            return ""
        self._held = ""
        return "\x1b"

    def _begin(self) -> None:
        self._held, self._length, self._began = "\x1b", 1, time.monotonic()

    def _take_of_string(self, char: str) -> list[str]:
        if self._held[-1] == "\x1b" and char != "\\":
            self._begin()  # the string was cut off by the next sequence
            return self.take(char)
        if char == "\x1b":
            self._held += char
        elif char in "\x07\x9c\\" and (char != "\\" or self._held[-1] == "\x1b"):
            self._held = ""
        elif char in _CANCELS:
            self._held = ""
            return [char]
        return []


def key_text(sequence: str) -> str:
    """*sequence* as the plain characters, or the older sequence, for the same key: `ESC[99;5u` is
    Ctrl+C. Empty if the key has none, or was released. Enter with a modifier is a new line."""
    if found := _OTHER_KEY.fullmatch(sequence):
        return _plain(int(found[2]), int(found[1]))
    if found := _KEY.fullmatch(sequence):
        code, shifted, modifiers, event, text = found.groups()
        if event == _RELEASE:
            return ""
        return _plain(int(code), int(modifiers or 1), shifted or "", text or "")
    if found := _WITH_EVENT.fullmatch(sequence):
        number, modifiers, event, final = found.groups()
        if event == _RELEASE:
            return ""
        wanted = ((int(modifiers) - 1) & ~_LOCKS) + 1
        if wanted != 1:
            return f"\x1b[{number};{wanted}{final}"
        return f"\x1b[{number}~" if final == "~" else f"\x1b[{final}"
    return sequence


def _plain(code: int, modifiers: int, shifted: str = "", text: str = "") -> str:
    held = (modifiers - 1) & ~_LOCKS
    if held & ~(_SHIFT | _ALT | _CTRL):
        return ""
    if code in (_ENTER, _KEYPAD_ENTER):
        return NEW_LINE if held else "\r"
    if code == 9 and held == _SHIFT:
        return "\x1b[Z"
    if code in (9, 27, 127):
        key = chr(code)
    elif code > 0x10FFFF or not chr(code).isprintable():
        return ""
    elif held & _CTRL:
        key = chr(code).upper()
        if key == "/":
            key = "_"  # as terminals have always sent it
        if not (key == " " or "@" <= key <= "_"):
            return ""
        key = chr(ord(key) & 0x1F)
    elif text.isdecimal() and int(text) <= 0x10FFFF and chr(int(text)).isprintable():
        key = chr(int(text))
    elif held & _SHIFT:
        key = chr(int(shifted)) if shifted and int(shifted) <= 0x10FFFF else chr(code).upper()
    else:
        key = chr(code)
    return "\x1b" + key if held & _ALT else key
