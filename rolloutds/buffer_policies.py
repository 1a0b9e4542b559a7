"""What becomes of groups that come back: aborted ones, and those a full buffer has no room for.

Pure functions on groups: nothing here knows a data source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rolloutds.errors import ConfigError
from rolloutds.group_forms import leaves
from rolloutds.sample import Sample, SampleGroup

OnAborted = Literal["keep", "reset", "drop"]
ON_ABORTED: tuple[OnAborted, ...] = ("keep", "reset", "drop")
"""What can be done with a group that has an aborted sample."""

EvictionPolicy = Literal["oldest", "newest"]
EVICTION_POLICIES: tuple[EvictionPolicy, ...] = ("oldest", "newest")
"""Which groups have no place in a full buffer: those that wait longest, or those that come."""

_GENERATED = (
    "tokens",
    "response",
    "response_length",
    "reward",
    "loss_mask",
    "weight_versions",
    "rollout_log_probs",
    "rollout_top_p_token_ids",
    "rollout_top_p_token_offsets",
    "rollout_routed_experts",
    "teacher_log_probs",
    "remove_sample",
    "multimodal_train_inputs",
    "multimodal_train_input_id",
    "train_metadata",
    "session_id",
    "non_generation_time",
    "spec_info",
    "prefix_cache_info",
)
"""Fields that generation and rewarding fill; a clean prompt has their defaults."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(I?)B", re.IGNORECASE)
_TOKEN_BYTES = 8
_SAMPLE_BYTES = 2_000
"""What a sample takes beside its texts and tokens."""


# --- aborted groups -----------------------------------------------------------------------


class Kept(NamedTuple):
    """What a policy made of groups.

    Attributes:
        groups: those that go into the buffer, in order.
        dropped: those that do not.
        counts: how many groups were reset or dropped, by reason.
    """

    groups: list[SampleGroup]
    dropped: list[SampleGroup]
    counts: Counter[str]


def apply_on_aborted(groups: Sequence[SampleGroup], policy: OnAborted) -> Kept:
    """Keeps aborted groups as they are, resets them to their prompts, or drops them.

    Args:
        groups: the groups; with ``reset`` the samples of aborted ones are edited.
        policy: what is done with a group that has an aborted sample.
    """
    if policy == "keep":
        return Kept(list(groups), [], Counter())
    counts: Counter[str] = Counter()
    kept, dropped = [], []
    for group in groups:
        if not is_aborted(group):
            kept.append(group)
        elif policy == "drop":
            counts["aborted, dropped"] += 1
            dropped.append(group)
        else:
            counts["aborted, reset"] += 1
            reset_to_prompt(group)
            kept.append(group)
    return Kept(kept, dropped, counts)


def is_aborted(group: SampleGroup) -> bool:
    """Whether one of its samples was aborted."""
    return any(_status_of(sample) == "aborted" for sample in leaves(group))


def reset_to_prompt(group: SampleGroup) -> None:
    """Clears all that was generated for a group: it is as when it was drawn, in place.

    Prompt, label, metadata, media, tools and numbers stay; the status is pending. What a run
    attached under other names stays as well.
    """
    blank = Sample()
    for sample in leaves(group):
        for name in _GENERATED:
            if hasattr(sample, name):
                setattr(sample, name, _blank_value(blank, name, getattr(sample, name)))
        sample.status = _pending_of(sample)


def _blank_value(blank: Sample, name: str, current: Any) -> Any:
    value = getattr(blank, name)
    if name in ("spec_info", "prefix_cache_info"):
        return type(current)() if current is not None else None  # the reference's class has its own
    return type(value)() if isinstance(value, list | dict) else value


def _pending_of(sample: Any) -> Any:
    kind = type(sample.status)
    return kind("pending") if hasattr(sample.status, "value") else "pending"


def _status_of(sample: Any) -> Any:
    status = getattr(sample, "status", None)
    return getattr(status, "value", status)


# --- capacity -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Capacity:
    """How much a buffer holds, and which groups leave one that is full.

    Attributes:
        num_groups: groups; None: any number.
        num_bytes: bytes, as `bytes_of` estimates them; None: any number.
        policy: which groups have no place in a full buffer.
    """

    num_groups: int | None = None
    num_bytes: int | None = None
    policy: EvictionPolicy = "oldest"

    @classmethod
    def parse(cls, text: str | int | None, policy: EvictionPolicy = "oldest") -> Capacity:
        """A capacity from a number of groups (``512``), or bytes (``2GB``, ``500 MiB``).

        Raises:
            ConfigError: it is neither.
        """
        if text is None:
            return cls(policy=policy)
        spelled = str(text).strip()
        if spelled.isdecimal() and int(spelled) > 0:
            return cls(num_groups=int(spelled), policy=policy)
        match = _BYTES.fullmatch(spelled)
        if match is None or float(match[1]) <= 0:
            raise ConfigError(
                f"{text!r:.60}",
                where="buffer_capacity",
                expected="a number of groups, or bytes like 2GB",
            )
        unit = match[2].upper()
        factor = 1024 ** " KMGT".index(unit or " ") if match[3] else _UNITS[unit]
        return cls(num_bytes=int(float(match[1]) * factor), policy=policy)

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.num_groups is not None or self.num_bytes is not None

    def fit(self, buffer: Sequence[SampleGroup]) -> Fit:
        """The part of a buffer that there is room for; one group always has room.

        Args:
            buffer: the groups, the longest waiting first.
        """
        inwards = reversed(buffer) if self.policy == "oldest" else iter(buffer)
        num_fitting, total, reason = 0, 0, ""
        for group in inwards:
            total += bytes_of(group) if self.num_bytes is not None else 0
            if self.num_groups is not None and num_fitting >= self.num_groups:
                reason = "over the capacity in groups"
                break
            if self.num_bytes is not None and total > self.num_bytes and num_fitting:
                reason = "over the capacity in bytes"
                break
            num_fitting += 1
        num_evicted = len(buffer) - num_fitting
        counts = Counter({reason: num_evicted} if num_evicted else {})
        if self.policy == "oldest":
            return Fit(num_evicted, len(buffer), counts)
        return Fit(0, num_fitting, counts)


class Fit(NamedTuple):
    """The part of a buffer that stays, ``buffer[start:stop]``, and why the rest does not."""

    start: int
    stop: int
    counts: Counter[str]


def bytes_of(group: SampleGroup) -> int:
    """Roughly what a group takes in memory: texts, tokens, arrays, and a share for each sample."""
    return sum(_SAMPLE_BYTES + sum(_sizes(sample)) for sample in leaves(group))


def _sizes(sample: Any) -> Iterable[int]:
    for value in vars(sample).values():
        if isinstance(value, str | bytes):
            yield len(value)
        elif isinstance(value, list | tuple):
            yield _TOKEN_BYTES * len(value)
        elif isinstance(getattr(value, "nbytes", None), int):
            yield value.nbytes
