"""`loopwright keys set | list | remove`: the user's file of keys. None is ever shown."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime

from ...errors import ConfigurationError, ModelNotFound
from ...models import Provider
from ...models.addresses import look_up
from ...models.credentials import credential_file
from ..exit_codes import ExitCode
from ..streams import Output, print_error, print_note
from .known import known_models

__all__ = ["list_keys", "remove_key", "set_key"]


def set_key(provider_id: str) -> ExitCode:
    """Keep a key, which is asked for without showing it, or read from standard input."""
    provider = _provider(provider_id)
    if provider.key_hint:
        print_note(f"{provider.display_name}: {provider.key_hint}")
    key = _read_key(provider)
    if not key or any(character.isspace() or not character.isprintable() for character in key):
        print_error(
            "that is no key: it is empty, or has spaces in it",
            hint=f"loopwright keys set {provider.id} < file-with-the-key",
        )
        return ExitCode.USAGE
    file = credential_file()
    file.set_key(provider.id, key)
    print_note(f"the key for {provider.display_name} is kept in {file.path}")
    found = look_up(provider.env)
    if found is not None:
        print_note(f"but {found.name} is set, which comes before it")
    return ExitCode.DONE


def list_keys() -> ExitCode:
    """Print for which vendors something is kept."""
    file = credential_file()
    output = Output(sys.stdout)
    for name in file.names():
        token = file.token(name)
        what = "key" if file.key(name) else "token"
        if token is not None and token.expires_at is not None:
            what += f", renewed after {datetime.fromtimestamp(token.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
        output.write(f"{name}  {what}\n")
    return ExitCode.DONE


def remove_key(provider_id: str) -> ExitCode:
    """Forget what is kept for a vendor."""
    file = credential_file()
    if not file.remove(provider_id):
        kept = ", ".join(file.names())
        print_error(
            f"nothing is kept for {provider_id!r}",
            hint=f"there is something for: {kept}" if kept else f"{file.path} holds nothing",
        )
        return ExitCode.FAILED
    print_note(f"what was kept for {provider_id} is removed from {file.path}")
    return ExitCode.DONE


def _provider(provider_id: str) -> Provider:
    models = known_models()
    provider = models.get_provider(provider_id)
    if provider is None:
        import difflib

        near = difflib.get_close_matches(provider_id, models.provider_ids(), n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "loopwright models --providers"
        raise ModelNotFound(f"no provider is named {provider_id!r}", hint=hint)
    if not provider.needs_key and not provider.env and not provider.identities:
        raise ConfigurationError(f"{provider.display_name} needs no key")
    return provider


def _read_key(provider: Provider) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"key for {provider.display_name} (not shown): ").strip()
    # A file may have a newline behind the key, but no second line.
    return "" if sys.stdin is None else sys.stdin.read().strip()
