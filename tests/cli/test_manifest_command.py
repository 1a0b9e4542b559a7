from __future__ import annotations

import json
import os

import pytest

from rolloutds.manifest import read_manifest


@pytest.fixture
def data(own_folder):
    folder = own_folder / "data"
    folder.mkdir()
    for name in ("a", "b"):
        text = "".join(f'{{"input": "{name}{i}", "label": {i}}}\n' for i in range(4))
        (folder / f"{name}.jsonl").write_text(text)
    return folder


BUILD = ("manifest", "build", "data", "-o", "all.manifest.json")
CHECK = ("manifest", "check", "all.manifest.json")


def test_build_says_what_it_wrote(run, data):
    outcome = run(*BUILD)
    assert outcome.code == 0, outcome.err
    digest = read_manifest("all.manifest.json").digest
    assert outcome.out.splitlines() == [
        "manifest  all.manifest.json",
        "root      data",
        "files     2, 224 B",
        "rows      8",
        "indexes   0 of 2 were in the cache",
        f"digest    {digest}",
    ]


def test_the_json_of_build_is_the_manifest(run, data):
    printed = json.loads(run(*BUILD, "--format", "json").out)
    assert printed == json.loads((data.parent / "all.manifest.json").read_text())


def test_processes_change_nothing(run, data):
    alone = run(*BUILD, "--no-cache")
    bytes_of_one = (data.parent / "all.manifest.json").read_bytes()
    several = run(*BUILD, "--no-cache", "--jobs", "2")
    assert several.code == 0, several.err
    assert several.out == alone.out
    assert (data.parent / "all.manifest.json").read_bytes() == bytes_of_one


def test_every_command_on_prompt_data_takes_it(run, data):
    run(*BUILD)
    plain = run("peek", "data", "--n", "8", "--format", "jsonl")
    through = run("peek", "all.manifest.json", "--n", "8", "--format", "jsonl")
    assert through.code == 0, through.err
    assert through.out == plain.out
    assert "all.manifest.json: a manifest, read as its 2 files in its order" in through.err
    sliced = run("peek", "--prompt-data", "all.manifest.json@[-1:]", "--format", "json")
    assert json.loads(sliced.out)["num_rows"] == 1
    assert run("plan", "all.manifest.json", "--rollout-batch-size", "4").code == 0
    checked = run("validate", "all.manifest.json", "--format", "json")
    assert json.loads(checked.out)["checked"][0]["count"] == 8
    codes = [finding["code"] for finding in json.loads(checked.out)["findings"]]
    assert codes == ["PORT005"]


@pytest.mark.parametrize("command", ["validate", "index", "peek"])
def test_other_bytes_of_the_same_size_stop_every_command(run, data, command):
    run(*BUILD)
    path = data / "b.jsonl"
    path.write_text(path.read_text().replace("b1", "bX"))
    outcome = run(command, "all.manifest.json")
    assert outcome.code == 3
    assert "1 changed: b.jsonl" in outcome.err


def test_keys_are_guessed_as_for_the_folder(run, data):
    run(*BUILD, "--label-key", "label")
    refused = run("peek", "all.manifest.json")
    assert refused.code == 3
    assert "was built for rows read otherwise (--input-key input, --label-key label" in refused.err
    assert run("peek", "all.manifest.json", "--label-key", "label").code == 0


def test_bad_rows_stop_the_build(run, data):
    (data / "c.jsonl").write_text("{bad\n")
    outcome = run(*BUILD)
    assert outcome.code == 3
    assert "data/c.jsonl:1:2: not JSON" in outcome.err
    assert "--bad-rows skip" in outcome.err
    assert not os.path.exists("all.manifest.json")
    skipped = run(*BUILD, "--bad-rows", "skip")
    assert "left out  1 line that is not JSON" in skipped.out


def test_check_finds_no_difference(run, data):
    run(*BUILD)
    outcome = run(*CHECK)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-2:] == [
        "read         no file, only their listing",
        "differences  none",
    ]
    full = run(*CHECK, "--full", "--jobs", "2")
    assert full.code == 0
    assert "read         2 of 2 files, their digests compared" in full.out


def test_check_lists_differences(run, data):
    run(*BUILD)
    (data / "a.jsonl").unlink()
    (data / "b.jsonl").write_text("{}\n")
    for number in range(30):
        (data / f"x{number:02}.jsonl").write_text("{}\n")
    outcome = run(*CHECK)
    assert outcome.code == 1
    assert "differences  1 missing, 1 changed, 30 extra" in outcome.out
    assert "extra    … and 10 more, all in --format json" in outcome.out
    printed = json.loads(run(*CHECK, "--format", "json").out)
    assert (printed["num_missing"], printed["num_changed"], printed["num_extra"]) == (1, 1, 30)
    assert len(printed["differences"]) == 32


def test_what_is_wrong_with_the_call(run, data):
    assert run("manifest", "build", "data").code == 2
    named = run("manifest", "build", "data", "-o", "x.json")
    assert named.code == 2
    assert "is no name for a manifest" in named.err
    sliced = run("manifest", "build", "data@[0:2]", "-o", "x.manifest.json")
    assert sliced.code == 2
    absent = run("manifest", "check", "no.manifest.json")
    assert absent.code == 3
    assert "no.manifest.json: no such file or folder" in absent.err
    assert run("manifest", "build", "data", "-o", "x.manifest.json", "--ray-address", "x").code == 2
