"""Tools: can they be read, are they tools, and does the model get to see them."""

from __future__ import annotations

from typing import Any, ClassVar

from rolloutds.checks.base import Explanation, RowCheck, Severity
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.columns import Missing
from rolloutds.errors import PromptError
from rolloutds.prompts import build_prompt


class ToolsUnparsable(RowCheck):
    """Tools given as text that is no JSON."""

    code = "TOOL001"
    name = "tools-unparsable"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="The tools of a row are text that is no JSON.",
        why="The run stops at this row.",
        example='{"prompt": "a", "tools": "[{bad"}',
        fix="Write a list of tools, or JSON text of one.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what reading the tools said."""
        for i, what in batch.findings("tools"):
            if "not JSON" in what:
                self.add_row(batch, i, what)


class ToolsWrongShape(RowCheck):
    """Tools that are no list."""

    code = "TOOL002"
    name = "tools-not-a-list"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="The tools of a row are no list, or one of them is no object.",
        why="The run stops at this row, or the template fails on it.",
        example='{"prompt": "a", "tools": {"a": 1}}',
        fix='Write a list: [{"type": "function", "function": {"name": …, "parameters": …}}].',
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what reading the tools said."""
        for i, what in batch.findings("tools"):
            if "not JSON" not in what:
                self.add_row(batch, i, what)


class ToolWithoutName(RowCheck):
    """A tool that has no name."""

    code = "TOOL003"
    name = "tool-without-name"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what='A tool is not {"type": "function", "function": {"name": …}} and has no name.',
        why="Templates write it as it is, or leave it out; the model cannot call it.",
        example='{"tools": [{"description": "adds"}]}',
        fix="Give each tool a name, in the form of the chat template.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at each tool."""
        for i, tools in _tools_of(batch):
            for number, tool in enumerate(tools):
                if not _name(tool):
                    self.add_row(batch, i, f"tool {number} has no name")


def _tools_of(batch: RowBatch) -> list[tuple[int, list[Any]]]:
    key = batch.keys.tool_key
    if key is None or not batch.kinds(key) - {Missing, type(None)}:
        return []
    found = []
    for i, value in enumerate(batch.column(key)):
        if value and isinstance(value, str | list):
            try:
                tools = build_prompt(batch.rows[i], batch.keys).tools
            except PromptError:
                continue
            if tools:
                found.append((i, tools))
    return found


def _name(tool: Any) -> str | None:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return name if isinstance(name, str) and name else None


class ToolsInvisible(RowCheck):
    """Tools that the rendered prompt does not show."""

    code = "TOOL004"
    name = "tools-not-rendered"
    severity: ClassVar[Severity] = "warning"
    needs = ("template",)
    explanation = Explanation(
        what="The name of a tool is not in the rendered prompt.",
        why="The chat template takes no tools: the model is rewarded for calling what it was "
        "never told of.",
        example="tools in every row, and a template without a word on tools",
        fix="Use a template that renders tools (--chat-template).",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks for each name in the text."""
        for i, tools in _tools_of(batch):
            text = batch.rendered[i]
            if isinstance(text, str):
                hidden = [name for tool in tools if (name := _name(tool)) and name not in text]
                if hidden:
                    names = ", ".join(f"{name!r:.40}" for name in hidden[:3])
                    self.add_row(batch, i, f"the rendered prompt does not show the tool {names}")


class ArrowFilledTools(RowCheck):
    """Tools with the nulls that Arrow fills in."""

    code = "TOOL005"
    name = "tools-filled-with-null"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="Tools from a Parquet file have parameters that are null: Arrow gives all rows of a "
        "column the same fields, and fills those a row does not have with null.",
        why="The model is shown the parameters of the tools of other rows, each null.",
        example="a column tools whose rows have tools with different parameters",
        fix="Write tools as JSON text: the column is then text, and each row keeps its own.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks for nulls in tools."""
        key = batch.keys.tool_key
        if not batch.is_parquet or key is None or list not in batch.kinds(key):
            return
        for i, tools in enumerate(batch.column(key)):
            names = _null_fields(tools) if isinstance(tools, list) else []
            if names:
                shown = ", ".join(repr(name) for name in names[:4])
                self.add_row(batch, i, f"fields of tools are null, as Arrow fills them in: {shown}")


def _null_fields(value: Any) -> list[str]:
    names: dict[str, None] = {}
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            names.update((key, None) for key, item in value.items() if item is None)
            waiting.extend(value.values())
    return sorted(names)


CHECKS = (ToolsUnparsable, ToolsWrongShape, ToolWithoutName, ToolsInvisible, ArrowFilledTools)
