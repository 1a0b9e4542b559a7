"""Prompts: their kind, roles and content, and whether the chat template renders them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.settings import CheckSettings

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class PromptUnusable(RowCheck):
    """A prompt that is neither text nor messages."""

    code = "PROMPT001"
    name = "prompt-unusable"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A prompt is neither text nor a list of messages.",
        why="The run stops at this row.",
        example='{"prompt": 4} or {"prompt": ["hello"]}',
        fix='Write text, or a list of objects: [{"role": "user", "content": "hello"}].',
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what reading the prompt said."""
        for i, what in batch.findings("prompt"):
            self.add_row(batch, i, what)


class PromptKindsMixed(RowCheck):
    """Prompts that are text in some rows and messages in others."""

    code = "PROMPT002"
    name = "prompt-kinds-mixed"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="Some prompts are text and some are lists of messages.",
        why="With the first prompt a list and no template, no prompt is held against the length "
        "limit; with the first one text, a list later stops the run. Custom code may expect one.",
        example='{"prompt": "hi"} and {"prompt": [{"role": "user", "content": "hi"}]}',
        fix="Write all prompts in one kind.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.seen: dict[str, tuple[int, int]] = {}

    def feed(self, batch: RowBatch) -> None:
        """Notes each kind once a batch."""
        types = batch.types(batch.keys.input_key)
        for kind in batch.kinds(batch.keys.input_key) & {str, list}:
            self._note(kind.__name__, types.count(kind), batch.numbers[types.index(kind)])

    def _note(self, kind: str, count: int, first: int) -> None:
        known, at = self.seen.get(kind, (0, first))
        self.seen[kind] = (known + count, at)

    def merge(self, later: PromptKindsMixed) -> None:
        """Adds the counts."""
        super().merge(later)
        for kind, (count, first) in later.seen.items():
            self._note(kind, count, first)

    def finish(self, totals: Totals) -> None:
        """Says it once, at the first prompt of the second kind."""
        if len(self.seen) < 2:
            return
        (text, first_text), (listed, first_list) = self.seen["str"], self.seen["list"]
        what = (
            f"prompts are text in {text:,} {_rows(text)} (first {totals.spot(first_text)}) and "
            f"lists of messages in {listed:,} (first {totals.spot(first_list)})"
        )
        self.add(Found(what, max(first_text, first_list), None, "prompt kinds"))


def _rows(count: int) -> str:
    return "row" if count == 1 else "rows"


class RoleUnknown(RowCheck):
    """A role that chat templates do not know."""

    code = "PROMPT003"
    name = "role-unknown"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A message has no role, or one that is none of the usual: system, developer, user, "
        "assistant, tool, function.",
        why="Chat templates raise an error on it, or leave the message out without a word.",
        example='{"role": "human", "content": "2 + 2?"}',
        fix='Use the usual names: "human" is user, "gpt" is assistant.',
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks closely only where a role is unusual."""
        if batch.roles <= ROLES:
            return
        for i, number, message in _numbered(batch):
            role = message.get("role")
            if not (isinstance(role, str) and role in ROLES):
                said = f"has the role {role!r:.40}" if "role" in message else "has no role"
                self.add_row(batch, i, f"message {number} {said}, expected {', '.join(_SHOWN)}")


_SHOWN: Final = ("system", "user", "assistant", "tool")


def _numbered(batch: RowBatch) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for i, prompt in batch.conversations:
        for number, message in enumerate(prompt):
            yield i, number, message


class ContentEmpty(RowCheck):
    """A message without content."""

    code = "PROMPT004"
    name = "content-empty"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A message has no content: the key is missing, null, or empty. An assistant message "
        "with tool_calls needs none.",
        why='Templates write "None", or nothing, and the model is asked nothing.',
        example='{"role": "user", "content": ""}',
        fix="Fill the content in, or leave the message or the row out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks closely only where a content is empty."""
        contents, kinds = batch.contents, batch.message_columns.kinds("content")
        texts = contents if kinds == {str} else [c for c in contents if type(c) is str]
        if all(contents) and not any(map(str.isspace, texts)):
            return
        for i, number, message in _numbered(batch):
            content = message.get("content")
            is_blank = not content or (isinstance(content, str) and content.isspace())
            if is_blank and not message.get("tool_calls") and not message.get("function_call"):
                role = message.get("role")
                self.add_row(
                    batch, i, f"message {number} ({role!s:.20}) has {_no_content(message)}"
                )


def _no_content(message: dict[str, Any]) -> str:
    if "content" not in message:
        return "no content"
    return "null content" if message["content"] is None else "empty content"


class EndsWithAssistant(RowCheck):
    """A prompt that ends with an answer."""

    code = "PROMPT005"
    name = "ends-with-assistant"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The last message of a prompt is the assistant's.",
        why="The answer is in the prompt: the model is asked to answer once more, after it has "
        "seen the solution. Such rows come from data made for supervised training.",
        example='[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]',
        fix="Cut the last message off, and keep what it says as the label.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the last roles."""
        if "assistant" not in batch.roles and None not in batch.roles:
            return
        found = [i for i, prompt in batch.conversations if prompt[-1].get("role") == "assistant"]
        self.add_rows(
            batch, found, "the last message is the assistant's: the answer is in the prompt"
        )


class RenderFails(RowCheck):
    """A prompt that the chat template refuses."""

    code = "PROMPT006"
    name = "template-fails"
    severity: ClassVar[Severity] = "error"
    needs = ("template",)
    explanation = Explanation(
        what="The chat template fails on a prompt.",
        why="The run stops at this row, hours in when it is late in the order.",
        example="a template that wants user and assistant in turn, and two user messages",
        fix="Correct the messages, or use another template (--chat-template).",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at what rendering gave."""
        for i, text in enumerate(batch.rendered):
            if isinstance(text, Exception):
                self.add_row(batch, i, str(text).partition("\n")[0])


CHECKS = (
    PromptUnusable,
    PromptKindsMixed,
    RoleUnknown,
    ContentEmpty,
    EndsWithAssistant,
    RenderFails,
)
