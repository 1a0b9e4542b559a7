"""What ``buffer convert`` says: what was read, and what was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rolloutds.reports.model import Facts, Report
from rolloutds.rollouts import FileRead
from rolloutds.rollouts.convert import Conversion


def convert_report(files: Sequence[FileRead], written: Conversion) -> Report:
    """The files with their formats, and the file they became."""
    formats = ", ".join(dict.fromkeys(file.format_name for file in files))
    read = files[0].path if len(files) == 1 else f"{len(files):,} files"
    counts = f"{written.num_groups:,} groups, {written.num_samples:,} samples"
    pairs = [
        ("read", f"{read} ({formats})"),
        ("written", f"{written.path} ({written.format_name})"),
        ("holds", f"{counts}, {written.num_bytes:,} bytes"),
    ]
    if written.dropped:
        pairs.append(("left out", f"{sum(written.dropped.values()):,} values"))
    return Report(
        kind="buffer_convert",
        data={
            "path": written.path,
            "format": written.format_name,
            "num_groups": written.num_groups,
            "num_samples": written.num_samples,
            "num_bytes": written.num_bytes,
            "dropped": written.dropped,
            "remarks": written.remarks,
            "files": [dataclasses.asdict(file) for file in files],
        },
        sections=[Facts(pairs)],
    )
