"""How a run's rollouts lie on its epochs: arithmetic on rows, batch size and length of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rolloutds.cursor import Cursor, Span
from rolloutds.errors import ConfigError, EmptyDatasetError


@dataclass(frozen=True)
class Wrap:
    """A border between two epochs.

    Attributes:
        epoch_id: the epoch that begins there.
        rollout_id: the rollout that its first group belongs to.
        num_groups_before: groups of that rollout that come before the border.
        num_groups_after: groups of that rollout from the new epoch (or later ones).
    """

    epoch_id: int
    rollout_id: int
    num_groups_before: int
    num_groups_after: int

    @property
    def is_inside(self) -> bool:
        """Whether the border falls inside the rollout, not between two rollouts."""
        return self.num_groups_before > 0


@dataclass(frozen=True)
class Plan:
    """A run laid out over its epochs, when every group comes from the dataset.

    Attributes:
        num_rows: rows served in an epoch.
        rollout_batch_size: groups a rollout trains on.
        n_samples_per_prompt: samples in a group.
        num_rollout: rollouts in the run; None when its length is not known.
    """

    num_rows: int
    rollout_batch_size: int
    n_samples_per_prompt: int
    num_rollout: int | None = None

    @property
    def samples_per_rollout(self) -> int:
        """Samples generated for a rollout."""
        return self.rollout_batch_size * self.n_samples_per_prompt

    @property
    def rollouts_per_epoch(self) -> int:
        """Rollouts that lie wholly within the first epoch: ``num_rows // rollout_batch_size``."""
        return self.num_rows // self.rollout_batch_size

    @property
    def num_leftover_rows(self) -> int:
        """Rows at the end of the first epoch that its whole rollouts leave over."""
        return self.num_rows % self.rollout_batch_size

    @property
    def rollouts_until_repeat(self) -> int:
        """Rollouts after which borders fall at the same places of a batch again."""
        return self.num_rows // math.gcd(self.num_rows, self.rollout_batch_size)

    @property
    def epochs_until_repeat(self) -> int:
        """Epochs that those rollouts take."""
        return self.rollout_batch_size // math.gcd(self.num_rows, self.rollout_batch_size)

    @property
    def num_groups(self) -> int | None:
        """Groups of the whole run; None when its length is not known."""
        return None if self.num_rollout is None else self.num_rollout * self.rollout_batch_size

    @property
    def num_rollouts_shown(self) -> int:
        """Rollouts that borders are listed for: the run, else until they repeat."""
        return self.rollouts_until_repeat if self.num_rollout is None else self.num_rollout

    @property
    def num_wraps(self) -> int:
        """Borders between epochs in those rollouts."""
        return self._num_group_borders // self.num_rows

    @property
    def _num_group_borders(self) -> int:
        # A run that ends with an epoch never begins the next one; a pattern that repeats does.
        num_groups = self.num_rollouts_shown * self.rollout_batch_size
        return num_groups if self.num_rollout is None else max(num_groups - 1, 0)

    @property
    def num_mixed_rollouts(self) -> int:
        """Rollouts among them that hold groups of more than one epoch."""
        if self.batch_spans_epochs:
            return self.num_rollouts_shown
        # Borders are at least a batch apart, so each falls inside another rollout, or inside none.
        between_rollouts = math.lcm(self.rollout_batch_size, self.num_rows)
        return self.num_wraps - self._num_group_borders // between_rollouts

    @property
    def batch_spans_epochs(self) -> bool:
        """Whether a batch is longer than an epoch: some row comes twice in each rollout."""
        return self.rollout_batch_size > self.num_rows

    @property
    def end(self) -> Cursor | None:
        """Where the run stops; None when its length is not known."""
        if self.num_groups is None:
            return None
        return Cursor().advanced(self.num_groups, self.num_rows, self.n_samples_per_prompt)

    def wrap(self, number: int) -> Wrap:
        """The border before epoch ``number + 1``."""
        rollout_id, before = divmod((number + 1) * self.num_rows, self.rollout_batch_size)
        return Wrap(number + 1, rollout_id, before, self.rollout_batch_size - before)

    def wraps(self) -> Iterator[Wrap]:
        """Every border of the rollouts shown, in order."""
        return (self.wrap(number) for number in range(self.num_wraps))

    def spans(self, rollout_id: int) -> list[Span]:
        """Which positions of which epochs a rollout is made of."""
        epoch_id, offset = divmod(rollout_id * self.rollout_batch_size, self.num_rows)
        start = Cursor(epoch_id, offset)
        return start.spans(self.rollout_batch_size, self.num_rows)


def make_plan(
    num_rows: int,
    *,
    rollout_batch_size: int,
    n_samples_per_prompt: int,
    num_rollout: int | None = None,
    num_epoch: int | None = None,
) -> Plan:
    """Lays a run out.

    Args:
        num_rows: rows served in an epoch.
        rollout_batch_size: groups a rollout trains on.
        n_samples_per_prompt: samples in a group.
        num_rollout: length of the run in rollouts; it wins over `num_epoch`, as in slime.
        num_epoch: length in epochs, each of ``num_rows // rollout_batch_size`` rollouts.

    Raises:
        ConfigError: the batch size is not positive.
        EmptyDatasetError: there are no rows.
    """
    if rollout_batch_size < 1:
        raise ConfigError(f"{rollout_batch_size}", where="rollout_batch_size", expected="1 or more")
    if num_rows < 1:
        raise EmptyDatasetError("no rows to plan for", expected="at least one")
    if num_rollout is None and num_epoch is not None:
        num_rollout = num_epoch * (num_rows // rollout_batch_size)
    return Plan(num_rows, rollout_batch_size, n_samples_per_prompt, num_rollout)
