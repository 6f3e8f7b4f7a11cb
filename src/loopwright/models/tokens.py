"""Keys that end: tokens that are renewed in time, by one caller for all who wait.

`refreshing(fetch)` is used as a provider's `api_key`. Within a process one fetch runs at a time,
whatever loops and tasks ask; with a name and the credential file also one among all processes of
the user, which then share the token. A token the vendor refuses is renewed once.

Not here: how a token is fetched (the caller, or identities.py), the file itself (credentials.py).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import AuthenticationFailed

if TYPE_CHECKING:
    from .credentials import CredentialFile

__all__ = ["RefreshingToken", "Token", "refreshing"]

RENEW_SECONDS_BEFORE_END = 300
"""A token is renewed so long before it ends, so that none ends in the middle of a request."""


class Token(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A secret that ends. Its text never shows what it holds."""

    value: str
    expires_at: float | None = None
    """Unix time in seconds; None: it does not say."""
    refresh: str | None = None
    """What the vendor wants to see for the next one, such as a refresh token."""

    def lasts(self, now: float, seconds: float = RENEW_SECONDS_BEFORE_END) -> bool:
        """Whether it can be used for at least *seconds* more."""
        return self.expires_at is None or self.expires_at - now > seconds

    def __repr__(self) -> str:
        return f"Token(expires_at={self.expires_at!r})"

    __str__ = __repr__


Fetch = Callable[[Token | None], Token | Awaitable[Token]]
"""Gets a new token. It is given the last one, if there was any, and may be an ordinary function,
which is then called in a thread."""


def refreshing(
    fetch: Fetch,
    *,
    name: str | None = None,
    file: CredentialFile | None = None,
    available: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.time,
) -> RefreshingToken:
    """A source of tokens for `Provider(api_key=...)`.

    With *name* the token is kept in the credential *file* (the user's, if none is given), and
    processes take turns in renewing it. *available* says, without asking anybody, whether a token
    could be had; `loopwright models` shows it.
    """
    return RefreshingToken(fetch, name=name, file=file, available=available, clock=clock)


class RefreshingToken:
    """See `refreshing`. Safe to use from several event loops and threads at once."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        name: str | None,
        file: CredentialFile | None,
        available: Callable[[], bool] | None,
        clock: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._name = name
        self._file = file
        self._available = available
        self._clock = clock
        self._lock = threading.Lock()  # held for moments only, never while something is awaited
        self._token: Token | None = None
        self._refused: str | None = None
        self._renewal: Future[None] | None = None

    def __repr__(self) -> str:
        return f"RefreshingToken(name={self._name!r})"

    def available(self) -> bool:
        """Whether a token could be had, as far as can be told without asking for one."""
        return self._available is None or self._available()

    async def __call__(self) -> str:
        """The present token, renewed if it ends soon. Raises what fetching raises."""
        while True:
            with self._lock:
                token = self._token
                if token is not None and self._usable(token):
                    return token.value
                renewal = self._renewal
                if renewal is None:
                    mine = self._renewal = Future[None]()
                    break
            # Whoever gives up waiting must not take the renewal away from the others.
            await asyncio.shield(asyncio.wrap_future(renewal))
        try:
            token = await self._renew(token)
        except BaseException as error:
            self._finish(mine, None, error)
            raise
        self._finish(mine, token, None)
        return token.value

    def refused(self, value: str) -> None:
        """The vendor does not take *value* any more: the next call gets another one."""
        with self._lock:
            self._refused = value

    def _usable(self, token: Token) -> bool:
        return token.value != self._refused and token.lasts(self._clock())

    def _finish(
        self, renewal: Future[None], token: Token | None, error: BaseException | None
    ) -> None:
        with self._lock:
            self._renewal = None
            if token is not None:
                self._token = token
        if isinstance(error, Exception):
            renewal.set_exception(error)
        else:  # done, or cancelled: then one of those who wait does it instead
            renewal.set_result(None)

    async def _renew(self, last: Token | None) -> Token:
        if self._name is None:
            return await self._fetched(last)
        file = self._file
        if file is None:
            from .credentials import credential_file

            file = credential_file()
        async with file.turn(self._name):
            stored = file.token(self._name)
            if stored is not None and self._usable(stored):
                return stored  # another process was quicker
            token = await self._fetched(stored or last)
            file.set_token(self._name, token)
            return token

    async def _fetched(self, last: Token | None) -> Token:
        if inspect.iscoroutinefunction(self._fetch):
            token: Any = await self._fetch(last)
        else:  # vendors' libraries wait, or start programs
            token = await asyncio.to_thread(self._fetch, last)
            if inspect.isawaitable(token):
                token = await token
        if not isinstance(cast("object", token), Token) or not token.value:
            raise AuthenticationFailed(
                f"no token came: {type(cast('object', token)).__name__} instead of a Token"
            )
        return cast("Token", token)
