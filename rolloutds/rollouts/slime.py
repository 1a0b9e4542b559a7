"""Rollout dumps of slime, miles and vime: a `.pt` with the samples of one rollout in a flat list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup, Runs, members_of
from rolloutds.rollouts.dump_file import TorchFile
from rolloutds.rollouts.pickled_samples import plain_sample
from rolloutds.torch_file.packed_reader import unpacked

_FILE_NAME = re.compile(r"(eval_)?(\d+)\.pt")


class SlimeReader(GroupReader[TorchFile]):
    """A dict with `samples`; groups are the samples of equal `group_index`."""

    name = "slime"
    file_type = TorchFile
    looks_for = "a .pt with a dict that has a list `samples`"
    has_indices = True

    def recognises(self, file: TorchFile) -> bool:
        """By the list of samples."""
        return isinstance(file.value, dict) and isinstance(file.value.get("samples"), list)

    def read(self, file: TorchFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups in the order of their first samples; what was yielded is let go of."""
        value = dict(file.take())
        samples = value.pop("samples")
        value = unpacked(value)
        rollout_id, is_eval = named_rollout(file.path)
        said = value.pop("rollout_id", None)
        for group in flat_groups(samples, file.path, n_samples_per_prompt):
            group.rollout_id = said if isinstance(said, int) else rollout_id
            group.is_eval = is_eval
            group.dump_fields = value
            yield group


def named_rollout(path: str) -> tuple[int | None, bool]:
    """The rollout id in the name of a dump, and whether it is one of an evaluation."""
    match = _FILE_NAME.fullmatch(Path(path).name)
    return (int(match[2]), match[1] is not None) if match else (None, False)


def flat_groups(samples: list[Any], path: str, size: int | None) -> Iterator[ReadGroup]:
    """The groups in a flat list of sample dicts, which is emptied on the way.

    Raises:
        GroupError: one is no sample, or groups cannot be told apart.
    """
    runs, positions = Runs(size), dict[tuple[str, int], list[int]]()
    for i, sample in enumerate(samples):
        samples[i] = sample = plain_sample(sample)
        index = sample.get("group_index") if isinstance(sample, Mapping) else None
        positions.setdefault(runs.key(index, f"{path}, sample {i}"), []).append(i)
    for number, ((kind, key), members) in enumerate(positions.items()):
        place = GroupPlace(path, number)
        values = unpacked([samples[i] for i in members])
        for i in members:
            samples[i] = None
        group = members_of(values, str(place))
        del values
        yield ReadGroup(group, place, group_index=key if kind == "group" else None)
        del group
