"""What validate found: findings with their places, and what was checked and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

import xxhash

from rolloutds.checks.base import SEVERITIES, Severity

Kind = Literal["dataset", "groups", "checkpoint"]


@dataclass(frozen=True)
class Finding:
    """One thing wrong in one place.

    Attributes:
        code: of the check.
        name: of the check, in words.
        severity: an error stops a run or spoils it.
        message: what was found.
        file: as it was named.
        line: from 1; None where the file has no lines, or the finding is about all of it.
        column: from 1, where it is known.
        row_id: physical line or row, from 0.
        group: the group, as the file numbers it.
        sample: position of the sample in its group.
        fingerprint: stays the same when lines move.
    """

    code: str
    name: str
    severity: Severity
    message: str
    file: str
    line: int | None = None
    column: int | None = None
    row_id: int | None = None
    group: int | None = None
    sample: int | None = None
    fingerprint: str = ""

    @property
    def place(self) -> str:
        """``file[:line[:column]]``, ``file row N`` or ``file group N[, sample M]``."""
        if self.line is not None:
            return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        if self.group is not None:
            sample = "" if self.sample is None else f", sample {self.sample}"
            return f"{self.file} group {self.group}{sample}"
        return self.file if self.row_id is None else f"{self.file} row {self.row_id}"


class Checked(NamedTuple):
    """One input that was checked: a file, folder or glob, and how much there was in it."""

    kind: Kind
    name: str
    number: int
    unit: str
    num_bytes: int = 0

    @property
    def text(self) -> str:
        """``prompts.jsonl: 7,473 rows``."""
        unit = self.unit if self.number == 1 else self.unit + "s"
        return f"{self.name}: {self.number:,} {unit}"


class Skipped(NamedTuple):
    """A check that did not run, and why."""

    code: str
    reason: str


@dataclass
class Result:
    """Everything one call of validate found.

    Attributes:
        findings: in order: input by input, line by line.
        counts: findings of each code, those that were not kept one by one too.
        checked: the inputs.
        skipped: checks that did not run on any of them.
        ran: codes of the checks that ran.
        notices: sentences worth saying.
        num_known: findings left out because a baseline knows them.
    """

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    severities: dict[str, Severity] = field(default_factory=dict)
    checked: list[Checked] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ran: set[str] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)
    num_known: int = 0

    def add(self, other: Result) -> None:
        """Takes over what was found in another input."""
        self.findings += other.findings
        self.counts += other.counts
        self.severities |= other.severities
        self.checked += other.checked
        self.ran |= other.ran
        known = {skipped.code for skipped in self.skipped}
        self.skipped += [skipped for skipped in other.skipped if skipped.code not in known]
        self.skipped = [skipped for skipped in self.skipped if skipped.code not in self.ran]
        self.notices += other.notices
        self.num_known += other.num_known

    def num(self, severity: Severity) -> int:
        """How many findings of a severity there are, those not kept one by one too."""
        codes = self.counts.items()
        return sum(count for code, count in codes if self.severities.get(code) == severity)

    def fails(self, fail_on: Severity) -> bool:
        """Whether there is a finding at least as bad as `fail_on`."""
        worse = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
        return any(self.num(severity) for severity in worse)

    @property
    def was_anything_checked(self) -> bool:
        """Whether any check ran on any input."""
        return bool(self.checked) and bool(self.ran)


def fingerprinted(findings: Iterable[tuple[Finding, str]]) -> list[Finding]:
    """Gives each finding a fingerprint: code, file name, content, and which of equal ones it is."""
    seen: Counter[str] = Counter()
    done = []
    for finding, identity in findings:
        name = PurePath(finding.file).name
        text = "\0".join([finding.code, name, identity])
        seen[text] += 1
        spelled = f"{text}\0{seen[text]}".encode("utf-8", "surrogatepass")
        done.append(replace(finding, fingerprint=xxhash.xxh3_64_hexdigest(spelled)))
    return done


def as_record(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "row_id": finding.row_id,
        "group": finding.group,
        "sample": finding.sample,
        "fingerprint": finding.fingerprint,
    }


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Errors, then warnings, then notes; the order within each is kept."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
