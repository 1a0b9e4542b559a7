from __future__ import annotations

import errno
import os
import pickle

import pytest

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.storage import LocalFile, open_stored


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"0123456789")
    return str(file)


def test_reads_ranges_of_an_open_file(path):
    with open_stored(path) as file:
        assert isinstance(file, LocalFile)
        assert (file.size, file.path) == (10, path)
        assert file.pread(3, 2) == b"234"
        assert file.pread(9, 8) == b"89"
        assert file.pread_many([(2, 0), (0, 5), (1, 9)]) == [b"01", b"", b"9"]
        assert file.stream().read() == b"0123456789"
        os.unlink(path)
        assert file.pread(1, 0) == b"0"
    for use in (lambda: file.pread(1, 0), lambda: file.descriptor, file.current_identity):
        with pytest.raises(DataError, match="the file was closed"):
            use()


def test_a_file_url_names_the_file(path):
    file = open_stored(f"file://{path}")
    assert (file.path, file.cache_name) == (path, path)


def test_it_is_opened_again_in_another_process(path):
    file = LocalFile(path)
    other = pickle.loads(pickle.dumps(file))
    assert other.descriptor != file.descriptor
    assert other.identity == file.identity


def test_a_change_is_seen(path):
    file = LocalFile(path)
    assert file.current_identity().same_content(file.identity)
    with open(path, "ab") as more:
        more.write(b"!")
    assert not file.current_identity().same_content(file.identity)


def test_what_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError, match="no such file or folder"):
        LocalFile(str(tmp_path / "no"))
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(DataNotFoundError, match="a broken link to"):
        LocalFile(str(tmp_path / "link"))
    with pytest.raises(DataError, match="not a regular file"):
        LocalFile(str(tmp_path))
    for number, hint in [(errno.EMFILE, "name a manifest"), (errno.EACCES, "permissions")]:
        failure = OSError(number, os.strerror(number))
        monkeypatch.setattr(os, "open", lambda *_, failure=failure: (_ for _ in ()).throw(failure))
        with pytest.raises(DataError, match=f"cannot be read: {os.strerror(number)}\n.*{hint}"):
            LocalFile(str(tmp_path / "x"))
        monkeypatch.undo()
