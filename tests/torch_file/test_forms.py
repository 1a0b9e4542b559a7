"""Files that are not what `torch.save` writes: each is named, and refused in one way."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import Budget, read, read_pickle


def _refused(path: Path, what: str, **options) -> TorchFileError:
    with pytest.raises(TorchFileError, match=what) as caught:
        read(path, **options)
    assert str(path) in str(caught.value)
    return caught.value


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    return packed.getvalue()


FORMS = {
    "is empty": b"",
    "text file": b'{"a": 1}\n' * 10,
    "text file ": "日本語".encode() * 200,
    "plain pickle": pickle.dumps({"a": 1}),
    "before 1.6": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + b"\x80\x02}.",
    "tar archive": _tar(),
    "gzip": gzip.compress(b"abc"),
    "Parquet": b"PAR1" + b"\0" * 100,
    "NumPy file": b"\x93NUMPY\x01\0",
    "safetensors": struct.pack("<Q", 20) + json.dumps({"a": {"dtype": "F32"}}).encode() + b"\0" * 9,
    "filled with zeros": b"\0" * 4096,
    "not a ZIP archive": bytes(range(128, 256)) * 8,
    "empty ZIP archive": b"PK\x05\x06" + b"\0" * 18,
    "no ZIP directory": b"PK\x03\x04" + b"\0" * 500,
}


@pytest.mark.parametrize("what", FORMS)
def test_other_forms_are_named(tmp_path: Path, what: str):
    path = tmp_path / "file.pt"
    path.write_bytes(FORMS[what])

    error = _refused(path, what.strip())

    assert f"({len(FORMS[what])} bytes)" in str(error)
    assert error.hint


def test_what_is_no_file_is_named(tmp_path: Path):
    _refused(tmp_path, "is a folder")
    _refused(tmp_path / "none.pt", "No such file")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    _refused(pipe, "not a regular file")
    _refused(Path("/dev/zero"), "not a regular file")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_named(make_archive):
    path = make_archive(b"\x80\x02N.")
    path.chmod(0)

    _refused(path, "Permission denied")


def test_real_forms_of_torch_are_named(tmp_path: Path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "legacy.pt"
    torch.save({"a": torch.zeros(2)}, path, _use_new_zipfile_serialization=False)

    _refused(path, "before 1.6")


@pytest.mark.parametrize("member", ["constants.pkl", "code/__torch__.py"])
def test_torchscript_is_named(make_archive, member: str):
    path = make_archive(b"\x80\x02N.")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"archive/{member}", "x")

    _refused(path, "TorchScript")


def test_a_plain_pickle_is_read_where_it_is_asked_for(tmp_path: Path, make_archive):
    path = tmp_path / "state.pkl"
    path.write_bytes(pickle.dumps([{"a": 1}]))

    assert read_pickle(path) == [{"a": 1}]
    assert read_pickle(make_archive(pickle.dumps(5))) == 5
    path.write_bytes(b"text")
    with pytest.raises(TorchFileError, match="text file"):
        read_pickle(path)


# --- ZIP archives that lie -------------------------------------------------------------------


def test_other_archives_are_refused(tmp_path: Path):
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "x")
    _refused(path, "0 members named data.pkl")

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"N.")
        archive.writestr("b/data.pkl", b"N.")
    _refused(path, "2 members named data.pkl")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_refused(make_archive, method: int):
    path = make_archive(b"\x80\x02" + b"N0" * 500_000 + b"N.", compression=method)

    _refused(path, "compressed member")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(make_archive):
    path = make_archive(b"\x80\x02N.")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02K\x01.")

    _refused(path, "twice")


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/x", "archive/../../x"])
def test_names_that_leave_the_archive_are_refused(make_archive, name: str):
    path = make_archive(b"\x80\x02N.")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"x")

    _refused(path, "member name")


def _patched(path: Path, magic: bytes, offset: int, new: bytes) -> Path:
    """Overwrites bytes after the first record that starts with `magic`."""
    data = bytearray(path.read_bytes())
    at = data.index(magic) + offset
    data[at : at + len(new)] = new
    path.write_bytes(data)
    return path


_ENTRY, _LOCAL, _END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"
_FULL = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("magic", "offset", "new"),
    [
        (_ENTRY, 8, b"\x01\x00"),  # encrypted
        (_ENTRY, 20, b"\x00\x00\x00\x10"),  # stored size
        (_ENTRY, 24, b"\x00\x00\x00\x10"),  # size
        (_ENTRY, 20, b"\x00\x00\x00\x10\x00\x00\x00\x10"),  # both
        (_ENTRY, 20, _FULL * 2),  # both in a ZIP64 field that is not there
        (_ENTRY, 28, b"\xff\xff"),  # name length
        (_ENTRY, 42, b"\x05\x00\x00\x00"),  # place
        (_ENTRY, 42, b"\xff\xff\xff\x7f"),
        (_LOCAL, 8, b"\x08\x00"),  # compressed, says the member's own header
        (_LOCAL, 6, b"\x01\x00"),
        (_LOCAL, 26, b"\x01\x00"),
        (_LOCAL, 28, b"\xff\xff"),
        (_LOCAL, 30, b"other"),
        (_END, 8, b"\xff\xff\xff\xff"),  # members
        (_END, 12, b"\xff\xff\xff\x7f"),  # directory size
        (_END, 16, b"\xff\xff\xff\x7f"),  # directory place
        (_END, 10, b"\x01\x00"),  # fewer members than there are
    ],
)
def test_archives_that_lie_are_refused(make_archive, magic: bytes, offset: int, new: bytes):
    path = _patched(make_archive(b"\x80\x02N."), magic, offset, new)

    _refused(path, r"ZIP|ends at byte")


def test_a_zip64_record_that_lies_is_refused(make_archive):
    path = make_archive(b"\x80\x02N.")
    data = path.read_bytes()
    at = data.index(_END)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 1 << 62, 1)
    path.write_bytes(data[:at] + locator + data[at:])
    _refused(path, "ZIP64")

    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 50, 1 << 50, 10, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    path.write_bytes(data[:at] + record + locator + data[at:])
    _refused(path, "members in a directory")


def test_zip64_and_data_descriptors_as_torch_writes_them_are_read(tmp_path: Path):
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("a/data.pkl", "w", force_zip64=True) as member:
            member.write(pickle.dumps([1, 2], 2))
        archive.comment = b"a comment"

    assert read(path) == [1, 2]


def test_a_wrong_byte_order_is_refused(make_archive):
    _refused(make_archive(b"\x80\x02N.", byte_order="middle"), "byte order")
    assert read(make_archive(b"\x80\x02N.", byte_order=None)) is None


def test_budgets_are_held(make_archive):
    path = make_archive(pickle.dumps([[[1, 2, 3]], "x" * 1000], 2))

    assert read(path, budget=Budget(max_depth=3, max_items=6)) == [[[1, 2, 3]], "x" * 1000]
    _refused(path, "too deeply", budget=Budget(max_depth=2))
    _refused(path, "too many items", budget=Budget(max_items=5))
    _refused(path, "too large", budget=Budget(max_bytes=1000))


def test_the_checksum_is_compared_when_it_is_there(make_archive):
    path = make_archive(pickle.dumps({"a": "needle"}, 2))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"needle", b"nEEdle"))

    error = _refused(path, "checksum")
    assert "earlier one" in (error.hint or "")
