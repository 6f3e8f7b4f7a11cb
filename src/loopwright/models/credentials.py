"""The file with the user's keys: readable by its owner alone, written whole or not at all.

It is `credentials.json` in `$LOOPWRIGHT_HOME`, else in the user's configuration folder. Whoever
changes it holds a lock that other processes respect, writes a new file beside it, and puts that in
its place. A file that others could read or have put there is refused, with the command that mends
it; a symbolic link is never followed.

Not here: who is asked for which key, and in what order (auth.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import AsyncGenerator, Generator
from functools import cache
from pathlib import Path

import msgspec

from ..errors import ConfigurationError
from ..whole_file import write_whole_file
from .tokens import Token

__all__ = ["CredentialFile", "credential_file", "credentials_path"]

LOCK_SECONDS = 30.0
"""How long another process may hold the lock before that is an error."""
LOOK_AGAIN_SECONDS = 0.05
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


class _Entry(msgspec.Struct, omit_defaults=True):
    """What is kept for one vendor."""

    key: str | None = None
    token: Token | None = None

    def __repr__(self) -> str:
        return "_Entry()"


class _Content(msgspec.Struct, omit_defaults=True):
    version: int = 1
    vendors: dict[str, _Entry] = {}


class CredentialFile:
    """Keys and tokens by vendor. Each method reads what is there now, other processes' changes too.

    All raise `ConfigurationError` if the file cannot be used, OSError if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[tuple[int, ...], _Content] | None = None

    def key(self, vendor: str) -> str | None:
        """The key kept for *vendor*, None if there is none."""
        entry = self._read().vendors.get(vendor)
        return entry.key if entry is not None else None

    def token(self, vendor: str) -> Token | None:
        """The token kept for *vendor*, None if there is none."""
        entry = self._read().vendors.get(vendor)
        return entry.token if entry is not None else None

    def names(self) -> list[str]:
        """The vendors something is kept for."""
        return sorted(self._read().vendors)

    def set_key(self, vendor: str, key: str) -> None:
        """Keep *key* for *vendor*, in place of what there was."""
        self._change(vendor, _Entry(key=key))

    def set_token(self, vendor: str, token: Token) -> None:
        """Keep *token* for *vendor*, beside its key if there is one."""
        self._change(vendor, token)

    def remove(self, vendor: str) -> bool:
        """Forget what is kept for *vendor*. False if that is nothing."""
        return self._change(vendor, None)

    @contextlib.asynccontextmanager
    async def turn(self, name: str) -> AsyncGenerator[None]:
        """Be the only one, among all processes, inside this block for *name*; waits for its turn.

        Other names are not held up, nor are those who only read or write the file.
        """
        _check_name(name)
        descriptor = self._open_lock(f".{name}")
        try:
            end = time.monotonic() + LOCK_SECONDS
            while not _try_lock(descriptor):
                if time.monotonic() > end:
                    raise _held(self._lock_path(f".{name}"))
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            yield
        finally:
            os.close(descriptor)  # which gives the lock back

    # -- reading --------------------------------------------------------------------------------

    def _read(self) -> _Content:
        try:
            # Without waiting: a pipe in its place would never be opened.
            descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW | _CLOSE_ON_EXEC | _NO_WAIT)
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            raise self._unusable(error) from error
        try:
            found = os.fstat(descriptor)
            version = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)
            if self._known is not None and self._known[0] == version:
                return self._known[1]
            self._check(found)
            text = os.read(descriptor, found.st_size + 1)
        finally:
            os.close(descriptor)
        try:
            content = msgspec.json.decode(text, type=_Content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # What the decoder says might quote the file.
            raise ConfigurationError(
                f"{self.path} is not a file of keys",
                hint="mend it, or remove it and set the keys again",
            ) from None
        if content.version != 1:
            raise ConfigurationError(
                f"{self.path} has the format {content.version}, which is newer than this program"
            )
        self._known = (version, content)
        return content

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"{self.path} is no ordinary file")
        if sys.platform == "win32":  # the user's profile is theirs alone there
            return
        if found.st_uid != os.geteuid():
            raise ConfigurationError(f"{self.path} belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigurationError(
                f"{self.path} can be read by others", hint=f"chmod 600 {self.path}"
            )

    def _unusable(self, error: OSError) -> ConfigurationError:
        if self.path.is_symlink():
            return ConfigurationError(
                f"{self.path} is a symbolic link, which is not followed",
                hint="put the file itself there",
            )
        return ConfigurationError(f"{self.path} cannot be read: {error.strerror}")

    # -- writing --------------------------------------------------------------------------------

    def _change(self, vendor: str, new: _Entry | Token | None) -> bool:
        _check_name(vendor)
        with self._locked():
            before = self._read().vendors
            vendors = dict(before)
            if new is None:
                if vendors.pop(vendor, None) is None:
                    return False
            elif isinstance(new, Token):
                kept = before.get(vendor)
                vendors[vendor] = _Entry(key=kept.key if kept is not None else None, token=new)
            else:
                vendors[vendor] = new
            self._write(_Content(vendors=vendors))
        return True

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        descriptor = self._open_lock("")
        try:
            end = time.monotonic() + LOCK_SECONDS
            while not _try_lock(descriptor):
                if time.monotonic() > end:
                    raise _held(self._lock_path(""))
                time.sleep(LOOK_AGAIN_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _lock_path(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.name}{kind}.lock")

    def _open_lock(self, kind: str) -> int:
        """A file of its own: the one with the keys is replaced by every change."""
        self._make_folder()
        flags = os.O_RDWR | os.O_CREAT | _NO_FOLLOW | _CLOSE_ON_EXEC
        try:
            return os.open(self._lock_path(kind), flags, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{self._lock_path(kind)} cannot be used as a lock: {error.strerror}"
            ) from error

    def _make_folder(self) -> None:
        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = folder.stat()
        except OSError as error:
            raise ConfigurationError(f"{folder} cannot be used: {error.strerror}") from error
        if sys.platform != "win32" and mode.st_mode & 0o022:
            raise ConfigurationError(
                f"others may put files into {folder}, so no keys are kept there",
                hint=f"chmod go-w {folder}",
            )

    def _write(self, content: _Content) -> None:
        text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        write_whole_file(self.path, text)
        _sync_folder(self.path.parent)


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _sync_folder(folder: Path) -> None:
    """So that the change of names survives a power cut; some systems cannot do it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _held(lock: Path) -> ConfigurationError:
    return ConfigurationError(
        f"another process holds {lock} since {LOCK_SECONDS:g} s",
        hint="see what it is doing; the lock ends with it",
    )


def _check_name(name: str) -> None:
    """It becomes part of a file's name."""
    if not _NAME.fullmatch(name) or name.strip(".") == "":
        raise ConfigurationError(f"no provider can be named {name!r}")


def credentials_path() -> Path:
    """Where the user's file is, whether or not it exists."""
    home = os.environ.get("LOOPWRIGHT_HOME", "").strip()
    if home:
        return Path(home) / "credentials.json"
    # The XDG specification says to ignore a relative path.
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".config"
    return base / "loopwright" / "credentials.json"


def credential_file() -> CredentialFile:
    """The user's file. Says nothing about whether it exists."""
    return _file(credentials_path())


@cache
def _file(path: Path) -> CredentialFile:
    return CredentialFile(path)
