"""Groups named by the row they were made from, as long as nothing in them was changed.

A buffer of 10,000 groups that were drawn and never generated would put 80,000 prompts into every
state. The dataset has them: their rows' positions are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rolloutds.cursor import Cursor
from rolloutds.dataset import Dataset
from rolloutds.errors import DataError, TokenizerError, UnsavableValueError
from rolloutds.group_forms import form_of, group_of, is_group, is_numbered_copy
from rolloutds.in_flight import DrawnGroup
from rolloutds.sample import SampleGroup
from rolloutds.state_copy import StateCopier

_GROUPS_AT_ONCE = 1_000
_GENERATED = frozenset({"status", "response", "tokens", "reward"})


def describe(group: SampleGroup, copier: StateCopier) -> DrawnGroup:
    """The group as it stands, whole.

    Raises:
        UnsavableValueError: it is no group; the buffer is a plain list that anyone can add to.
    """
    if not is_group(group):
        raise UnsavableValueError(f"{group!r:.60} is in the buffer", expected="a group of samples")
    form = form_of(group, copier)
    first = form[0][0] if isinstance(form[0], list) else form[0]
    return DrawnGroup(
        first.get("group_index"), first.get("index"), row_id=first.get("row_id"), samples=form
    )


def revive(drawn: Sequence[DrawnGroup], dataset: Dataset | None, size: int) -> list[SampleGroup]:
    """The groups again, made from their rows or from their samples.

    What `drawn` holds is taken over, not copied.

    Raises:
        DataError: a row cannot be read any more.
    """
    named = [d.row_position for d in drawn if d.row_position is not None]
    templates = iter(dataset.templates(named) if dataset and named else ())
    return [
        group_of(d.samples)
        if d.samples is not None
        else next(templates).make_group(d.group_index, d.first_index, size)  # type: ignore[arg-type]
        for d in drawn
    ]


class RowNames:
    """Tells which whole groups are untouched, and names them by their rows.

    A group's index says where in the epochs it was drawn, while the count never jumped. That is
    only a guess: the group made from that row must be the same to the last value.

    Args:
        dataset: the rows.
        cursor: where the run stands.
        size: samples a group.
        shuffled: whether epochs are.
    """

    def __init__(self, dataset: Dataset, cursor: Cursor, size: int, *, shuffled: bool) -> None:
        self._dataset = dataset
        self._cursor = cursor
        self._size = size
        self._shuffled = shuffled

    def shorten(self, groups: Sequence[DrawnGroup]) -> list[DrawnGroup]:
        """The groups, those that are untouched by their rows."""
        shortened = list(groups)
        guesses = self._guess(groups)
        for start in range(0, len(guesses), _GROUPS_AT_ONCE):
            some = guesses[start : start + _GROUPS_AT_ONCE]
            for place, row_position, sample in self._samples_of_rows(some):
                if self._is_made_from(groups[place], sample):
                    named = replace(groups[place], row_position=row_position, samples=None)
                    shortened[place] = named
        return shortened

    def _guess(self, groups: Sequence[DrawnGroup]) -> list[tuple[int, int]]:
        """Places in `groups`, and the row each of these may be of; epoch by epoch."""
        num_rows = len(self._dataset)
        num_drawn = self._cursor.epoch_id * num_rows + self._cursor.sample_offset
        drawn_at = []
        for place, group in enumerate(groups):
            if _may_be_untouched(group) and group.group_index is not None:
                position = num_drawn - self._cursor.sample_group_index + group.group_index
                if 0 <= position < num_drawn:
                    drawn_at.append((*divmod(position, num_rows), place))
        return [
            (place, self._dataset.row_positions(epoch if self._shuffled else None, at, at + 1)[0])
            for epoch, at, place in sorted(drawn_at)
        ]

    def _samples_of_rows(
        self, guesses: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        try:
            templates = self._dataset.templates([row_position for _, row_position in guesses])
        except (DataError, TokenizerError):
            return  # the file changed: the groups are kept whole, and are worth more than ever
        copier = StateCopier()
        for (place, row_position), template in zip(guesses, templates, strict=True):
            yield place, row_position, form_of(template.make_group(0, 0, 1), copier)[0]

    def _is_made_from(self, group: DrawnGroup, sample: dict[str, Any]) -> bool:
        form, index, first = group.samples, group.group_index, group.first_index
        return (
            form is not None
            and len(form) == self._size
            and index is not None
            and first is not None
            and is_numbered_copy(form, sample, index, first)
        )


def _may_be_untouched(group: DrawnGroup) -> bool:
    """A quick look: a group that was generated is not compared with anything."""
    first = group.samples[0] if group.samples else None
    return (
        isinstance(first, dict)
        and type(group.group_index) is int
        and type(group.first_index) is int
        and "row_id" in first
        and not first.keys() & _GENERATED
    )
