"""Every command that takes an engine gives the same bytes on each of them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from types import SimpleNamespace

import pytest

from rolloutds import torch_file
from rolloutds.testing import make_group

pytest_plugins = ("tests.ray_cluster",)

ENGINES = {
    "one process": (),
    "two processes": ("--jobs", "2"),
    "ray": ("--engine", "ray", "--jobs", "2"),
}
FORMATS = ("text", "json")


@pytest.fixture
def run_on_each(run, request, tmp_path_factory, monkeypatch):
    """Runs a command on each engine, with a new cache each time; they have to agree."""
    engines = dict(ENGINES)
    if importlib.util.find_spec("ray") is None:
        del engines["ray"]
    else:
        request.getfixturevalue("ray_cluster")

    def run_it(*arguments):
        outcomes = []
        for options in engines.values():
            folder = tmp_path_factory.mktemp("cache")
            monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
            found = run(*arguments, *options)
            outcomes.append(found._replace(out=found.out.replace(str(folder), "CACHE")))
        assert outcomes == [outcomes[0]] * len(engines)
        return outcomes[0]

    return run_it


def write_rows(path, rows, end="\n"):
    path.write_text("\n".join(json.dumps(row) for row in rows) + end, "utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))  # a file just written is not cached


@pytest.fixture
def shards(own_folder):
    """Shards with duplicates across them, bad rows, one cut short, one that is no Parquet."""
    folder = own_folder / "shards"
    folder.mkdir()
    for shard in range(4):
        rows = [
            {"prompt": f"Question {(shard * 30 + n) % 70}", "label": str(n % 5)} for n in range(30)
        ]
        rows[7] = {"prompt": None, "label": "1"}
        write_rows(folder / f"{shard}.jsonl", rows, end='\n\n{"prompt": \n' if shard == 2 else "\n")
    with (folder / "3.jsonl").open("a") as file:
        file.write('{"prompt": "cut sh')
    os.utime(folder / "3.jsonl", (4_000_000_000, 4_000_000_000))  # later changes may not show
    (folder / "4.parquet").write_bytes(b"PAR1 and nothing that follows")
    write_rows(own_folder / "eval.jsonl", [{"prompt": "question 33"}, {"prompt": "other"}])
    return folder


@pytest.mark.parametrize("format_name", FORMATS)
def test_validate(run_on_each, shards, format_name):
    found = run_on_each(
        "validate",
        "shards",
        "--input-key=prompt",
        "--label-key=label",
        "--against=eval.jsonl",
        f"--format={format_name}",
    )
    assert found.code == 1
    for code in ("DUP001", "ROW001", "ROW013", "EVAL001"):
        assert code in found.out
    assert "4.parquet" in found.out


@pytest.mark.parametrize("format_name", FORMATS)
def test_validate_on_real_data(run_on_each, shared_data, own_folder, format_name):
    rows = (shared_data / "gsm8k").glob("*.jsonl")
    data = min(rows, key=lambda path: path.stat().st_size, default=None)
    if data is None:
        pytest.skip("no JSON Lines among the real data")
    for name in ("a", "b"):
        shutil.copy(data, own_folder / f"{name}.jsonl")
    found = run_on_each("validate", "*.jsonl", "--max-findings=50", f"--format={format_name}")
    assert "DUP001" in found.out


def dump(folder, rollout_id, groups):
    samples = [sample.to_dict() for group in groups for sample in group]
    torch_file.write(folder / f"{rollout_id}.pt", {"rollout_id": rollout_id, "samples": samples})


def group_of(number, **fields):
    group = make_group(number, 2, rewards=[float(number % 3), 1.0], **fields)
    for i, sample in enumerate(group):
        sample.index = number * 2 + i
        sample.prompt = f"prompt of sample {sample.index}"
        sample.metadata = {"source": f"source {number}"}
        sample.response_length = number * 17 % 400
    return group


@pytest.fixture
def dumps(own_folder):
    """Five dumps, their rollouts not in the order of their names."""
    pytest.importorskip("torch")
    folder = own_folder / "dumps"
    folder.mkdir()
    for number in range(5):
        groups = [group_of(number * 60 + n) for n in range(60)]
        groups[0][0].status = f"odd {number % 2}"
        dump(folder, 9 - number, groups)
    return folder


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("more", [(), ("--by", "metadata.source")], ids=["all", "by"])
def test_buffer_stats(run_on_each, dumps, format_name, more):
    found = run_on_each("buffer", "stats", "dumps", f"--format={format_name}", *more)
    assert found.code == 0
    assert "odd 0 (3 samples), odd 1 (2 samples)" in found.err
    if format_name == "json":
        stats = json.loads(found.out)
        assert [file["rollout_id"] for file in stats["files"]] == [5, 6, 7, 8, 9]
        assert (stats["num_files"], stats["num_groups"]) == (5, 300)
        if more:
            assert len(stats["parts"]) == 201
            assert stats["parts"]["(others)"]["num_groups"] == 100


def test_buffer_stats_of_real_dumps(run_on_each, shared_data):
    found = run_on_each("buffer", "stats", str(shared_data / "rollouts"), "--format=json")
    assert json.loads(found.out)["num_samples"] == 512


def test_dumps_that_contradict_each_other(run_on_each, dumps):
    groups = [group_of(n) for n in (3, 4)]
    groups[1][1].prompt = "another one"
    dump(dumps, 10, groups)
    found = run_on_each("buffer", "stats", "dumps")
    assert found.code == 3
    assert "dumps/10.pt" in found.err
    assert (
        "its sample with index 9 has another prompt than the sample of that index in" in found.err
    )
    assert "dumps/9.pt" in found.err


def test_a_dump_that_is_cut_short(run_on_each, dumps):
    content = (dumps / "7.pt").read_bytes()
    (dumps / "7.pt").write_bytes(content[: len(content) // 2])
    found = run_on_each("buffer", "stats", "dumps")
    assert (found.code, found.out) == (3, "")
    assert "dumps/7.pt" in found.err


@pytest.fixture
def trained(own_folder):
    """A run, its state and its dumps: one missing, one with another prompt."""
    pytest.importorskip("torch")
    from rolloutds import RolloutDataSourceWithBuffer

    write_rows(own_folder / "rows.jsonl", [{"input": f"question {i}"} for i in range(20)])
    source = RolloutDataSourceWithBuffer(
        SimpleNamespace(
            prompt_data="rows.jsonl",
            rollout_global_dataset=True,
            rollout_shuffle=True,
            n_samples_per_prompt=2,
            save="save",
        )
    )
    (own_folder / "dumps").mkdir()
    for rollout_id in range(5):
        groups = source.get_samples(6)
        source.save(rollout_id)
        if rollout_id == 2:
            groups[0][0].prompt = "of no row"
        if rollout_id != 3:
            dump(own_folder / "dumps", rollout_id, groups)
    return own_folder


@pytest.mark.parametrize("format_name", FORMATS)
def test_ckpt_audit(run_on_each, trained, format_name):
    found = run_on_each(
        *("ckpt", "audit", "save", "--dumps", "dumps/*.pt", "--prompt-data", "rows.jsonl"),
        f"--format={format_name}",
    )
    assert found.code == 0
    assert "of no row" in found.out
    if format_name == "json":
        counts = json.loads(found.out)
        assert (counts["num_missing"], counts["num_other_text"]) == (6, 1)


@pytest.mark.parametrize("format_name", FORMATS)
def test_index(run, run_on_each, shards, format_name):
    (shards / "4.parquet").unlink()
    index = ("index", "shards", "--input-key=prompt", f"--format={format_name}")
    found = run_on_each(*index)
    assert found.code == 1
    assert "6 bad rows stop a run" in found.err
    assert "shards/0.jsonl:8: 'prompt' is null" in found.err
    if format_name == "json":
        files = json.loads(found.out)["files"]
        assert [file["num_rows"] for file in files] == [30, 30, 30, 30]
        assert [file["state"] for file in files] == ["built", "built", "built", "not kept"]


def test_options_that_contradict_each_other(run):
    wrong = run("validate", "x.jsonl", "--ray-address", "auto")
    assert wrong.code == 2
    assert wrong.err.splitlines() == [
        "error: --ray-address without --engine ray, expected both, or neither",
        "--engine ray --ray-address auto",
    ]
    assert run("buffer", "stats", "--engine", "spark").code == 2
    assert run("index", "x.jsonl", "--no-cache").code == 2


def test_the_table_of_validate_takes_the_engine(run, shards, own_folder):
    (own_folder / "rolloutds.toml").write_text('[validate]\nray-address = "auto"\njobs = 2\n')
    found = run("validate", "shards")
    assert "rolloutds.toml: ray-address is left out: name the file with --config" in found.err
    named = ("validate", "shards", "--config", "rolloutds.toml")
    assert "--ray-address without --engine ray" in run(*named).err
    assert run(*named, "--engine", "local").out == found.out
    (own_folder / "rolloutds.toml").write_text('[validate]\nengine = "spark"\n')
    wrong = run("validate", "shards")
    assert wrong.code == 2
    assert "validate.engine: 'spark', expected one of local, ray" in wrong.err


def test_without_ray_it_says_what_to_install(run, shards, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    found = run("index", "shards", "--engine", "ray")
    assert found.code == 3
    assert "pip install 'rolloutds[ray]'" in found.err
