"""Runs checks over prompt data: part by part, in one process or several, one pass in all.

The parts are the same for any number of processes, and their results are merged in the order
of the data, so the findings and their order do not depend on the processes.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from rolloutds.checks.base import Found, PartOfData, RowCheck, Totals
from rolloutds.checks.duplicates import share_table
from rolloutds.checks.findings import Checked, Finding, Result, fingerprinted
from rolloutds.checks.parts import FileProblem, Layout
from rolloutds.checks.registry import ROW_CHECKS
from rolloutds.checks.rendering import Rendering
from rolloutds.checks.scan import batches
from rolloutds.checks.selection import Selection, missing_need
from rolloutds.checks.settings import CheckSettings
from rolloutds.errors import DataError

Progress = Callable[[int], None]
"""Is told how many bytes are done."""


@dataclass
class PartResult:
    """What checks hold after one part, or after all parts so far."""

    checks: list[RowCheck]
    totals: Totals
    problems: list[FileProblem]

    def merge(self, later: PartResult) -> None:
        """Takes over what a later part holds."""
        for check, other in zip(self.checks, later.checks, strict=True):
            check.merge(other)
        self.totals.merge(later.totals)
        self.problems += later.problems


def check_rows(
    layout: Layout,
    settings: CheckSettings,
    selection: Selection,
    *,
    num_processes: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Checks prompt data.

    Args:
        layout: the parts of the data.
        settings: what a run reads of a row.
        selection: the checks that are asked for.
        num_processes: how many processes share the work.
        progress: is told how far the work is.

    Raises:
        TokenizerError: the tokenizer cannot be loaded.
        MissingExtraError: the package for it is not installed.
    """
    asked = [code for code in ROW_CHECKS if selection.has(code)]
    skipped = [skip for code in asked if (skip := missing_need(code, settings)) is not None]
    codes = [code for code in asked if code not in {skip.code for skip in skipped}]
    whole = PartResult(_make_checks(codes, settings), Totals(), [])
    done = 0
    partial = _results(layout.parts, settings, codes, num_processes)
    for part, held in zip(layout.parts, partial, strict=True):
        whole.merge(held)
        done += part.size if part.is_parquet else part.stop - part.start
        if progress is not None:
            progress(done)
    is_readable = bool(layout.parts) or not layout.problems
    for check in whole.checks if is_readable else ():
        check.finish(whole.totals)
    problems = [problem for problem in [*layout.problems, *whole.problems] if problem.code in codes]
    result = _as_result(layout.name, whole, problems, selection)
    rows = whole.totals.num_rows + whole.totals.num_bad
    result.checked = [Checked("dataset", layout.name, rows, "row", layout.num_bytes)]
    result.skipped = skipped
    result.ran = set(codes)
    result.notices = list(layout.notices)
    return result


def _make_checks(codes: Sequence[str], settings: CheckSettings) -> list[RowCheck]:
    checks = [ROW_CHECKS[code](settings) for code in codes]
    share_table(checks)
    return checks


def _results(
    parts: Sequence[PartOfData], settings: CheckSettings, codes: Sequence[str], num_processes: int
) -> Iterator[PartResult]:
    if min(num_processes, len(parts)) <= 1:
        yield from (check_part(part, settings, codes) for part in parts)
        return
    # A fresh interpreter: a copy of this one could hold locks of its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(num_processes, len(parts)), mp_context=context) as pool:
        futures = [pool.submit(check_part, part, settings, codes) for part in parts]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def check_part(part: PartOfData, settings: CheckSettings, codes: Sequence[str]) -> PartResult:
    """Runs checks over one part of the data."""
    result = PartResult(_make_checks(codes, settings), Totals(), [])
    rendering = _rendering(settings, codes)
    try:
        with _without_collector():
            for batch in batches(part, settings, result.totals, rendering):
                for check in result.checks:
                    check.feed(batch)
    except DataError as error:
        result.problems.append(FileProblem("ROW013", part.name, None, _bare(error, part.name)))
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        result.problems.append(FileProblem("ROW013", part.name, None, what))
    return result


def _bare(error: DataError, name: str) -> str:
    return f"{error.what}. {error.hint}" if error.where in (None, name) else str(error)


_loaded: dict[tuple[str | None, str | None], Rendering] = {}


def _rendering(settings: CheckSettings, codes: Sequence[str]) -> Rendering | None:
    """The tokenizer of this process, loaded once, where a check needs it."""
    if not any({"tokenizer", "template"} & set(ROW_CHECKS[code].needs) for code in codes):
        return None
    key = (settings.hf_checkpoint, settings.chat_template)
    if key not in _loaded or _loaded[key].settings != settings:
        _loaded.clear()
        _loaded[key] = Rendering(settings)
    return _loaded[key]


@contextmanager
def _without_collector() -> Iterator[None]:
    """Rows hold no cycles, and looking for some costs more than parsing them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _as_result(
    name: str, whole: PartResult, problems: Sequence[FileProblem], selection: Selection
) -> Result:
    result = Result()
    found: list[tuple[int, Finding, str]] = []
    for problem in problems:
        finding = _finding(problem.code, problem.what, selection, problem.file, line=problem.line)
        found.append((-1, finding, problem.what))
        result.counts[problem.code] += 1
    for check in whole.checks:
        result.counts[check.code] += check.num_found
        found += [
            (
                -1 if item.row is None else item.row,
                _placed(check, item, name, whole, selection),
                item.identity,
            )
            for item in check.found
        ]
    found.sort(key=lambda item: (item[0], item[1].code))
    result.findings = fingerprinted((finding, identity) for _, finding, identity in found)
    result.counts = +result.counts
    result.severities = {code: selection.severity(code) for code in result.counts}
    return result


def _placed(
    check: RowCheck, item: Found, name: str, whole: PartResult, selection: Selection
) -> Finding:
    if item.row is None:
        return _finding(check.code, item.what, selection, name)
    file, row_id = whole.totals.place(item.row)
    has_lines = file not in whole.totals.lineless
    return _finding(
        check.code,
        item.what,
        selection,
        file,
        line=row_id + 1 if has_lines else None,
        column=item.column,
        row_id=row_id,
    )


def _finding(
    code: str,
    what: str,
    selection: Selection,
    file: str,
    *,
    line: int | None = None,
    column: int | None = None,
    row_id: int | None = None,
) -> Finding:
    name, severity = ROW_CHECKS[code].name, selection.severity(code)
    return Finding(code, name, severity, what, file, line, column, row_id)
