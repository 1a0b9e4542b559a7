"""Prompts that come more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.prompt_table import Pairs, PromptTable
from rolloutds.checks.settings import CheckSettings


class DuplicateCheck(RowCheck):
    """A check that looks at the table of prompts; `share` gives several checks one table."""

    severity: ClassVar[Severity] = "warning"

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.table = PromptTable()

    def feed(self, batch: RowBatch) -> None:
        """Adds the prompts."""
        self.table.feed(batch)

    def merge(self, later: Self) -> None:
        """Joins the tables."""
        super().merge(later)
        self.table.merge(later.table)

    def _report(self, pairs: Pairs, totals: Totals, words: str) -> None:
        kept = self.settings.max_kept
        self.num_found += max(pairs.num - kept, 0)
        rows = zip(pairs.row[:kept], pairs.first[:kept], pairs.identity[:kept], strict=True)
        for row, first, identity in rows:
            what = words.format(totals.spot(int(first)))
            self.add(Found(what, int(row), None, f"{int(identity):016x}"))


class DuplicatePrompt(DuplicateCheck):
    """The very same prompt again."""

    code = "DUP001"
    name = "duplicate-prompt"
    explanation = Explanation(
        what="A prompt is the same as one before it, with the same media and tools.",
        why="It is trained on more often than the others each epoch, and, split by row, may be "
        "in the training and in the held-out part.",
        example='{"prompt": "2 + 2?"} twice',
        fix="Keep one of the rows, unless the weight is meant.",
    )

    def finish(self, totals: Totals) -> None:
        """Names the first row with that prompt."""
        self._report(self.table.repeats().exact, totals, "the same prompt as {}")


class NearDuplicatePrompt(DuplicateCheck):
    """The same prompt but for case and white space."""

    code = "DUP002"
    name = "near-duplicate-prompt"
    explanation = Explanation(
        what="A prompt is the same as one before it once ASCII letters are in lower case and "
        "white space is taken out.",
        why="As for a duplicate; it only escapes a look for equal text.",
        example='{"prompt": "What is 2+2?"} and {"prompt": "what is  2 + 2?"}',
        fix="Keep one of the rows.",
    )

    def finish(self, totals: Totals) -> None:
        """Names the first row with that prompt."""
        words = "the same prompt as {} but for case and white space"
        self._report(self.table.repeats().normal, totals, words)


class ConflictingLabels(DuplicateCheck):
    """The same prompt with another label."""

    code = "DUP003"
    name = "same-prompt-other-label"
    explanation = Explanation(
        what="A prompt is the same as one before it (case and white space aside), and the labels "
        "differ.",
        why="At most one of the answers is rewarded rightly: the two rows pull against each other.",
        example='{"prompt": "2 + 2?", "label": "4"} and {"prompt": "2 + 2?", "label": "5"}',
        fix="Find out which label is right, and keep that row.",
    )

    def finish(self, totals: Totals) -> None:
        """Names the first row with that prompt."""
        self._report(self.table.repeats().labels, totals, "the same prompt as {}, another label")


def share_table(checks: Sequence[RowCheck]) -> None:
    """Gives all checks on duplicates one table."""
    table = PromptTable()
    for check in checks:
        if isinstance(check, DuplicateCheck):
            check.table = table


def shared_table(checks: Sequence[RowCheck]) -> PromptTable | None:
    """The table that the checks on duplicates share; None where there are none."""
    tables = (check.table for check in checks if isinstance(check, DuplicateCheck))
    return next(tables, None)


CHECKS = (DuplicatePrompt, NearDuplicatePrompt, ConflictingLabels)
