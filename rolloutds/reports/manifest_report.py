"""What ``manifest build`` and ``manifest check`` say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rolloutds.manifest import Manifest, ManifestHead, Shard
from rolloutds.readers.manifest_build import BuiltManifest, CheckedManifest
from rolloutds.reports.ckpt_report import size_text
from rolloutds.reports.model import Cells, Column, Facts, Report, Section, Table
from rolloutds.storage import masked

_MAX_LISTED = 20


def manifest_report(built: BuiltManifest) -> Report:
    """A manifest that was written: for programs the manifest itself, for people its figures."""
    head = built.head
    data = {name: getattr(head, name) for name in head.__struct_fields__}
    for name in ("kind", "schema_version"):  # every report has them
        del data[name]
    skipped = sum(shard.num_skipped for shard in built.shards)
    facts = [
        ("manifest", built.path),
        ("root", head.root),
        *_totals(head),
        *([("left out", _skipped_text(skipped))] if skipped else []),
        ("indexes", f"{built.num_cached:,} of {head.num_shards:,} were in the cache"),
        ("digest", built.digest),
    ]
    return Report(
        kind="manifest",
        data={**data, "digest": built.digest},
        records_name="shards",
        records=map(shard_record, built.shards),
        sections=[Facts(facts)],
    )


def _skipped_text(count: int) -> str:
    return "1 line that is not JSON" if count == 1 else f"{count:,} lines that are not JSON"


def shard_record(shard: Shard) -> dict[str, Any]:
    """A shard as it stands in the manifest: members that are zero or empty are left out."""
    import msgspec

    record: dict[str, Any] = msgspec.to_builtins(shard)
    return record


def check_report(checked: CheckedManifest) -> Report:
    """How the files that are there differ from a manifest."""
    manifest, difference = checked.opened.manifest, checked.difference
    num_different = sum(map(len, (difference.missing, difference.changed, difference.extra)))
    data = {
        "path": masked(checked.opened.path),
        "num_shards": manifest.num_shards,
        "num_rows": manifest.num_rows,
        "num_bytes": manifest.num_bytes,
        "num_read": checked.num_read,
        "num_missing": len(difference.missing),
        "num_changed": len(difference.changed),
        "num_extra": len(difference.extra),
        "digest": manifest.digest,
    }
    return Report(
        kind="manifest_check",
        data=data,
        records_name="differences",
        records=(
            {"path": path, "state": state} for state, paths in _states(checked) for path in paths
        ),
        sections=_check_sections(checked, manifest, num_different),
    )


def _states(checked: CheckedManifest) -> list[tuple[str, Sequence[str]]]:
    found = checked.difference
    return [("missing", found.missing), ("changed", found.changed), ("extra", found.extra)]


def _check_sections(
    checked: CheckedManifest, manifest: Manifest, num_different: int
) -> Iterator[Section]:
    read = f"{checked.num_read:,} of {manifest.num_shards:,} files, their digests compared"
    counts = ", ".join(f"{len(paths):,} {state}" for state, paths in _states(checked) if paths)
    yield Facts(
        [
            ("manifest", masked(checked.opened.path)),
            *_totals(manifest),
            ("read", read if checked.num_read else "no file, only their listing"),
            ("differences", counts or "none"),
        ]
    )
    if num_different:
        yield Table([Column("state"), Column("file", keeps_end=True)], _rows(checked))


def _rows(checked: CheckedManifest) -> Iterator[Cells]:
    for state, paths in _states(checked):
        yield from (Cells([state, path]) for path in paths[:_MAX_LISTED])
        if len(paths) > _MAX_LISTED:
            yield Cells([state, f"… and {len(paths) - _MAX_LISTED:,} more, all in --format json"])


def _totals(head: ManifestHead) -> list[tuple[str, str]]:
    return [
        ("files", f"{head.num_shards:,}, {size_text(head.num_bytes)}"),
        ("rows", f"{head.num_rows:,}"),
    ]
