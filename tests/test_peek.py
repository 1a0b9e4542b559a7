from __future__ import annotations

import json
import random
from argparse import Namespace
from pathlib import Path

import pytest

from rolloutds import peek
from rolloutds.cache import Cache
from rolloutds.cursor import Cursor
from rolloutds.dataset import Dataset
from rolloutds.errors import ConfigError, DataError
from rolloutds.sample import Sample


def write(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def open_dataset(tmp_path):
    def open_it(num_rows=10, rows=None, **settings):
        rows = rows or [{"input": f"row {i}"} for i in range(num_rows)]
        path = write(tmp_path / "rows.jsonl", rows)
        settings = {
            "prompt_data": str(path),
            "rollout_global_dataset": True,
            "n_samples_per_prompt": 4,
        } | settings
        return Dataset(Namespace(**settings), cache=Cache(None))

    return open_it


def test_groups_come_in_the_runs_order_over_epochs(open_dataset):
    dataset = open_dataset(5, rollout_shuffle=True, rollout_seed=7)
    expected = []
    for epoch_id in range(3):
        order = list(range(5))
        random.Random(7 + epoch_id).shuffle(order)
        expected += order
    groups = list(peek.Listing(dataset, Cursor(), 13))
    assert [group.place.row_id for group in groups] == expected[:13]
    assert [group.sample_group_index for group in groups] == list(range(13))
    assert [group.sample_index for group in groups] == list(range(0, 52, 4))
    assert [(g.epoch_id, g.sample_offset) for g in groups] == [divmod(i, 5) for i in range(13)]


def test_a_listing_equals_what_a_source_serves(open_dataset):
    from rolloutds.source import RolloutDataSource

    dataset = open_dataset(7, rollout_shuffle=True)
    source = RolloutDataSource(dataset.config)
    served = [source.get_samples(3) for _ in range(8)]
    groups = list(peek.Listing(dataset, Cursor(), 24))
    first = [group[0] for batch in served for group in batch]
    assert [(s.row_id, s.group_index, s.index) for s in first] == [
        (g.place.row_id, g.sample_group_index, g.sample_index) for g in groups
    ]


def test_only_the_rows_shown_are_parsed(open_dataset):
    dataset = open_dataset(300, rollout_shuffle=True)
    before = dataset.rows.scan_counters.rows_parsed
    assert len(list(peek.Listing(dataset, Cursor(), 5))) == 5
    assert dataset.rows.scan_counters.rows_parsed - before == 5


def test_a_listing_can_be_read_again_and_is_lazy(open_dataset):
    listing = peek.Listing(open_dataset(3), Cursor(), 10**12)
    firsts = [next(iter(listing)) for _ in range(2)]
    assert [group.position for group in firsts] == [0, 0]


def test_starts(open_dataset):
    dataset = open_dataset(10)
    assert peek.start_of_group(dataset, 23) == Cursor(2, 3, 23, 92)
    assert peek.start_of_epoch(dataset, 1, 10) == Cursor(1, 10, 20, 80)
    assert next(iter(peek.Listing(dataset, Cursor(1, 10, 20, 80), 1))).epoch_id == 2
    with pytest.raises(ConfigError, match="11 is beyond the 10 rows"):
        peek.start_of_epoch(dataset, 0, 11)


def test_a_row_is_found_in_every_epoch(open_dataset):
    dataset = open_dataset(10, rollout_shuffle=True, rollout_batch_size=4)
    rows = iter(peek.rows_with_id(dataset, 3))
    for group in peek.Appearances(dataset, rows, range(3)):
        assert group.place.row_id == 3
        assert dataset.order_of(group.epoch_id)[group.sample_offset] == 3
        assert group.rollout_id == (group.epoch_id * 10 + group.sample_offset) // 4


@pytest.mark.parametrize(
    ("data", "row_id", "why"),
    [
        ("rows.jsonl", 2, "a blank or skipped line"),
        ("rows.jsonl", 9, "there is no row 9: the last one is row 3"),
        ("rows.jsonl@[:1]", 3, r"outside the slice @\[:1\]"),
    ],
)
def test_why_a_row_is_not_served(tmp_path, monkeypatch, data, row_id, why):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"input":"a"}\n{"input":"b"}\n\n{"input":"c"}\n')
    dataset = Dataset(Namespace(prompt_data=data), cache=Cache(None))
    with pytest.raises(DataError, match=why):
        peek.rows_with_id(dataset, row_id)


def test_a_row_id_is_looked_up_in_every_file(tmp_path):
    for name, start in (("a", 0), ("b", 5)):
        write(tmp_path / f"{name}.jsonl", [{"input": str(i)} for i in range(start, start + 3)])
    dataset = Dataset(Namespace(prompt_data=str(tmp_path)), cache=Cache(None))
    places = [dataset.rows.place(position) for position in peek.rows_with_id(dataset, 1)]
    assert [(Path(place.file).name, place.row_id) for place in places] == [
        ("a.jsonl", 1),
        ("b.jsonl", 1),
    ]


def test_text_is_found_lazily_in_messages_too(open_dataset):
    rows = [{"input": [{"role": "user", "content": f"say {i}"}]} for i in range(2_000)]
    dataset = open_dataset(rows=rows)
    searched: list[int] = []
    found = peek.rows_with_text(dataset, "say 30", on_progress=searched.append)
    before = dataset.rows.scan_counters.rows_parsed
    assert next(found) == 30
    assert dataset.rows.scan_counters.rows_parsed - before <= 256
    assert list(found) == list(range(300, 310))
    assert searched[-1] == 2_000


def test_counts_and_reasons(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"input":"a"}\n\nnot json\n{"input":"b"}\n{"input":"c"}\n')
    config = Namespace(prompt_data=f"{path}@[:2]", bad_rows="skip")
    summary = peek.summarize(Dataset(config, cache=Cache(None)))
    assert (summary.num_rows, summary.num_lines) == (2, 5)
    assert (summary.num_blank, summary.num_skipped, summary.num_outside_slice) == (1, 1, 1)


MESSAGES = [
    {"role": "system", "content": "be brief"},
    {
        "role": "user",
        "content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "?"}],
    },
]


@pytest.mark.parametrize(
    ("sample", "head"),
    [
        (Sample(prompt="text"), "text"),
        (Sample(prompt=MESSAGES), "<image>?"),
        (Sample(prompt="<s>be brief ...", messages=MESSAGES), "<image>?"),
        (Sample(prompt=[{"role": "system", "content": "alone"}]), "alone"),
        (Sample(prompt=[{"from": "human", "value": "shared"}]), "shared"),
        (Sample(prompt=[{"role": "user", "content": None}]), ""),
        (Sample(prompt=[]), ""),
    ],
)
def test_the_head_of_a_prompt_tells_it_from_others(sample, head):
    assert peek.prompt_head(sample) == head
