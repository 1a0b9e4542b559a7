"""What `explain` says of a code of `validate`."""

from __future__ import annotations

import difflib

from rolloutds.checks.base import Check
from rolloutds.checks.registry import CHECKS
from rolloutds.checks.settings import MISSING_NEEDS
from rolloutds.errors import ConfigError
from rolloutds.reports.model import Block, Cells, Column, Facts, Report, Section, Table


def list_report() -> Report:
    """Every code, a line each."""
    columns = [Column("code"), Column("severity"), Column("name"), Column("what")]
    rows = [
        Cells([check.code, check.severity, check.name, first_sentence(check)])
        for check in CHECKS.values()
    ]
    records = [_record(check) for check in CHECKS.values()]
    return Report("explain", {}, "codes", records, [Table(columns, rows)])


def first_sentence(check: type[Check]) -> str:
    """What a check finds, in one sentence."""
    return check.explanation.what.partition(". ")[0].removesuffix(".") + "."


def code_report(name: str) -> Report:
    """One code.

    Raises:
        ConfigError: there is no such code.
    """
    check = _find(name)
    text = check.explanation
    sections: list[Section] = [
        Facts(_facts(check)),
        Block(text.what, "What"),
        Block(text.why, "Why it hurts"),
        Block(text.example, "Example"),
        Block(text.fix, "How to fix"),
    ]
    return Report("explain", {}, "codes", [_record(check)], sections)


def _facts(check: type[Check]) -> list[tuple[str, str]]:
    facts = [("code", check.code), ("name", check.name), ("severity", check.severity)]
    needs = [MISSING_NEEDS[need].partition(" (")[0].removeprefix("no ") for need in check.needs]
    return [*facts, ("needs", ", ".join(needs))] if needs else facts


def _record(check: type[Check]) -> dict[str, object]:
    text = check.explanation
    return {
        "code": check.code,
        "name": check.name,
        "severity": check.severity,
        "needs": list(check.needs),
        "what": text.what,
        "why": text.why,
        "example": text.example,
        "fix": text.fix,
    }


def _find(name: str) -> type[Check]:
    wanted = name.strip().lower()
    for check in CHECKS.values():
        if wanted in (check.code.lower(), check.name):
            return check
    names = {check.code.lower(): check.code for check in CHECKS.values()}
    names |= {check.name: check.code for check in CHECKS.values()}
    nearest = difflib.get_close_matches(wanted, names, n=1)
    expected = f"one like {names[nearest[0]]}" if nearest else "a code such as ROW001"
    hint = "`rolloutds explain` lists every code"
    raise ConfigError(f"there is no code {name!r}", expected=expected, hint=hint)
