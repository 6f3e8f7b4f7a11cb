"""Kill your own agent with -9 at every point where it writes, and see that nothing is lost.

    async def shop(life: Life) -> None:
        agent = life.watch(Agent(model.model, stream_fn=model.stream_fn, tools=[pay_with(life)]))
        async with Harness.open(life.store, "s", agent=agent) as harness:
            await harness.resume()
            await harness.prompt("Buy tea.", request_id="1")

    def test_the_shop_survives() -> None:
        crash_test(shop).assert_sound()

The scenario runs once undisturbed. Then, for each point k at which it commits, says something to
the inbox, decides, or has an effect, a process runs it and is ended by SIGKILL right after (and
once more, right before) that point; another process runs it again on what is left. What is there
in the end is compared with what the undisturbed run left.

Not here: a medium that lies about what it has written, or a power failure; processes die, not disks.
"""

from __future__ import annotations

from .campaign import crash_test
from .killing import PointKind, When
from .life import Effects, Life, Scenario
from .report import CrashReport, Death

__all__ = [
    "CrashReport",
    "Death",
    "Effects",
    "Life",
    "PointKind",
    "Scenario",
    "When",
    "crash_test",
]
