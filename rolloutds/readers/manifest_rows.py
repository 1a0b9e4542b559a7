"""Prompt data named by a manifest: readers that open no file until a row of it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rolloutds.errors import DataError
from rolloutds.manifest import Difference, Manifest, as_plain, differs
from rolloutds.readers.base import Inspect, Reader, RowKeys
from rolloutds.readers.digest import digest_of_file
from rolloutds.readers.manifest_files import OpenedManifest
from rolloutds.readers.row_index import inspected_by
from rolloutds.readers.shards import OpenShards, ShardReader
from rolloutds.storage import masked


def shard_readers(
    opened: OpenedManifest,
    keys: RowKeys,
    inspect: Inspect | None,
    open_reader: Callable[[str], Reader],
) -> tuple[list[Reader], OpenShards]:
    """A reader of each shard, and what holds the open ones.

    Args:
        opened: the manifest.
        keys: the keys a run reads.
        inspect: sees rows that are not plain.
        open_reader: opens one file.

    Raises:
        DataError: the manifest is of other settings, or a shard that was written since has other
            bytes.
    """
    manifest = opened.manifest
    _refuse_other_settings(opened.path, manifest, keys, inspect)
    shards = OpenShards(open_reader)
    readers: list[Reader] = [
        ShardReader(path, shard, shards, is_inspected=inspect is not None)
        for path, shard in zip(opened.paths, manifest.shards, strict=True)
    ]
    readers[0] = ShardReader(
        opened.paths[0],
        manifest.shards[0],
        shards,
        columns=manifest.columns,
        is_inspected=inspect is not None,
    )
    _refuse_other_bytes(opened, shards)
    return readers, shards


def _refuse_other_bytes(opened: OpenedManifest, shards: OpenShards) -> None:
    """Opens the shards that were written or copied since: their bytes may be the same."""
    replaced = []
    for number in opened.difference.touched:
        shard = opened.manifest.shards[number]
        path = opened.paths[number]
        try:
            shards.reader(path, shard)
        except DataError:
            if digest_of_file(path) == shard.digest:
                raise
            replaced.append(shard.path)
    if replaced:
        raise differs(opened.path, Difference([], replaced, [], []))


def _refuse_other_settings(
    path: str, manifest: Manifest, keys: RowKeys, inspect: Inspect | None
) -> None:
    same_keys = manifest.keys == keys_as_plain(keys)
    if same_keys and (inspect is None or manifest.inspected_by == inspected_by(inspect)):
        return
    built = ", ".join(f"{name} {value}" for name, value in manifest.settings.items())
    now = ", ".join(f"{name} {value}" for name, value in keys_as_plain(keys).items() if value)
    raise DataError(
        f"the manifest was built for rows read otherwise ({built})",
        where=masked(path),
        expected=f"one built with the settings of this run ({now})",
        hint="Give the settings it was built with, or build it again with this run's: "
        "rolloutds manifest build DATA -o FILE --input-key …",
    )


def keys_as_plain(keys: RowKeys) -> dict[str, Any]:
    """The keys as a manifest holds them."""
    plain: dict[str, Any] = as_plain(dataclasses.asdict(keys))
    return plain
