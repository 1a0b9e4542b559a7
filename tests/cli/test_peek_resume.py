"""`peek --from-ckpt`: what a run resumed from the sample run is served."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rolloutds import RolloutDataSourceWithBuffer
from rolloutds.sample_files import sample_data_folder

RUN = sample_data_folder() / "run"
PROMPTS = sample_data_folder() / "prompts.jsonl"
KEYS = ("--input-key", "prompt", "--label-key", "label", "--rollout-shuffle")


def resumed(rollout_id: int, **settings: object) -> RolloutDataSourceWithBuffer:
    source = RolloutDataSourceWithBuffer(
        SimpleNamespace(
            prompt_data=str(PROMPTS),
            input_key="prompt",
            label_key="label",
            rollout_global_dataset=True,
            rollout_shuffle=True,
            load=str(RUN),
            **settings,
        )
    )
    source.load(rollout_id)
    return source


def served(source: RolloutDataSourceWithBuffer, num_groups: int) -> list[tuple[object, ...]]:
    groups = source.get_samples(num_groups)
    return [(g[0].group_index, g[0].index, len(g), g[0].row_id, g[0].prompt) for g in groups]


def listed(out: str) -> list[tuple[object, ...]]:
    names = ("sample_group_index", "sample_index", "n_samples_per_prompt", "row_id", "prompt")
    return [tuple(json.loads(line)[name] for name in names) for line in out.splitlines()]


@pytest.mark.parametrize("rollout_id", [3, 7, 19])
def test_the_groups_are_those_a_resumed_source_serves(run, rollout_id):
    result = run(
        *("peek", str(PROMPTS), *KEYS, "--format=jsonl", "--n=40"),
        *(f"--from-ckpt={rollout_id}", f"--load={RUN}"),
    )
    assert result.code == 0
    assert listed(result.out) == served(resumed(rollout_id), 40)
    origins = [json.loads(line)["origin"] for line in result.out.splitlines()]
    assert origins == ["in flight"] * 2 + ["buffer"] * 4 + ["dataset"] * 34


def test_a_folder_means_its_newest_state_and_settings_come_from_it(run):
    result = run("peek", str(PROMPTS), f"--from-ckpt={RUN}", "--format=jsonl", "--n=8")
    assert listed(result.out) == served(resumed(19), 8)
    assert "taken from the saved state" in result.err


def test_a_filter_named_on_the_command_line_picks_from_the_buffer(run, tmp_path: Path):
    filters = tmp_path / "mine.py"
    filters.write_text("def last(args, rollout_id, buffer, n):\n    return [buffer.pop()]\n")
    path = f"{filters}:last"
    result = run(
        *("peek", str(PROMPTS), *KEYS, "--format=jsonl", "--n=5"),
        *(f"--from-ckpt={RUN}", f"--buffer-filter-path={path}"),
    )
    assert listed(result.out) == served(resumed(19, buffer_filter_path=path), 5)


def test_whole_prompts_can_be_shown(run):
    result = run("peek", str(PROMPTS), *KEYS, f"--from-ckpt={RUN}", "--n=1", "--full")
    assert "#0  in flight, group 644" in result.out
    prompt = resumed(19).get_samples(1)[0][0].prompt
    assert isinstance(prompt, list)
    assert prompt[0]["content"] in result.out


@pytest.mark.parametrize("other", ["--epoch=1", "--offset=1", "--row-id=1", "--batches=1"])
def test_options_that_say_where_to_start_contradict_it(run, other):
    result = run("peek", str(PROMPTS), *KEYS, f"--from-ckpt={RUN}", other)
    assert (result.code, result.out) == (2, "")
    assert "contradict" in result.err


def test_an_id_that_is_not_there_names_those_that_are(run):
    result = run("peek", str(PROMPTS), *KEYS, "--from-ckpt=5", f"--load={RUN}")
    assert result.code == 3
    assert "3, 7, 11, 15, 19" in result.err


def test_a_state_of_other_data_is_refused(run, tmp_path: Path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "x", "label": "y"}\n')
    result = run("peek", str(other), *KEYS, f"--from-ckpt={RUN}")
    assert (result.code, result.out) == (3, "")
    assert "content of the prompt data" in result.err
