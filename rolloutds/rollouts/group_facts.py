"""What is counted of one group: the columns of ``buffer show``, and what `stats` adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolloutds.reward_numbers import as_number, mean, spread, weight_versions
from rolloutds.rollouts.base import ReadGroup
from rolloutds.sample import Sample

Column = str | float | bool | None
PLAIN = ""
"""Key of rewards that are numbers, and of those that a reward key picks."""

STATUSES = tuple(status.value for status in Sample.Status)
_HEAD_CHARACTERS = 400
_LONGEST_RESPONSE = 2**63


@dataclass(slots=True)
class GroupFacts:
    """The figures of a group; small, so that those of a whole file can be kept.

    Attributes:
        position: place in the order of reading, from 0.
        group: what to call it: its `group_index`, else its position in the file.
        file: the file it is in.
        rollout_id: of the rollout it belongs to.
        size: as `n_samples_per_prompt` counts.
        num_samples: samples, those of compact rollouts one by one.
        statuses: samples of each status.
        rewards: for each reward key (`PLAIN`: the reward itself) the samples' numbers, None where
            there is none.
        num_odd_rewards: rewards that are no numbers.
        lengths: tokens of each response; None where that is not known.
        characters: characters of each response.
        versions: weight versions of its samples, each once, from the oldest.
        num_removed: samples that are left out of the loss.
        is_eval: whether it is of an evaluation.
        origin: whether it waited in a buffer, was in flight, or comes from a dump.
        prompt: the head of its prompt.
    """

    position: int
    group: int
    file: str
    rollout_id: int | None
    size: int
    num_samples: int
    statuses: Counter[str]
    rewards: dict[str, list[float | None]]
    num_odd_rewards: int
    lengths: list[int | None]
    characters: list[int]
    versions: list[int]
    num_removed: int
    is_eval: bool
    origin: str
    prompt: str = field(repr=False, default="")

    @property
    def reward_keys(self) -> list[str]:
        """Keys of rewards that are objects, none of which was picked."""
        return [key for key in self.rewards if key != PLAIN]

    @property
    def plain_rewards(self) -> list[float | None]:
        """The rewards that are one number."""
        return self.rewards.get(PLAIN, [])

    @property
    def known_lengths(self) -> list[int]:
        """The lengths of responses that are known, in tokens."""
        return [length for length in self.lengths if length is not None]

    def age(self, newest: int | None) -> int | None:
        """How many versions it is behind: as old as its oldest sample; None without versions."""
        return newest - self.versions[0] if self.versions and newest is not None else None

    def columns(self, newest: int | None) -> dict[str, Column]:
        """The figures by the names that ``--where`` and ``--sort`` know."""
        rewards = [number for number in self.plain_rewards if number is not None]
        lengths = self.known_lengths
        return {
            "position": self.position,
            "group": self.group,
            "rollout_id": self.rollout_id,
            "size": self.size,
            "num_samples": self.num_samples,
            **{f"num_{status}": self.statuses[status] for status in STATUSES},
            "num_other": sum(n for name, n in self.statuses.items() if name not in STATUSES),
            "num_rewards": len(rewards),
            "reward_mean": mean(rewards),
            "reward_std": spread(rewards),
            "reward_min": min(rewards, default=None),
            "reward_max": max(rewards, default=None),
            "response_length_min": min(lengths, default=None),
            "response_length_mean": mean(lengths),
            "response_length_max": max(lengths, default=None),
            "version_min": self.versions[0] if self.versions else None,
            "version_max": self.versions[-1] if self.versions else None,
            "age": self.age(newest),
            "num_removed": self.num_removed,
            "is_eval": self.is_eval,
            "origin": self.origin,
            "file": self.file,
            "prompt": self.prompt,
        }


def facts_of(group: ReadGroup, position: int, reward_key: str | None) -> GroupFacts:
    """The figures of a group.

    Args:
        group: the group.
        position: its place in the order of reading.
        reward_key: picks the number from rewards that are objects.
    """
    samples = group.samples
    rewards, num_odd = _rewards(samples, reward_key)
    return GroupFacts(
        position=position,
        group=group.number,
        file=group.place.file,
        rollout_id=group.rollout_id,
        size=group.num_rollouts,
        num_samples=len(samples),
        statuses=Counter(status_name(sample) for sample in samples),
        rewards=rewards,
        num_odd_rewards=num_odd,
        lengths=[_length(sample) for sample in samples],
        characters=[_characters(sample) for sample in samples],
        versions=sorted({version for s in samples for version in weight_versions(s)}),
        num_removed=sum(bool(sample.remove_sample) for sample in samples),
        is_eval=group.is_eval,
        origin=group.origin,
        prompt=prompt_head(samples[0]),
    )


# The columns of a blank group: their names do not depend on the file.
def _column_names() -> tuple[str, ...]:
    blank = GroupFacts(0, 0, "", None, 0, 0, Counter(), {}, 0, [], [], [], 0, False, "")  # noqa: FBT003 - one line
    return tuple(blank.columns(None))


COLUMNS: tuple[str, ...] = _column_names()
"""Names of the columns."""


def status_name(sample: Any) -> str:
    """A sample's status as text."""
    status = getattr(sample, "status", None)
    return f"{getattr(status, 'value', status)!s:.40}"


def prompt_head(sample: Sample) -> str:
    """The beginning of what the prompt says; of messages, the last one's."""
    prompt: Any = sample.prompt
    if isinstance(prompt, list | tuple) and prompt:
        last = prompt[-1]
        prompt = last.get("content") if isinstance(last, Mapping) else last
    text = prompt if isinstance(prompt, str) else f"{prompt!r:.{_HEAD_CHARACTERS}}"
    return text[:_HEAD_CHARACTERS]


def _characters(sample: Any) -> int:
    response = sample.response
    return len(response) if isinstance(response, str) else 0


def _length(sample: Sample) -> int | None:
    length: Any = sample.response_length
    if not isinstance(length, int) or isinstance(length, bool):
        return None
    if not 0 <= length < _LONGEST_RESPONSE:
        return None
    # Systems that dump text only leave it 0; so does a sample that nothing was generated for.
    is_unknown = bool(sample.response) or status_name(sample) == "pending"
    return None if length == 0 and is_unknown else length


def _rewards(
    samples: list[Sample], reward_key: str | None
) -> tuple[dict[str, list[float | None]], int]:
    found: dict[str, list[float | None]] = {}
    num_odd = 0
    for number, sample in enumerate(samples):
        value = sample.reward
        named = {PLAIN: value}
        if isinstance(value, Mapping):
            has_key = bool(reward_key) and reward_key in value
            named = {PLAIN: value[reward_key]} if has_key else {str(k): v for k, v in value.items()}
        for key, one in named.items():
            numbers = found.setdefault(key, [None] * len(samples))
            numbers[number] = as_number(one)
            num_odd += one is not None and numbers[number] is None
    return found, num_odd
