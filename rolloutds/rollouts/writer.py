"""What every output of `convert` is: groups written to one file, whole or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.plain_walk import PlainWalk
from rolloutds.sample import Sample

TOKEN_FIELDS: Final = (
    "tokens",
    "loss_mask",
    "rollout_log_probs",
    "rollout_top_p_token_ids",
    "rollout_top_p_token_offsets",
    "rollout_routed_experts",
    "teacher_log_probs",
)
"""Fields with something for each token, which ``--no-tokens`` leaves out."""


class GroupWriter(ABC):
    """One format to write.

    Args:
        drop_tokens: leave the fields of `TOKEN_FIELDS` out.
        drop_foreign: leave values out that cannot be written, and count them.

    Attributes:
        walk: turns values, and counts what it left out.
        remarks: what is worth saying about the file that was written.
    """

    ending: ClassVar[str]
    describes: ClassVar[str]

    def __init__(self, *, drop_tokens: bool = False, drop_foreign: bool = False) -> None:
        self._drop_tokens = drop_tokens
        self.walk = self.make_walk(drop_foreign=drop_foreign)
        self.remarks: list[str] = []

    @staticmethod
    def make_walk(*, drop_foreign: bool) -> PlainWalk:
        """The walk that gives values the form they have in this format."""
        return PlainWalk(drop_foreign=drop_foreign)

    @abstractmethod
    def write(self, groups: Iterable[ReadGroup], path: str) -> None:
        """Writes the groups, each let go of before the next is asked for.

        Raises:
            DataError: a value cannot be written, or the file cannot.
        """

    def fields(self, sample: Sample, where: str) -> dict[str, Any]:
        """The fields of a sample in the form they are written in.

        Raises:
            DataError: a value cannot be written.
        """
        # Not `sample.to_dict()`: a file may have a key of that name.
        fields = Sample.to_dict(sample)
        if self._drop_tokens:
            fields = {name: value for name, value in fields.items() if name not in TOKEN_FIELDS}
        return self.walk.turn_fields(fields, where)

    def members(self, group: ReadGroup) -> list[Any]:
        """The members of a group in the form they are written in, nested as they are.

        Raises:
            DataError: a value cannot be written.
        """
        return [
            self._member(member, f"{group.place}, sample {i}")
            for i, member in enumerate(group.members)
        ]

    def _member(self, member: Any, where: str) -> Any:
        if isinstance(member, list):
            return [self.fields(sample, f"{where}.{i}") for i, sample in enumerate(member)]
        return self.fields(member, where)
