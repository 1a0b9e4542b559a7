"""Where a run stands in its data: four numbers, and what a draw does to them.

`sample_offset` may equal the number of rows: the next epoch begins with the next draw, not with
the last row (as in slime, so that a saved cursor reads the same on both sides).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rolloutds.errors import ConfigError, EmptyDatasetError


class Span(NamedTuple):
    """Consecutive positions of one epoch's order: ``start <= position < stop``."""

    epoch_id: int
    start: int
    stop: int


@dataclass(frozen=True)
class Cursor:
    """A position in the data.

    Attributes:
        epoch_id: 0-based epoch the next group comes from (or the one just finished).
        sample_offset: groups of that epoch already served, ``0 <= offset <= num_rows``.
        sample_group_index: index the next group gets, counted on across epochs.
        sample_index: index the next sample gets, counted on across epochs.
    """

    epoch_id: int = 0
    sample_offset: int = 0
    sample_group_index: int = 0
    sample_index: int = 0

    def spans(self, num_groups: int, num_rows: int) -> list[Span]:
        """The positions that the next `num_groups` groups are drawn from, epoch by epoch.

        Raises:
            ConfigError: `num_groups` is negative.
            EmptyDatasetError: groups are asked for and there is no row.
        """
        spans = []
        epoch_id, offset, wanted = self.epoch_id, self.sample_offset, _checked_count(num_groups)
        if wanted and num_rows < 1:
            raise EmptyDatasetError("no rows to serve", expected="at least one")
        while wanted:
            if offset >= num_rows:
                epoch_id, offset = epoch_id + 1, 0
            stop = min(offset + wanted, num_rows)
            spans.append(Span(epoch_id, offset, stop))
            wanted -= stop - offset
            offset = stop
        return spans

    def advanced(self, num_groups: int, num_rows: int, n_samples_per_prompt: int) -> Cursor:
        """The cursor after `num_groups` groups were drawn from `num_rows` rows.

        Raises:
            ConfigError: `num_groups` is negative.
            EmptyDatasetError: groups are asked for and there is no row.
        """
        if _checked_count(num_groups) == 0:
            return self
        if num_rows < 1:
            raise EmptyDatasetError("no rows to serve", expected="at least one")
        # Counted from the epoch's first row; the last row of an epoch leaves offset == num_rows.
        served = self.sample_offset + num_groups
        wraps = (served - 1) // num_rows
        return Cursor(
            epoch_id=self.epoch_id + wraps,
            sample_offset=served - wraps * num_rows,
            sample_group_index=self.sample_group_index + num_groups,
            sample_index=self.sample_index + num_groups * n_samples_per_prompt,
        )

    def counted(self, num_groups: int, n_samples_per_prompt: int) -> Cursor:
        """The cursor after groups were made without rows: only the two indices move."""
        return Cursor(
            self.epoch_id,
            self.sample_offset,
            self.sample_group_index + num_groups,
            self.sample_index + num_groups * n_samples_per_prompt,
        )

    @classmethod
    def at(
        cls, epoch_id: int, sample_offset: int, num_rows: int, n_samples_per_prompt: int
    ) -> Cursor:
        """The cursor of a run that drew every group up to there from the dataset alone."""
        group_index = epoch_id * num_rows + sample_offset
        return cls(epoch_id, sample_offset, group_index, group_index * n_samples_per_prompt)

    def state_dict(self) -> dict[str, int]:
        """The four numbers under the reference's keys."""
        return {
            "sample_offset": self.sample_offset,
            "epoch_id": self.epoch_id,
            "sample_group_index": self.sample_group_index,
            "sample_index": self.sample_index,
        }


def _checked_count(num_groups: int) -> int:
    if num_groups < 0:
        raise ConfigError(f"{num_groups} groups asked for", expected="zero or more")
    return num_groups
