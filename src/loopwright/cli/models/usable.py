"""Whether a model could be asked now: a key or an identity is there, and the packages are.

One answer for everything that offers models: `loopwright models`, `/model`, `models` over RPC.
Files and the environment are looked at; nobody is asked, so a key may still be refused.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ...models import Model, Models, Provider
from ...models.auth import KeyStatus, key_status
from ..extras import install_command

__all__ = ["key_of", "missing_package", "models_with_key"]

_SDKS = {
    "anthropic-messages": ("anthropic", "anthropic"),
    "bedrock-converse": ("botocore", "bedrock"),
    "google-gemini": ("httpx2", "google"),
    "mistral": ("openai", "openai"),
    "openai-chat": ("openai", "openai"),
    "openai-responses": ("openai", "openai"),
}
"""What a wire imports when it is first used -> the package, and the extra that brings it."""

_AWS_FILES = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AWS_CONFIG_FILE", "~/.aws/config"),
)
"""Variables that name a file, and where it is otherwise."""

_AWS_IDENTITY = (
    "aws_access_key_id",
    "credential_process",
    "login_session",
    "role_arn",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
)
"""What a profile has, one of them, that says who asks. Others name only a region, or a format."""


def key_of(provider: Provider, api: str | None = None) -> KeyStatus:
    """Whether *provider* can be asked through the wire *api*, its first one unless said; and where
    the key comes from, or what is missing."""
    if provider.ready is not None and not provider.ready():
        return KeyStatus(False, install_command(provider.id))
    status = _key_status(provider)
    if status.present and (missing := missing_package(provider, api or provider.api)) is not None:
        return KeyStatus(False, install_command(missing[1]))
    return status


def missing_package(provider: Provider, api: str) -> tuple[str, str] | None:
    """The package that *api* needs and that is not installed, and the extra that brings it."""
    if provider.stream is not None or api not in _SDKS:
        return None
    package, extra = _SDKS[api]
    return (package, extra) if find_spec(package) is None else None


def models_with_key(models: Models) -> Iterator[Model]:
    """Every listed model that could be asked, but for those that are about to end."""
    for provider_id in models.provider_ids():
        provider = models.get_provider(provider_id)
        if provider is None or provider.retired:
            continue
        is_ready = provider.ready is None or provider.ready()
        if not is_ready or not _key_status(provider).present:
            continue
        for model in provider.known_models():
            if model.deprecated_on is None and missing_package(provider, model.api) is None:
                yield model


def _key_status(provider: Provider) -> KeyStatus:
    status = key_status(provider)
    if not status.present and provider.api == "bedrock-converse":
        return _aws_files() or status
    return status


def _aws_files() -> KeyStatus | None:
    """The identity that AWS's own programs would take without being told of one."""
    for variable, usual in _AWS_FILES:
        file = Path(os.environ.get(variable, "").strip() or usual).expanduser()
        parser = configparser.RawConfigParser(default_section="", strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (OSError, configparser.Error, UnicodeDecodeError):
            continue
        if parser.has_section("default") and any(
            parser.has_option("default", name) for name in _AWS_IDENTITY
        ):
            return KeyStatus(
                True, usual if str(file) == str(Path(usual).expanduser()) else variable
            )
    return None
