"""Where this package reads what slime (or miles) would refuse, or read otherwise."""

from __future__ import annotations

from typing import ClassVar

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.columns import Missing
from rolloutds.checks.settings import CheckSettings
from rolloutds.row_keys import is_dotted


class _PortCheck(RowCheck):
    """What another data source would read otherwise."""

    severity: ClassVar[Severity] = "warning"


class PortTools(_PortCheck):
    """Tools that are null or empty text."""

    code = "PORT001"
    name = "tools-null-or-empty-text"
    explanation = Explanation(
        what='The tools of a row are null or "".',
        why="Here the row has no tools. slime looks at the value all the same and stops.",
        example='{"prompt": "a", "tools": null}',
        fix="Leave the key out of such rows.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what the inspection said."""
        for i, what in batch.findings("port_tools", is_error=False):
            self.add_row(batch, i, what)


class PortMetadataText(_PortCheck):
    """Metadata as JSON text."""

    code = "PORT002"
    name = "metadata-as-text"
    explanation = Explanation(
        what="The metadata of a row is JSON text of an object.",
        why="Here it is read as an object. slime keeps the text, and code that looks a key up fails.",
        example='{"prompt": "a", "metadata": "{\\"level\\": 1}"}',
        fix="Write an object.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what the inspection said."""
        for i, what in batch.findings("port_metadata_text", is_error=False):
            self.add_row(batch, i, what)


class PortBom(_PortCheck):
    """A file that starts with a BOM; found before the rows are read."""

    code = "PORT003"
    name = "byte-order-mark"
    explanation = Explanation(
        what="A file starts with a byte order mark.",
        why="Here the first line is a row. slime cannot read that line and drops it, so its rows, "
        "and with them the whole order, differ.",
        example="a file saved as UTF-8 with BOM",
        fix="Save it as UTF-8: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
    )


class PortDottedKey(_PortCheck):
    """A key that is read as a path."""

    code = "PORT004"
    name = "dotted-key"
    explanation = Explanation(
        what="A configured key is found by following its dots (reward_model.ground_truth).",
        why="slime looks for a key of exactly that name and stops.",
        example='label_key=reward_model.ground_truth with {"reward_model": {"ground_truth": "4"}}',
        fix="Write the value under a key of its own for slime.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.first: dict[str, int] = {}

    def feed(self, batch: RowBatch) -> None:
        """Looks at the first rows of each kind."""
        keys = self.settings.prompts
        named = [keys.input_key, keys.label_key, keys.metadata_key, keys.tool_key, *keys.media_keys]
        for key in named:
            if key is None or "." not in key or key in self.first:
                continue
            found = (i for i, row in enumerate(batch.rows) if is_dotted(row, key))
            position = next(found, None)
            if position is not None:
                self.first[key] = batch.numbers[position]

    def merge(self, later: PortDottedKey) -> None:
        """Keeps the first places."""
        super().merge(later)
        self.first = later.first | self.first

    def finish(self, totals: Totals) -> None:
        """Names each key."""
        del totals
        for key, row in self.first.items():
            self.add(
                Found(
                    f"{key!r} is read as a path; slime looks for a key of that name", row, None, key
                )
            )


class PortManyFiles(_PortCheck):
    """A folder or a glob; found before the rows are read."""

    code = "PORT005"
    name = "folder-or-glob"
    explanation = Explanation(
        what="The prompt data is a folder or a glob of files.",
        why="Here its files are read one after another, sorted. slime takes one file and stops.",
        example="--prompt-data data/ or --prompt-data 'data/*.jsonl'",
        fix="Put the rows into one file for slime.",
    )


class PortNegativeSlice(_PortCheck):
    """A slice counted from the end; found before the rows are read."""

    code = "PORT006"
    name = "negative-slice"
    explanation = Explanation(
        what="The slice of the prompt data counts from the end.",
        why="slime and this package take it as Python does; miles refuses it.",
        example="prompts.jsonl@[-100:]",
        fix="Count from the start for miles.",
    )


class PortNullMedia(_PortCheck):
    """Media columns that are null."""

    code = "PORT007"
    name = "null-media"
    needs = ("media",)
    explanation = Explanation(
        what="A media column is null in a row.",
        why="Here and in slime the row has no media; miles refuses it.",
        example='{"prompt": "hi", "images": null}',
        fix="Write an empty list, or leave the key out, for miles.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the types."""
        for key in batch.keys.media_keys:
            self.add_rows(batch, batch.null(key), f"{key!r} is null: no media here, miles stops")


class PortMediaOrder(_PortCheck):
    """Rows with media under a length limit."""

    code = "PORT008"
    name = "media-order"
    needs = ("media", "limit")
    explanation = Explanation(
        what="A length limit is set and only some rows have media.",
        why="With a processor and a limit, miles moves rows with media to the end; slime and this "
        "package keep the order.",
        example="rows with and without images, rollout_max_prompt_len 2048",
        fix="Nothing for slime. For miles, put the rows with media last.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.num_without = 0
        self.first_with: int | None = None

    def feed(self, batch: RowBatch) -> None:
        """Counts rows with and without media."""
        columns = [key for key in batch.keys.media_keys if batch.kinds(key) - {Missing, type(None)}]
        found = {i for key in columns for i, value in enumerate(batch.column(key)) if value}
        self.num_without += len(batch) - len(found)
        if found and self.first_with is None:
            self.first_with = batch.numbers[min(found)]

    def merge(self, later: PortMediaOrder) -> None:
        """Adds the counts."""
        super().merge(later)
        self.num_without += later.num_without
        if self.first_with is None:
            self.first_with = later.first_with

    def finish(self, totals: Totals) -> None:
        """Says it once."""
        del totals
        if self.first_with is not None and self.num_without:
            what = (
                f"some rows have media and {self.num_without:,} have none: with a limit, miles "
                "moves those with media to the end"
            )
            self.add(Found(what, self.first_with, None, "media order"))


CHECKS = (
    PortTools,
    PortMetadataText,
    PortBom,
    PortDottedKey,
    PortManyFiles,
    PortNegativeSlice,
    PortNullMedia,
    PortMediaOrder,
)
