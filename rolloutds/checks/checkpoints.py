"""Saved states: legal in themselves, and made on this data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rolloutds.checkpoints.verify import CODES
from rolloutds.checks.base import Check, Explanation, Severity


class CheckpointCheck(Check):
    """A check on a saved state: what `examine` and the listing of a folder say under its code."""


_ELSE: Final = "A run that resumes from it stops, or skips or repeats prompts without a word."
_TEXTS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "CKPT001": (
        "unreadable-state",
        "A run that resumes from it stops at its start.",
        "a file whose copy stopped early",
        "Resume from an earlier one: `rolloutds ckpt list` names the last good id.",
    ),
    "CKPT002": ("key-missing", _ELSE, "a state without sample_offset", "Take an earlier file."),
    "CKPT003": (
        "group-index-missing",
        "Numbers of groups start again at 0 in slime, so samples of two parts of a run share them.",
        "a file of an older slime",
        "Nothing: it is worked out from sample_index where that divides.",
    ),
    "CKPT004": ("impossible-value", _ELSE, '"sample_offset": -1', "Take an earlier file."),
    "CKPT005": (
        "other-format-version",
        "This version cannot know what the fields mean.",
        "a file written by a newer rolloutds",
        "Use the version that wrote it.",
    ),
    "CKPT010": (
        "other-dataset",
        "The offset points into another order: prompts are skipped and repeated.",
        "a state saved on 10 rows, and a file to which a row was added",
        "Use the data and settings the state was made with; `rolloutds ckpt move` carries it over.",
    ),
    "CKPT011": (
        "other-settings",
        "The rows and their order are the same; what is made of them may differ.",
        "another n_samples_per_prompt",
        "Nothing where it is meant.",
    ),
    "CKPT012": (
        "no-fingerprint",
        "A file of slime or miles: that it belongs to this data cannot be proved.",
        "a state saved by slime",
        "Compare the numbers of rows.",
    ),
    "CKPT013": (
        "other-number-of-rows",
        "It was most likely made on another dataset, and its offset points elsewhere.",
        "epoch 1, offset 5, sample_group_index 25: the epochs had 20 rows, the data has 10",
        "Use the data the state was made with.",
    ),
    "CKPT020": (
        "offset-beyond-the-end",
        "slime's next draw is short by as much, and the epoch ends early.",
        "sample_offset 12 with 10 rows",
        "Check that the data is the one of the run.",
    ),
    "CKPT021": (
        "group-index-does-not-fit",
        "The number of rows changed during the run, or a wrap came back short.",
        "epoch 1, offset 2 of 10 rows, sample_group_index 11",
        "Look at the states before it (`rolloutds ckpt list`).",
    ),
    "CKPT022": (
        "sample-index-does-not-fit",
        "n_samples_per_prompt changed during the run, or the state is of another run.",
        "sample_group_index 4, sample_index 30, n 8",
        "Set n_samples_per_prompt as it was.",
    ),
    "CKPT023": (
        "waiting-group-size",
        "A batch with such a group cannot be reshaped by n.",
        "a buffered group of 3 samples with n 4",
        "Set n_samples_per_prompt as it was when the state was saved.",
    ),
    "CKPT024": (
        "waiting-row-missing",
        "The buffered group cannot be made again from the data.",
        "a buffered group of row 12 of 10",
        "Use the data the state was made with.",
    ),
    "CKPT025": (
        "group-waits-twice",
        "It would be trained on twice.",
        "group 7 in the buffer and in flight",
        "Look at what added it a second time.",
    ),
    "CKPT026": (
        "waiting-group-not-drawn",
        "Its number will be given to another prompt.",
        "group 9 in the buffer, and 8 groups drawn",
        "Take an earlier file.",
    ),
    "CKPT030": (
        "moved-by-hand",
        "Worth knowing when its numbers look odd.",
        "a state that `rolloutds ckpt move` wrote",
        "Nothing.",
    ),
    "CKPT040": (
        "loader-counts-contradict",
        "It is not known which of the counts the loader goes by.",
        "more samples yielded than the epoch has",
        "Take an earlier file.",
    ),
}
_LISTED: Final[Mapping[str, tuple[Severity, str, tuple[str, str, str, str]]]] = {
    "CKPT050": (
        "warning",
        "between two states more or fewer groups were served than usual",
        (
            "jump-between-states",
            "Prompts were skipped, served twice, or drawn by something else, unless the run "
            "over-samples or filters.",
            "steps of 32 groups, and one of 96",
            "Look at the run's log between the two; `rolloutds ckpt diff` shows what moved.",
        ),
    ),
    "CKPT051": (
        "note",
        "states between two others are not there",
        (
            "gap-between-states",
            "They cannot be resumed from; with keep_last that is as it should be.",
            "ids 1, 2, 4",
            "Nothing where they were removed on purpose.",
        ),
    ),
}


def _made(code: str, severity: Severity, title: str, texts: tuple[str, str, str, str]) -> Any:
    name, why, example, fix = texts
    # A field keeps its spelling at the head of a sentence too.
    is_field = "_" in title.partition(" ")[0]
    what = f"{title if is_field else title[0].upper() + title[1:]}."
    members = {
        "__doc__": what,
        "code": code,
        "name": name,
        "severity": severity,
        "explanation": Explanation(what, why, example, fix),
    }
    return type(f"Checkpoint{code.removeprefix('CKPT')}", (CheckpointCheck,), members)


CHECKS: Final[tuple[type[CheckpointCheck], ...]] = (
    *(_made(code, CODES[code].severity, CODES[code].title, _TEXTS[code]) for code in CODES),
    *(_made(code, severity, title, texts) for code, (severity, title, texts) in _LISTED.items()),
)
"""One for each code of `rolloutds ckpt verify`, and what only a whole folder shows."""
