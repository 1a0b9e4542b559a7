"""The manifest of a dataset: what each of its files holds, so that none has to be opened for it.

It is one JSON file, a shard a line. The last member is a digest of all that stands before it: a
manifest that was cut short or edited is refused, not half believed.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import xxhash
from msgspec import Meta, Struct

from rolloutds.errors import DataError
from rolloutds.storage import is_remote, masked, open_stored
from rolloutds.storage.identity import FileIdentity

SUFFIX: Final = ".manifest.json"
VERSION: Final = 1
_MAX_NAMED: Final = 5
_DIGEST_MEMBER: Final = b'"digest":"'

_Count = Annotated[int, Meta(ge=0, le=(1 << 62))]


class Shard(Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a dataset.

    Attributes:
        path: below the manifest's root, with ``/`` between folders.
        num_bytes: its size.
        token: what its file system said of the content: the modification time in nanoseconds,
            or the ETag, checksum or time of an object store.
        digest: hex digest of its bytes.
        num_rows: rows that load.
        num_lines: physical lines, or rows for Parquet.
        num_blank: lines of white space only.
        num_skipped: lines that are not JSON, left out.
        skipped: for each its physical line, and the rows before it.
        findings: code, sentence, how many rows, and the physical row of the first.
        notices: code, and the sentence that follows the path.
    """

    path: str
    num_bytes: _Count
    token: str
    digest: str
    num_rows: _Count
    num_lines: _Count
    num_blank: _Count = 0
    num_skipped: _Count = 0
    skipped: tuple[tuple[_Count, _Count], ...] = ()
    findings: tuple[tuple[str, str, _Count, _Count], ...] = ()
    notices: tuple[tuple[str, str], ...] = ()


class ManifestHead(Struct, frozen=True, kw_only=True):
    """What a manifest says beside its shards.

    Attributes:
        kind: ``manifest``.
        schema_version: of this form.
        root: the folder of the shards: below the manifest's own, ``.`` for that, or elsewhere
            whole (a path from ``/``, or a URL).
        data: what was named in the root: nothing for the folder, a file, or a glob.
        form: which of these.
        settings: the settings its rows were looked at with, by name.
        keys: the keys that were read, as `RowKeys` has them.
        inspected_by: what looked at the rows.
        columns: keys of the rows.
        num_shards: how many files.
        num_rows: rows of all.
        num_bytes: bytes of all.
    """

    kind: str = "manifest"
    schema_version: int = VERSION
    root: str
    data: str
    form: Literal["file", "folder", "glob"]
    settings: dict[str, Any]
    keys: dict[str, Any]
    inspected_by: str
    columns: list[str]
    num_shards: _Count
    num_rows: _Count
    num_bytes: _Count


class Manifest(ManifestHead, frozen=True, kw_only=True):
    """A manifest as it was read: what its head says, and its shards.

    Attributes:
        shards: the files, in the order they are read.
        digest: hex digest of the text before it.
    """

    shards: list[Shard]
    digest: str


class _Versioned(Struct):
    kind: str = ""
    schema_version: int = 0


def is_manifest(path: str) -> bool:
    """Whether a path is one of a manifest, by its name."""
    return path.endswith(SUFFIX)


# --- the file ---------------------------------------------------------------------------------


def write_manifest(path: str, head: ManifestHead, shards: Iterable[Shard]) -> str:
    """Writes a manifest, whole or not at all.

    Args:
        path: where to, on the local file system.
        head: what it says of all shards together.
        shards: in order.

    Returns:
        Its digest.

    Raises:
        DataError: it cannot be written.
    """
    folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - a user's path, as it is
    try:
        descriptor, name = tempfile.mkstemp(prefix=".writing-", suffix=SUFFIX, dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                digest = _write(file, head, shards)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())  # noqa: PTH101
            os.replace(name, os.path.realpath(path))  # noqa: PTH105
        except BaseException:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise
    except OSError as error:
        raise _unwritable(path, error) from error
    return digest


def refuse_unwritable(path: str) -> None:
    """Tries whether a manifest can be written: better before its data are read than after.

    Raises:
        DataError: it cannot.
    """
    folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - a user's path, as it is
    try:
        if os.path.isdir(path):  # noqa: PTH112
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: str, error: OSError) -> DataError:
    hint = "Check the folder, its permissions and the free space."
    return DataError(f"cannot be written ({error.strerror or error})", where=path, hint=hint)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _write(file: Any, head: ManifestHead, shards: Iterable[Shard]) -> str:
    hasher = xxhash.xxh3_128()
    encoder = msgspec.json.Encoder()

    def put(data: bytes) -> None:
        hasher.update(data)
        file.write(data)

    put(encoder.encode(head)[:-1] + b',"shards":[')
    for number, shard in enumerate(shards):
        put((b",\n" if number else b"\n") + encoder.encode(shard))
    put(b"\n],")
    digest = hasher.hexdigest()
    file.write(_DIGEST_MEMBER + digest.encode() + b'"}\n')
    return digest


def read_manifest(path: str) -> Manifest:
    """Reads a manifest.

    Args:
        path: the file, or its URL.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: it is damaged, of another version, or names files outside its root.
    """
    with open_stored(path) as file:
        text, shown = file.pread(file.size, 0), file.path
    _refuse_other_version(text, shown)
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _damaged(shown, str(error)) from error
    before, _, _ = text.rpartition(_DIGEST_MEMBER)
    if xxhash.xxh3_128_hexdigest(before) != manifest.digest:
        raise _damaged(shown, "its digest is of another text: it was edited, or cut and mended")
    if len(manifest.shards) != manifest.num_shards or not manifest.shards:
        raise _damaged(shown, f"{len(manifest.shards)} shards, and {manifest.num_shards} counted")
    num_rows = sum(shard.num_rows for shard in manifest.shards)
    if num_rows != manifest.num_rows:
        raise _damaged(shown, f"{num_rows} rows in its shards, and {manifest.num_rows} counted")
    _refuse_outside(manifest, shown)
    return manifest


def _refuse_other_version(text: bytes, path: str) -> None:
    try:
        found = msgspec.json.decode(text, type=_Versioned)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    if found.kind != "manifest":
        hint = "Name prompt data otherwise, or build one: rolloutds manifest build DATA -o FILE"
        raise DataError("no manifest", where=path, expected='"kind": "manifest"', hint=hint)
    if found.schema_version != VERSION:
        hint = "Build it again with the version of rolloutds that reads it."
        what = f"a manifest of version {found.schema_version}"
        raise DataError(what, where=path, expected=f"version {VERSION}", hint=hint)


def _damaged(path: str, what: str) -> DataError:
    hint = f"Build it again: {_build_command(path)}"
    return DataError(f"a damaged manifest: {what}", where=path, hint=hint)


def _build_command(path: str) -> str:
    """What builds the manifest; one behind a URL is built here and copied there."""
    target = posixpath.basename(masked(path)) if is_remote(path) else path
    return f"rolloutds manifest build DATA -o {shlex.quote(target)}"


def _refuse_outside(manifest: Manifest, path: str) -> None:
    names = {shard.path for shard in manifest.shards}
    if len(names) < len(manifest.shards):
        raise _damaged(path, "a shard is there twice")
    for name in names:
        if not is_inside(name):
            raise DataError(
                f"the shard {name!r} lies outside the manifest's root",
                where=path,
                expected="paths below it, without ..",
                hint="Build it again; do not use a manifest that you do not trust.",
            )
    root = manifest.root
    if not is_root(root):
        raise _damaged(path, f"its root {root!r} is no folder below it")


def is_inside(name: str) -> bool:
    """Whether a relative path stays below the folder it starts from."""
    if not name or "\0" in name or "\\" in name or "::" in name or "://" in name:
        return False
    return name[0] != "/" and (".." not in name or ".." not in name.split("/"))


def is_root(name: str) -> bool:
    """Whether a manifest may name this folder: below its own, or elsewhere whole."""
    return is_remote(name) or name.startswith("/") or is_inside(name)


def root_of(manifest: Manifest, path: str) -> str:
    """The folder of the shards, as a path or URL that can be opened; empty for the current one.

    Args:
        manifest: the manifest.
        path: where it was read.
    """
    root = manifest.root
    if is_remote(root) or root.startswith("/"):
        return root
    folder = posixpath.dirname(path)
    if root == ".":
        return folder
    return f"{folder}/{root}" if folder not in ("", "/") else f"{folder}{root}"


def root_for(folder: str, target: str) -> str:
    """What to call the folder of the shards in a manifest at `target`.

    A folder at or below the manifest's is named from there, so that both can move together.
    """
    if is_remote(folder):
        return folder.rstrip("/")
    inside = os.path.relpath(os.path.abspath(folder), os.path.dirname(os.path.abspath(target)))  # noqa: PTH100, PTH120
    if inside == "." or not inside.startswith(".."):
        return inside
    return os.path.abspath(folder)  # noqa: PTH100


# --- the files it is of -----------------------------------------------------------------------


class Difference(NamedTuple):
    """How a folder differs from its manifest.

    Attributes:
        missing: shards that are not there.
        changed: shards of another size, or with other bytes.
        touched: indices of shards of the same size that were written or copied since: their bytes
            may be the same.
        extra: files that the manifest does not have.
    """

    missing: list[str]
    changed: list[str]
    touched: list[int]
    extra: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that stops a run; touched shards do not."""
        return not (self.missing or self.changed or self.extra)


def token_of(identity: FileIdentity) -> str:
    """What tells a file's content from another of the same size, by a listing alone."""
    return identity.token or str(identity.mtime_ns)


def compare(shards: Sequence[Shard], listed: Mapping[str, FileIdentity]) -> Difference:
    """Compares a manifest's shards with a listing.

    Args:
        shards: of the manifest.
        listed: identity of each file that is there, by its path below the root.
    """
    found = Difference([], [], [], [])
    for number, shard in enumerate(shards):
        identity = listed.get(shard.path)
        if identity is None:
            found.missing.append(shard.path)
        elif identity.size != shard.num_bytes:
            found.changed.append(shard.path)
        elif token_of(identity) != shard.token:
            found.touched.append(number)
    if len(listed) + len(found.missing) > len(shards):
        known = {shard.path for shard in shards}
        found.extra.extend(sorted(path for path in listed if path not in known))
    return found


def differs(path: str, found: Difference, written: Sequence[str] = ()) -> DataError:
    """The error for a manifest whose files are not those that it lists.

    Args:
        path: of the manifest.
        found: how they differ.
        written: shards that were written since, and not read to compare their bytes.
    """
    parts = [
        _counted(found.missing, "missing"),
        _counted(found.changed, "changed"),
        _counted(found.extra, "not in the manifest"),
        _counted(written, "written since, not compared"),
    ]
    lines = "".join(f"\n  {part}" for part in parts if part)
    hint = f"Put the files back, or build it again: {_build_command(path)}"
    what = f"the files are not those of the manifest:{lines}"
    return DataError(what, where=masked(path), hint=hint)


def _counted(names: Sequence[str], what: str) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{len(names)} {what}: {', '.join(names[:_MAX_NAMED])}{more}"


def as_plain(value: Any) -> Any:
    """A value as JSON holds it, to compare with one read back."""
    return json.loads(json.dumps(value, default=str))
