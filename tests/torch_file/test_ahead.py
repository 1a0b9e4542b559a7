"""Trials of files while this process is at those before them."""

from __future__ import annotations

import os
import pickle

import pytest

from rolloutds.torch_file import ahead
from rolloutds.torch_file.ahead import trials_ahead, tried_ahead

WRONG = b"\x80\x02K\x01Q."


@pytest.fixture
def files(make_archive) -> list[str]:
    return [str(make_archive(pickle.dumps({"n": n}, 2))) for n in range(7)]


def taken(path: str):
    tried = tried_ahead(path)
    return None if tried is None else tried.error or tried.pickle.load()["n"]


def test_files_in_order_are_tried_already(files, each_child: str):
    with trials_ahead(files):
        assert [taken(path) for path in files] == list(range(7))
        assert taken(files[0]) is None
    assert taken(files[1]) is None


def test_batches_follow_each_other(files, monkeypatch):
    monkeypatch.setattr(ahead, "_BATCH_FILES", 3)
    with trials_ahead(files):
        assert [taken(path) for path in files] == list(range(7))


def test_what_is_passed_over_is_read_as_ever(files):
    with trials_ahead(files):
        assert [taken(files[n]) for n in (2, 1, 5)] == [2, None, 5]


def test_a_bad_file_fails_alone_and_other_kinds_are_left_out(files, make_archive, tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text("{}\n")
    paths = [files[0], str(make_archive(WRONG)), str(lines), str(tmp_path / "none.pt"), files[1]]
    with trials_ahead(paths):
        found = [taken(path) for path in paths]
    assert [found[0], *found[2:]] == [0, None, None, 1]
    assert "cannot be read" in str(found[1])


def test_an_early_end_leaves_no_child_behind(files, each_child: str, children: list[int]):
    with trials_ahead(files):
        assert taken(files[0]) == 0
    assert len(children) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
