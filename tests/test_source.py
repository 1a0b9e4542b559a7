"""The data source: draws, buffer, state, ledger."""

from __future__ import annotations

import copy
import json
import logging
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds import RolloutDataSource, RolloutDataSourceWithBuffer, Sample
from rolloutds.checkpoints import native
from rolloutds.errors import (
    CheckpointError,
    ConfigError,
    EmptyDatasetError,
    FilterError,
    GroupError,
    MissingStateError,
    ReadOnlyError,
    StateMismatchError,
    TorchFileError,
    UnsavableValueError,
)
from rolloutds.testing import assert_resumes_exactly, make_group
from tests.shared_clients import LocalSources, RaySources

pytest_plugins = ("tests.ray_cluster",)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush to the disk shows only when the power fails, and takes most of a small save."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


# --- the same tests on a source that several processes share -------------------------------------

KINDS = ["plain", "shared", pytest.param("ray", marks=pytest.mark.proof)]
_make_source: Any = RolloutDataSourceWithBuffer


def plain_only(why: str) -> Any:
    """Leaves a test to the plain source: it looks at what a shared one keeps elsewhere."""
    assert why

    def mark(test: Any) -> Any:
        test.plain_only = why
        return test

    return mark


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_plain = hasattr(metafunc.function, "plain_only")
    metafunc.parametrize("kind", ["plain"] if is_plain else KINDS, indirect=True)


@pytest.fixture(autouse=True)
def kind(
    request: pytest.FixtureRequest, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """What `with_buffer` makes: the plain source, or a client of one (on Ray: `make proof`)."""
    if request.param == "plain":
        yield "plain"
        return
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    make = {"shared": LocalSources, "ray": RaySources}[request.param]
    sources = make(tmp_path_factory.mktemp("journals"))
    monkeypatch.setattr(sys.modules[__name__], "_make_source", sources)
    yield request.param
    sources.close()


def write_letters(path: Path, letters: str) -> Path:
    rows = [{"text": c, "metadata": {"n": i}} for i, c in enumerate(letters)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_args(folder: Path, letters: str = "abc", **settings: Any) -> SimpleNamespace:
    path = folder / "p.jsonl"
    if not path.exists():
        write_letters(path, letters)
    defaults = {
        "prompt_data": str(path),
        "input_key": "text",
        "rollout_global_dataset": True,
        "n_samples_per_prompt": 2,
    }
    return SimpleNamespace(**(defaults | settings))


def with_buffer(folder: Path, letters: str = "abc", **settings: Any) -> Any:
    return _make_source(make_args(folder, letters, **settings))


def prompts(groups: list[list[Sample]]) -> str:
    return "".join(str(group[0].prompt) for group in groups)


def indices(groups: list[list[Sample]]) -> list[int]:
    return [group[0].group_index for group in groups]


# --- draws ------------------------------------------------------------------------------------


def test_o1_a_draw_goes_on_through_as_many_epochs_as_it_takes(tmp_path: Path) -> None:
    source = RolloutDataSource(make_args(tmp_path))
    groups = source.get_samples(8)
    assert prompts(groups) == "abcabcab"
    assert (source.epoch_id, source.sample_offset) == (2, 2)
    assert indices(groups) == list(range(8))
    assert [sample.index for group in groups for sample in group] == list(range(16))
    assert (source.sample_group_index, source.sample_index) == (8, 16)


def test_shuffled_epochs_follow_each_other(tmp_path: Path) -> None:
    source = RolloutDataSource(make_args(tmp_path, "abcdef", rollout_shuffle=True))
    served = prompts(source.get_samples(4)) + prompts(source.get_samples(14))
    expected = ""
    for epoch_id in range(3):
        order = list("abcdef")
        random.Random(42 + epoch_id).shuffle(order)
        expected += "".join(order)
    assert served == expected
    assert (source.epoch_id, source.sample_offset) == (2, 6)
    assert source.dataset.epoch_id == 2


def test_o2_global_generators_are_untouched(tmp_path: Path) -> None:
    random.seed(7)
    expected = random.Random(7).random()
    RolloutDataSource(make_args(tmp_path, rollout_shuffle=True)).get_samples(5)
    assert random.random() == expected


def test_members_of_a_group_are_independent(tmp_path: Path) -> None:
    source = RolloutDataSource(make_args(tmp_path))
    one, two = source.get_samples(1)[0]
    one.metadata["edited"] = True
    assert two.metadata == {"n": 0}
    assert source.dataset[0].metadata == {"n": 0}


def test_zero_is_nothing_and_negative_is_refused(tmp_path: Path) -> None:
    for source in (RolloutDataSource(make_args(tmp_path)), with_buffer(tmp_path)):
        assert source.get_samples(0) == []
        with pytest.raises(ConfigError, match="-1"):
            source.get_samples(-1)
        assert source.cursor.sample_group_index == 0


@plain_only("it edits the dataset")
def test_a_failed_draw_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = with_buffer(tmp_path, rollout_shuffle=True)
    source.add_samples([make_group(9, 2)])
    cursor, buffer = source.cursor, list(source.buffer)

    def fail(positions: object) -> None:
        raise EmptyDatasetError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(source.dataset, "templates", fail)
        with pytest.raises(EmptyDatasetError):
            source.get_samples(5)
    assert (source.cursor, source.buffer, source.dataset.epoch_id) == (cursor, buffer, 0)


def test_len_is_the_rows(tmp_path: Path) -> None:
    assert len(RolloutDataSource(make_args(tmp_path))) == 3


def test_the_plain_source_is_read_only(tmp_path: Path) -> None:
    source = RolloutDataSource(make_args(tmp_path))
    with pytest.raises(ReadOnlyError, match="RolloutDataSource is read-only"):
        source.add_samples([make_group(0, 2)])
    with pytest.raises(RuntimeError):
        source.add_samples([])


def test_without_a_dataset_groups_are_blank() -> None:
    source = RolloutDataSource(SimpleNamespace(n_samples_per_prompt=2, prompt_data="ignored"))
    groups = source.get_samples(2)
    assert [[s.prompt for s in group] for group in groups] == [["", ""], ["", ""]]
    assert indices(groups) == [0, 1]
    assert len(source) == 0
    assert source.sample_index == 4


# --- buffer -----------------------------------------------------------------------------------


@plain_only("the very objects come back")
def test_the_buffer_comes_first_and_moves_no_cursor(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    first = source.get_samples(2)
    source.add_samples([first[1]])
    assert source.get_buffer_length() == 1
    groups = source.get_samples(2)
    assert groups[0] is first[1]
    assert prompts(groups) == "bc"
    assert indices(groups) == [1, 2]


def test_b4_nothing_is_added_when_one_group_is_bad(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    with pytest.raises(GroupError, match=r"position 1.*3 samples.*expected 2"):
        source.add_samples([make_group(0, 2), make_group(1, 3), make_group(2, 2)])
    assert source.get_buffer_length() == 0


@pytest.mark.parametrize("groups", ["text", [1], ["ab"], [(1, 2)], None, {}, ()])
def test_what_is_no_list_of_groups_is_refused(tmp_path: Path, groups: object) -> None:
    source = with_buffer(tmp_path)
    with pytest.raises(GroupError):
        source.add_samples(groups)
    assert source.get_buffer_length() == 0


def test_nothing_added_is_fine(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.add_samples([])
    assert source.get_buffer_length() == 0


def test_aborted_groups_are_kept_as_they_are(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, partial_rollout=False)
    group = make_group(0, 2, status=Sample.Status.ABORTED, response="half")
    source.add_samples([group])
    assert source.get_samples(1)[0] == make_group(
        0, 2, status=Sample.Status.ABORTED, response="half"
    )


@plain_only("it sets the filter")
def test_the_filter_gets_args_and_the_rollout_id(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    calls = []

    def record(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
        calls.append((args, rollout_id, len(buffer), num_samples))
        return [buffer.pop()]

    source.buffer_filter = record
    source.add_samples([make_group(0, 2), make_group(1, 2)])
    assert indices(source.get_samples(2))[:1] == [1]
    source.get_samples(2, rollout_id=7)
    source.get_samples(2)
    assert calls == [(source.args, None, 2, 2), (source.args, 7, 1, 2)]


def raising(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
    buffer.reverse()
    del buffer[0]
    raise ZeroDivisionError("oops")


FILTERS_REFUSED: dict[str, Any] = {
    "raises": (raising, "ZeroDivisionError: oops"),
    "too many": (lambda a, r, b, n: [b.pop() for _ in range(n + 1)], "3 groups.*at most 2"),
    "twice": (lambda a, r, b, n: [b[0], b[0]], "group 0 twice"),
    "shares a sample": (lambda a, r, b, n: [b[0], [b[0][0], b[1][1]]], "twice"),
    "none": (lambda a, r, b, n: None, "returned NoneType"),
    "samples": (lambda a, r, b, n: list(b[0]), "a list of Sample"),
    "tuple": (lambda a, r, b, n: (b[0],), "returned tuple"),
    "no samples": (lambda a, r, b, n: [["text", 2]], "a list of list, expected groups of samples"),
    "empty rollouts": (lambda a, r, b, n: [[[]]], "expected groups of samples"),
}


@plain_only("it sets the filter")
@pytest.mark.parametrize("name", FILTERS_REFUSED)
def test_b2_a_filter_that_breaks_its_contract_is_refused_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    source = with_buffer(tmp_path)
    source.buffer_filter, says = FILTERS_REFUSED[name]
    groups = [make_group(i, 2) for i in range(4)]
    source.add_samples(groups)
    buffer, cursor = source.buffer, source.cursor
    with pytest.raises(FilterError, match=says):
        source.get_samples(2)
    assert source.buffer is buffer
    assert all(now is before for now, before in zip(buffer, groups, strict=True))
    assert source.cursor == cursor


@plain_only("it sets the filter")
def test_b2b_groups_removed_and_not_returned_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = with_buffer(tmp_path)

    def drop(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
        taken = buffer[:1]
        del buffer[:3]
        return taken

    source.buffer_filter = drop
    source.add_samples([make_group(i, 2) for i in range(4)])
    source.get_samples(1)
    assert source.num_removed_not_returned == 2
    assert "removed 2 groups" in caplog.text


def test_blank_groups_that_top_up_a_buffer_are_said(caplog: pytest.LogCaptureFixture) -> None:
    source = _make_source(SimpleNamespace(n_samples_per_prompt=1))
    source.add_samples([make_group(5, 1)])
    assert indices(source.get_samples(3)) == [5, 0, 1]
    assert "2 blank groups" in caplog.text


def test_a_filter_is_loaded_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def last(args, rollout_id, buffer, n):\n    return [buffer.pop()]\n")
    source = with_buffer(tmp_path, buffer_filter_path=f"{file}:last")
    source.add_samples([make_group(0, 2), make_group(1, 2)])
    assert indices(source.get_samples(1)) == [1]


# --- state ------------------------------------------------------------------------------------

needs_torch = pytest.mark.usefixtures("torch_installed")


@pytest.fixture
def torch_installed() -> None:
    pytest.importorskip("torch", reason="needs the torch extra")


def saving(folder: Path, letters: str = "abcdefg", **settings: Any) -> Any:
    both = {"save": str(folder / "run"), "load": str(folder / "run"), "rollout_shuffle": True}
    return with_buffer(folder, letters, **(both | settings))


@needs_torch
def test_o3_a_resumed_source_starts_the_next_epoch(tmp_path: Path) -> None:
    source = saving(tmp_path, "abcd")
    source.get_samples(4)
    source.save(0)
    resumed = saving(tmp_path)
    resumed.load(0)
    assert (resumed.epoch_id, resumed.sample_offset) == (0, 4)
    assert resumed.get_samples(1) == source.get_samples(1)
    assert (resumed.epoch_id, resumed.sample_offset) == (1, 1)


@needs_torch
@pytest.mark.parametrize("num_samples", [1, 3, 8])
@pytest.mark.parametrize("shuffle", [True, False])
def test_o3_resuming_at_every_step_equals_never_stopping(
    tmp_path: Path, num_samples: int, shuffle: bool
) -> None:
    def give_one_back(source: Any, groups: list[Any], draw: int) -> None:
        source.update_metadata({"draw": draw})
        if draw % 2:
            groups[0][0].response = f"half of draw {draw}"
            groups[0][0].status = Sample.Status.ABORTED
            source.add_samples(groups[:1])

    compared = assert_resumes_exactly(
        lambda: saving(tmp_path, rollout_shuffle=shuffle),
        num_samples=num_samples,
        step=give_one_back,
    )
    assert compared == -(-21 // num_samples)


@needs_torch
def test_o4_stops_in_between_change_nothing(tmp_path: Path) -> None:
    uninterrupted = prompts(saving(tmp_path).get_samples(7))
    served, source = "", saving(tmp_path)
    for rollout_id, num_samples in enumerate((3, 2, 2)):
        served += prompts(source.get_samples(num_samples))
        source.save(rollout_id)
        source = saving(tmp_path)
        source.load(rollout_id)
    assert served == uninterrupted


@needs_torch
def test_c1_a_save_names_the_state_as_of_its_rollout(tmp_path: Path) -> None:
    source = saving(tmp_path, "abcdefghij")
    served = []
    for rollout_id in range(4):
        served.append(source.get_samples(2))
        source.snapshot(rollout_id)
    source.save(2)
    resumed = saving(tmp_path)
    resumed.load(2)
    assert resumed.get_samples(2) == served[3]


@needs_torch
def test_c2_a_buffered_group_comes_first_with_its_old_index(tmp_path: Path) -> None:
    source = saving(tmp_path)
    groups = source.get_samples(2)
    source.add_samples([groups[1]])
    source.save(0)
    resumed = saving(tmp_path)
    resumed.load(0)
    again = resumed.get_samples(2)
    assert again[0] == groups[1]
    assert indices(again) == [1, 2]


@needs_torch
def test_c3_a_missing_state_lists_what_there_is(tmp_path: Path) -> None:
    source = saving(tmp_path)
    for rollout_id in (4, 9):
        source.save(rollout_id)
    with pytest.raises(MissingStateError, match=r"rollouts 4, 9\n.*load 9") as caught:
        source.load(7)
    assert isinstance(caught.value, FileNotFoundError)
    for fresh in (-1, None):
        source.load(fresh)
    assert source.cursor.sample_group_index == 0


@needs_torch
def test_c3_a_fresh_start_can_be_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = saving(tmp_path, on_missing_state="fresh")
    source.load(7)
    assert source.cursor.sample_group_index == 0
    assert "does not exist" in caplog.text


def appended(rows: list[str]) -> list[str]:
    return [*rows, json.dumps({"text": "new"}) + "\n"]


def swapped(rows: list[str]) -> list[str]:
    return [rows[1], rows[0], *rows[2:]]


CHANGES: dict[str, Any] = {
    "a row appended": (appended, {}, "content of the prompt data"),
    "two rows swapped": (swapped, {}, "content of the prompt data"),
    "a shorter file": (lambda rows: rows[:3], {}, "rows in the files: saved 10, now 3"),
    "another seed": (None, {"rollout_seed": 1}, "seed: saved 42, now 1"),
    "no shuffle": (None, {"rollout_shuffle": False}, "shuffle: saved True, now False"),
    "a slice": (None, {"slice": "@[0:6]"}, "slice"),
}


@needs_torch
@pytest.mark.parametrize("name", CHANGES)
def test_c4_a_state_of_other_data_or_settings_is_refused(tmp_path: Path, name: str) -> None:
    change, settings, says = CHANGES[name]
    source = saving(tmp_path, "abcdefghij")
    source.get_samples(5)
    source.save(0)
    path = tmp_path / "p.jsonl"
    if change:
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    settings = dict(**settings)
    if "slice" in settings:
        settings["prompt_data"] = str(path) + settings.pop("slice")
    resumed = saving(tmp_path, **settings)
    with pytest.raises(StateMismatchError, match=says):
        resumed.load(0)
    assert resumed.cursor.sample_group_index == 0
    loosened = saving(tmp_path, on_state_mismatch="ignore", **settings)
    loosened.load(0)
    assert loosened.sample_group_index == 5


@needs_torch
def test_a_changed_key_or_n_is_said_and_loads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = saving(tmp_path)
    source.get_samples(2)
    source.save(0)
    resumed = saving(tmp_path, n_samples_per_prompt=4)
    resumed.load(0)
    assert "samples per prompt: saved 2, now 4" in caplog.text
    assert resumed.sample_index == 4


@needs_torch
def test_a_buffer_of_another_group_size_is_refused(tmp_path: Path) -> None:
    source = saving(tmp_path)
    source.add_samples(source.get_samples(1))
    source.save(0)
    with pytest.raises(StateMismatchError, match=r"group size in the buffer: saved \[2\], now 4"):
        saving(tmp_path, n_samples_per_prompt=4).load(0)


@needs_torch
def test_a_buffer_is_not_lost_on_a_source_without_one(tmp_path: Path) -> None:
    source = saving(tmp_path)
    source.add_samples(source.get_samples(1))
    source.save(0)
    plain = RolloutDataSource(make_args(tmp_path, load=str(tmp_path / "run"), rollout_shuffle=True))
    with pytest.raises(StateMismatchError, match="groups in the buffer: saved 1, now no buffer"):
        plain.load(0)


@needs_torch
def test_c6_a_damaged_state_names_the_last_good_one(tmp_path: Path) -> None:
    source = saving(tmp_path)
    for rollout_id in (0, 1):
        source.get_samples(1)
        source.save(rollout_id)
    path = tmp_path / "run" / "rollout" / "global_dataset_state_dict_1.pt"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TorchFileError, match="rollout 0"):
        saving(tmp_path).load(1)


@needs_torch
def test_the_reference_reads_our_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    source = saving(tmp_path)
    source.update_metadata({"a": [1, 2.5, None, "x"]})
    source.add_samples(source.get_samples(3)[:1])
    source.save(3)
    path = tmp_path / "run" / "rollout" / "global_dataset_state_dict_3.pt"
    state = torch.load(path, weights_only=True)
    assert {k: state[k] for k in source.cursor.state_dict()} == source.cursor.state_dict()
    assert state["metadata"] == {"a": [1, 2.5, None, "x"]}


def write_foreign(folder: Path, rollout_id: int, state: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    path = folder / "run" / "rollout" / f"global_dataset_state_dict_{rollout_id}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)


FOREIGN = {
    "sample_offset": 3,
    "epoch_id": 1,
    "sample_group_index": 10,
    "sample_index": 20,
    "metadata": {"a": 1},
}


@plain_only("it looks at the dataset")
@needs_torch
def test_the_reference_s_file_loads_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_foreign(tmp_path, 4, FOREIGN)
    source = saving(tmp_path)
    source.load(4)
    assert source.cursor.state_dict() == {k: FOREIGN[k] for k in source.cursor.state_dict()}
    assert source.metadata == {"a": 1}
    assert "without a fingerprint" in caplog.text
    assert source.dataset.epoch_id == 1


@needs_torch
def test_a_short_wrap_s_offset_is_the_end_of_the_epoch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_foreign(tmp_path, 0, FOREIGN | {"sample_offset": 12})
    source = saving(tmp_path)
    source.load(0)
    assert source.sample_offset == 7
    assert "beyond the 7 rows" in caplog.text


@needs_torch
def test_an_old_file_without_group_index_loads_where_n_divides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = {k: v for k, v in FOREIGN.items() if k != "sample_group_index"}
    write_foreign(tmp_path, 0, old)
    source = saving(tmp_path)
    source.load(0)
    assert source.sample_group_index == 10
    assert "lacks sample_group_index" in caplog.text
    write_foreign(tmp_path, 1, old | {"sample_index": 21})
    with pytest.raises(CheckpointError, match="no multiple"):
        saving(tmp_path).load(1)


@needs_torch
@pytest.mark.parametrize("key", ["sample_offset", "epoch_id", "sample_index", "metadata"])
def test_any_other_missing_key_is_refused(tmp_path: Path, key: str) -> None:
    write_foreign(tmp_path, 0, {k: v for k, v in FOREIGN.items() if k != key})
    with pytest.raises(CheckpointError, match=f"lacks {key}"):
        saving(tmp_path).load(0)


@needs_torch
@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True])
def test_numbers_that_are_no_counts_are_refused(tmp_path: Path, value: object) -> None:
    write_foreign(tmp_path, 0, FOREIGN | {"epoch_id": value})
    with pytest.raises(CheckpointError, match="epoch_id"):
        saving(tmp_path).load(0)


@needs_torch
def test_only_the_newest_files_are_kept_when_asked(tmp_path: Path) -> None:
    source = saving(tmp_path, keep_last=2)
    for rollout_id in (7, 0, 1, 2):
        source.save(rollout_id)
    names = sorted(path.name for path in (tmp_path / "run" / "rollout").iterdir())
    assert [name.rpartition("_")[2] for name in names] == ["1.pt", "2.pt", "7.pt"]


def test_load_without_a_folder_does_nothing(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.load(3)
    assert source.cursor.sample_group_index == 0


def test_save_without_a_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save"):
        with_buffer(tmp_path).save(0)


@needs_torch
def test_with_the_dataset_off_the_plain_source_says_once_that_it_saves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = RolloutDataSource(
        SimpleNamespace(n_samples_per_prompt=1, save=str(tmp_path), load=str(tmp_path))
    )
    source.save(0)
    source.load(0)
    assert not (tmp_path / "rollout").exists()
    assert caplog.text.count("saves and loads no state") == 1


@needs_torch
def test_with_the_dataset_off_the_buffer_is_still_saved(tmp_path: Path) -> None:
    args = SimpleNamespace(n_samples_per_prompt=1, save=str(tmp_path), load=str(tmp_path))
    source = _make_source(args)
    source.add_samples([make_group(5, 1)])
    source.get_samples(3)
    source.add_samples([make_group(6, 1)])
    source.save(0)
    resumed = _make_source(args)
    resumed.load(0)
    assert indices(resumed.get_samples(2)) == [6, 2]


@plain_only("it edits the buffer")
def test_state_dict_is_a_pure_read_and_loads_back(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, "abcdefg", rollout_shuffle=True)
    source.add_samples(source.get_samples(3)[:2])
    state = source.state_dict()
    assert state == source.state_dict()
    source.buffer[0][0].metadata["edited"] = True
    source.update_metadata({"a": 1})
    assert state != source.state_dict()
    other = with_buffer(tmp_path, rollout_shuffle=True)
    other.load_state_dict(state)
    assert other.state_dict() == state


def test_a_load_that_fails_changes_nothing(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.add_samples(source.get_samples(2)[:1])
    before = source.state_dict()
    broken = source.state_dict()
    broken["epoch_id"] = -1
    with pytest.raises(CheckpointError):
        source.load_state_dict(broken)
    assert source.state_dict() == before


# --- groups in flight -------------------------------------------------------------------------


def tracking(folder: Path, letters: str = "abcdefg", **settings: Any) -> Any:
    return with_buffer(folder, letters, track_in_flight=True, rollout_shuffle=True, **settings)


def test_groups_in_flight_are_served_again_first(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    first = source.get_samples(3)
    source.complete([first[1]])
    source.add_samples([first[2]])
    expected_rest = prompts(tracking(tmp_path).get_samples(5)[3:])
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    again = resumed.get_samples(4)
    assert again[0] == first[0]
    assert again[1] == first[2]
    assert prompts(again[2:]) == expected_rest
    assert indices(again) == [0, 2, 3, 4]


def test_a_group_from_the_buffer_is_kept_as_it_was_handed_over(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    group = source.get_samples(1)[0]
    group[0].response = "half"
    source.add_samples([group])
    source.get_samples(1)
    group[0].response = "edited while in flight"
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    assert [sample.response for sample in resumed.get_samples(1)[0]] == ["half", ""]


def test_a_state_in_the_middle_of_serving_again_loses_nothing(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    first = source.get_samples(3)
    middle = tracking(tmp_path)
    middle.load_state_dict(source.state_dict())
    middle.complete(middle.get_samples(1))
    last = tracking(tmp_path)
    last.load_state_dict(middle.state_dict())
    assert last.get_samples(2) == first[1:]
    assert last.in_flight.num_completed == 1


def test_a_group_served_again_is_kept_as_it_was_handed_over(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    group = source.get_samples(1)[0]
    group[0].response = "half"
    source.add_samples([group])
    source.get_samples(1)
    for _ in range(2):
        resumed = tracking(tmp_path)
        resumed.load_state_dict(source.state_dict())
        again = resumed.get_samples(1)[0]
        assert "edited" not in again[0].metadata
        again[0].metadata["edited"] = True
        source = resumed


def test_discarded_groups_are_counted_by_reason(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    groups = source.get_samples(3)
    source.discard(groups[:2], "zero spread")
    source.discard(groups[2:], "too long")
    assert source.in_flight.num_discarded == {"zero spread": 2, "too long": 1}
    assert len(source.in_flight) == 0
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    assert resumed.in_flight.num_discarded == {"zero spread": 2, "too long": 1}


@pytest.mark.parametrize("method", ["complete", "discard"])
def test_settling_a_group_that_is_not_in_flight_is_refused(tmp_path: Path, method: str) -> None:
    source = tracking(tmp_path)
    groups = source.get_samples(2)
    settle = getattr(source, method)
    extra = () if method == "complete" else ("reason",)
    with pytest.raises(GroupError, match="group 0"):
        settle([groups[0], groups[0]], *extra)
    settle([groups[0]], *extra)
    with pytest.raises(GroupError, match="group 0"):
        settle([groups[1], groups[0]], *extra)
    assert len(source.in_flight) == 1


def test_settling_without_the_ledger_says_what_to_set(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    with pytest.raises(GroupError, match="track_in_flight"):
        source.complete(source.get_samples(1))


# --- threads ----------------------------------------------------------------------------------


def test_c9_every_state_read_while_another_thread_draws_is_consistent(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, "abcdefg", rollout_shuffle=True)
    stop = threading.Event()

    def draw() -> None:
        while not stop.is_set():
            source.get_samples(3)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        states = [source.state_dict() for _ in range(1000)]
    finally:
        stop.set()
        thread.join()
    for state in states:
        group_index = state["sample_group_index"]
        assert state["sample_index"] == group_index * 2
        assert group_index == state["epoch_id"] * 7 + state["sample_offset"]
    assert len({state["sample_group_index"] for state in states}) > 1


def test_two_threads_draw_every_group_once(tmp_path: Path) -> None:
    source = RolloutDataSource(make_args(tmp_path, "abcdefg", rollout_shuffle=True))
    served: list[list[int]] = [[], []]

    def draw(into: list[int]) -> None:
        for _ in range(100):
            into += indices(source.get_samples(2))

    threads = [threading.Thread(target=draw, args=(into,)) for into in served]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served[0] + served[1]) == list(range(400))


def test_notices_reach_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "p.jsonl").write_text('{"text": "a", "tools": null}\n')
    with caplog.at_level(logging.WARNING, "rolloutds"):
        with_buffer(tmp_path)
    assert "tools" in caplog.text


# --- what a state shares, and what it costs ---------------------------------------------------


@plain_only("it edits the buffer")
def test_two_sources_that_load_one_state_share_nothing(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.update_metadata({"list": [1]})
    group = source.get_samples(1)[0]
    group[0].response = "half"
    source.add_samples([group])
    state = source.state_dict()
    one, two = with_buffer(tmp_path), with_buffer(tmp_path)
    for loaded in (one, two):
        loaded.load_state_dict(state)
    one.get_metadata()["list"].append(2)
    one.buffer[0][0].metadata["edited"] = True
    state["rolloutds"]["buffer"].clear()
    assert two.get_metadata() == {"list": [1]}
    assert two.buffer[0][0].metadata == {"n": 0}


def test_editing_a_state_dict_does_not_reach_the_source(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    source.add_samples(source.get_samples(1))
    source.get_samples(1)
    before = source.state_dict()
    state = source.state_dict()
    state["rolloutds"]["fingerprint"]["keys"]["input_key"] = "other"
    state["rolloutds"]["in_flight"]["groups"][0]["samples"][0]["prompt"] = "other"
    assert source.state_dict() == before


def test_untouched_groups_of_the_buffer_are_named_by_their_rows(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, "abcdefg", rollout_shuffle=True)
    groups = source.get_samples(20)
    source.add_samples(groups)
    buffer = source.state_dict()["rolloutds"]["buffer"]
    assert all(set(g) == {"group_index", "first_index", "row_position", "row_id"} for g in buffer)
    resumed = with_buffer(tmp_path, rollout_shuffle=True)
    resumed.load_state_dict(source.state_dict())
    assert resumed.get_samples(20) == groups


def edit_metadata(group: list[Sample]) -> None:
    group[1].metadata["n"] = float(group[1].metadata["n"])  # equal, and another type


def reorder(group: list[Sample]) -> None:
    group.reverse()


def renumber(group: list[Sample]) -> None:
    group[1].index += 100


def add_attribute(group: list[Sample]) -> None:
    group[0].trace = {"spans": []}


def count_tokens(group: list[Sample]) -> None:
    group[1].spec_info.completion_token_num = 3


@pytest.mark.parametrize("edit", [edit_metadata, reorder, renumber, add_attribute, count_tokens])
def test_an_edited_group_is_stored_whole(tmp_path: Path, edit: Any) -> None:
    source = with_buffer(tmp_path, "abcdefg", rollout_shuffle=True)
    groups = source.get_samples(9)
    edit(groups[8])
    source.add_samples(groups)
    state = source.state_dict()
    kinds = [type(group) for group in state["rolloutds"]["buffer"]]
    assert kinds == [dict] * 8 + [list]
    resumed = with_buffer(tmp_path, rollout_shuffle=True)
    resumed.load_state_dict(state)
    again = resumed.get_samples(9)
    assert [[vars(s) for s in group] for group in again] == [
        [vars(s) for s in group] for group in groups
    ]
    assert [type(group[1].metadata["n"]) for group in again] == [
        type(group[1].metadata["n"]) for group in groups
    ]


def test_groups_of_a_file_that_changed_are_stored_whole(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, "abcdefg")
    source.add_samples(source.get_samples(3))
    write_letters(tmp_path / "p.jsonl", "xyz")
    buffer = source.state_dict()["rolloutds"]["buffer"]
    assert [group[0]["prompt"] for group in buffer] == ["a", "b", "c"]


@plain_only("it looks at the buffer")
@needs_torch
def test_tensors_are_stored_once_and_as_they_stood(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    source = saving(tmp_path)
    group = source.get_samples(1)[0]
    shared = torch.arange(10_000, dtype=torch.float32)
    for sample in group:
        sample.multimodal_train_inputs = {"pixels": shared}
        sample.rollout_log_probs = torch.ones(3, requires_grad=True) * 2
    source.add_samples([group])
    source.snapshot(0)
    shared += 1
    source.save(0)
    path = tmp_path / "run" / "rollout" / "global_dataset_state_dict_0.pt"
    assert path.stat().st_size < 60_000  # 40,000 bytes once, not for each sample
    resumed = saving(tmp_path)
    resumed.load(0)
    again = resumed.buffer[0]
    assert again[0].multimodal_train_inputs["pixels"].tolist() == list(range(10_000))
    assert again[0].multimodal_train_inputs["pixels"] is again[1].multimodal_train_inputs["pixels"]
    assert again[1].rollout_log_probs.tolist() == [2.0, 2.0, 2.0]


@plain_only("a shared source refuses it earlier, for its journal")
@needs_torch
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1, 2}, r'metadata\["bad"\] is set'),
        (threading.Lock(), r'metadata\["bad"\] is _thread'),
        (Sample.Status.ABORTED, r'metadata\["bad"\] is rolloutds.sample.Status'),
    ],
)
def test_c5_a_value_that_is_not_plain_is_refused_at_the_save_by_its_key(
    tmp_path: Path, value: object, says: str
) -> None:
    source = saving(tmp_path)
    source.save(0)
    source.update_metadata({"bad": value})
    source.snapshot(1)
    with pytest.raises(UnsavableValueError, match=says):
        source.save(1)
    assert native.saved_ids(tmp_path / "run") == [0]
    source.update_metadata({"bad": "fine"})
    source.snapshot(1)
    source.save(1)
    assert native.saved_ids(tmp_path / "run") == [0, 1]


# --- compact groups, foreign groups, groups that come back twice ------------------------------


@needs_torch
@pytest.mark.parametrize("track_in_flight", [False, True])
def test_b9_compact_groups_are_counted_by_rollout_and_survive(
    tmp_path: Path, track_in_flight: bool
) -> None:
    source = saving(tmp_path, track_in_flight=track_in_flight)
    one, two = source.get_samples(1)[0]
    more = copy.deepcopy(one)
    more.response = "second turn"
    group: Any = [[one, more], [two]]
    source.add_samples([group])
    with pytest.raises(GroupError, match="3 samples"):
        source.add_samples([[one, more, two]])
    source.save(0)
    resumed = saving(tmp_path, track_in_flight=track_in_flight)
    resumed.load(0)
    assert resumed.get_samples(1) == [group]
    if track_in_flight:
        resumed.complete([group])
        assert len(resumed.in_flight) == 0


@pytest.mark.parametrize(
    "group", [[1, 2], ["a", "b"], [None, None], [[], []], [[Sample()], []], [{}, {}]]
)
def test_what_is_no_group_of_samples_is_refused(tmp_path: Path, group: Any) -> None:
    source = with_buffer(tmp_path)
    with pytest.raises(GroupError, match="position 0"):
        source.add_samples([group])
    assert source.get_buffer_length() == 0


@plain_only("it edits the buffer")
def test_a_group_given_back_twice_is_refused_and_nothing_is_added(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    one, two = source.get_samples(2)
    source.add_samples([one])
    for groups in ([two, one], [two, two], [[one[0], two[1]]]):
        with pytest.raises(GroupError, match="already"):
            source.add_samples(groups)
    assert source.buffer == [one]
    for _ in range(3):  # each time after a draw is fine
        source.add_samples([source.get_samples(1)[0]])
    source.buffer.clear()
    source.add_samples([one])
    assert source.get_buffer_length() == 1


@plain_only("it counts calls inside")
def test_adding_one_by_one_stays_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = with_buffer(tmp_path)
    looks = []
    renew = source._members._note_anew

    def count(buffer: list[Any]) -> None:
        looks.append(len(buffer))
        renew(buffer)

    monkeypatch.setattr(source._members, "_note_anew", count)
    for i in range(4_000):
        source.add_samples([make_group(i, 2)])
    assert sum(looks) < 4 * 4_000


def test_blank_groups_and_groups_without_an_index_are_all_in_the_ledger() -> None:
    args = SimpleNamespace(n_samples_per_prompt=1, track_in_flight=True)
    source = _make_source(args)
    foreign = [[Sample(prompt=c)] for c in "ab"]
    source.add_samples(foreign)
    groups = source.get_samples(4)
    assert len(source.in_flight) == 4
    source.complete([groups[1]])
    resumed = _make_source(args)
    resumed.load_state_dict(source.state_dict())
    again = resumed.get_samples(4)
    assert [group[0].prompt for group in again] == ["a", "", "", ""]
    assert indices(again) == [None, 0, 1, 2]
    with pytest.raises(GroupError, match="group None"):
        resumed.complete([[Sample(prompt="stranger", row_id=9)]])


def test_groups_of_one_index_are_told_apart(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    foreign = make_group(1, 2, first_index=50, prompt="foreign")
    source.add_samples([foreign])
    served = source.get_samples(3)
    assert indices(served) == [1, 0, 1]
    assert len(source.in_flight) == 3
    source.complete([copy.deepcopy(served[2])])
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    assert resumed.get_samples(2) == [foreign, served[1]]


def test_a_foreign_group_does_not_take_the_place_of_one_in_flight(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    groups = source.get_samples(2)
    source.add_samples([make_group(1, 2, first_index=50, prompt="foreign")])
    assert len(source.in_flight) == 2
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    assert resumed.get_samples(2) == groups
    assert resumed.get_samples(1)[0][0].prompt == "foreign"


@plain_only("it looks at the buffer")
def test_groups_that_cannot_be_told_apart_are_not_guessed(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    twins = [make_group(7, 2, prompt=c) for c in "xy"]
    source.add_samples(twins)
    served = source.get_samples(2)
    for settle in (source.complete, source.add_samples):
        with pytest.raises(GroupError, match="2 groups in flight"):
            settle([copy.deepcopy(served[1])])
    assert (len(source.in_flight), source.buffer) == (2, [])
    source.complete([served[1]])
    resumed = tracking(tmp_path)
    resumed.load_state_dict(source.state_dict())
    assert resumed.get_samples(1)[0][0].prompt == "x"


def test_a_group_to_be_served_again_can_be_given_back_and_not_completed(tmp_path: Path) -> None:
    source = tracking(tmp_path)
    groups = source.get_samples(2)
    source.load_state_dict(source.state_dict())
    with pytest.raises(GroupError, match="group 0: was in flight in the loaded state"):
        source.complete(groups)
    groups[0][0].response = "half"
    source.add_samples(groups[:1])
    again = source.get_samples(3)
    assert indices(again) == [1, 0, 2]
    assert again[1][0].response == "half"


@pytest.mark.parametrize("reason", [None, 3])
def test_a_reason_is_text(tmp_path: Path, reason: Any) -> None:
    source = tracking(tmp_path)
    with pytest.raises(GroupError, match="reason"):
        source.discard(source.get_samples(1), reason)
    assert len(source.in_flight) == 1


@pytest.mark.parametrize("groups", [[[]], [3], "ab", None])
def test_settling_what_is_no_group_is_refused(tmp_path: Path, groups: Any) -> None:
    source = tracking(tmp_path)
    with pytest.raises(GroupError):
        source.complete(groups)


# --- snapshots and saves ----------------------------------------------------------------------


@plain_only("it looks at the snapshots")
@needs_torch
def test_a_snapshot_serves_every_save_of_its_rollout_and_goes_when_passed(tmp_path: Path) -> None:
    source = saving(tmp_path, "abcdefghij")
    for rollout_id in range(4):
        source.get_samples(2)
        source.snapshot(rollout_id)
    for _ in range(2):
        source.save(2)
    assert [i for i in range(4) if i in source._snapshots] == [2, 3]
    with pytest.raises(CheckpointError, match="snapshot of rollout 1 is gone"):
        source.save(1)
    source.save(3)
    saved = {}
    for rollout_id in native.saved_ids(tmp_path / "run"):
        resumed = saving(tmp_path)
        resumed.load(rollout_id)
        saved[rollout_id] = resumed.sample_group_index
    assert saved == {2: 6, 3: 8}
    source.snapshot(3)
    source.load(2)
    assert len(source._snapshots) == 0
    source.get_samples(1)
    source.save(3)
    resumed.load(3)
    assert resumed.sample_group_index == 7


@plain_only("it looks at the snapshots")
def test_a_snapshot_without_a_folder_keeps_nothing(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.snapshot(0)
    assert len(source._snapshots) == 0


@needs_torch
def test_an_id_that_no_load_would_find_is_refused(tmp_path: Path) -> None:
    source = saving(tmp_path)
    for rollout_id in (-1, "3", None):
        with pytest.raises(ConfigError, match="rollout id"):
            source.save(rollout_id)
    with pytest.raises(ConfigError, match="rollout id"):
        source.load("3")


@needs_torch
def test_without_the_ledger_a_save_says_what_it_does_not_cover(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = saving(tmp_path)
    source.get_samples(2, rollout_id=0)
    groups = source.get_samples(3, rollout_id=1)
    source.add_samples(groups[:1])
    source.save(1)
    assert caplog.text == ""
    source.get_samples(2, rollout_id=2)
    source.save(1)
    assert "rollout 1 does not cover 2 groups in flight" in caplog.text
    caplog.clear()
    source.save(2)
    tracked = saving(tmp_path, track_in_flight=True)
    tracked.get_samples(2, rollout_id=2)
    tracked.save(1)
    assert caplog.text == ""


@plain_only("an actor does one thing at a time")
@needs_torch
def test_c9_a_thousand_saves_while_another_thread_draws(tmp_path: Path) -> None:
    source = saving(tmp_path)
    stop = threading.Event()

    def draw() -> None:
        while not stop.is_set():
            source.add_samples(source.get_samples(3)[:1])

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for rollout_id in range(1_000):
            source.save(rollout_id)
    finally:
        stop.set()
        thread.join()
    torch = pytest.importorskip("torch")
    seen = []
    for rollout_id in range(1_000):
        state = torch.load(native.state_path(tmp_path / "run", rollout_id), weights_only=True)
        group_index = state["sample_group_index"]
        assert state["sample_index"] == group_index * 2
        assert group_index == state["epoch_id"] * 7 + state["sample_offset"]
        assert len(state["rolloutds"]["buffer"]) in (0, 1)
        seen.append(group_index)
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    for rollout_id in (0, 500, 999):
        resumed = saving(tmp_path)
        resumed.load(rollout_id)
        assert resumed.sample_group_index == seen[rollout_id]


@needs_torch
def test_two_threads_save_one_id_and_the_last_state_stays(tmp_path: Path) -> None:
    source = saving(tmp_path)
    errors = []

    def save() -> None:
        try:
            for _ in range(50):
                source.get_samples(1)
                source.save(4)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    resumed = saving(tmp_path)
    resumed.load(4)
    assert resumed.sample_group_index == 150
    assert [path.suffix for path in (tmp_path / "run" / "rollout").iterdir()] == [".pt"]


# --- loads ------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("rollout_id", [0, -1, None, 7])
def test_a_load_replaces_the_whole_state_of_a_source_that_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rollout_id: int | None
) -> None:
    first = saving(tmp_path, track_in_flight=True)
    first.complete(first.get_samples(2))
    first.save(0)
    used = saving(tmp_path, track_in_flight=True, on_missing_state="fresh")
    used.add_samples(used.get_samples(5)[:2])
    used.update_metadata({"old": 1})
    used.load(rollout_id)
    expected = first if rollout_id == 0 else saving(tmp_path, track_in_flight=True)
    assert used.state_dict() == expected.state_dict()
    assert used.get_samples(3) == expected.get_samples(3)
    assert "2 groups in the buffer are dropped" in caplog.text


@needs_torch
def test_a_mismatch_ignored_leaves_out_and_counts_rows_that_are_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = saving(tmp_path, "abcdefg", track_in_flight=True, rollout_shuffle=False)
    source.add_samples(source.get_samples(7)[5:])
    source.save(0)
    write_letters(tmp_path / "p.jsonl", "xyz")
    with pytest.raises(StateMismatchError):
        saving(tmp_path, track_in_flight=True, rollout_shuffle=False).load(0)
    resumed = saving(
        tmp_path, track_in_flight=True, rollout_shuffle=False, on_state_mismatch="ignore"
    )
    resumed.load(0)
    assert "2 groups under in_flight name rows beyond the 3" in caplog.text
    assert "2 groups under buffer name rows beyond the 3" in caplog.text
    assert resumed.sample_offset == 3
    assert prompts(resumed.get_samples(5)) == "xyzxy"


@needs_torch
def test_keep_last_never_leaves_damaged_files_only(tmp_path: Path) -> None:
    source = saving(tmp_path, keep_last=1)
    source.save(0)
    native.state_path(tmp_path / "run", 0).write_bytes(b"damaged")
    native.state_path(tmp_path / "run", 5).write_bytes(b"damaged")
    source.get_samples(2)
    source.save(1)
    assert native.saved_ids(tmp_path / "run") == [1, 5]
    resumed = saving(tmp_path)
    resumed.load(1)
    assert resumed.sample_group_index == 2


# --- the other systems ------------------------------------------------------------------------


class Reference:
    """What slime, miles and vime do with the file: five keys in and out, nothing else."""

    KEYS = ("sample_offset", "epoch_id", "sample_group_index", "sample_index", "metadata")

    def load(self, path: Path) -> None:
        state = pytest.importorskip("torch").load(path)
        self.state = {key: state.get(key, {} if key == "metadata" else 0) for key in self.KEYS}

    def save(self, path: Path) -> None:
        pytest.importorskip("torch").save(self.state, path)


@needs_torch
def test_a_state_goes_to_the_reference_and_back(tmp_path: Path) -> None:
    ours = saving(tmp_path)
    ours.update_metadata({"step": 3, "notes": ["a", None, 1.5]})
    ours.get_samples(10)
    ours.save(2)
    path = native.state_path(tmp_path / "run", 2)
    reference = Reference()
    reference.load(path)
    assert reference.state == {k: v for k, v in ours.state_dict().items() if k != "rolloutds"}
    reference.save(native.state_path(tmp_path / "run", 3))
    back = saving(tmp_path)
    back.load(3)
    assert back.state_dict() == ours.state_dict()
    assert back.get_samples(9) == ours.get_samples(9)
    back.load(2)
    back.save(4)
    assert path.read_bytes().replace(b"dict_2", b"") == native.state_path(
        tmp_path / "run", 4
    ).read_bytes().replace(b"dict_4", b"")


@needs_torch
def test_a_class_in_the_metadata_of_another_system_is_named(tmp_path: Path) -> None:
    import fractions

    write_foreign(tmp_path, 0, FOREIGN | {"metadata": {"a": {"b": [fractions.Fraction(1, 3)]}}})
    with pytest.raises(CheckpointError, match=r'metadata\["a"\]\["b"\]\[0\] is .*Fraction'):
        saving(tmp_path).load(0)


# --- what is saved can be loaded ----------------------------------------------------------------


UNLOADABLE = {
    "group_index": ("batch 7", r'\["buffer"\]\[0\]\[0\]\["group_index"\] is \'batch 7\''),
    "index": (1.5, r'\["index"\] is 1\.5'),
    "row_id": (2**64, r'\["row_id"\] is 18446744073709551616'),
    "spec_info": ("fast", r'\["spec_info"\] is \'fast\''),
    "to_dict": (3, r'\["to_dict"\] is 3'),
}


@plain_only("it edits the buffer")
@needs_torch
@pytest.mark.parametrize("name", UNLOADABLE)
def test_c5_what_a_load_would_refuse_is_refused_at_the_save(tmp_path: Path, name: str) -> None:
    value, says = UNLOADABLE[name]
    source = saving(tmp_path)
    groups = source.get_samples(1)
    setattr(groups[0][0], name, value)
    source.buffer += groups
    with pytest.raises(UnsavableValueError, match=says):
        source.save(0)
    assert native.saved_ids(tmp_path / "run") == []


@plain_only("it replaces the metadata")
@needs_torch
def test_c5_metadata_that_is_no_object_is_refused_at_the_save(tmp_path: Path) -> None:
    source = saving(tmp_path)
    source.metadata = None
    with pytest.raises(UnsavableValueError, match="metadata is None, expected an object"):
        source.save(0)


@plain_only("it edits the buffer")
@pytest.mark.parametrize("stranger", [3, [], ["text"], [[]]])
def test_a_stranger_in_the_buffer_is_named(tmp_path: Path, stranger: Any) -> None:
    source = with_buffer(tmp_path)
    source.buffer.append(stranger)
    with pytest.raises(UnsavableValueError, match=r"is in the buffer, expected a group"):
        source.state_dict()


@needs_torch
def test_numpy_numbers_are_as_good_as_plain_ones(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    source = saving(tmp_path, track_in_flight=True)
    groups = source.get_samples(numpy.int64(2))
    for name in ("group_index", "index", "row_id"):
        setattr(groups[0][0], name, numpy.int64(getattr(groups[0][0], name)))
    source.add_samples(groups)
    state = source.state_dict()
    assert all(type(state[key]) is int for key in source.cursor.state_dict())
    source.load_state_dict(state)
    source.save(numpy.int64(0))
    resumed = saving(tmp_path, track_in_flight=True)
    resumed.load(0)
    assert resumed.state_dict() == state


@pytest.mark.parametrize("number", ["3", 3.0, None])
def test_a_number_of_groups_is_whole(tmp_path: Path, number: Any) -> None:
    source = with_buffer(tmp_path)
    with pytest.raises(ConfigError, match="expected a whole number"):
        source.get_samples(number)


@plain_only("what is nested so deeply cannot travel")
def test_a_draw_that_the_ledger_cannot_take_changes_nothing(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, track_in_flight=True)
    groups = source.get_samples(1)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    groups[0][0].metadata["deep"] = deep
    source.add_samples(groups)
    cursor = source.cursor
    with pytest.raises(UnsavableValueError, match="nested too deeply"):
        source.get_samples(2)
    assert (source.cursor, source.buffer, len(source.in_flight)) == (cursor, groups, 0)


def test_a_renumbered_group_is_still_the_same_object(tmp_path: Path) -> None:
    source = with_buffer(tmp_path, track_in_flight=True)
    first, second = source.get_samples(2)
    for sample in first:
        sample.group_index = 40
    source.complete([first])
    source.add_samples([second])
    assert len(source.in_flight) == 0


def test_an_index_that_cannot_be_looked_up_is_refused(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    groups = source.get_samples(1)
    groups[0][0].group_index = [1]
    with pytest.raises(GroupError, match=r"group_index is \[1\]"):
        source.add_samples(groups)
    assert source.get_buffer_length() == 0


@plain_only("it takes a group out of the buffer")
def test_a_group_of_a_loaded_buffer_given_back_again_is_refused(tmp_path: Path) -> None:
    source = with_buffer(tmp_path)
    source.add_samples(source.get_samples(2))
    source.load_state_dict(source.state_dict())
    with pytest.raises(GroupError, match="in the buffer already"):
        source.add_samples([source.buffer[0]])
    assert len(source.buffer) == 2


@needs_torch
def test_an_id_before_the_first_is_no_fresh_start(tmp_path: Path) -> None:
    source = saving(tmp_path)
    source.get_samples(2)
    with pytest.raises(ConfigError, match="rollout id -2, expected -1 or more"):
        source.load(-2)
    with pytest.raises(ConfigError, match="rollout id -1, expected 0 or more"):
        source.snapshot(-1)
    assert source.sample_group_index == 2


# --- C4: the length limit and its tokenizer ----------------------------------------------------


def make_word_tokenizer(folder: Path, *words: str) -> str:
    pytest.importorskip("transformers", reason="needs the tokenizers extra")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: i for i, word in enumerate(("[UNK]", *words))}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    folder.mkdir()
    tokenizers.Tokenizer(model).save(str(folder / "tokenizer.json"))
    return str(folder)


def test_c4_another_limit_or_tokenizer_is_refused(tmp_path: Path) -> None:
    one = make_word_tokenizer(tmp_path / "one", "a")
    two = make_word_tokenizer(tmp_path / "two", "a", "b")
    limited = {"hf_checkpoint": one, "rollout_max_prompt_len": 5}
    source = with_buffer(tmp_path, "abcdefghij", **limited)
    source.get_samples(5)
    state = source.state_dict()
    with_buffer(tmp_path, **limited).load_state_dict(state)
    for change, says in (
        ({"rollout_max_prompt_len": 6}, "length limit: saved 5, now 6"),
        ({"rollout_max_prompt_len": None}, "length limit: saved 5, now None"),
        ({"hf_checkpoint": two}, "tokenizer: saved"),
    ):
        other = with_buffer(tmp_path, **(limited | change))
        with pytest.raises(StateMismatchError, match=says):
            other.load_state_dict(state)
        assert other.cursor.sample_group_index == 0


@pytest.mark.parametrize("name", ["save", "load"])
def test_a_state_behind_a_url_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"memory://me:\*\*\*@host/run is a URL") as refused:
        RolloutDataSource(make_args(tmp_path, **{name: "memory://me:secret@host/run"}))
    assert refused.value.where == name
    assert os.listdir(tmp_path) == ["p.jsonl"]


@plain_only("it is the settings that are looked at")
def test_a_local_url_is_its_path(tmp_path: Path):
    pytest.importorskip("torch", reason="needs the torch extra")
    url = f"file://{tmp_path}"
    source = RolloutDataSource(make_args(tmp_path, save=url, load=url))
    source.get_samples(2)
    source.save(0)
    resumed = RolloutDataSource(make_args(tmp_path, save=url, load=url))
    resumed.load(0)
    assert resumed.cursor == source.cursor
