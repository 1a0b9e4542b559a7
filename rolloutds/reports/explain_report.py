"""What `explain` says of a code of `validate` or of `buffer replay`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import NamedTuple

from rolloutds.checks.base import Check
from rolloutds.checks.registry import CHECKS
from rolloutds.checks.settings import MISSING_NEEDS, Needs
from rolloutds.errors import ConfigError
from rolloutds.replay_codes import REPLAY_CODES
from rolloutds.reports.model import Block, Cells, Column, Facts, Report, Section, Table


class _Page(NamedTuple):
    """What there is to say of a code."""

    code: str
    name: str
    severity: str
    needs: tuple[Needs, ...]
    what: str
    why: str
    example: str
    fix: str

    @property
    def record(self) -> dict[str, object]:
        return self._asdict() | {"needs": list(self.needs)}


def list_report() -> Report:
    """Every code, a line each."""
    columns = [Column("code"), Column("severity"), Column("name"), Column("what")]
    pages = list(_pages())
    rows = [Cells([page.code, page.severity, page.name, _sentence(page.what)]) for page in pages]
    return Report("explain", {}, "codes", [page.record for page in pages], [Table(columns, rows)])


def first_sentence(check: type[Check]) -> str:
    """What a check finds, in one sentence."""
    return _sentence(check.explanation.what)


def _sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".") + "."


def code_report(name: str) -> Report:
    """One code.

    Raises:
        ConfigError: there is no such code.
    """
    page = _find(name)
    sections: list[Section] = [
        Facts(_facts(page)),
        Block(page.what, "What"),
        Block(page.why, "Why it hurts"),
        Block(page.example, "Example"),
        Block(page.fix, "How to fix"),
    ]
    return Report("explain", {}, "codes", [page.record], sections)


def _facts(page: _Page) -> list[tuple[str, str]]:
    facts = [("code", page.code), ("name", page.name), ("severity", page.severity)]
    needs = [MISSING_NEEDS[need].partition(" (")[0].removeprefix("no ") for need in page.needs]
    return [*facts, ("needs", ", ".join(needs))] if needs else facts


def _pages() -> Iterator[_Page]:
    for check in CHECKS.values():
        text = check.explanation
        yield _Page(
            check.code,
            check.name,
            check.severity,
            tuple(check.needs),
            text.what,
            text.why,
            text.example,
            text.fix,
        )
    for code, found in REPLAY_CODES.items():
        yield _Page(
            code, found.name, found.severity, (), found.what, found.why, found.example, found.fix
        )


def _find(name: str) -> _Page:
    wanted = name.strip().lower()
    names: dict[str, _Page] = {}
    for page in _pages():
        if wanted in (page.code.lower(), page.name):
            return page
        names[page.code.lower()] = names[page.name] = page
    nearest = difflib.get_close_matches(wanted, names, n=1)
    expected = f"one like {names[nearest[0]].code}" if nearest else "a code such as ROW001"
    hint = "`rolloutds explain` lists every code"
    raise ConfigError(f"there is no code {name!r}", expected=expected, hint=hint)
