from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rolloutds.cli.root import SUBCOMMANDS
from rolloutds.config import SETTINGS


@pytest.fixture(autouse=True)
def ten_rows(own_folder):
    path = own_folder / "ten.jsonl"
    path.write_text("".join(f'{{"input": "row {i}"}}\n' for i in range(10)))
    os.utime(path, (1_700_000_000, 1_700_000_000))  # a file just written is not cached
    return path


def test_every_subcommand_has_help(run):
    listed = run("--help").out
    for name, subcommand in SUBCOMMANDS.items():
        assert f"{name}  " in listed
        assert subcommand.help in listed
        assert run(name, "--help").code == 0


def test_plan(run):  # case O5
    outcome = run("plan", "ten.jsonl", "--rollout-batch-size=4", "--format=json")
    plan = json.loads(outcome.out)
    assert (plan["rollouts_per_epoch"], plan["num_leftover_rows"]) == (2, 2)
    assert [row["row_id"] for row in plan["leftover_rows"]] == [8, 9]
    assert [(w["epoch_id"], w["rollout_id"]) for w in plan["wraps"]] == [(1, 2), (2, 5)]
    assert "more than one epoch" in outcome.err


def test_plan_names_the_rows_that_a_shuffle_leaves_over(run):
    args = ("ten.jsonl", "--rollout-shuffle")
    plan = json.loads(run("plan", *args, "--rollout-batch-size=4", "--format=json").out)
    last = run("peek", *args, "--offset=8", "--n=2", "--format=jsonl").records
    assert [r["row_id"] for r in plan["leftover_rows"]] == [r["row_id"] for r in last]


def test_plan_needs_the_batch_size(run):
    outcome = run("plan", "ten.jsonl")
    assert outcome.code == 2
    assert "--rollout-batch-size" in outcome.err


def test_plan_warns_of_a_batch_longer_than_an_epoch(run):
    assert "spans more than one epoch" in run("plan", "ten.jsonl", "--rollout-batch-size=24").err
    assert run("plan", "ten.jsonl", "--rollout-batch-size=5").err == ""


def test_plan_warns_of_rows_that_come_twice_only_where_rows_are_shuffled(run):
    args = ("plan", "ten.jsonl", "--rollout-batch-size=4")
    assert run(*args).err == "warning: batches that span more than one epoch: 1 of 5\n"
    assert "may come twice" in run(*args, "--rollout-shuffle").err


def test_plan_shows_the_first_and_last_wraps_and_json_all(run):
    args = ("plan", "ten.jsonl", "--rollout-batch-size=4", "--num-epoch=500")
    text = run(*args).out
    assert len(text.splitlines()) < 30
    assert "more, all in --format json" in text
    assert len(json.loads(run(*args, "--format=json").out)["wraps"]) == 399
    assert len(run(*args, "--format=jsonl").records) == 399


def test_config_says_where_each_value_comes_from(run, monkeypatch):
    Path("rolloutds.toml").write_text('input_key = "text"\nlabel_key = "gold"\nrollout_seed = 1\n')
    monkeypatch.setenv("ROLLOUTDS_LABEL_KEY", "answer")
    outcome = run("config", "ten.jsonl", "--rollout-seed=7", "--format=json")
    shown = json.loads(outcome.out)
    settings = {entry["name"]: (entry["value"], entry["origin"]) for entry in shown["settings"]}
    assert list(settings) == [setting.name for setting in SETTINGS]
    assert shown["config_file"].endswith("rolloutds.toml")
    assert settings["rollout_seed"] == (7, "flag --rollout-seed")
    assert settings["label_key"] == ("answer", "variable ROLLOUTDS_LABEL_KEY")
    assert settings["input_key"][1].endswith("rolloutds.toml")
    assert settings["tool_key"] == ("tools", "default")
    table = run("config", "ten.jsonl", "--rollout-seed=7").out
    assert all(setting.name in table for setting in SETTINGS)


def test_a_switch_can_be_turned_off(run):
    Path("rolloutds.toml").write_text("rollout_shuffle = true\n")
    shown = json.loads(run("config", "ten.jsonl", "--no-rollout-shuffle", "--format=json").out)
    settings = {entry["name"]: entry["value"] for entry in shown["settings"]}
    assert settings["rollout_shuffle"] is False


def test_env(run, monkeypatch):
    monkeypatch.setenv("ROLLOUTDS_ROLLOUT_SEED", "3")
    shown = json.loads(run("env", "--format=json").out)
    assert shown["variables"] == {"ROLLOUTDS_ROLLOUT_SEED": "3"}
    assert {"python", "platform", "cache_folder", "packages"} <= set(shown)
    assert "torch" in run("env").out


def test_env_says_how_to_get_what_is_missing(run, monkeypatch):
    monkeypatch.setattr("rolloutds.cli.env.installed_version", lambda package: None)
    assert "pip install 'rolloutds[torch]'" in run("env").out


def test_cache(run):
    run("peek", "ten.jsonl", "--n=1")
    shown = json.loads(run("cache", "show", "--format=json").out)
    assert shown["num_files"] == len(shown["files"]) == 1
    assert shown["files"][0]["source"].endswith("ten.jsonl")
    assert "ten.jsonl" in run("cache", "show").out
    cleared = json.loads(run("cache", "clear", "--format=json").out)
    assert cleared["num_files"] == 1
    assert json.loads(run("cache", "show", "--format=json").out)["files"] == []


def test_no_cache_leaves_nothing(run):
    run("peek", "ten.jsonl", "--n=1", "--no-cache")
    assert json.loads(run("cache", "show", "--format=json").out)["files"] == []


def test_unknown_names_come_with_the_nearest(run):
    assert "Did you mean 'peek'?" in run("pek").err
    assert "--rollout-seed" in run("peek", "--rollout-sed=1").err
    assert "'text', 'json', 'jsonl', 'markdown'" in run("peek", "--format=yaml").err
    assert "Did you mean 'show'?" in run("cache", "shw").err


def test_a_missing_config_file_is_named(run):
    outcome = run("config", "--config=missing.toml")
    assert outcome.code == 2
    assert "missing.toml" in outcome.err
