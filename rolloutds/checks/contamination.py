"""Prompts that are in an evaluation file too."""

from __future__ import annotations

from typing import ClassVar

from rolloutds.checks.base import Explanation, RowCheck, Severity
from rolloutds.checks.batch import RowBatch


class EvaluationPrompt(RowCheck):
    """A prompt of the evaluation file."""

    code = "EVAL001"
    name = "evaluation-prompt"
    severity: ClassVar[Severity] = "error"
    needs = ("against",)
    explanation = Explanation(
        what="A prompt is also in the file given with --against (case and white space aside).",
        why="The evaluation then measures what was trained on, and its figures mean nothing.",
        example="a question of the test split in the training file",
        fix="Take the row out of the training data.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks each prompt up by its hash."""
        evaluation = self.settings.evaluation
        if evaluation is None:
            return
        for i, spot in evaluation.whole(batch.normal_texts).items():
            self.add_row(batch, i, f"the same prompt as {spot}")


class EvaluationOverlap(RowCheck):
    """A prompt that shares a run of words with one of the evaluation file."""

    code = "EVAL002"
    name = "evaluation-overlap"
    severity: ClassVar[Severity] = "warning"
    needs = ("against",)
    explanation = Explanation(
        what="A prompt shares thirteen words in a row with a prompt of the file given with "
        "--against; case and punctuation aside. Prompts of fewer words are only compared whole.",
        why="It may be the same question with a few words changed.",
        example="the same story with another name in its first sentence",
        fix="Look at both; take the row out when it asks the same.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks for the runs of words of all rows at once."""
        evaluation = self.settings.evaluation
        if evaluation is None:
            return
        for overlap in evaluation.overlaps(batch.texts):
            if not evaluation.whole([batch.normal_texts[overlap.position]]):
                what = f'shares words with {overlap.spot}: "{overlap.words}"'
                self.add_row(batch, overlap.position, what)


CHECKS = (EvaluationPrompt, EvaluationOverlap)
