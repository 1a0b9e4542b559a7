"""The groups inside a state file of ours: those in the buffer, and those in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolloutds.checkpoints.native import OUR_KEY
from rolloutds.errors import DataError
from rolloutds.rollouts.base import (
    GroupPlace,
    GroupReader,
    Origin,
    ReadGroup,
    members_of,
    shared_group_index,
)
from rolloutds.rollouts.dump_file import TorchFile
from rolloutds.rollouts.pickled_samples import plain_group
from rolloutds.rollouts.place_names import number_in_name
from rolloutds.row_findings import Notice
from rolloutds.torch_file.packed_reader import unpacked

_FILE_NAME = r"global_dataset_state_dict_(\d+)\.pt"


class CheckpointReader(GroupReader[TorchFile]):
    """A state file of rolloutds.

    Groups that nobody touched are saved by their row only. They are left out here, with a notice.
    """

    name = "checkpoint"
    file_type = TorchFile
    looks_for = "a state file of rolloutds (a .pt with its buffer under `rolloutds`)"
    has_indices = True

    def recognises(self, file: TorchFile) -> bool:
        """By our key beside the cursor's."""
        value = file.value
        return (
            isinstance(value, dict)
            and "sample_offset" in value
            and isinstance(value.get(OUR_KEY), dict)
        )

    def read(self, file: TorchFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The buffer's groups, the one that waits longest first, then those in flight."""
        del n_samples_per_prompt  # its groups are lists
        path = file.path
        waiting, in_flight = _lists(file.take(), path)
        rollout_id = number_in_name(path, _FILE_NAME)
        untouched: dict[Origin, int] = {"buffer": 0, "in_flight": 0}
        for origin, entry, position in _entries(waiting, in_flight):
            if isinstance(entry, dict) and "samples" not in entry:
                untouched[origin] += 1
                continue
            group = _group(entry, GroupPlace(path, position))
            group.rollout_id, group.origin = rollout_id, origin
            yield group
            del group, entry
        _note(file, untouched)


def _lists(value: Any, path: str) -> tuple[list[Any], list[Any]]:
    """The groups in the buffer, and those in flight."""
    ours = value.get(OUR_KEY) if isinstance(value, dict) else None
    in_flight = ours.get("in_flight") if isinstance(ours, dict) else None
    drawn = in_flight.get("groups") if isinstance(in_flight, dict) else None
    waiting = ours.get("buffer") if isinstance(ours, dict) else None
    if not isinstance(waiting, list) or not isinstance(drawn, list):
        raise DataError(
            "its buffer or its groups in flight are no list",
            where=path,
            expected=f"a state of rolloutds, with both under {OUR_KEY!r}",
        )
    return waiting, drawn


def _entries(waiting: list[Any], in_flight: list[Any]) -> Iterator[tuple[Origin, Any, int]]:
    """Origin, what is saved of a group, and its position; the lists are emptied on the way."""
    num_waiting = len(waiting)
    for i in range(num_waiting):
        entry, waiting[i] = waiting[i], None
        yield "buffer", entry, i
    for i in range(len(in_flight)):
        entry, in_flight[i] = in_flight[i], None
        yield "in_flight", entry, num_waiting + i


def _group(entry: Any, place: GroupPlace) -> ReadGroup:
    samples = entry["samples"] if isinstance(entry, dict) else entry
    members = members_of(unpacked(plain_group(samples)), str(place))
    said = entry.get("group_index") if isinstance(entry, Mapping) else None
    return ReadGroup(members, place, said if isinstance(said, int) else shared_group_index(members))


def _note(file: TorchFile, untouched: Mapping[Origin, int]) -> None:
    for origin, count in untouched.items():
        if count:
            kind = "in the buffer" if origin == "buffer" else "in flight"
            text = (
                f"{file.path}: {count:,} groups {kind} are left out: nobody touched them, and the "
                "file names them by their row only"
            )
            file.notices.append(Notice("untouched_groups", text))
