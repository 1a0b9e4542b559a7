"""Buffer files and rollout dumps of many systems, read as groups of samples.

A format is one module with a `GroupReader` and one line in `READERS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolloutds.rollouts.areal import ArealReader
from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.checkpoint_buffer import CheckpointReader
from rolloutds.rollouts.group_lists import GroupListsReader
from rolloutds.rollouts.nemo_rl import NemoRlReader
from rolloutds.rollouts.open_instruct import OpenInstructReader
from rolloutds.rollouts.opening import FileRead, Groups, find_dumps
from rolloutds.rollouts.prime_rl import PrimeRlReader
from rolloutds.rollouts.recognise import check_format
from rolloutds.rollouts.roll import RollReader
from rolloutds.rollouts.rolloutds_jsonl import RolloutdsReader
from rolloutds.rollouts.skyrl import SkyrlReader
from rolloutds.rollouts.slime import SlimeReader
from rolloutds.rollouts.trl import TrlReader
from rolloutds.rollouts.verifiers import VerifiersReader
from rolloutds.rollouts.verl import VerlReader

__all__ = [
    "READERS",
    "FileRead",
    "GroupPlace",
    "GroupReader",
    "Groups",
    "ReadGroup",
    "open_groups",
]

READERS: dict[str, GroupReader[Any]] = {
    "rolloutds": RolloutdsReader(),
    "checkpoint": CheckpointReader(),
    "slime": SlimeReader(),
    "group-lists": GroupListsReader(),
    "verl": VerlReader(),
    "trl": TrlReader(),
    "prime-rl": PrimeRlReader(),
    "verifiers": VerifiersReader(),
    "nemo-rl": NemoRlReader(),
    "roll": RollReader(),
    "open-instruct": OpenInstructReader(),
    "areal": ArealReader(),
    "skyrl": SkyrlReader(),
}
"""Every format that can be read, by name; a file is tried in this order."""


def open_groups(
    paths: str | Sequence[str],
    *,
    format_name: str | None = None,
    n_samples_per_prompt: int | None = None,
) -> Groups:
    """The groups of buffer files and rollout dumps.

    Args:
        paths: files, folders or globs.
        format_name: a key of `READERS`; None to recognise each file by its content.
        n_samples_per_prompt: size of a group, for files whose samples have no `group_index`.

    Returns:
        The groups, to be iterated over; nothing is read before.

    Raises:
        ConfigError: there is no such format.
        DataNotFoundError: a path names nothing.
    """
    check_format(READERS, format_name)
    names = [paths] if isinstance(paths, str) else paths
    return Groups(
        find_dumps(names),
        READERS,
        format_name=format_name,
        n_samples_per_prompt=n_samples_per_prompt,
    )
