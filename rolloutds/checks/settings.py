"""What checks need to know of a run, and of what the caller asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from rolloutds.prompts import PromptSettings

Needs = Literal["tokenizer", "template", "media", "check_media", "against", "batch", "limit"]
"""What a check on rows needs beside the rows themselves."""

KEPT_OF_A_CODE = 1_000
"""Findings of one code that are kept one by one; further ones are counted."""


class Overlap(NamedTuple):
    """A run of words that a text shares with an evaluation prompt.

    Attributes:
        position: of the text among those that were asked about.
        spot: place of the evaluation prompt.
        words: the first run they share.
    """

    position: int
    spot: str
    words: str


class Evaluation(Protocol):
    """The prompts of a file that training data must not hold."""

    def whole(self, normal_texts: Sequence[bytes]) -> dict[int, str]:
        """Position of each text that is an evaluation prompt, and the place of that one."""

    def overlaps(self, texts: Sequence[str]) -> list[Overlap]:
        """For each text that shares a run of words, the first such run."""


@dataclass(frozen=True)
class CheckSettings:
    """What a run reads of a row, and what the caller asks for; it goes to other processes.

    Attributes:
        prompts: the keys, and whether prompts become messages.
        hf_checkpoint: tokenizer; None: nothing is rendered or counted.
        chat_template: template in place of the tokenizer's.
        template_kwargs: extra arguments of the template.
        trust_remote_code: whether a tokenizer may run code.
        max_prompt_len: limit on tokens.
        batch_size: groups of a request; None when not set.
        n_samples_per_prompt: size of a group; None when nobody set it.
        reward_key: key of rewards that are objects.
        checks_media: whether local media are looked for on the disk.
        evaluation: the prompts of another file, for contamination.
        max_kept: findings of one code that are kept one by one.
    """

    prompts: PromptSettings
    hf_checkpoint: str | None = None
    chat_template: str | None = None
    template_kwargs: Mapping[str, object] = field(default_factory=dict)
    trust_remote_code: bool = False
    max_prompt_len: int | None = None
    batch_size: int | None = None
    n_samples_per_prompt: int | None = None
    reward_key: str | None = None
    checks_media: bool = False
    evaluation: Evaluation | None = None
    max_kept: int = KEPT_OF_A_CODE

    @property
    def offers(self) -> frozenset[Needs]:
        """The needs of checks that are met."""
        met: dict[Needs, bool] = {
            "tokenizer": self.hf_checkpoint is not None,
            "template": self.hf_checkpoint is not None and self.prompts.apply_chat_template,
            "media": bool(self.prompts.multimodal_keys),
            "check_media": self.checks_media,
            "against": self.evaluation is not None,
            "batch": self.batch_size is not None,
            "limit": self.max_prompt_len is not None,
        }
        return frozenset(need for need, is_met in met.items() if is_met)


MISSING_NEEDS: dict[Needs, str] = {
    "tokenizer": "no tokenizer (--hf-checkpoint)",
    "template": "no rendered prompts (--hf-checkpoint and --apply-chat-template)",
    "media": "no media columns (--multimodal-keys)",
    "check_media": "media on the disk are looked for with --check-media",
    "against": "no other file to compare with (--against)",
    "batch": "no batch size (--rollout-batch-size)",
    "limit": "no length limit (--rollout-max-prompt-len)",
}
"""Why a check was skipped, for each need."""
