"""Groups as a run has them in memory, saved as they are: a `.pt` with a list of lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolloutds.rollouts.base import (
    GroupPlace,
    GroupReader,
    ReadGroup,
    members_of,
    shared_group_index,
)
from rolloutds.rollouts.dump_file import TorchFile
from rolloutds.rollouts.pickled_samples import is_sample, plain_group
from rolloutds.rollouts.slime import flat_groups, named_rollout
from rolloutds.torch_file.packed_reader import unpacked


class GroupListsReader(GroupReader[TorchFile]):
    """A list of groups, each a list of samples; or a flat list of samples."""

    name = "group-lists"
    file_type = TorchFile
    looks_for = "a .pt with a list of groups (lists of samples), or of samples"
    has_indices = True

    def recognises(self, file: TorchFile) -> bool:
        """By its first group or sample."""
        first: Any = file.value
        if not isinstance(first, list):
            return False
        while isinstance(first, list) and first:
            first = first[0]
        return is_sample(first)

    def read(self, file: TorchFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups in order; what was yielded is let go of."""
        groups = file.take()
        rollout_id, is_eval = named_rollout(file.path)
        for group in _groups(groups, file.path, n_samples_per_prompt):
            group.rollout_id, group.is_eval = rollout_id, is_eval
            group.origin = "buffer"
            yield group


def _groups(groups: Any, path: str, size: int | None) -> Iterator[ReadGroup]:
    if not isinstance(groups, list):
        groups = [groups]
    if groups and not isinstance(groups[0], list):
        yield from flat_groups(groups, path, size)
        return
    yield from listed_groups(groups, path)


def listed_groups(groups: list[Any], path: str) -> Iterator[ReadGroup]:
    """Groups in a list, which is emptied on the way.

    Raises:
        GroupError: one is no group.
    """
    for number in range(len(groups)):
        place = GroupPlace(path, number)
        members = members_of(unpacked(plain_group(groups[number])), str(place))
        groups[number] = None
        yield ReadGroup(members, place, group_index=shared_group_index(members))
        del members
