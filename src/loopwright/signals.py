"""Telling running work to stop: one controller, any number of readers of its signal.

A signal can be looked at, waited for, or given callbacks. Aborting works from any thread: a
callback registered inside an event loop is run in that loop. Nothing here cancels a task; the
loop does that, and only to awaits of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from .errors import Aborted

__all__ = ["AbortController", "AbortSignal"]

_log = logging.getLogger("loopwright")
_Callback = Callable[[], object]


class AbortSignal:
    """Whether, and why, work should stop. Read only; an `AbortController` fires it, once.

    `aborted` is True from the moment it fired, and `reason` is what was given to `abort`. They
    are plain attributes because the loop looks at one of them for every event.
    """

    __slots__ = ("_callbacks", "_lock", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        self.reason: object = None
        self._callbacks: dict[object, tuple[_Callback, asyncio.AbstractEventLoop | None]] = {}
        self._lock = threading.Lock()

    def throw_if_aborted(self) -> None:
        """Raise `Aborted` if the signal has fired; for loops that do not await."""
        if self.aborted:
            raise Aborted(self.reason)

    def on_abort(self, callback: _Callback) -> Callable[[], None]:
        """Call *callback* when the signal fires, or now if it has. Returns what unregisters it.

        Registered inside a running event loop it is called in that loop's thread, whichever
        thread aborts. An exception it raises is logged and stops nothing.
        """
        key = object()
        with self._lock:
            if not self.aborted:
                self._callbacks[key] = (callback, _running_loop())
                return lambda: self._forget(key)
        _call(callback)
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    async def wait(self) -> object:
        """Return the reason once the signal has fired."""
        if not self.aborted:
            fired = asyncio.get_running_loop().create_future()

            def wake() -> None:
                if not fired.done():
                    fired.set_result(None)

            unregister = self.on_abort(wake)
            try:
                await fired
            finally:
                unregister()
        return self.reason

    def _fire(self, reason: object) -> None:
        with self._lock:
            if self.aborted:
                return
            self.aborted = True
            self.reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        here = _running_loop()
        for callback, loop in callbacks:
            if loop is None or loop is here:
                _call(callback)
            else:
                try:
                    loop.call_soon_threadsafe(_call, callback)
                except RuntimeError:  # that loop has ended, and its work with it
                    continue

    def __repr__(self) -> str:
        return f"<AbortSignal {'aborted' if self.aborted else 'open'}>"


class AbortController:
    """Owns a signal and may fire it. `abort` is synchronous, idempotent and thread-safe."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: object = None) -> None:
        """Fire the signal. The first reason stays; calling again does nothing."""
        self.signal._fire(reason)  # pyright: ignore[reportPrivateUsage]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _call(callback: _Callback) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - one failing callback must not keep the others from running
        _log.exception("a callback of an abort signal raised")
