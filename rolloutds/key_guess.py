"""Which keys of a row hold the prompt and the label, when nobody has said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rolloutds.row_keys import MISSING, lookup

INPUT_KEYS = (
    "prompt",
    "messages",
    "text",
    "question",
    "problem",
    "instruction",
    "conversations",
    "conversation",
    "query",
    "input_text",
)
"""Keys tried for the prompt, in this order, when none is configured."""

LABEL_KEYS = (
    "label",
    "answer",
    "ground_truth",
    "reward_model.ground_truth",
    "reward_spec.ground_truth",
    "solution",
    "target",
    "final_answer",
    "gt_answer",
)
"""Keys tried for the label, in this order, when the prompt's key is guessed."""


@dataclass(frozen=True)
class GuessedKeys:
    """Keys taken because none was configured; `label_key` is None when no label was found."""

    input_key: str
    label_key: str | None


def guess_keys(row: Mapping[str, Any], *, configured: str, has_label: bool) -> GuessedKeys | None:
    """The keys a row seems to use; None when it has the configured one, or none of the usual.

    Args:
        row: a row of the data, as a rule the first.
        configured: the prompt key that is in effect; when the row has it, nothing is guessed.
        has_label: whether a label key is configured, which then is not guessed.
    """
    if lookup(row, configured) is not MISSING:
        return None
    input_key = guess_input_key(row)
    if input_key is None:
        return None
    label_key = next((key for key in LABEL_KEYS if lookup(row, key) is not MISSING), None)
    return GuessedKeys(input_key, None if has_label else label_key)


def guess_input_key(row: Mapping[str, Any]) -> str | None:
    """The first of the usual keys under which a row has something like a prompt."""
    return next((key for key in INPUT_KEYS if _is_prompt(lookup(row, key))), None)


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str | list) and bool(value)
