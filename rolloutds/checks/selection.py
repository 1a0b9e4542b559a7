"""Which checks run, and how bad their findings are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rolloutds.checks.base import SEVERITIES, Severity
from rolloutds.checks.findings import Skipped
from rolloutds.checks.registry import CHECKS
from rolloutds.checks.settings import MISSING_NEEDS, CheckSettings
from rolloutds.errors import ConfigError


@dataclass(frozen=True)
class Selection:
    """Codes that are asked for.

    Attributes:
        select: codes or prefixes; empty: all.
        ignore: codes or prefixes that are left out; the longer of two that fit wins.
        severities: severities other than the check's own, by code or prefix.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for prefix in (*self.select, *self.ignore, *self.severities):
            _check_prefix(prefix)
        for prefix, severity in self.severities.items():
            if severity not in SEVERITIES:
                what = f"the severity of {prefix} is {severity!r}"
                raise ConfigError(what, expected=f"one of {', '.join(SEVERITIES)}")

    def has(self, code: str) -> bool:
        """Whether a check is asked for."""
        chosen = _longest(self.select, code) if self.select else 0
        left_out = _longest(self.ignore, code)
        return chosen >= 0 and chosen >= left_out if self.select else left_out < 0

    def severity(self, code: str) -> Severity:
        """How bad the findings of a code are."""
        fitting = [prefix for prefix in self.severities if code.startswith(prefix)]
        return self.severities[max(fitting, key=len)] if fitting else CHECKS[code].severity


def _longest(prefixes: Iterable[str], code: str) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=-1)


def _check_prefix(prefix: str) -> None:
    if prefix and any(code.startswith(prefix) for code in CHECKS):
        return
    names = [*CHECKS, *{code.rstrip("0123456789") for code in CHECKS}]
    nearest = difflib.get_close_matches(prefix.upper(), names, n=1)
    raise ConfigError(
        f"there is no check {prefix!r}",
        expected=f"a code or the beginning of one, such as {nearest[0] if nearest else 'ROW'}",
        hint="`rolloutds explain` lists every code",
    )


def missing_need(code: str, settings: CheckSettings) -> Skipped | None:
    """Why a check on rows cannot run, or None when it can."""
    for need in getattr(CHECKS[code], "needs", ()):
        if need not in settings.offers:
            return Skipped(code, MISSING_NEEDS[need])
    return None
