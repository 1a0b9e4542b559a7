"""Samples of groups: rewards, lengths, statuses."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, ClassVar

from rolloutds.checks.base import Explanation, GroupCheck, Severity
from rolloutds.checks.groups import status_text
from rolloutds.checks.settings import CheckSettings
from rolloutds.rollouts.base import ReadGroup
from rolloutds.sample import SAMPLE_FIELDS, Sample

_FIELDS = frozenset(SAMPLE_FIELDS)
_DONE = (Sample.Status.COMPLETED, Sample.Status.TRUNCATED)


class _EachSample(GroupCheck):
    """A check on one sample at a time."""

    def feed(self, group: ReadGroup) -> None:
        """Looks at each."""
        for position, sample in enumerate(group.samples):
            what = self.look(sample, group)
            if what is not None:
                self.add_group(group, what, sample=position)

    @abstractmethod
    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """What is wrong with it, or None."""


class RewardMissing(_EachSample):
    """A finished sample without a reward."""

    code = "GROUP008"
    name = "reward-missing"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A completed or truncated sample has no reward.",
        why="No advantage can be computed for its group.",
        example='{"status": "completed", "reward": null}',
        fix="Look at the reward function: an exception, a time-out, a server that did not answer.",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Others have none yet."""
        del group
        if sample.reward is None and sample.status in _DONE:
            return f"no reward ({status_text(sample)})"
        return None


class RewardNotFinite(_EachSample):
    """A reward that is NaN or infinite."""

    code = "GROUP009"
    name = "reward-not-finite"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A reward is NaN or an infinity.",
        why="Mean and spread of the group become NaN, and so does every gradient of the batch.",
        example='{"reward": NaN}',
        fix="Look at the reward function; divide by zero nowhere.",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Looks at numbers, in objects too."""
        del group
        is_object = isinstance(sample.reward, Mapping)
        rewards = sample.reward if is_object else {"": sample.reward}
        for name, value in rewards.items():
            if isinstance(value, float) and not math.isfinite(value):
                key = f"the reward {name!r:.40}" if is_object else "the reward"
                return f"{key} is {value}"
        return None


class RewardKeyMissing(_EachSample):
    """Rewards that are objects, without the key."""

    code = "GROUP010"
    name = "reward-key-missing"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A reward is an object that does not have the key reward_key names.",
        why="The run stops when it picks the reward.",
        example='{"reward": {"acc": 1}} with reward_key=score',
        fix="Name a key that all rewards have (--reward-key).",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Needs a reward key."""
        del group
        key = self.settings.reward_key
        if key is None or not isinstance(sample.reward, Mapping) or key in sample.reward:
            return None
        names = ", ".join(f"{name!r:.40}" for name in list(sample.reward)[:6]) or "no key"
        return f"the reward has no key {key!r}, it has {names}"


class RewardNeedsKey(GroupCheck):
    """Rewards that are objects, and no key is set."""

    code = "GROUP011"
    name = "reward-needs-key"
    severity: ClassVar[Severity] = "note"
    explanation = Explanation(
        what="Rewards are objects and no reward key is set.",
        why="A filter or an advantage needs one number a sample. Shares of equal rewards are not "
        "computed here either.",
        example='{"reward": {"acc": 1, "format": 0}}',
        fix="Set the key (--reward-key).",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.keys: dict[str, None] = {}

    def feed(self, group: ReadGroup) -> None:
        """Notes the keys there are."""
        if self.settings.reward_key is None:
            for sample in group.samples:
                if isinstance(sample.reward, Mapping) and len(self.keys) < 50:
                    self.keys.update((f"{key!s:.40}", None) for key in sample.reward)

    def end_file(self, file: str) -> None:
        """Says it once a file."""
        if self.keys:
            names = ", ".join(list(self.keys)[:8])
            self.add_file(file, f"rewards are objects ({names}); --reward-key picks one", "key")
        self.keys.clear()


def length_of(value: Any) -> int | None:
    """Items of a list, array or tensor; None where there is none, or it has no length."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[0]) if shape else None
    return len(value) if isinstance(value, list | tuple) else None


class _LengthCheck(_EachSample):
    """A list with one item for each token of the response."""

    severity: ClassVar[Severity] = "error"
    field: ClassVar[str]
    extra: ClassVar[int] = 0

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Compares the lengths."""
        del group
        length = length_of(getattr(sample, self.field))
        response: Any = sample.response_length  # a file may say anything
        if length is None or not isinstance(response, int):
            return None
        expected = response + self.extra
        if length == expected:
            return None
        more = f" + {self.extra}" if self.extra else ""
        return (
            f"{self.field} has {length:,} items, expected {expected:,} "
            f"(response_length {response:,}{more})"
        )


def _lengths(what: str, field: str) -> Explanation:
    return Explanation(
        what=what,
        why="The loss is taken over the wrong tokens, or the run stops when tensors are packed.",
        example=f"response_length 5 and {field} of 4 items",
        fix="Look at the generate function: what it cuts or pads, it must cut or pad everywhere.",
    )


class LossMaskLength(_LengthCheck):
    """A loss mask of another length."""

    code = "GROUP012"
    name = "loss-mask-length"
    field = "loss_mask"
    explanation = _lengths("loss_mask does not have one item a token of the response.", "loss_mask")


class LogProbsLength(_LengthCheck):
    """Log-probs of another length."""

    code = "GROUP013"
    name = "log-probs-length"
    field = "rollout_log_probs"
    explanation = _lengths(
        "rollout_log_probs does not have one item a token of the response.", "rollout_log_probs"
    )


class TokensTooShort(_EachSample):
    """Fewer tokens than the response has."""

    code = "GROUP014"
    name = "tokens-too-short"
    severity: ClassVar[Severity] = "error"
    explanation = _lengths(
        "tokens (of prompt and response) has fewer items than response_length.", "tokens"
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Where there are tokens at all."""
        del group
        length = length_of(sample.tokens)
        response: Any = sample.response_length  # a file may say anything
        if not length or not isinstance(response, int) or length >= response:
            return None
        return f"tokens has {length:,} items, fewer than response_length {response:,}"


class TopPLength(_LengthCheck):
    """Top-p offsets of another length."""

    code = "GROUP015"
    name = "top-p-offsets-length"
    field = "rollout_top_p_token_offsets"
    extra = 1
    explanation = _lengths(
        "rollout_top_p_token_offsets does not have response_length + 1 items.",
        "rollout_top_p_token_offsets",
    )


class UnknownStatus(_EachSample):
    """A status that is none of the known ones."""

    code = "GROUP016"
    name = "unknown-status"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A status is none of pending, completed, truncated, aborted, failed.",
        why="slime refuses it; code that looks for completed samples passes it over.",
        example='{"status": "paused"}',
        fix="Write one of the known statuses.",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Known statuses are of our type."""
        del group
        if isinstance(sample.status, Sample.Status):
            return None
        return f"the status is {sample.status!r:.40}, expected pending, completed, truncated, …"


class _Share(GroupCheck):
    """A share of a file's groups or samples that is worth knowing."""

    severity: ClassVar[Severity] = "note"

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.count = 0
        self.total = 0

    def _say(self, file: str, words: str) -> None:
        if self.count:
            share = 100 * self.count / self.total
            self.add_file(file, words.format(self.count, self.total, share), "share")
        self.count = self.total = 0


class ZeroSpread(_Share):
    """Groups whose rewards are all the same."""

    code = "GROUP017"
    name = "zero-spread"
    explanation = Explanation(
        what="Says in how many groups all rewards are the same.",
        why="Such groups have no advantage and teach nothing; a high share means prompts that are "
        "too easy or too hard.",
        example="rewards 1, 1, 1, 1",
        fix="Filter prompts by difficulty, or use dynamic filtering.",
    )

    def feed(self, group: ReadGroup) -> None:
        """Compares the rewards of groups that have some."""
        key = self.settings.reward_key
        rewards = [
            s.reward.get(key) if isinstance(s.reward, Mapping) else s.reward for s in group.samples
        ]
        if len(rewards) > 1 and all(isinstance(reward, int | float) for reward in rewards):
            self.total += 1
            self.count += all(reward == rewards[0] for reward in rewards)

    def end_file(self, file: str) -> None:
        """Says the share once a file."""
        self._say(file, "all rewards are the same in {:,} of {:,} groups ({:.1f} %)")


class AbortedShare(_Share):
    """Samples that were aborted."""

    code = "GROUP018"
    name = "aborted-share"
    explanation = Explanation(
        what="Says how many samples are aborted.",
        why="They were generated for nothing, unless partial rollouts resume them.",
        example="300 aborted samples of 1,024",
        fix="Over-sample less, or use partial rollouts.",
    )

    def feed(self, group: ReadGroup) -> None:
        """Counts."""
        samples = group.samples
        self.total += len(samples)
        self.count += sum(sample.status is Sample.Status.ABORTED for sample in samples)

    def end_file(self, file: str) -> None:
        """Says the share once a file."""
        self._say(file, "{:,} of {:,} samples are aborted ({:.1f} %)")


class EmptyCompleted(_EachSample):
    """An empty response marked completed."""

    code = "GROUP019"
    name = "empty-response-completed"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A sample is completed and its response is empty.",
        why="The engine failed and nobody noticed; the prompt gets a reward for no answer.",
        example='{"status": "completed", "response": "", "response_length": 0}',
        fix="Look at the engine's log; mark such samples failed or aborted.",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Neither text nor tokens."""
        del group
        is_empty = not sample.response and not sample.response_length
        if sample.status is Sample.Status.COMPLETED and is_empty and not length_of(sample.tokens):
            return "completed, with an empty response"
        if sample.status is Sample.Status.COMPLETED and sample.tokens and is_empty:
            return "completed, with an empty response"
        return None


class MixedWeights(_EachSample):
    """Several weight versions in one sample."""

    code = "GROUP020"
    name = "mixed-weight-versions"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A response was generated by several versions of the weights.",
        why="As with partial rollouts or asynchronous updates: off-policy tokens, which the loss "
        "must account for.",
        example='{"weight_versions": ["3", "4"]}',
        fix="Nothing where it is meant; mask the older part else (mask_offpolicy_in_partial_rollout).",
    )

    def look(self, sample: Sample, group: ReadGroup) -> str | None:
        """Compares the versions."""
        del group
        said: Any = sample.weight_versions  # a file may say anything
        versions = said if isinstance(said, list) else []
        different = list(dict.fromkeys(f"{version!s:.20}" for version in versions))
        if len(different) < 2:
            return None
        return f"generated by {len(different)} versions of the weights: {', '.join(different[:5])}"


class UnknownKeys(GroupCheck):
    """Attributes that are no field of a sample."""

    code = "GROUP021"
    name = "unknown-keys"
    severity: ClassVar[Severity] = "note"
    explanation = Explanation(
        what="Samples have attributes that are no field of a sample. They are kept.",
        why="As a rule set by your own code. It may also be a field whose name is misspelled.",
        example='{"foo": 1}',
        fix="Nothing where it is meant.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.keys: Counter[str] = Counter()

    def feed(self, group: ReadGroup) -> None:
        """Counts samples by key."""
        for sample in group.samples:
            self.keys.update(f"{key:.60}" for key in sample.__dict__.keys() - _FIELDS)

    def end_file(self, file: str) -> None:
        """Says it once a file."""
        if self.keys:
            counts = sorted(self.keys.items(), key=lambda item: (-item[1], item[0]))
            named = ", ".join(f"{key} ({count:,} samples)" for key, count in counts[:8])
            self.add_file(file, f"no field of a sample, kept: {named}", "keys")
        self.keys.clear()


class PathWithoutId(GroupCheck):
    """A dump whose name has no rollout id."""

    code = "GROUP022"
    name = "path-without-rollout-id"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The name of a dump has no number in it.",
        why="The path given to --save-debug-rollout-data has no {rollout_id}: each rollout "
        "overwrites the one before, and only the last is left.",
        example="dump.pt instead of dump_17.pt",
        fix="Write {rollout_id} in the path.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.is_dump = False

    def feed(self, group: ReadGroup) -> None:
        """Only dumps are written once a rollout."""
        self.is_dump = self.is_dump or (group.origin == "dump" and group.place.line is None)

    def end_file(self, file: str) -> None:
        """Looks at the name."""
        name = PurePath(file).name
        if self.is_dump and name.endswith(".pt") and not re.search(r"\d", name):
            self.add_file(
                file, "the name of this dump has no rollout id: is it overwritten?", "path"
            )
        self.is_dump = False


CHECKS = (
    RewardMissing,
    RewardNotFinite,
    RewardKeyMissing,
    RewardNeedsKey,
    LossMaskLength,
    LogProbsLength,
    TokensTooShort,
    TopPLength,
    UnknownStatus,
    ZeroSpread,
    AbortedShare,
    EmptyCompleted,
    MixedWeights,
    UnknownKeys,
    PathWithoutId,
)
