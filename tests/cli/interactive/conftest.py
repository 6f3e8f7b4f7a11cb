"""The program in a terminal a test can see, and a vendor that does as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.interactive.acting_vendor import ActingVendor
from tests.cli.tmux_screen import Tmux

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@pytest.fixture
def tmux(program: Program) -> Iterator[Callable[..., Tmux]]:
    """Starts the program in tmux: `tmux("-c", columns=200, rows=60, env={"NO_COLOR": "1"})`.

    What each screen shows at the end stands in the report of a test that fails.
    """
    opened: list[Tmux] = []

    def start(*arguments: str, **more: Any) -> Tmux:
        opened.append(Tmux(program, *arguments, **more))
        return opened[-1]

    yield start
    for one in opened:
        print(one.framed())
        one.kill()


@pytest.fixture
def actor(program: Program) -> Iterator[ActingVendor]:
    """A vendor that the program knows as `toy`, with the models `one` and `two`; `one` is asked."""
    with ActingVendor.serving() as vendor:
        program.write_models_file(vendor.models_file())
        yield vendor
