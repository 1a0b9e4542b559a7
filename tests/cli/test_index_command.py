"""``rolloutds index``: what it builds is what the commands after it find."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from rolloutds.cache import Cache, default_cache_folder
from rolloutds.config import DataSourceConfig
from rolloutds.dataset import Dataset
from rolloutds.engines import open_engine
from rolloutds.indexing import index_data
from rolloutds.reports.schemas import SCHEMAS

TOKENIZER = Path(__file__).resolve().parents[1] / "examples" / "tokenizer"


@pytest.fixture(autouse=True)
def shards(own_folder):
    folder = own_folder / "shards"
    folder.mkdir()
    for shard in range(3):
        path = folder / f"{shard}.jsonl"
        rows = [{"prompt": "word " * (shard + n), "label": "1"} for n in range(1, 5)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def indexed(run, *arguments):
    outcome = run("index", "shards", "--input-key=prompt", "--format=json", *arguments)
    found = json.loads(outcome.out)
    jsonschema.validate(found, SCHEMAS["index"], cls=jsonschema.Draft202012Validator)
    return found


def test_it_is_built_once_and_cached_from_then_on(run, shards):
    first, second = indexed(run), indexed(run)
    assert (first["num_built"], first["num_cached"]) == (3, 0)
    assert (second["num_built"], second["num_cached"]) == (0, 3)
    assert (first["num_rows"], first["num_lines"], first["num_blank"]) == (12, 15, 3)
    config = DataSourceConfig(prompt_data="shards", input_key="prompt")
    assert Dataset(config).rows.scan_counters.rows_parsed == 0
    assert [file["digest"] for file in first["files"]] == [
        file.digest for file in Dataset(config).rows.files
    ]
    (shards / "1.jsonl").write_text('{"prompt": "new"}\n')
    os.utime(shards / "1.jsonl", (1_700_000_001, 1_700_000_001))
    assert [file["state"] for file in indexed(run)["files"]] == ["cached", "built", "cached"]


def test_on_a_terminal_it_is_a_table(run):
    lines = run("index", "shards", "--input-key=prompt").out.splitlines()
    assert lines[:3] == [
        "data     shards",
        "files    3, 561 B",
        "rows     12 of 15 lines; 3 blank",
    ]
    assert lines[3].startswith("indexes  3 built, in ")
    assert " ".join(lines[5].split()) == "file rows lines blank skipped bad size digest index"
    assert lines[6].split()[:6] == ["shards/0.jsonl", "4", "5", "1", "0", "0"]


def test_an_engine_elsewhere_hands_the_index_over(tmp_path):
    """As a node with a folder of its own does: the index comes back, and is kept here."""
    config = DataSourceConfig(prompt_data="shards", input_key="prompt")
    with open_engine() as engine:
        engine.is_local = False
        elsewhere = index_data(config, _CacheElsewhere(tmp_path / "node"), engine)
    assert elsewhere.count("built") == 3
    assert len(list((tmp_path / "node").iterdir())) == 3
    kinds = {file.kind for file in Cache(default_cache_folder()).files()}
    assert kinds == {"index"}
    assert Dataset(config).rows.scan_counters.rows_parsed == 0


class _CacheElsewhere(Cache):
    """The user's cache, whose folder is another one for tasks."""

    def keep(self, content):
        return Cache(default_cache_folder()).keep(content)


def test_bad_rows_are_counted_and_named(run, shards):
    (shards / "1.jsonl").write_text('{"prompt": 1}\n{"prompt": "a"\n')
    found = run("index", "shards", "--input-key=prompt")
    assert found.code == 1
    assert found.err.splitlines()[1] == "error: 2 bad rows stop a run, the first:"
    assert "shards/1.jsonl:1: " in found.err
    assert "shards/1.jsonl:2:15: not JSON" in found.err
    skipped = indexed(run, "--bad-rows=skip")
    assert (skipped["num_bad"], skipped["num_skipped"]) == (1, 1)


def test_keys_are_guessed_as_elsewhere(run, shards):
    guessed = run("index", "shards")
    assert "guessed --input-key prompt --label-key label" in guessed.err
    (shards / "1.jsonl").write_text('{"prompt": "without a label"}\n')
    guessed = run("index", "shards")
    assert guessed.code == 0
    assert "guessed --input-key prompt\n" in guessed.err


def test_a_file_that_cannot_be_read_stops_it(run, shards):
    (shards / "2.parquet").write_bytes(b"PAR1")
    found = run("index", "shards", "--input-key=prompt")
    assert (found.code, found.out) == (3, "")
    assert "shards/2.parquet" in found.err


def test_a_manifest_is_data(run):
    build = ("manifest", "build", "shards", "--input-key=prompt", "-o", "s.manifest.json")
    assert run(*build).code == 0
    found = run("index", "s.manifest.json", "--input-key=prompt", "--format=json")
    files = json.loads(found.out)["files"]
    assert [(file["num_rows"], file["state"]) for file in files] == [(4, "cached")] * 3


def test_it_says_how_many_rows_are_measured(run):
    pytest.importorskip("transformers")
    limit = ("--rollout-max-prompt-len=20", f"--hf-checkpoint={TOKENIZER}")
    assert indexed(run, *limit)["num_measured"] == 0
    assert run("peek", "shards", "--input-key=prompt", *limit).code == 0
    assert indexed(run, *limit)["num_measured"] == 12
    text = run("index", "shards", "--input-key=prompt", *limit).out
    assert "lengths  12 of 12 rows known to be within 20 tokens or over\n" in text
