"""What a crash test found.

Not here: finding it (campaign).
"""

from __future__ import annotations

import msgspec

__all__ = ["CrashReport", "Death"]

_SHOWN = 8


class Death(msgspec.Struct):
    """One time that the scenario was killed and gone on with."""

    point: int
    """At which point of its first life, from 1."""
    when: str
    """`after` or `before`."""
    what: str
    """What happened there; in the undisturbed run, if the process was not killed."""
    killed: bool = False
    """False: it had come to its end before, so that nothing was tried."""
    second: int | None = None
    """At which point its second life was killed, if it was to be."""
    killed_again: bool = False
    interrupted: int = 0
    """Results that now say that the call was interrupted."""
    faults: list[str] = []
    seconds: float = 0.0

    def __str__(self) -> str:
        again = f", then {self.when} point {self.second}" if self.second is not None else ""
        return f"killed {self.when} point {self.point}{again} ({self.what})"


class CrashReport(msgspec.Struct):
    """Every death of a crash test, and what came of it."""

    points: list[str]
    """What happened at each point of the undisturbed run."""
    deaths: list[Death]
    seconds: float

    @property
    def faults(self) -> list[str]:
        """All faults, each with the death it followed."""
        return [f"{death}: {fault}" for death in self.deaths for fault in death.faults]

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(death.killed + death.killed_again for death in self.deaths)

    @property
    def interrupted(self) -> int:
        """How many calls in all came to read that they were interrupted."""
        return sum(death.interrupted for death in self.deaths)

    def assert_sound(self) -> None:
        """Raise `AssertionError` with the first faults, unless there is none and something died."""
        faults = self.faults
        if faults:
            more = len(faults) - _SHOWN
            raise AssertionError(
                f"{len(faults)} faults after {self.kills} kills:\n- "
                + "\n- ".join(faults[:_SHOWN])
                + (f"\n… and {more} more" if more > 0 else "")
            )
        if not self.kills:
            raise AssertionError("nothing was killed: the scenario passes no point")

    def __str__(self) -> str:
        verdict = f"{len(self.faults)} faults" if self.faults else "sound"
        return (
            f"{len(self.points)} points, {self.kills} kills, {self.interrupted} calls interrupted, "
            f"{self.seconds:.1f} s: {verdict}"
        )
