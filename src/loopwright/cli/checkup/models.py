"""Keys, never shown; and the model that a run would ask.

Nobody is asked anything, unless `--ask` is given.
"""

from __future__ import annotations

import asyncio
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ConfigurationError
from ...models.credentials import credential_file, credentials_path
from ..places import (
    model_from_environment,
    project_models_file,
    shown_path,
    user_models_file,
)
from .lines import Checked, Learned

if TYPE_CHECKING:
    from ...models import Model, Models

__all__ = ["check_asking", "check_keys", "check_model", "check_models_files"]

ASK_SECONDS = 60.0
QUESTION = "Reply with the word: yes"


def check_models_files(learned: Learned) -> Iterator[Checked]:
    """The servers of extensions, of the user, and of the project if it is trusted."""
    from ...models import default_models
    from ..models.known import add_known

    models = learned.models = default_models()
    if learned.extensions is not None:
        for extension in learned.extensions.extensions:
            for provider in extension.providers:
                models.add(provider)
    notes: list[str] = []
    trusted = learned.trusted
    learned.default_model = add_known(models, trusted=trusted, tell=notes.append).default
    files = [user_models_file(), *([project_models_file()] if trusted else [])]
    read = [shown_path(file) for file in files if file.exists()]
    if read:
        yield Checked("models", "ok", f"read: {', '.join(read)}")
    yield from (Checked("models", "note", note) for note in notes)


def check_keys(learned: Learned) -> Iterator[Checked]:
    """Which vendors have a key, and from where; and who else could read it."""
    models = learned.models
    yield from _check_files()
    if models is None:
        return
    # One fault of the file of keys would be the answer for every vendor.
    credential_file().names()
    from ...models.auth import key_status

    found: list[str] = []
    for provider_id in models.provider_ids():
        provider = models.get_provider(provider_id)
        if provider is None or provider.retired:
            continue
        status = key_status(provider)
        if status.present and status.source:
            found.append(f"{provider.display_name} ({status.source})")
    if found:
        yield Checked("keys", "ok", f"there are some for {', '.join(found)}")
    else:
        yield Checked(
            "keys",
            "note",
            "no vendor has a key",
            "loopwright keys set PROVIDER; `--model local` needs none",
        )


def _check_files() -> Iterator[Checked]:
    if sys.platform == "win32":  # the user's profile is theirs alone there
        return
    file = user_models_file()
    if _is_open_to_others(file, stat.S_IRWXG | stat.S_IRWXO) and _has_keys(file):
        yield Checked(
            "keys",
            "warning",
            f"{shown_path(file)} has a key in it and can be read by others",
            f"chmod 600 {shown_path(file)}",
        )
    folder = credentials_path().parent
    if _is_open_to_others(folder, stat.S_IWGRP | stat.S_IWOTH):
        yield Checked(
            "keys",
            "warning",
            f"others may put files into {shown_path(folder)}, where keys are kept",
            f"chmod go-w {shown_path(folder)}",
        )


def _is_open_to_others(path: Path, bits: int) -> bool:
    try:
        return bool(path.stat().st_mode & bits)
    except OSError:
        return False


def _has_keys(file: Path) -> bool:
    try:
        return b"api_key" in file.read_bytes() or b"uthorization" in file.read_bytes()
    except OSError:
        return False


# -- the model -------------------------------------------------------------------------------


def check_model(learned: Learned) -> Iterator[Checked]:
    """The model that a run would take without `--model`. Raises `ConfigurationError` if it cannot
    be asked."""
    from ..models.choice import choose_model

    models, settings = learned.models, learned.settings
    if models is None or settings is None:  # which model is meant stands there
        return
    said = settings.settings.model
    found = learned.chosen = choose_model(
        models,
        option=None,
        environment=model_from_environment(),
        default=said or learned.default_model,
        user_file=user_models_file(),
    )
    if said is not None:
        source = settings.source_of("model")
    else:
        source = shown_path(user_models_file())
    model = found.model
    level = f":{found.thinking_level}" if found.thinking_level else ""
    yield Checked("model", "ok", f"{model.provider}/{model.id}{level} ({source})")
    if model.deprecated_on is not None:
        then = f"; use {model.successor}" if model.successor else ""
        yield Checked("model", "warning", f"its vendor gives it up on {model.deprecated_on}{then}")
    if model.provider == "local":
        yield from _check_weights()


def _check_weights() -> Iterator[Checked]:
    from ...models.local.model_file import (
        FILE_BYTES,
        FILE_NAME,
        cache_folder,
        named_model_file,
    )

    named = named_model_file()
    file = named or cache_folder() / "models" / FILE_NAME
    if file.is_file():
        yield Checked("model", "ok", f"its weights are in {shown_path(file)}")
    elif named is not None:
        yield Checked("model", "problem", f"LOOPWRIGHT_LOCAL_MODEL names {named}, which is no file")
    else:
        size = FILE_BYTES // 1_000_000
        yield Checked("model", "note", f"its weights ({size} MB) are fetched when it is first used")


def check_asking(learned: Learned) -> Iterator[Checked]:
    """With `--ask`, ask the model something tiny, which costs a few tokens."""
    models, chosen = learned.models, learned.chosen
    if not learned.ask or models is None or chosen is None:
        return
    began = time.monotonic()
    wrong = asyncio.run(_asked(models, chosen.model))
    took = time.monotonic() - began
    if wrong is None:
        yield Checked("model", "ok", f"it answered in {took:.1f} s")
    else:
        yield Checked("model", "problem", f"it did not answer ({took:.1f} s): {wrong[0]}", wrong[1])


async def _asked(models: Models, model: Model) -> tuple[str, str | None] | None:
    """What went wrong, and what to do; None if it answered."""
    from ...messages import UserMessage
    from ...models import Context

    provider = models.get_provider(model.provider)
    context = Context(messages=[UserMessage(QUESTION)])
    try:
        async with asyncio.timeout(ASK_SECONDS), models:
            if provider is not None and provider.prepare is not None:
                await provider.prepare()
            reply = await models.complete(model, context, max_tokens=200, max_retries=0)
    except TimeoutError:
        return f"nothing came within {ASK_SECONDS:g} s", "check the network, and the vendor's state"
    except ConfigurationError as error:
        return error.message, error.hint
    if reply.stop_reason in ("error", "aborted"):
        message, _, hint = (reply.error_message or "it failed").partition("\nhint: ")
        return message, hint or None
    return None
