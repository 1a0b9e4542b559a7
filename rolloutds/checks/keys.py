"""The keys a run reads: missing, null or empty, each key apart."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.columns import Missing
from rolloutds.checks.settings import CheckSettings
from rolloutds.readers.line_checks import missing_key


class PromptMissing(RowCheck):
    """A row without the prompt's key."""

    code = "KEY001"
    name = "prompt-missing"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A row does not have the key of the prompt (input_key).",
        why="The run stops at this row.",
        example='{"text": "a"} and then {"prompt": "b"}, with input_key=text',
        fix="Rename the key in the row, or name another with --input-key.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Names the keys there are, and the nearest."""
        key = batch.keys.input_key
        for i in batch.missing(key):
            self.add_row(batch, i, missing_key(key, batch.rows[i]))


class PromptNull(RowCheck):
    """A prompt that is null."""

    code = "KEY002"
    name = "prompt-null"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="The prompt of a row is null.",
        why="There is nothing to send to the model; the run stops.",
        example='{"prompt": null, "label": "4"}',
        fix="Fill the prompt in, or leave the row out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the types."""
        key = batch.keys.input_key
        self.add_rows(batch, batch.null(key), f"{key!r} is null, expected a prompt")


class PromptEmpty(RowCheck):
    """A prompt that is empty."""

    code = "KEY003"
    name = "prompt-empty"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The prompt of a row is empty text, white space only, or a list without messages.",
        why="It loads, and the model is asked nothing: the group's rewards are noise.",
        example='{"prompt": "", "label": "4"}',
        fix="Fill the prompt in, or leave the row out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at texts and lists."""
        key = batch.keys.input_key
        self.add_rows(batch, batch.empty(key), f"{key!r} is empty")
        if str in batch.kinds(key):
            for i, prompt in enumerate(batch.prompts):
                if type(prompt) is str and prompt.isspace():
                    self.add_row(batch, i, f"{key!r} is white space only")


class LabelMissing(RowCheck):
    """A row without the label's key."""

    code = "KEY004"
    name = "label-missing"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A label key is configured and a row does not have it.",
        why="The run stops at this row.",
        example='{"prompt": "2 + 2?"} with label_key=label',
        fix="Add the label (null is one), or run without a label key.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Names the keys there are, and the nearest."""
        key = batch.keys.label_key
        for i in batch.missing(key) if key is not None else ():
            self.add_row(batch, i, missing_key(str(key), batch.rows[i]))


class LabelNull(RowCheck):
    """A label that is null."""

    code = "KEY005"
    name = "label-null"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The label of a row is null.",
        why="It loads; a grader that compares with the label fails, or never rewards the row.",
        example='{"prompt": "2 + 2?", "label": null}',
        fix="Fill the label in, or leave the row out, unless your reward needs no label.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the types."""
        key = batch.keys.label_key
        if key is not None:
            self.add_rows(batch, batch.null(key), f"the label {key!r} is null")


class LabelEmpty(RowCheck):
    """A label that is empty."""

    code = "KEY006"
    name = "label-empty"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The label of a row is empty text, an empty list or an empty object.",
        why='It loads; a grader that looks for the label in the answer finds "" in every one.',
        example='{"prompt": "2 + 2?", "label": ""}',
        fix="Fill the label in, or leave the row out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the values."""
        key = batch.keys.label_key
        if key is not None:
            self.add_rows(batch, batch.empty(key), f"the label {key!r} is empty")


class LabelTypesMixed(RowCheck):
    """Labels of several types."""

    code = "KEY007"
    name = "label-types-mixed"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="Labels have several types, such as text in some rows and numbers in others.",
        why='A grader that compares "42" with 42 gives no reward, for some rows only.',
        example='{"label": "42"} and {"label": 42}',
        fix="Write all labels in one type, as a rule text.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.seen: dict[str, tuple[int, int]] = {}  # type name: rows, first of them

    def feed(self, batch: RowBatch) -> None:
        """Notes each type once a batch."""
        key = batch.keys.label_key
        if key is None:
            return
        types = batch.types(key)
        for kind in sorted(batch.kinds(key) - {Missing, type(None)}, key=types.index):
            self._note(kind.__name__, types.count(kind), batch.numbers[types.index(kind)])

    def _note(self, name: str, count: int, first: int) -> None:
        known, at = self.seen.get(name, (0, first))
        self.seen[name] = (known + count, at)

    def merge(self, later: LabelTypesMixed) -> None:
        """Adds the counts."""
        super().merge(later)
        for name, (count, first) in later.seen.items():
            self._note(name, count, first)

    def finish(self, totals: Totals) -> None:
        """Says it once, at the first label of the second type."""
        if len(self.seen) < 2:
            return
        kinds = sorted(self.seen.items(), key=lambda item: item[1][1])
        named = ", ".join(
            f"{_JSON_NAMES.get(name, name)} in {count:,} {'row' if count == 1 else 'rows'} "
            f"(first {totals.spot(first)})"
            for name, (count, first) in kinds
        )
        key = self.settings.prompts.label_key
        self.add(Found(f"the label {key!r} is {named}", kinds[1][1][1], None, "label types"))


_JSON_NAMES: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number with a fraction",
    "bool": "a boolean",
    "dict": "an object",
    "list": "a list",
}


class _SometimesAbsent(RowCheck):
    """A key that some rows have and some do not, or that is null or empty in some."""

    severity: ClassVar[Severity] = "note"
    kind: ClassVar[str]  # "missing", "null" or "empty"
    setting: ClassVar[str]

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.num_without = 0
        self.num_with = 0
        self.first: tuple[int, str] | None = None

    def key(self) -> str | None:
        """The key it is about."""
        value: str | None = getattr(self.settings.prompts, self.setting)
        return value

    def feed(self, batch: RowBatch) -> None:
        """Counts rows with and without."""
        key = self.key()
        if key is None:
            return
        without: list[int] = getattr(batch, self.kind)(key)
        self.num_without += len(without)
        self.num_with += len(batch) - len(without)
        if without and self.first is None:
            self.first = (batch.numbers[without[0]], batch.digest(without[0]))

    def merge(self, later: Any) -> None:
        """Adds the counts."""
        super().merge(later)
        self.num_without += later.num_without
        self.num_with += later.num_with
        self.first = self.first or later.first

    def finish(self, totals: Totals) -> None:
        """Says it once, at the first such row, unless it is all rows."""
        del totals
        if self.first is None or (self.kind == "missing" and not self.num_with):
            return
        word = {"missing": "absent"}.get(self.kind, self.kind)
        total = self.num_with + self.num_without
        rows = "row" if total == 1 else "rows"
        what = f"{self.key()!r} is {word} in {self.num_without:,} of {total:,} {rows}, here first"
        self.add(Found(what, self.first[0], None, f"{self.key()} {self.kind}"))


def _absent(what: str, key: str) -> Explanation:
    return Explanation(
        what=what,
        why="It loads as if the row had none. A reward or filter that expects it in every row "
        "fails, or works on less than was meant.",
        example=f'{{"prompt": "a", "{key}": …}} and {{"prompt": "b"}}',
        fix="Write it in every row, or in none; nothing is to be done when it is meant.",
    )


class MetadataMissing(_SometimesAbsent):
    """Metadata that only some rows have."""

    code = "KEY008"
    name = "metadata-missing"
    kind = "missing"
    setting = "metadata_key"
    explanation = _absent("Some rows have metadata and some do not.", "metadata")


class MetadataNull(_SometimesAbsent):
    """Metadata that is null."""

    code = "KEY009"
    name = "metadata-null"
    kind = "null"
    setting = "metadata_key"
    explanation = _absent("The metadata of some rows is null.", "metadata")


class MetadataEmpty(_SometimesAbsent):
    """Metadata that is empty."""

    code = "KEY010"
    name = "metadata-empty"
    kind = "empty"
    setting = "metadata_key"
    explanation = _absent("The metadata of some rows is empty.", "metadata")


class ToolsMissing(_SometimesAbsent):
    """Tools that only some rows have."""

    code = "KEY011"
    name = "tools-missing"
    kind = "missing"
    setting = "tool_key"
    explanation = _absent("Some rows have tools and some do not.", "tools")


class ToolsEmpty(_SometimesAbsent):
    """Tools that are an empty list."""

    code = "KEY012"
    name = "tools-empty"
    kind = "empty"
    setting = "tool_key"
    explanation = _absent("The tools of some rows are empty.", "tools")


class MetadataUnusable(RowCheck):
    """Metadata that is no object."""

    code = "KEY013"
    name = "metadata-not-an-object"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="The metadata of a row is neither an object nor JSON text of one.",
        why="The run stops at this row, or hands a list to code that looks keys up.",
        example='{"prompt": "a", "metadata": [1]}',
        fix="Write an object, or leave the key out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what reading the metadata said."""
        for i, what in batch.findings("metadata"):
            self.add_row(batch, i, what)


CHECKS = (
    PromptMissing,
    PromptNull,
    PromptEmpty,
    LabelMissing,
    LabelNull,
    LabelEmpty,
    LabelTypesMixed,
    MetadataMissing,
    MetadataNull,
    MetadataEmpty,
    ToolsMissing,
    ToolsEmpty,
    MetadataUnusable,
)
