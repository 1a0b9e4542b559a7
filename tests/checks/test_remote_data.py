"""Prompt data behind a URL, and in a manifest, is checked as a local copy is."""

from __future__ import annotations

import json

import pytest

from rolloutds import check_dataset
from rolloutds.checks.inputs import Input, first_rows, kind_of
from rolloutds.checks.parts import lay_out
from rolloutds.checks.runner import check_rows
from rolloutds.checks.selection import Selection
from rolloutds.checks.settings import CheckSettings
from rolloutds.prompts import PromptSettings

LINES = [
    '{"prompt": "a", "label": "1"}',
    '{"prompt": "A ", "label": "2"}',
    "",
    '{"prompt": null}',
    '{"prompt": "b", "label": NaN}',
    "{",
    *(f'{{"prompt": "row {n}", "label": "{n}"}}' for n in range(300)),
    '{"prompt": "cut',
]


@pytest.fixture
def remote():
    """A file system in memory, as fsspec has it."""
    fsspec = pytest.importorskip("fsspec", reason="needs the remote extra")
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def findings(name, replaced="", part_bytes=1000):
    layout = lay_out(name, part_bytes=part_bytes)
    result = check_rows(layout, CheckSettings(PromptSettings("prompt", "label")), Selection())
    return [
        (f.code, f.message.replace(replaced, ""), f.file.removeprefix(replaced), f.line, f.row_id)
        for f in result.findings
    ]


@pytest.fixture
def both(remote, tmp_path):
    """The same two files here and there."""
    for name, lines in (("1.jsonl", LINES), ("2.jsonl", LINES[6:50])):
        content = "\n".join(lines).encode()
        (tmp_path / name).write_bytes(content)
        remote.pipe(f"/d/{name}", content)
    return str(tmp_path), "memory://d"


@pytest.mark.parametrize("name", ["/1.jsonl", "", "/*.jsonl", "@[1:5]", "/*.jsonl@[1:-3]"])
def test_findings_are_the_same(both, name):
    here, there = both
    local = findings(here + name, here)
    assert len(local) > 2
    assert findings(there + name, there) == local


def test_parquet_is_read_by_ranges(remote, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    rows = [{"prompt": f"p {n % 20}", "label": str(n % 3)} for n in range(100)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=10)
    remote.pipe("/d/x.parquet", (tmp_path / "x.parquet").read_bytes())
    assert len(findings(f"{tmp_path}/x.parquet")) > 80
    assert findings("memory://d/x.parquet", "memory://d") == findings(
        f"{tmp_path}/x.parquet", str(tmp_path)
    )


def test_keys_are_seen_in_the_first_rows(both):
    here, there = both
    assert first_rows(Input("dataset", there + "/1.jsonl")) == first_rows(
        Input("dataset", here + "/1.jsonl")
    )
    found = check_dataset(there + "/1.jsonl", select=["DUP002"])
    assert [(f.file, f.line, f.code) for f in found] == [(there + "/1.jsonl", 2, "DUP002")]


def test_a_dump_behind_a_url_is_taken_for_one():
    assert kind_of("memory://run/rollout_12.pt") == "groups"
    assert kind_of("memory://run/prompts.jsonl@[:10]") == "dataset"


def test_a_manifest_is_its_files(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from rolloutds.cli.root import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    for name in ("a", "b"):
        rows = [{"prompt": f"{name} {n}"} for n in range(4)] + [{"prompt": "both"}]
        (tmp_path / "d" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build = ["manifest", "build", "d", "--input-key=prompt", "-o", "x.manifest.json"]
    assert CliRunner().invoke(app, build).exit_code == 0
    checked = CliRunner().invoke(app, ["validate", "x.manifest.json"])
    assert "10 rows" in checked.output
    assert "d/b.jsonl:5" in checked.output
    assert "the same prompt as d/a.jsonl:5" in checked.output
