"""Prompts as they are sent: rendered with the chat template, and counted in tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolloutds.checks.settings import CheckSettings
from rolloutds.errors import PromptError, RolloutDSError
from rolloutds.prompts import build_prompt

if TYPE_CHECKING:
    from rolloutds.checks.batch import RowBatch
    from rolloutds.tokenization import Tokenizer

Rendered = str | Exception | None
_BATCH = 256


class Rendering:
    """Renders and counts the prompts of batches.

    Args:
        settings: the tokenizer, the template and its arguments.

    Raises:
        TokenizerError: the tokenizer cannot be loaded.
        MissingExtraError: the package for it is not installed.
    """

    def __init__(self, settings: CheckSettings) -> None:
        from rolloutds.tokenization import Tokenizer, leave_torch_out, read_chat_template

        leave_torch_out()
        self.settings = settings
        template = settings.chat_template
        self.tokenizer: Tokenizer = Tokenizer.load(
            str(settings.hf_checkpoint),
            chat_template=None if template is None else read_chat_template(template),
            trust_remote_code=settings.trust_remote_code,
        )

    def __call__(self, batch: RowBatch) -> list[Rendered]:
        """Text of each prompt; None where it stays messages; why, where the template fails."""
        return [self._render(row) for row in batch.rows]

    def _render(self, row: dict[str, object]) -> Rendered:
        keys = self.settings.prompts
        try:
            prompt = build_prompt(row, keys)
        except PromptError:
            return None  # the checks on prompts say so
        if prompt.messages is None:
            return str(prompt.content)
        if not keys.apply_chat_template:
            return None
        try:
            return self.tokenizer.render(
                prompt.messages, prompt.tools, dict(self.settings.template_kwargs)
            )
        except RolloutDSError as error:
            return error

    def count(self, batch: RowBatch) -> list[tuple[int, int]]:
        """Position and number of tokens of the prompts that are text."""
        texts = [(i, text) for i, text in enumerate(batch.rendered) if isinstance(text, str)]
        found: list[tuple[int, int]] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            found += zip([i for i, _ in some], self._count([text for _, text in some]), strict=True)
        return [(i, count) for i, count in found if count >= 0]

    def _count(self, texts: list[str]) -> list[int]:
        try:
            return self.tokenizer.count(texts)
        except RolloutDSError:  # one text that cannot be counted, such as half a character
            return [self._count_one(text) for text in texts]

    def _count_one(self, text: str) -> int:
        try:
            return self.tokenizer.count([text])[0]
        except RolloutDSError:
            return -1
