"""Prompts against the length limit."""

from __future__ import annotations

from array import array
from typing import ClassVar, Self

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.settings import CheckSettings


class _CountedCheck(RowCheck):
    """A check on the number of tokens."""

    needs = ("tokenizer", "limit")

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.counts = array("I")
        self.longest = (-1, 0)  # tokens, row
        self.first_over: int | None = None

    def feed(self, batch: RowBatch) -> None:
        """Keeps the counts, four bytes a row."""
        for i, count in batch.token_counts:
            self.counts.append(count)
            if count > self.longest[0]:
                self.longest = (count, batch.numbers[i])
            if self.first_over is None and count > (self.settings.max_prompt_len or 0):
                self.first_over = batch.numbers[i]

    def merge(self, later: Self) -> None:
        """Joins the counts."""
        super().merge(later)
        self.counts.extend(later.counts)
        if later.longest[0] > self.longest[0]:
            self.longest = later.longest
        if self.first_over is None:
            self.first_over = later.first_over


class OverLimit(_CountedCheck):
    """Prompts that are longer than the limit."""

    code = "LEN001"
    name = "over-the-limit"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="Some prompts have more tokens than rollout_max_prompt_len. Says how many, the "
        "percentiles of all lengths, and the longest.",
        why="They are left out of the run: an epoch is shorter than the file, and the hardest "
        "rows may be the ones that are gone.",
        example="a limit of 1,024 tokens and 3 % of prompts above it",
        fix="Raise the limit, or take the rows out, so that what you count is what is trained on.",
    )

    def finish(self, totals: Totals) -> None:
        """Says it once, at the first such row."""
        limit = self.settings.max_prompt_len or 0
        over = sum(1 for count in self.counts if count > limit)
        if not over or self.first_over is None:
            return
        ordered = sorted(self.counts)
        middle, ninety, most = (ordered[_rank(len(ordered), share)] for share in (50, 90, 99))
        what = (
            f"{over:,} of {len(ordered):,} prompts ({100 * over / len(ordered):.1f} %) have more "
            f"than {limit:,} tokens, here first; half have at most {middle:,}, 90 % {ninety:,}, "
            f"99 % {most:,}; the longest {self.longest[0]:,} ({totals.spot(self.longest[1])})"
        )
        self.add(Found(what, self.first_over, None, "over the limit"))


def _rank(count: int, percent: int) -> int:
    return max(-(-count * percent // 100) - 1, 0)


class NothingLeft(_CountedCheck):
    """No prompt within the limit."""

    code = "LEN002"
    name = "nothing-left"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="Every prompt has more tokens than rollout_max_prompt_len.",
        why="No row is left, and the run stops at its start.",
        example="a limit of 4 tokens with a chat template of 10",
        fix="Raise the limit; it counts the template too.",
    )

    def finish(self, totals: Totals) -> None:
        """Compares the shortest."""
        del totals
        limit = self.settings.max_prompt_len or 0
        if self.counts and min(self.counts) > limit:
            what = (
                f"0 of {len(self.counts):,} prompts are left at a limit of {limit:,} tokens, the "
                f"shortest has {min(self.counts):,}"
            )
            self.add(Found(what, None, None, "nothing left"))


class _FirstKindCheck(RowCheck):
    """A check that depends on whether the first prompt of all is text or messages."""

    needs = ("limit",)

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.first: tuple[str, int] | None = None

    def feed(self, batch: RowBatch) -> None:
        """Notes the first kind, and the rows with messages."""
        key = batch.keys.input_key
        if batch.keys.needs_messages or not len(batch):
            return
        if self.first is None:
            self.first = (batch.types(key)[0].__name__, batch.numbers[0])
        self.feed_lists(batch, batch.of_type(key, list))

    def feed_lists(self, batch: RowBatch, positions: list[int]) -> None:
        """Looks at rows whose prompt is a list of messages."""

    def merge(self, later: Self) -> None:
        """The first of all is the earlier part's."""
        super().merge(later)
        self.first = self.first or later.first


class MessagesAfterText(_FirstKindCheck):
    """A list of messages where the limit needs text."""

    code = "LEN003"
    name = "messages-under-a-limit"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A limit is set, the first prompt is text, and a later one is a list of messages "
        "with no chat template to render it.",
        why="Its length cannot be measured, and the run stops at this row.",
        example='{"prompt": "a"}, {"prompt": [{"role": "user", "content": "b"}]} with a limit',
        fix="Write all prompts in one kind, or apply the chat template.",
    )

    def feed_lists(self, batch: RowBatch, positions: list[int]) -> None:
        """Keeps them; whether they matter is known at the end."""
        self.add_rows(batch, positions, "a list of messages under a length limit, expected text")

    def finish(self, totals: Totals) -> None:
        """Forgets them where the first prompt is a list."""
        del totals
        if self.first is None or self.first[0] != "str":
            self.found, self.num_found = [], 0


class LimitWithoutEffect(_FirstKindCheck):
    """A limit that no prompt is held against."""

    code = "LEN004"
    name = "limit-without-effect"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A limit is set, and the first prompt is a list of messages with no chat template.",
        why="As in slime, no prompt is measured then, and the longest ones reach the engine.",
        example='{"prompt": [{"role": "user", "content": "a"}]}, a limit, no template',
        fix="Apply the chat template (--apply-chat-template), or leave the limit out.",
    )

    def finish(self, totals: Totals) -> None:
        """Says it once, at the first row."""
        del totals
        if self.first is not None and self.first[0] == "list":
            what = "the first prompt is a list of messages: no prompt is held against the limit"
            self.add(Found(what, self.first[1], None, "no limit"))


CHECKS = (OverLimit, NothingLeft, MessagesAfterText, LimitWithoutEffect)
