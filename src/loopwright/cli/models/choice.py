"""Which model the command asks, and whether that can work; all before anything is run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...errors import ConfigurationError, MissingExtra, MissingKey, ModelNotFound
from ...models import Model, Models, Provider, ThinkingLevel
from ...models.auth import key_status
from ..extras import install_command
from ..places import MODEL_VARIABLE
from .usable import missing_package

__all__ = ["Chosen", "choose_model"]


class Chosen(NamedTuple):
    """A model that can be asked, and how hard it shall think."""

    model: Model
    thinking_level: ThinkingLevel | None


def choose_model(
    models: Models,
    *,
    option: str | None,
    environment: str | None,
    default: str | None,
    user_file: Path,
) -> Chosen:
    """The model named by the option, else by the environment, else by the user's file.

    Raises `ConfigurationError`: nothing was named, no such model, no key for it, or a package is
    missing. Each says what to do.
    """
    reference = option or environment or default
    if reference is None:
        raise _nothing_chosen(models)
    try:
        model, level = models.resolve_with_level(reference)
    except ModelNotFound as error:
        source = MODEL_VARIABLE if environment else _short(user_file)
        where = "" if option else f" ({source} says so)"
        # How a program adds one is of no use here.
        hint = (error.hint or "").partition("; add another with")[0]
        raise ModelNotFound(
            f"{error.message}{where}",
            hint=f"{hint}\nservers of your own go into {_short(user_file)}",
        ) from error
    models.require(model)
    provider = models.get_provider(model.provider)
    assert provider is not None
    if not models.has_key(provider.id):
        if provider.key_hint or not provider.env:
            raise MissingKey(
                f"no key for {provider.display_name}",
                hint=f"{provider.key_hint or 'it has no variable for one'}; {_local_hint()}",
            )
        raise MissingKey(
            f"no API key for {provider.display_name}: {_variables(provider)} is not set",
            hint=f"set {_variables(provider)}; or say `loopwright keys set {provider.id}`; "
            f"{_local_hint()}",
        )
    _demand_packages(provider, model)
    return Chosen(model, level)


def _nothing_chosen(models: Models) -> ConfigurationError:
    known = [p for p in map(models.get_provider, models.provider_ids()) if p is not None and p.env]
    statuses = {provider.id: key_status(provider) for provider in known}
    with_key = [p for p in known if statuses[p.id].present and statuses[p.id].source]
    say = f"say `--model PROVIDER/MODEL`, or set {MODEL_VARIABLE}; `loopwright models` lists them"
    if with_key:
        each = ", ".join(f"{p.display_name} (`--model {p.id}/...`)" for p in with_key)
        keys = f"there is a key for {each}"
    else:
        keys = (
            "`loopwright keys set anthropic` keeps a key; so it does for openai, google and others"
        )
    return ConfigurationError("no model was chosen", hint=f"{say}\n{keys}\n{_local_hint()}")


def _short(file: Path) -> str:
    home = Path.home()
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)


def _variables(provider: Provider) -> str:
    return " or ".join(provider.env) or "its key"


def _local_hint() -> str:
    works = "`--model local` runs a small model on this machine, without any key"
    if find_spec("xllamacpp") is not None:
        return works
    return f"{works}, after: {install_command('local')}"


def _demand_packages(provider: Provider, model: Model) -> None:
    if provider.ready is not None and not provider.ready():
        raise MissingExtra(
            f"{provider.display_name} needs packages that are not installed",
            hint=install_command(provider.id),
        )
    missing = missing_package(provider, model.api)
    if missing is not None:
        package, extra = missing
        raise MissingExtra(
            f"{provider.display_name} is asked through the package {package}, which is not "
            "installed",
            hint=install_command(extra),
        )
