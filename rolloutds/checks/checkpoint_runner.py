"""Checks saved states: each by itself, and those of a folder one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rolloutds.checkpoints import list_folder, open_file
from rolloutds.checkpoints.base import CursorFile
from rolloutds.checkpoints.listing import DAMAGED, FOREIGN, Entry, Listing
from rolloutds.checkpoints.verify import Against, examine
from rolloutds.checks.findings import Checked, Finding, Result, fingerprinted
from rolloutds.checks.registry import CHECKPOINT_CHECKS
from rolloutds.checks.selection import Selection
from rolloutds.errors import MissingStateError, RolloutDSError


def check_checkpoints(name: str, selection: Selection, against: Against | None) -> Result:
    """Checks a cursor file, or those of a folder.

    Args:
        name: the file or folder.
        selection: the checks that are asked for.
        against: the data the states are to continue on.

    Raises:
        MissingStateError: nothing is there.
    """
    listing = None
    if Path(name).is_dir():
        listing = list_folder(Path(name))
    found = list(_listed(listing, against) if listing else _of_file(Path(name), against))
    result = Result()
    chosen = []
    for path, code, what in found:
        if selection.has(code):
            severity = selection.severity(code)
            finding = Finding(code, CHECKPOINT_CHECKS[code].name, severity, what, path)
            chosen.append((finding, what))
            result.counts[code] += 1
    result.findings = fingerprinted(chosen)
    result.severities = {code: selection.severity(code) for code in result.counts}
    result.checked = [Checked("checkpoint", name, len(listing.entries) if listing else 1, "state")]
    result.ran = {code for code in CHECKPOINT_CHECKS if selection.has(code)}
    if listing:
        result.notices = [f"{name}: {note}" for note in listing.notes]
    return result


_Said = Iterator[tuple[str, str, str]]


def _of_file(path: Path, against: Against | None) -> _Said:
    try:
        file = open_file(path)
    except MissingStateError:
        raise
    except RolloutDSError as error:
        yield str(path), "CKPT001", error.headline.partition("\n")[0].removeprefix(f"{path}: ")
        return
    yield from _examined(file, against)


def _examined(file: CursorFile, against: Against | None) -> _Said:
    for finding in examine(file, against):
        yield str(file.path), finding.code, f"{finding.field} {finding.what}"


def _listed(listing: Listing, against: Against | None) -> _Said:
    for entry in listing.entries:
        path = str(entry.found.path)
        if entry.state in (DAMAGED, FOREIGN):
            what = entry.error.headline if entry.error else entry.state
            yield path, "CKPT001", what.partition("\n")[0].removeprefix(f"{path}: ")
        elif entry.file is not None:
            yield from _examined(entry.file, against)
        yield from _marked(entry)


def _marked(entry: Entry) -> _Said:
    for mark in entry.marks:
        yield str(entry.found.path), "CKPT051" if mark.startswith("gap:") else "CKPT050", mark
