"""Runs checks over groups: file by file, a group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rolloutds.checks.base import Found, GroupCheck, GroupSpot
from rolloutds.checks.findings import Checked, Finding, Result, fingerprinted
from rolloutds.checks.groups import UnreadableGroups, WrongGroupSize
from rolloutds.checks.inputs import Input
from rolloutds.checks.registry import GROUP_CHECKS
from rolloutds.checks.selection import Selection
from rolloutds.checks.settings import CheckSettings
from rolloutds.errors import DataNotFoundError, RolloutDSError
from rolloutds.rollouts import open_groups
from rolloutds.rollouts.base import ReadGroup


def check_groups_of(
    inputs: Sequence[Input], settings: CheckSettings, selection: Selection
) -> Result:
    """Checks buffer files and rollout dumps, together: one file may contradict another.

    Raises:
        DataNotFoundError: there is no such file.
    """
    checks = checks_on_groups(settings, selection)
    files: list[str] = []
    counts = [_check_input(one, settings, checks, files) for one in _different(inputs)]
    result = as_result(checks, selection, files)
    result.checked = counts
    result.ran = {check.code for check in checks}
    for check in checks:
        if isinstance(check, WrongGroupSize):
            for file, size in check.assumed.items():
                text = (
                    f"{file}: n_samples_per_prompt is not set, its commonest size {size} is taken"
                )
                result.notices.append(text)
    return result


def _different(inputs: Sequence[Input]) -> list[Input]:
    """Inputs without those that lead to the same place as one before."""
    places = {os.path.realpath(one.path or one.name): one for one in reversed(inputs)}
    return [one for one in inputs if one in places.values()]


def _check_input(
    one: Input, settings: CheckSettings, checks: Sequence[GroupCheck], files: list[str]
) -> Checked:
    groups = open_groups(one.path or one.name, n_samples_per_prompt=settings.n_samples_per_prompt)
    count = 0
    for path in groups.paths:
        shown = one.name if one.path is not None else path
        files.append(shown)
        opened = open_groups(path, n_samples_per_prompt=settings.n_samples_per_prompt)
        count += check_group_stream(opened, shown, checks)
    return Checked("groups", one.name, count, "group")


def checks_on_groups(settings: CheckSettings, selection: Selection) -> list[GroupCheck]:
    """The checks that are asked for."""
    return [check(settings) for code, check in GROUP_CHECKS.items() if selection.has(code)]


def check_group_stream(groups: Iterable[ReadGroup], file: str, checks: Sequence[GroupCheck]) -> int:
    """Feeds the groups of one file; what stops the reading is a finding. Returns how many."""
    count = 0
    try:
        for group in groups:
            count += 1
            if group.place.file != file:
                group.place = group.place._replace(file=file)
            for check in checks:
                check.feed(group)
    except DataNotFoundError:
        raise
    except RolloutDSError as error:
        for check in checks:
            if isinstance(check, UnreadableGroups):
                what = str(error.headline).partition("\n")[0].removeprefix(f"{file}: ")
                what = what.removesuffix("; what was looked for:")  # a list that is left out
                check.add(Found(what, None, None, what, GroupSpot(file, None)))
    for check in checks:
        check.end_file(file)
    return count


def as_result(
    checks: Sequence[GroupCheck], selection: Selection, files: Sequence[str] = ()
) -> Result:
    """What checks on groups found, in the order of the files and of the groups in them."""
    found: list[tuple[Finding, str]] = []
    result = Result()
    for check in checks:
        result.counts[check.code] += check.num_found
        for item in check.found:
            spot = item.spot or GroupSpot("", None)
            severity = selection.severity(check.code)
            finding = Finding(
                check.code,
                check.name,
                severity,
                _message(item.what, spot),
                spot.file,
                spot.line,
                group=spot.group,
                sample=spot.sample,
            )
            found.append((finding, item.identity))
    named = list(dict.fromkeys([*files, *(finding.file for finding, _ in found)]))
    found.sort(key=lambda item: _order(item[0], named))
    result.findings = fingerprinted(found)
    result.counts = +result.counts
    result.severities = {code: selection.severity(code) for code in result.counts}
    return result


def _message(what: str, spot: GroupSpot) -> str:
    """The sentence; where the place is a line, with the group and the sample it is about."""
    if spot.line is None or spot.group is None:
        return what
    name = f"group {spot.group}"
    if spot.sample is not None:
        return f"{name}, sample {spot.sample}: {what}"
    return what if what.startswith(f"{name} ") else f"{name}: {what}"


def _order(finding: Finding, files: Sequence[str]) -> tuple[int, int, int, int, str]:
    group = -1 if finding.group is None else finding.group
    sample = -1 if finding.sample is None else finding.sample
    return files.index(finding.file), finding.line or 0, group, sample, finding.code
