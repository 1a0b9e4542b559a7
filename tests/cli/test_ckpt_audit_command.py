"""``rolloutds ckpt audit``: the dumps of a run that really ran, held against the order."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rolloutds import torch_file

NUM_ROWS = 10
NUM_ROLLOUTS = 4


@pytest.fixture
def trained(own_folder):
    """A run of four rollouts of three groups, with its dumps; one group waits in the buffer."""
    torch = pytest.importorskip("torch")
    from rolloutds import RolloutDataSourceWithBuffer

    rows = [json.dumps({"input": f"question {i}"}) + "\n" for i in range(NUM_ROWS)]
    (own_folder / "rows.jsonl").write_text("".join(rows))
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
    for rollout_id in range(NUM_ROLLOUTS):
        groups = source.get_samples(3 if rollout_id < NUM_ROLLOUTS - 1 else 4)
        source.add_samples(groups[3:])
        samples = [sample.to_dict() for group in groups[:3] for sample in group]
        dump = {"rollout_id": rollout_id, "samples": samples}
        torch.save(dump, own_folder / "dumps" / f"{rollout_id}.pt")
        source.save(rollout_id)
    return own_folder


AUDIT = ("ckpt", "audit", "save", "--dumps", "dumps/*.pt", "--prompt-data", "rows.jsonl")


def change(path, edit):
    dump = torch_file.read(path)
    edit(dump)
    torch_file.write(path, dump)


def audited(run, *arguments):
    outcome = run(*(arguments or AUDIT), "--format=json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_everything_was_trained_on_once(run, trained):
    found = audited(run)
    counts = {name: found[name] for name in ("num_drawn", "num_once", "num_waiting", "num_missing")}
    assert counts == {"num_drawn": 13, "num_once": 12, "num_waiting": 1, "num_missing": 0}
    assert found["groups"] == []
    assert [epoch["num_drawn"] for epoch in found["epochs"]] == [10, 3]
    assert run(*AUDIT).out.startswith("12 groups trained exactly once, nothing else\n")


def test_skipped_rows_are_named(run, trained):
    (trained / "dumps" / "1.pt").unlink()
    found = audited(run)
    assert [(g["what"], g["sample_group_index"]) for g in found["groups"]] == [
        ("missing", 3),
        ("missing", 4),
        ("missing", 5),
    ]
    assert {g["file"] for g in found["groups"]} == {"rows.jsonl"}


def test_repeated_rows_are_named_with_their_rollouts(run, trained):
    change(trained / "dumps" / "0.pt", lambda dump: dump.update(rollout_id=7))
    (trained / "dumps" / "again.pt").write_bytes((trained / "dumps" / "0.pt").read_bytes())
    repeated = audited(run)["groups"]
    assert [g["sample_group_index"] for g in repeated] == [0, 1, 2]
    assert repeated[0]["rollouts"] == ["7", "7"]


def test_another_text_is_named_with_the_row_that_has_it(run, trained):
    def swap(dump):
        for sample in dump["samples"][:2]:
            sample["prompt"] = "question 9"

    change(trained / "dumps" / "0.pt", swap)
    other = [g for g in audited(run)["groups"] if g["what"] == "other_text"]
    assert [(g["sample_group_index"], g["prompt"]) for g in other] == [(0, "question 9")]
    assert other[0]["found_at"] == {"file": "rows.jsonl", "row_id": 9}


def test_a_state_as_of_an_earlier_rollout(run, trained):
    found = audited(run, *AUDIT, "--id", "1")
    assert (found["num_drawn"], found["num_once"], found["num_beyond"]) == (6, 6, 6)


def test_a_state_that_does_not_fit_the_data_is_refused(run, trained):
    outcome = run(*AUDIT, "--rollout-seed", "7")
    assert (outcome.code, outcome.out) == (3, "")
    assert "seed: saved 42, now 7" in outcome.err


def test_a_dataset_that_changed_on_the_way_is_said(run, trained):
    import torch

    numbers = {"sample_offset": 3, "epoch_id": 1, "sample_group_index": 12, "sample_index": 24}
    torch.save({**numbers, "metadata": {}}, trained / "slime.pt")
    outcome = run("ckpt", "audit", "slime.pt", *AUDIT[3:], "--rollout-shuffle")
    assert outcome.code == 0
    assert "the dataset was not the same from the start" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--dumps", "none*.pt"), 3, "no such file"),
        ((), 2, "missing option '--dumps'"),
    ],
)
def test_dumps_that_are_not_there(run, trained, arguments, code, says):
    outcome = run("ckpt", "audit", "save", "--prompt-data", "rows.jsonl", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert says in outcome.err


def test_a_damaged_dump_is_named(run, trained):
    dump = trained / "dumps" / "2.pt"
    dump.write_bytes(dump.read_bytes()[:500])
    outcome = run(*AUDIT)
    assert (outcome.code, outcome.out) == (3, "")
    assert "dumps/2.pt" in outcome.err
