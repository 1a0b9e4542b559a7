"""Runs checks over prompt data: part by part, on any engine, one pass in all.

The parts do not depend on the engine, and their results are merged in the order of the data, so
neither do the findings and their order.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rolloutds.checks.base import Found, PartOfData, RowCheck, Totals
from rolloutds.checks.duplicates import share_table, shared_table
from rolloutds.checks.findings import Checked, Finding, Result, fingerprinted
from rolloutds.checks.parts import FileProblem, Layout
from rolloutds.checks.prompt_table import Repeats, repeats_in
from rolloutds.checks.registry import ROW_CHECKS
from rolloutds.checks.rendering import Rendering
from rolloutds.checks.scan import batches
from rolloutds.checks.selection import Selection, missing_need
from rolloutds.checks.settings import CheckSettings
from rolloutds.engines import Engine, open_engine
from rolloutds.errors import DataError

Progress = Callable[[int], None]
"""Is told how many bytes are done."""

# Each task gives one result, and one reference for each bucket: both numbers stay bounded, however
# much data there is.
_MAX_TASKS: Final = 512
_MAX_BUCKETS: Final = 128
_BUCKET_BYTES: Final = 2 << 30  # of data, some 2 M rows: 80 MB of hashes


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
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Result:
    """Checks prompt data.

    Args:
        layout: the parts of the data.
        settings: what a run reads of a row.
        selection: the checks that are asked for.
        engine: what the parts are checked on; None: this process.
        progress: is told how far the work is.

    Raises:
        TokenizerError: the tokenizer cannot be loaded.
        MissingExtraError: the package for it is not installed.
        EngineError: the processes that worked on a part died each time.
    """
    asked = [code for code in ROW_CHECKS if selection.has(code)]
    skipped = [skip for code in asked if (skip := missing_need(code, settings)) is not None]
    codes = [code for code in asked if code not in {skip.code for skip in skipped}]
    whole = PartResult(_make_checks(codes, settings), Totals(), [])
    done = 0
    for batch, held in _results(layout, _Work(settings, codes), whole, engine or open_engine()):
        whole.merge(held)
        done += sum(part.num_bytes for part in batch)
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


class _Work(NamedTuple):
    """What every task is told.

    Attributes:
        settings: what a run reads of a row.
        codes: the checks.
        num_buckets: buckets that the table of prompts is split into; 0: it is not.
    """

    settings: CheckSettings
    codes: Sequence[str]
    num_buckets: int = 0


Batch = Sequence[PartOfData]


def _results(
    layout: Layout, work: _Work, whole: PartResult, engine: Engine
) -> Iterator[tuple[Batch, PartResult]]:
    """What checks hold after each task; tables of prompts do not come along, but into `whole`."""
    batches = _batched(layout.parts)
    names = [_batch_name(batch) for batch in batches]
    table = shared_table(whole.checks)
    if engine.is_local and len(batches) == 1:
        engine = open_engine()  # done sooner than another process starts
    if engine.is_in_process or table is None:
        results = engine.map(_check_batch, batches, common=work, names=names)
        yield from zip(batches, results, strict=True)
        return
    work = work._replace(num_buckets=min(1 + layout.num_bytes // _BUCKET_BYTES, _MAX_BUCKETS))
    with engine.partitions(work.num_buckets) as partitions:
        results = partitions.map(_check_and_split, batches, common=work, names=names)
        yield from zip(batches, results, strict=True)
        kept = work.settings.max_kept
        table.take(partitions.reduce(_find_repeats, common=kept, name="duplicates"))


def _batched(parts: Sequence[PartOfData]) -> list[Batch]:
    """Neighbouring parts that one task checks."""
    size = -(-len(parts) // _MAX_TASKS) or 1
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def _batch_name(batch: Batch) -> str:
    """What to call the parts of a task in messages."""
    first, last = batch[0], batch[-1]
    if first.name != last.name:
        return f"{first.name} to {last.name}"
    what = "rows" if first.is_parquet else "bytes"
    is_whole = first.start == 0 and last.stop >= last.size
    return first.name if is_whole else f"{first.name}, {what} {first.start} to {last.stop}"


def _check_batch(work: _Work, batch: Batch) -> PartResult:
    result = check_part(batch[0], work.settings, work.codes)
    for part in batch[1:]:
        result.merge(check_part(part, work.settings, work.codes))
    return result


def _check_and_split(work: _Work, batch: Batch) -> tuple[PartResult, list[Any]]:
    """Beside what checks hold, the prompts in buckets; the table is left empty."""
    result = _check_batch(work, batch)
    table = shared_table(result.checks)
    return result, [] if table is None else table.split(work.num_buckets)


def _find_repeats(max_kept: int, pieces: Sequence[Any]) -> Repeats:
    return repeats_in(pieces, max_kept)


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
