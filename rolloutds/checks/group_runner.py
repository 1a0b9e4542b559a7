"""Runs checks over groups: file by file, a group at a time."""

from __future__ import annotations

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


def check_groups_of(one: Input, settings: CheckSettings, selection: Selection) -> Result:
    """Checks buffer files and rollout dumps.

    Raises:
        DataNotFoundError: there is no such file.
    """
    checks = checks_on_groups(settings, selection)
    groups = open_groups(one.path or one.name, n_samples_per_prompt=settings.n_samples_per_prompt)
    count = 0
    for path in groups.paths:
        shown = one.name if one.path is not None else path
        opened = open_groups(path, n_samples_per_prompt=settings.n_samples_per_prompt)
        count += check_group_stream(opened, shown, checks)
    result = as_result(checks, selection)
    result.checked = [Checked("groups", one.name, count, "group")]
    result.ran = {check.code for check in checks}
    for check in checks:
        if isinstance(check, WrongGroupSize):
            for file, size in check.assumed.items():
                text = (
                    f"{file}: n_samples_per_prompt is not set, its commonest size {size} is taken"
                )
                result.notices.append(text)
    return result


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
                check.add(Found(what, None, None, what, GroupSpot(file, None)))
    for check in checks:
        check.end_file(file)
    return count


def as_result(checks: Sequence[GroupCheck], selection: Selection) -> Result:
    """What checks on groups found, in the order of the groups."""
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
                item.what,
                spot.file,
                spot.line,
                group=spot.group,
                sample=spot.sample,
            )
            found.append((finding, item.identity))
    files = list(dict.fromkeys(finding.file for finding, _ in found))
    found.sort(key=lambda item: _order(item[0], files))
    result.findings = fingerprinted(found)
    result.counts = +result.counts
    result.severities = {code: selection.severity(code) for code in result.counts}
    return result


def _order(finding: Finding, files: Sequence[str]) -> tuple[int, int, int, int, str]:
    group = -1 if finding.group is None else finding.group
    sample = -1 if finding.sample is None else finding.sample
    return files.index(finding.file), finding.line or 0, group, sample, finding.code
