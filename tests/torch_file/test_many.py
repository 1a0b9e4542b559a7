"""Many files, one trial: values and errors in the order of the files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import Budget, read_many, reader, trial


@pytest.fixture
def children(monkeypatch):
    """How many pickles each child was given."""
    counts: list[int] = []
    start = trial._start

    def counted(pickles, budget, writer):
        counts.append(len(pickles))
        return start(pickles, budget, writer)

    monkeypatch.setattr(trial, "_start", counted)
    return counts


def outcome(value) -> object:
    return "refused" if isinstance(value, TorchFileError) else value


def test_one_child_reads_many(make_archive, each_child: str, children):
    paths = [make_archive(pickle.dumps({"n": n}, 2)) for n in range(9)]
    assert read_many(paths) == [{"n": n} for n in range(9)]
    assert children == [9]


def test_batches_have_an_end(make_archive, monkeypatch, children):
    monkeypatch.setattr(reader, "_BATCH_FILES", 4)
    paths = [make_archive(pickle.dumps(n, 2)) for n in range(9)]
    assert read_many(paths) == list(range(9))
    assert children == [4, 4, 1]
    assert read_many([]) == []


SLOW = b"\x80\x04})" + b"2\x86" * 64 + b"Ns."
LARGE = b"\x80\x02Nr\xff\xff\xff\x07."
CRASH = b"\x80\x02}" + b")" + b"\x85" * 1_000_000 + b"Ns."
WRONG = b"\x80\x02K\x01Q."


@pytest.mark.parametrize(
    ("bad", "place"),
    [(SLOW, 2), (LARGE, 0), (LARGE, 2), (CRASH, 2), (WRONG, 0)],
    ids=["slow", "large at first", "large", "crash", "wrong"],
)
def test_a_file_that_fails_its_trial_fails_alone(
    make_archive, small_budget: Budget, each_child: str, bad: bytes, place: int
):
    paths = [make_archive(pickle.dumps(n, 2)) for n in range(4)]
    paths.insert(place, make_archive(bad))
    found = read_many(paths, budget=small_budget)
    expected: list[object] = [0, 1, 2, 3]
    expected.insert(place, "refused")
    assert list(map(outcome, found)) == expected
    assert str(paths[place]) in str(found[place])


def test_several_bad_files_are_named_each(make_archive, small_budget: Budget, tmp_path: Path):
    (tmp_path / "text.pt").write_bytes(b"text")
    paths = [
        make_archive(LARGE), tmp_path / "none.pt", make_archive(LARGE), make_archive(b"\x80\x02N."),
        tmp_path / "text.pt", make_archive(WRONG),
    ]  # fmt: skip
    found = read_many(paths, budget=small_budget)
    assert list(map(outcome, found)) == ["refused"] * 3 + [None] + ["refused"] * 2
    for path, error in zip(paths, found, strict=True):
        assert error is None or str(path) in str(error)


def test_limits_are_those_of_each_file(make_archive, each_child: str):
    budget = Budget(max_items=2500)
    paths = [make_archive(pickle.dumps(list(range(n)), 2)) for n in (1000, 2000, 3000, 1000)]
    assert [outcome(value) == "refused" for value in read_many(paths, budget=budget)] == [
        *(False, False, True, False)
    ]


def test_memory_of_one_file_does_not_count_for_the_next(make_archive, monkeypatch, children):
    # Each takes 8 MB (25 while it is looked at), and is a circle that only the collector of garbage lets go of.
    circle = b"\x80\x02]q\x00h\x00a" + b"(" + b"]" * 100_000 + b"tq\x01a."
    monkeypatch.setattr(trial, "has_one_thread", lambda: True)
    monkeypatch.setattr(Budget, "memory_bytes", lambda self, num_bytes: 48 << 20)
    found = read_many([make_archive(circle) for _ in range(12)])
    assert [value if isinstance(value, Exception) else len(value) for value in found] == [2] * 12
    assert children == [12]


def test_plain_pickles_are_taken_where_asked_for(tmp_path: Path, each_child: str):
    paths = [tmp_path / f"{n}.pkl" for n in range(3)]
    for path in paths:
        path.write_bytes(pickle.dumps(path.name))
    assert read_many(paths, may_be_plain=True) == ["0.pkl", "1.pkl", "2.pkl"]
    assert list(map(outcome, read_many(paths))) == ["refused"] * 3


def test_a_file_that_changes_after_its_trial_is_an_error(make_archive, monkeypatch):
    paths = [make_archive(pickle.dumps([n] * 5000, 2)) for n in range(3)]

    def try_and_cut(pickles, budget):
        errors = trial.try_out(pickles, budget)
        os.truncate(paths[1], 100)
        return errors

    monkeypatch.setattr(reader, "try_out", try_and_cut)
    assert list(map(outcome, read_many(paths))) == [[0] * 5000, "refused", [2] * 5000]
