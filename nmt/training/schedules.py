"""Learning-rate schedules: the factor on the peak rate as a function of the update."""

import math
from dataclasses import dataclass

from nmt.checks import at_least, between


def linear_warmup(update: int, warmup: int) -> float:
    """Returns the share of the peak reached at `update` (from 0); 1 after `warmup` updates."""
    return min(1.0, (update + 1) / max(1, warmup))


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """Linear warm-up, then half a cosine down to a fraction (Loshchilov and Hutter 2017, eq. 5).

    Attributes:
        updates: Length of the run in optimizer updates.
        warmup: Updates until the peak; the peak is reached at update number `warmup`.
        final_fraction: Share of the peak at the last update.
    """

    updates: int
    warmup: int
    final_fraction: float = 0.02

    def __post_init__(self) -> None:
        at_least("scheduler.updates", self.updates)
        at_least("scheduler.warmup", self.warmup, 0)
        between("scheduler.final_fraction", self.final_fraction, 0, 1)

    def __call__(self, update: int) -> float:
        """Returns the factor for update number `update`, counted from 0."""
        if update < self.warmup:
            return linear_warmup(update, self.warmup)
        progress = (update + 1 - self.warmup) / max(1, self.updates - self.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.final_fraction + (1 - self.final_fraction) * cosine


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot:
    """Linear warm-up, then decay with 1 / sqrt(update) (Vaswani et al. 2017, section 5.3).

    Attributes:
        warmup: Updates until the peak; the peak is reached at update number `warmup`.
    """

    warmup: int

    def __post_init__(self) -> None:
        at_least("scheduler.warmup", self.warmup)

    def __call__(self, update: int) -> float:
        """Returns the factor for update number `update`, counted from 0."""
        return min(linear_warmup(update, self.warmup), math.sqrt(self.warmup / (update + 1)))
