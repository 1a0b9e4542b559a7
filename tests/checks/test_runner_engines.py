"""Checks on any engine find the same, whatever the parts, the tasks and the buckets are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.checks import runner
from rolloutds.checks.findings import as_record
from rolloutds.checks.parts import lay_out
from rolloutds.checks.prompt_table import PromptTable
from rolloutds.checks.runner import check_rows
from rolloutds.checks.selection import Selection
from rolloutds.checks.settings import CheckSettings
from rolloutds.checks.validate import read_evaluation
from rolloutds.engines import open_engine
from rolloutds.prompts import PromptSettings

pytest_plugins = ("tests.ray_cluster",)

PROMPTS = PromptSettings("prompt", "label")
TEXTS = st.sampled_from(["a", "A", " a", "b c", "B  C", "bc", "d", "é", "É", "longer words here"])
ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"prompt": TEXTS, "label": st.sampled_from(["1", "2", 1, None])}),
        st.fixed_dictionaries(
            {"prompt": TEXTS.map(lambda text: [{"role": "user", "content": text}])},
            optional={"label": st.just("1"), "metadata": st.just({"k": [1]})},
        ),
        st.sampled_from([{"prompt": None}, {"other": 1}, [], "text"]),
    ),
    max_size=40,
)
BROKEN = ["{", "", '{"prompt": "a", "label": NaN}']


@pytest.fixture(scope="module")
def two_processes():
    with open_engine("local", 2) as engine:
        yield engine


def write(path, rows, breaks=()):
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    for position, line in breaks:
        lines.insert(position, line)
    path.write_text("\n".join(lines), "utf-8")


def findings(path, engine=None, *, max_kept=1000, part_bytes=1 << 20, evaluation=None):
    settings = CheckSettings(PROMPTS, max_kept=max_kept, evaluation=evaluation)
    layout = lay_out(str(path), part_bytes=part_bytes)
    result = check_rows(layout, settings, Selection(), engine=engine)
    return [as_record(finding) for finding in result.findings], result.counts, result.checked


@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(BROKEN)), max_size=3),
    st.integers(1, 400),
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from([0, 1, 2, 1000]),
)
def test_processes_find_the_same(
    tmp_path_factory, two_processes, rows, breaks, part_bytes, max_tasks, bucket_bytes, max_kept
):
    path = tmp_path_factory.mktemp("rows") / "f.jsonl"
    write(path, rows, breaks)
    whole = findings(path, max_kept=max_kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_MAX_TASKS", max_tasks)
        patch.setattr(runner, "_BUCKET_BYTES", 40 * bucket_bytes)
        here = findings(path, open_engine(), max_kept=max_kept, part_bytes=part_bytes)
        there = findings(path, two_processes, max_kept=max_kept, part_bytes=part_bytes)
    assert here == whole
    assert there == whole


@pytest.mark.parametrize("name", ["local", "ray"])
def test_no_hash_comes_to_this_process(tmp_path, monkeypatch, request, name):
    if name == "ray":
        request.getfixturevalue("ray_cluster")
    rows = [{"prompt": f"p {n % 70}{' ' * (n % 3)}", "label": str(n % 4)} for n in range(400)]
    write(tmp_path / "f.jsonl", rows)
    whole = findings(tmp_path / "f.jsonl", part_bytes=2_000)
    assert whole[1]["DUP001"] + whole[1]["DUP002"] == 330
    monkeypatch.setattr(runner, "_BUCKET_BYTES", 3_000)
    seen = []
    merge = PromptTable.merge

    def note(table, later):
        seen.append((later.num_rows, later.blocks))
        merge(table, later)

    with open_engine(name, 2) as engine:
        monkeypatch.setattr(PromptTable, "merge", note)
        assert findings(tmp_path / "f.jsonl", engine, part_bytes=2_000) == whole
    assert len(seen) >= 9
    assert all(held == (0, []) for held in seen)


@pytest.mark.parametrize("name", ["local", "ray"])
def test_contamination_is_the_same(tmp_path, request, name):
    if name == "ray":
        request.getfixturevalue("ray_cluster")
    story = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    held_out = [{"prompt": story}, {"prompt": "Short one"}, {"prompt": "short ONE"}]
    write(tmp_path / "eval.jsonl", held_out)
    rows = [{"prompt": f"question {n}"} for n in range(50)]
    rows[3] = {"prompt": "ONE " + story}
    rows[30] = {"prompt": "shortone"}
    rows[44] = {"prompt": story.upper()}
    write(tmp_path / "f.jsonl", rows)
    evaluation = read_evaluation(str(tmp_path / "eval.jsonl"), CheckSettings(PROMPTS))
    whole = findings(tmp_path / "f.jsonl", evaluation=evaluation)
    shown = [(r["code"], r["line"], r["message"]) for r in whole[0] if r["code"][0] == "E"]
    spot = f"{tmp_path}/eval.jsonl"
    words = " ".join(story.split()[:13])
    assert shown == [
        ("EVAL002", 4, f'shares words with {spot}:1: "{words}"'),
        ("EVAL001", 31, f"the same prompt as {spot}:2"),
        ("EVAL001", 45, f"the same prompt as {spot}:1"),
    ]
    with open_engine(name, 2) as engine:
        there = findings(tmp_path / "f.jsonl", engine, part_bytes=100, evaluation=evaluation)
    assert there == whole


def test_the_parts_of_a_task_that_dies_are_named(tmp_path, two_processes):
    from rolloutds.checks.base import PartOfData

    def part(name, start, stop, size=100):
        return PartOfData(0, name, name, start, stop, size)

    assert runner._batch_name([part("a", 0, 100)]) == "a"
    assert runner._batch_name([part("a", 0, 50), part("a", 50, 60)]) == "a, bytes 0 to 60"
    assert runner._batch_name([part("a", 0, 100), part("b", 0, 50)]) == "a to b"
