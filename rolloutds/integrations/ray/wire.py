"""Groups as they travel between a shared source and its workers.

A fresh group is copies of one sample: it travels as that one, and the worker makes the copies.
Every other group travels as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from rolloutds.group_forms import leaves
from rolloutds.groups import SampleTemplate
from rolloutds.in_flight import DrawnGroup, Identity
from rolloutds.sample import Sample, SampleGroup
from rolloutds.source import RolloutDataSource, RolloutDataSourceWithBuffer
from rolloutds.state_copy import StateCopier
from rolloutds.torch_file import to_live

_BLANK_FLOATS = {name: v for name, v in vars(Sample()).items() if type(v) is float}


class Fresh(NamedTuple):
    """A group made from a row and not touched since.

    Attributes:
        fields: what its samples have that a blank one has not.
        group_index: its number.
        first_index: number of its first sample.
        size: samples it has.
    """

    fields: dict[str, Any]
    group_index: int
    first_index: int
    size: int

    def group(self) -> SampleGroup:
        """The samples; `fields` is taken over."""
        return SampleTemplate(self.fields).make_group(self.group_index, self.first_index, self.size)


class FreshGroup(list[Any]):
    """Stands for a fresh group inside the shared source, where nobody looks at its samples."""

    def __init__(self, fresh: Fresh) -> None:
        super().__init__([_numbers(fresh.group_index, fresh.first_index, fresh.fields)])
        self.fresh = fresh


def _numbers(group_index: int, index: int, fields: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(group_index=group_index, index=index, row_id=fields.get("row_id"))


class Served(RolloutDataSourceWithBuffer):
    """The source inside a shared one: it leaves making the samples to the workers."""

    def _make(self, positions: Sequence[int | None]) -> list[SampleGroup]:
        if self.dataset is None:
            return super()._make(positions)
        size = self.config.n_samples_per_prompt
        templates = self.dataset.templates([p for p in positions if p is not None])
        return [
            FreshGroup(
                Fresh(
                    template.fields,
                    self.sample_group_index + i,
                    self.sample_index + i * size,
                    size,
                )
            )
            for i, template in enumerate(templates)
        ]


class Claim(NamedTuple):
    """A group that a worker speaks of.

    Attributes:
        identity: its numbers.
        serial: the serial number it was handed out under, where the worker still knows.
    """

    identity: Identity
    serial: int | None

    def stub(self) -> Any:
        """A group with these numbers, for the ledger to look up."""
        return [SimpleNamespace(**self.identity._asdict())]


def packed(groups: Sequence[Any]) -> list[Any]:
    """Groups of a draw as they travel."""
    return [group.fresh if type(group) is FreshGroup else group for group in groups]


def unpacked(groups: Sequence[Any]) -> list[Any]:
    """The groups again, with their samples; what travelled is taken over."""
    return [group.group() if isinstance(group, Fresh) else group for group in groups]


def plain(groups: Sequence[Any], source: RolloutDataSource) -> list[Any]:
    """Groups as they travel, as plain values for the journal."""
    copier = StateCopier()
    return [
        {"fresh": list(group)}
        if isinstance(group, Fresh)
        else {"samples": source._describe(group, copier).samples}
        for group in groups
    ]


def travelling(values: Sequence[Any], source: RolloutDataSource) -> list[Any]:
    """Groups as they travel again, from their plain values."""
    return [
        Fresh(*to_live(value["fresh"]))
        if "fresh" in value
        else source._revive([DrawnGroup(None, None, samples=to_live(value["samples"]))])[0]
        for value in values
    ]


def drawn_of(state: dict[str, Any]) -> DrawnGroup:
    """A group from its plain values in the journal."""
    return DrawnGroup(
        state.get("group_index"),
        state.get("first_index"),
        state.get("row_position"),
        state.get("row_id"),
        to_live(state.get("samples")),
    )


def arrived(groups: Sequence[Any]) -> None:
    """Gives samples that travelled the very objects of a blank one back, where they are equal.

    A float is another object after the way, and a state leaves out what is the default itself.
    """
    for sample in samples_of(groups):
        own = getattr(sample, "__dict__", {})
        for name, blank in _BLANK_FLOATS.items():
            if type(own.get(name)) is float and repr(own[name]) == repr(blank):
                own[name] = blank


def samples_of(groups: Sequence[Any]) -> list[Any]:
    """Every sample of these groups."""
    return [sample for group in groups for sample in leaves(group)]
