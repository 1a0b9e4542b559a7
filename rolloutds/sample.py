"""One sample of a rollout, and the group it belongs to.

The fields, their names and defaults are those of slime's sample, so that filters and rollout
functions written for it run unchanged; `row_id` and `messages` are ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self, TypeVar

from rolloutds.errors import GroupError


@dataclass
class _Counters:
    """Counters that add up over the turns of a sample; unknown ones are kept as attributes."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        counters = cls()
        counters.__dict__.update(data)
        return counters

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


_AnyCounters = TypeVar("_AnyCounters", bound=_Counters)


@dataclass
class SpecInfo(_Counters):
    """Speculative decoding counters, in tokens (`spec_verify_ct`: verification steps)."""

    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0

    @property
    def spec_accept_rate(self) -> float:
        """Accepted tokens per drafted token, 0.0 when none was drafted."""
        drafted = self.spec_draft_token_num
        return self.spec_accept_token_num / drafted if drafted > 0 else 0.0

    @property
    def spec_accept_length(self) -> float:
        """Completion tokens per verification step, 0.0 when there was none."""
        return self.completion_token_num / self.spec_verify_ct if self.spec_verify_ct > 0 else 0.0

    def add(self, meta_info: Mapping[str, Any]) -> None:
        """Adds the counters an engine reports for one request."""
        self.spec_accept_token_num += meta_info.get("spec_accept_token_num", 0)
        self.spec_draft_token_num += meta_info.get("spec_draft_token_num", 0)
        self.spec_verify_ct += meta_info.get("spec_verify_ct", 0)
        self.completion_token_num += meta_info.get("completion_tokens", 0)


@dataclass
class PrefixCacheInfo(_Counters):
    """Prefix cache counters, in prompt tokens."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0

    @property
    def prefix_cache_hit_rate(self) -> float:
        """Cached tokens per prompt token, 0.0 when there was no prompt."""
        total = self.total_prompt_tokens
        return self.cached_tokens / total if total > 0 else 0.0

    def add(self, meta_info: Mapping[str, Any]) -> None:
        """Adds the counters an engine reports for one request."""
        self.cached_tokens += meta_info.get("cached_tokens", 0)
        self.total_prompt_tokens += meta_info.get("prompt_tokens", 0)


class Status(Enum):
    """Where a sample stands; `FAILED` is a recoverable failure, `ABORTED` an interruption."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


_STATUSES = {status.value: status for status in Status}


@dataclass
class Sample:
    """One prompt with, once generated, its response.

    Attributes:
        group_index: number of its group, counted on across epochs.
        index: number of the sample, counted on across epochs.
        rollout_id: execution it came from; siblings of one compact rollout share it.
        prompt: text, or a list of messages.
        tokens: token ids of prompt and response.
        response_length: tokens of the response.
        reward: a number, an object of numbers (`reward_key` picks one), or None.
        loss_mask: one 0 or 1 for each token of the response.
        weight_versions: versions of the weights that generated it.
        rollout_log_probs: one for each token of the response.
        rollout_top_p_token_ids: kept token ids of all positions, flat.
        rollout_top_p_token_offsets: `response_length + 1` offsets into them.
        status: a `Status`; a status this version does not know stays the text it is.
        row_id: 0-based physical line or row of its file, None for blank samples.
        messages: the messages a rendered `prompt` was made from, else None.

    Attributes that are set beyond these survive `to_dict` and `from_dict`.
    """

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, Any]] = ""
    tokens: Any = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    multimodal_train_input_id: str | None = None
    apply_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: Any = None
    weight_versions: list[Any] = field(default_factory=list)
    rollout_log_probs: Any = None
    rollout_top_p_token_ids: Any = None
    rollout_top_p_token_offsets: Any = None
    rollout_routed_experts: Any = None
    remove_sample: bool = False
    teacher_log_probs: Any = None
    status: Status | str = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    generate_function_path: str | None = None
    custom_rm_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: SpecInfo = field(default_factory=SpecInfo)
    prefix_cache_info: PrefixCacheInfo = field(default_factory=PrefixCacheInfo)
    row_id: int | None = None
    messages: list[dict[str, Any]] | None = None

    Status = Status
    SpecInfo = SpecInfo
    PrefixCacheInfo = PrefixCacheInfo

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A sample from its dict form; absent fields take their defaults, unknown keys stay."""
        sample = cls()
        sample.__dict__.update(data)
        status = data.get("status", Status.PENDING)
        sample.status = _STATUSES.get(status, status) if isinstance(status, str) else status
        sample.spec_info = _counters(SpecInfo, data.get("spec_info"))
        sample.prefix_cache_info = _counters(PrefixCacheInfo, data.get("prefix_cache_info"))
        return sample

    def to_dict(self) -> dict[str, Any]:
        """The dict form: every attribute, the status as text, the counters as dicts.

        `row_id` and `messages` are left out when None, so that a sample of another system keeps
        its keys. Values are the sample's own, not copies.
        """
        data = dict(self.__dict__)
        for name in ("row_id", "messages"):
            if data[name] is None:
                del data[name]
        if isinstance(self.status, Enum):
            data["status"] = self.status.value
        data["spec_info"] = self.spec_info.to_dict()
        data["prefix_cache_info"] = self.prefix_cache_info.to_dict()
        return data

    def get_reward_value(self, args: Any) -> Any:
        """The reward, or the one `args.reward_key` picks from an object of rewards.

        Raises:
            GroupError: there is a reward key, and no reward under it.
        """
        key = getattr(args, "reward_key", None)
        if not key:
            return self.reward
        if isinstance(self.reward, Mapping) and key in self.reward:
            return self.reward[key]
        raise GroupError(
            f"no reward under reward_key {key!r}: the reward is {self.reward!r}",
            where=f"group {self.group_index}, sample {self.index}",
            expected="an object with that key",
        )

    @property
    def effective_response_length(self) -> int:
        """Response tokens that count in the loss: the mask's sum, else the response's length."""
        return self.response_length if self.loss_mask is None else int(sum(self.loss_mask))


SampleGroup = list[Sample]
"""The samples of one prompt, ``[n_samples_per_prompt]``."""

SAMPLE_FIELDS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(Sample))
"""Names of the fields every sample has, in order."""


def _counters(cls: type[_AnyCounters], value: Any) -> _AnyCounters:
    return value if isinstance(value, cls) else cls.from_dict(value or {})
