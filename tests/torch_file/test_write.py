"""Files that are written: plain values only, and whole or not at all."""

from __future__ import annotations

import collections
import enum
import io
import math
import os
import random
import re
import signal
import stat
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds.errors import CheckpointError, MissingExtraError, UnsavableValueError
from rolloutds.torch_file import read, require_torch, to_live, write
from rolloutds.torch_file.dump_writer import write_dump
from rolloutds.torch_file.plain_form import PlainForm

torch = pytest.importorskip("torch")


def _load(path: Path):
    return torch.load(path, weights_only=True)


_ATOMS = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
    | st.binary(min_size=1)
)  # fmt: skip
_VALUES = st.recursive(
    _ATOMS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(value=_VALUES)
def test_plain_values_come_back_from_both_readers(tmp_path: Path, without_trial, value):
    path = tmp_path / "a.pt"
    write(path, value)

    assert read(path) == value
    assert repr(read(path)) == repr(value)
    assert _load(path) == value


@pytest.mark.parametrize("has_tensor", [False, True])
def test_the_file_is_what_torch_save_writes_of_the_same(tmp_path: Path, has_tensor):
    shared = [1, -2, 1 << 70, 0.5, math.inf]
    value = {
        "lists": [shared, shared, list(range(3000))],
        "texts": ("naïve", "\ud800", b"bytes", None, True),
        3: torch.arange(4) if has_tensor else {},
    }
    write(tmp_path / "a.pt", value)

    expected = io.BytesIO()
    torch.save(value, expected)
    assert (tmp_path / "a.pt").read_bytes() == expected.getvalue()


def test_torch_is_asked_about_every_number_only_where_there_are_tensors(
    tmp_path: Path, monkeypatch
):
    asked = []
    is_storage = torch.is_storage

    def count(value):
        asked.append(value)
        return is_storage(value)

    monkeypatch.setattr(torch, "is_storage", count)
    write(tmp_path / "a.pt", {"tokens": [1, 2, 3]})
    assert asked == []
    write(tmp_path / "a.pt", {"tokens": [1, 2, 3], "mask": torch.ones(3)})
    assert {1, 2, 3} <= {value for value in asked if isinstance(value, int)}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.eye(2).to_sparse(), "a tensor of the layout sparse_coo"),
        (lambda: torch.empty(2, device="meta"), "a tensor on the meta device"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
            "a tensor of the type qint8",
        ),
    ],
)
def test_a_tensor_that_the_reader_would_refuse_is_refused_by_its_key(tmp_path: Path, make, says):
    with pytest.raises(UnsavableValueError, match=rf'metadata\["t"\] is {says}'):
        write(tmp_path / "a.pt", {"metadata": {"t": make()}})


def test_what_is_shared_stays_shared(tmp_path: Path):
    shared = ["a", {"b": [1.5]}]
    path = tmp_path / "a.pt"
    write(path, {"x": shared, "y": shared, "n": math.nan})

    found = read(path)

    assert found["x"] == shared
    assert found["x"] is found["y"]
    assert math.isnan(found["n"])


def test_numpy_numbers_are_written_as_the_plain_ones(tmp_path: Path):
    np = pytest.importorskip("numpy")
    path = tmp_path / "a.pt"
    value = {"a": np.float64(0.5), "b": [np.int64(3), np.bool_(True)], "c": np.str_("x")}
    write(path, {"metadata": value, "o": collections.OrderedDict(a=1)})

    found = read(path)

    assert found == {"metadata": {"a": 0.5, "b": [3, True], "c": "x"}, "o": {"a": 1}}
    assert type(found["metadata"]["a"]) is float
    assert _load(path) == found


def test_tensors_go_round(tmp_path: Path):
    path, again = tmp_path / "a.pt", tmp_path / "b.pt"
    base = torch.arange(12.0).reshape(3, 4)
    write(path, {"t": base.t(), "v": base[1], "p": torch.nn.Parameter(torch.ones(2))})
    write(again, read(path))

    found = _load(again)

    assert torch.equal(found["t"], base.t())
    assert isinstance(found["p"], torch.nn.Parameter)
    found["t"][0, 1] = 50.0
    assert found["v"][0] == 50.0


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Pair(NamedTuple):
    a: int
    b: int


class Text(str):
    """Text of a class of its own."""


UNSAVABLE = [
    ({1, 2}, "set"),
    (frozenset([1]), "frozenset"),
    (Color.RED, "Color"),
    (Level.LOW, "Level"),
    (Pair(1, 2), "Pair"),
    (Text("x"), "Text"),
    (object(), "object"),
    (Path(), "PosixPath"),
    (10**700, "an integer of 2326 bits"),
    (b"", "empty bytes"),
    (1j, "complex"),
    (range(3), "range"),
    (collections.defaultdict(list), "defaultdict"),
    (print, "builtin_function_or_method"),
    (int, "type"),
    ({None: 1}, "the key None"),
    ({True: 1}, "the key True"),
    ({(1, 2): 1}, "the key of type tuple"),
    ({10**700: 1}, "an integer of 2326 bits"),
]


@pytest.mark.parametrize(("value", "what"), UNSAVABLE)
def test_other_values_are_refused_with_their_key(tmp_path: Path, value, what: str):
    path = tmp_path / "a.pt"
    write(path, {"old": 1})

    with pytest.raises(UnsavableValueError) as caught:
        write(path, {"metadata": {"score": [0, value]}})

    assert re.search(
        rf'metadata\["score"\]\[1\](\["a"\])? is ([\w.]+\.)?{re.escape(what)}', str(caught.value)
    )
    assert _load(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.parametrize("kind", ["longdouble", "complex128", "datetime64", "void"])
def test_numpy_values_without_a_plain_equal_are_refused(tmp_path: Path, kind: str):
    np = pytest.importorskip("numpy")
    values = {"datetime64": lambda: np.datetime64("2020-01-01"), "void": lambda: np.void(b"x")}
    value = values.get(kind, lambda: getattr(np, kind)(1))()

    for unsavable in (value, np.zeros(2)):
        with pytest.raises(UnsavableValueError, match=r"metadata\[\"score\"\] is numpy\."):
            write(tmp_path / "a.pt", {"metadata": {"score": unsavable}})


def test_circles_and_depth_are_refused(tmp_path: Path):
    circle: list[object] = ["x"]
    circle.append({"again": circle})
    with pytest.raises(UnsavableValueError, match=r'\[1\]\["again"\] is a container inside itself'):
        write(tmp_path / "a.pt", circle)

    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(UnsavableValueError, match="levels deep"):
        write(tmp_path / "a.pt", deep)


# --- the file itself -------------------------------------------------------------------------


def test_a_new_file_has_the_usual_permissions(tmp_path: Path):
    path = tmp_path / "a.pt"
    old = os.umask(0o027)
    try:
        write(path, 1)
    finally:
        os.umask(old)

    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.pt"]


def test_a_link_is_written_through(tmp_path: Path):
    target, link = tmp_path / "target.pt", tmp_path / "link.pt"
    link.symlink_to(target)

    write(link, 5)

    assert link.is_symlink()
    assert read(target) == 5


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.pt"
    write(path, {"old": 1})

    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    for name in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(f"rolloutds.torch_file.writer.os.{name}", full)
            with pytest.raises(CheckpointError, match="No space left") as caught:
                write(path, {"new": 2})
        assert str(path) in str(caught.value)
        assert read(path) == {"old": 1}
        assert os.listdir(tmp_path) == ["a.pt"]


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match="No such file"):
        write(tmp_path / "none" / "a.pt", 1)
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="folder"):
        write(tmp_path / "folder", 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_an_unwritable_folder_is_named(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="Permission denied"):
        write(tmp_path / "a.pt", 1)


def test_torch_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match="saving"):
        require_torch(needed_for="saving")
    with pytest.raises(MissingExtraError, match=r"a\.pt"):
        write(tmp_path / "a.pt", 1)


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path):
    import fcntl

    def leftover(name: str, age: float) -> Path:
        path = tmp_path / name
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
        return path

    gone = leftover(".other.pt.rolloutds-0123456789abcdef.tmp", 300)
    young = leftover(".other.pt.rolloutds-1123456789abcdef.tmp", 1)
    busy = leftover(".other.pt.rolloutds-2123456789abcdef.tmp", 300)
    foreign = leftover(".other.pt.tmp", 1e6)
    with busy.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(tmp_path / "a.pt", 1)

    assert not gone.exists()
    assert young.exists()
    assert busy.exists()
    assert foreign.exists()


# --- kill -9 ---------------------------------------------------------------------------------


def _killed_saves(folder: Path, count: int) -> None:
    """Kills a saving child `count` times at any moment; the file is good after each."""
    path = folder / "state.pt"
    write(path, {"round": -1, "text": "x" * 100_000})
    draw = random.Random(9)
    rounds = set()
    for round_id in range(count):
        pid = os.fork()
        if not pid:
            try:
                while True:
                    write(path, {"round": round_id, "text": chr(97 + round_id % 26) * 100_000})
            finally:
                os._exit(1)
        time.sleep(draw.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        state = read(path)
        assert len(set(state["text"])) == 1
        assert len(state["text"]) == 100_000
        assert _load(path) == state
        rounds.add(state["round"])
    assert len(rounds) > 1  # the children did get to write


# The children only save: a lock that another thread held at the fork is not asked for.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_save_leaves_a_good_file(tmp_path: Path):
    _killed_saves(tmp_path, 20)


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_hundred_killed_saves_leave_a_good_file(tmp_path: Path):
    _killed_saves(tmp_path, 200)


# --- dumps -----------------------------------------------------------------------------------


def test_a_dump_keeps_arrays_dates_and_times(tmp_path: Path):
    import datetime

    np = pytest.importorskip("numpy")
    at = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    objects = np.array([[1, "x"], None, at], dtype=object)
    value = {"a": np.arange(3), "o": objects, "at": at, "none": b"", "large": 10**700}
    torch.save(value, tmp_path / "a.pt")
    write_dump(tmp_path / "b.pt", read(tmp_path / "a.pt"))

    found = to_live(read(tmp_path / "b.pt"))

    assert found["a"].tolist() == [0, 1, 2]
    assert found["o"].tolist() == [[1, "x"], None, at]
    assert {name: found[name] for name in ("at", "none", "large")} == {
        name: value[name] for name in ("at", "none", "large")
    }
    with pytest.raises(UnsavableValueError):
        write(tmp_path / "c.pt", value)


class Odd:
    """A class that a dump may not hold."""


def test_what_a_dump_cannot_hold_is_named(tmp_path: Path):
    import datetime
    import zoneinfo

    np = pytest.importorskip("numpy")
    torch.save({"a": [0, np.array([None, Odd()], dtype=object)]}, tmp_path / "a.pt")
    zone = zoneinfo.ZoneInfo("UTC")
    for value in (
        read(tmp_path / "a.pt"),
        {"a": [0, Odd()]},
        {"a": [0, {1}]},
        {"a": [0, datetime.datetime(2026, 1, 1, tzinfo=zone)]},
        {"a": [0, np.array([Odd()], dtype=object)]},
    ):
        with pytest.raises(UnsavableValueError, match=r"a\[1\](\[1\])? is "):
            write_dump(tmp_path / "b.pt", value)


def test_what_is_plain_is_handed_on_as_it_is():
    value = {"tokens": [1] * 9000, "nested": [{"a": (1.5, None)}, [True, 2**62, 2**100]]}
    assert PlainForm(torch, "here").turn(value) is value
    changed = {**value, "more": collections.OrderedDict(b=1)}
    turned = PlainForm(torch, "here").turn(changed)
    assert turned == changed
    assert type(turned["more"]) is dict
    assert turned["nested"] is value["nested"]
    assert type(changed["more"]) is collections.OrderedDict


@pytest.mark.parametrize("length", [1, 5000])
def test_a_large_integer_in_a_long_list_is_found(length: int):
    for items in ([0] * length + [10**700], [None] * length + [-(10**700)], [True, 10**700]):
        with pytest.raises(UnsavableValueError, match=rf"a\[{len(items) - 1}\] is an integer of"):
            PlainForm(torch, "here").turn({"a": items})
