"""Does a saved state belong to this dataset, and is it legal? What is found has a code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rolloutds.checkpoints.base import CursorFile, Finding, count_in, is_count
from rolloutds.checkpoints.slime_form import (
    REFERENCE_KEYS,
    buffered_groups,
    fingerprint_in,
    group_index_in,
    in_flight_groups,
    samples_of,
)
from rolloutds.checkpoints.stateful_dataloader import loader_states, read_loader_state
from rolloutds.fingerprint import (
    LENGTH_FIELDS,
    ORDER_FIELDS,
    ROW_FIELDS,
    Fingerprint,
    compare,
)

Severity = Literal["error", "warning", "note"]

_NAMED_GROUPS = 5
_FIELD_OF = {title: name for name, title in (ORDER_FIELDS | LENGTH_FIELDS | ROW_FIELDS).items()}


class Code(NamedTuple):
    """What a code stands for.

    Attributes:
        severity: an error stops a resume, or makes it skip or repeat prompts.
        title: what is wrong, in a few words.
    """

    severity: Severity
    title: str


CODES: Mapping[str, Code] = {
    "CKPT001": Code("error", "the file cannot be read"),
    "CKPT002": Code("error", "a key is missing"),
    "CKPT003": Code("warning", "sample_group_index is missing (an older file)"),
    "CKPT004": Code("error", "a value is impossible"),
    "CKPT005": Code("error", "another format version"),
    "CKPT010": Code("error", "another dataset or order"),
    "CKPT011": Code("warning", "other settings, same order"),
    "CKPT012": Code("note", "no fingerprint"),
    "CKPT013": Code("error", "the numbers imply another number of rows"),
    "CKPT020": Code("error", "the offset is beyond the end of the epoch"),
    "CKPT021": Code("warning", "sample_group_index does not fit epoch and offset"),
    "CKPT022": Code("warning", "sample_index does not fit sample_group_index"),
    "CKPT023": Code("error", "a waiting group of another size"),
    "CKPT024": Code("error", "a waiting group names a row that is not there"),
    "CKPT025": Code("error", "a group waits twice"),
    "CKPT026": Code("warning", "a waiting group was never drawn"),
    "CKPT030": Code("note", "the state was moved by hand"),
    "CKPT040": Code("warning", "the counts of a data loader contradict each other"),
}
"""Every code of a finding on a cursor file."""


@dataclass(frozen=True)
class Against:
    """What a state is held against.

    Attributes:
        num_rows: rows served in an epoch.
        num_rows_in_files: rows before the length filter, slice applied.
        fingerprint: the identity of the dataset.
        n_samples_per_prompt: the run's setting; None when nobody set it.
    """

    num_rows: int
    num_rows_in_files: int
    fingerprint: Fingerprint
    n_samples_per_prompt: int | None


def severity(finding: Finding) -> Severity:
    """How bad a finding is."""
    return CODES[finding.code].severity


def has_errors(findings: Sequence[Finding]) -> bool:
    """Whether one of them is an error."""
    return any(severity(finding) == "error" for finding in findings)


def examine(file: CursorFile, against: Against | None = None) -> list[Finding]:
    """What is wrong or odd about a state, errors first.

    Args:
        file: the state.
        against: the data it is to continue on; without it, only the state itself is looked at.
    """
    findings = list(file.position.findings)
    if isinstance(file.value, dict) and any(key in file.value for key in REFERENCE_KEYS):
        findings += _cursor_findings(file, against)
    elif against is not None:
        findings += _loader_findings(file.value, against.num_rows)
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(severity(finding)))


# --- cursors of four numbers --------------------------------------------------------------


def _cursor_findings(file: CursorFile, against: Against | None) -> Iterator[Finding]:
    value, fingerprint = file.value, fingerprint_in(file.value)
    if fingerprint is None:
        what = "there is none: only the numbers tell which dataset it belongs to"
        yield Finding("CKPT012", "fingerprint", what)
    elif against is not None:
        yield from _fingerprint_findings(fingerprint, against, file.position.n_samples_per_prompt)
    # Of another dataset is said once; the numbers are held against the rows they were made on.
    num_rows = count_in(fingerprint, "num_rows")
    if num_rows is None and against is not None:
        num_rows = against.num_rows
    yield from _offset_findings(file, num_rows, against)
    yield from _number_findings(file, num_rows, has_fingerprint=fingerprint is not None)
    yield from _size_findings(file, against)
    yield from _waiting_findings(value, file.position.n_samples_per_prompt, against)


def _fingerprint_findings(
    fingerprint: Mapping[str, Any], against: Against, size: int | None
) -> Iterator[Finding]:
    current = dict(against.fingerprint)
    if against.n_samples_per_prompt is None:
        current["n_samples_per_prompt"] = fingerprint.get("n_samples_per_prompt", size)
    for difference in compare(fingerprint, current):
        code = "CKPT010" if difference.changes_order else "CKPT011"
        saved, now = _short(difference.saved), _short(difference.current)
        field = _FIELD_OF.get(difference.name, difference.name)
        what = f"{difference.name}: saved {saved}, now {now}"
        yield Finding(code, f"fingerprint.{field}", what)


def _short(value: Any) -> str:
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, str | int | float):
        return f"{value!r:.80}"
    if isinstance(value, dict):
        pairs = (f"{key!s:.40}={_short(item)}" for key, item in list(value.items())[:10])
        return "{" + ", ".join(pairs) + "}"
    return f"a {type(value).__name__}"


def _number_findings(
    file: CursorFile, num_rows: int | None, *, has_fingerprint: bool
) -> Iterator[Finding]:
    position = file.position
    epoch_id, offset, groups = position.epoch_id, position.offset, position.num_groups
    if num_rows is None or epoch_id is None or offset is None:
        return
    expected = epoch_id * num_rows + offset
    if groups is not None and groups != expected:
        what = (
            f"is {groups:,}, and {expected:,} groups lie before epoch {epoch_id}, offset "
            f"{offset:,} of {num_rows:,} rows: was the dataset another before?"
        )
        yield Finding("CKPT021" if has_fingerprint else "CKPT013", "sample_group_index", what)


def _offset_findings(
    file: CursorFile, num_rows: int | None, against: Against | None
) -> Iterator[Finding]:
    offset = file.position.offset
    if offset is None:
        return
    if num_rows is not None and offset > num_rows:
        what = f"is {offset:,}, and an epoch has {num_rows:,} rows (the mark of slime's short wrap)"
        yield Finding("CKPT020", "sample_offset", what)
    elif against is not None and offset > against.num_rows:
        # That the dataset is another one does not tell that the place in it is gone, too.
        what = f"is {offset:,}, and an epoch of this data has {against.num_rows:,} rows"
        yield Finding("CKPT020", "sample_offset", what)


def _size_findings(file: CursorFile, against: Against | None) -> Iterator[Finding]:
    groups, samples = file.position.num_groups, count_in(file.value, "sample_index")
    if groups is None or samples is None:
        return
    size = against.n_samples_per_prompt if against else None
    size = size or file.position.n_samples_per_prompt
    if size is not None:
        if samples != groups * size:
            what = f"is {samples:,}, and {groups:,} groups of {size:,} make {groups * size:,}"
            yield Finding("CKPT022", "sample_index", f"{what}: did n change?")
    elif groups and samples % groups:
        what = f"is {samples:,}, no multiple of sample_group_index {groups:,}: did n change?"
        yield Finding("CKPT022", "sample_index", what)
    elif bool(groups) != bool(samples):
        what = f"is {samples:,}, and {groups:,} groups were drawn"
        yield Finding("CKPT022", "sample_index", what)


def _waiting_findings(value: Any, size: int | None, against: Against | None) -> Iterator[Finding]:
    buffer, in_flight = buffered_groups(value), in_flight_groups(value)
    yield from _waiting_sizes(buffer, in_flight, size)
    if against is not None:
        rows = [count_in(group, "row_position") for group in [*buffer, *in_flight]]
        beyond = [row for row in rows if row is not None and row >= against.num_rows_in_files]
        if beyond:
            what = f"names rows {_named(beyond)}, and there are {against.num_rows_in_files:,}"
            yield Finding("CKPT024", "rolloutds", what)
    indices = [group_index_in(group) for group in [*buffer, *in_flight]]
    counts = Counter(index for index in indices if index is not None)
    twice = sorted(index for index, count in counts.items() if count > 1)
    if twice:
        what = f"group {_named(twice)} waits more than once: it would be served again"
        yield Finding("CKPT025", "rolloutds", what)
    drawn = count_in(value, "sample_group_index")
    undrawn = [] if drawn is None else sorted(index for index in counts if index >= drawn)
    if undrawn:
        what = f"group {_named(undrawn)} waits, and only {drawn:,} groups were drawn"
        yield Finding("CKPT026", "rolloutds", what)


def _waiting_sizes(
    buffer: Sequence[Any], in_flight: Sequence[Any], size: int | None
) -> Iterator[Finding]:
    for name, waiting in (("buffer", buffer), ("in_flight", in_flight)):
        groups = [form for form in map(samples_of, waiting) if form is not None]
        wrong = [group for group in groups if not isinstance(group, list) or len(group) != size]
        if wrong and size is not None:
            first = wrong[0]
            found = f"{len(first)} samples" if isinstance(first, list) else "no list of samples"
            what = (
                f"{len(wrong):,} of {len(waiting):,} groups have another size; the first, group "
                f"{group_index_in(first)}, has {found}, expected {size}"
            )
            yield Finding("CKPT023", f"rolloutds.{name}", what)


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED_GROUPS]))
    more = len(numbers) - _NAMED_GROUPS
    return f"{shown} and {more:,} more" if more > 0 else shown


# --- data loaders -------------------------------------------------------------------------


def _loader_findings(value: Any, num_rows: int) -> Iterator[Finding]:
    for state in loader_states(value):
        served = read_loader_state(state).num_samples
        if is_count(served) and served is not None and served > num_rows:
            what = f"is {served:,}, and the dataset has {num_rows:,} rows"
            yield Finding("CKPT020", "samples_yielded", what)
