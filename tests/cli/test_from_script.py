"""``--from-script`` and ``--from-config``: a run's own launch script in place of flags."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rolloutds.sample_files import sample_data_folder

FLAGS = "--prompt-data {}/prompts.jsonl --input-key prompt --label-key label "

SCRIPTS = {
    "flags on the command line": (
        "python3 train.py {data} --rollout-batch-size 4 --n-samples-per-prompt 3 --colocate\n",
        "--n-samples-per-prompt 3 --rollout-batch-size 4",
    ),
    "arrays, shuffled, with another seed": (
        "A=(\n {data}\n # --rollout-seed 1\n)\nB=(--rollout-shuffle --rollout-seed=7 # seed\n)\n"
        'python3 train.py --rollout-batch-size 4 "${{A[@]}}" ${{B[@]}}\n',
        "--rollout-shuffle --rollout-seed 7 --n-samples-per-prompt 1 --rollout-batch-size 4",
    ),
    "a slice": (
        "P={folder}/prompts.jsonl\n"
        'ray job submit -- python3 train.py --prompt-data "$P@[2:9]" --input-key prompt \\\n'
        "   --label-key label --rollout-batch-size 2 --rollout-shuffle\n",
        "--prompt-data {folder}/prompts.jsonl@[2:9] --rollout-shuffle --rollout-batch-size 2 "
        "--n-samples-per-prompt 1",
    ),
    "other keys": (
        "FLAGS='--metadata-key none --tool-key none --rollout-batch-size 3'\n"
        "exec python3 train.py {data} $FLAGS\n",
        "--metadata-key none --tool-key none --rollout-batch-size 3 --n-samples-per-prompt 1",
    ),
}


@pytest.fixture
def write_script(own_folder):
    def write(text: str) -> str:
        path = own_folder / "run.sh"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", SCRIPTS)
def test_peeking_with_a_script_is_peeking_with_its_flags(name, run, prompts, write_script) -> None:
    text, flags = SCRIPTS[name]
    folder = str(prompts.parent)
    script = write_script(text.format(data=FLAGS.format(folder), folder=folder))
    by_script = run("peek", "--from-script", script, "--n", "25", "--format", "jsonl")
    by_hand = flags.format(folder=folder).split()
    if "--prompt-data" not in by_hand:
        by_hand += ["--prompt-data", str(prompts)]
    keys = ["--input-key", "prompt", "--label-key", "label"]
    by_flags = run("peek", *by_hand, *keys, "--n", "25", "--format", "jsonl")
    assert (by_script.code, len(by_script.records)) == (0, 25)
    assert by_script == by_flags


def test_a_config_file_does_not_reach_into_a_script(run, prompts, write_script) -> None:
    Path("rolloutds.toml").write_text('rollout_shuffle = true\nbad_rows = "skip"\n')
    script = write_script("run " + FLAGS.format(prompts.parent) + "--rollout-batch-size 4\n")
    shown = run("config", "--from-script", script, "--format", "json")
    settings = {setting["name"]: setting for setting in json.loads(shown.out)["settings"]}
    assert settings["rollout_shuffle"]["value"] is False
    assert settings["rollout_shuffle"]["origin"] == f"slime's default ({script})"
    assert settings["n_samples_per_prompt"]["value"] == 1
    assert settings["rollout_batch_size"]["origin"] == f"{script}:1"
    assert settings["bad_rows"]["value"] == "skip"


def test_flags_and_data_on_the_command_line_win(run, prompts, write_script) -> None:
    script = write_script("run --prompt-data /far/$X/p.jsonl --input-key no --rollout-seed 3\n")
    found = run(
        "peek", str(prompts), "--from-script", script, "--input-key", "prompt", "--format", "jsonl"
    )
    assert (found.code, found.records[0]["line"]) == (0, 1)


def test_a_path_of_another_machine_says_both_things_to_try(run, write_script) -> None:
    script = write_script("run --prompt-data /far/data/p.jsonl@[0:5] --rollout-batch-size 4\n")
    found = run("peek", "--from-script", script)
    assert found.code == 3
    assert "/far/data/p.jsonl" in found.err
    assert "name the file here (DATA, --hf-checkpoint)" in found.err
    assert "--path-map /old=/new" in found.err


def test_a_checkpoint_folder_of_another_machine_says_so_too(run, write_script) -> None:
    script = write_script("run --prompt-data p --rollout-batch-size 4 --load /far/checkpoints\n")
    found = run("ckpt", "show", "--from-script", script)
    assert found.code == 3
    assert "/far/checkpoints: no such folder" in found.err
    assert "--path-map /old=/new" in found.err


def test_paths_are_mapped(run, prompts, write_script) -> None:
    script = write_script(
        "run --prompt-data /far/data/prompts.jsonl --input-key prompt --rollout-batch-size 4\n"
    )
    arguments = ("peek", "--from-script", script, "--n", "1", "--format", "jsonl")
    mapped = run(
        *arguments, "--path-map", "/else=/where", "--path-map", f"/far/data={prompts.parent}"
    )
    assert (mapped.code, len(mapped.records)) == (0, 1)


def test_a_tokenizer_that_is_not_here_is_needed_only_for_lengths(
    run, prompts, write_script
) -> None:
    text = "run " + FLAGS.format(prompts.parent) + "--rollout-batch-size 4 --hf-checkpoint /far/m "
    found = run("peek", "--from-script", write_script(text), "--n", "1", "--format", "jsonl")
    assert (found.code, found.records[0]["prompt_tokens"]) == (0, None)
    assert "the script's tokenizer /far/m is not here: tokens are not counted" in found.err
    needed = run("peek", "--from-script", write_script(text + "--apply-chat-template"))
    assert needed.code == 3
    assert "--path-map /old=/new" in needed.err


def test_an_unknown_variable_is_an_error_that_names_it(run, write_script) -> None:
    script = write_script("\nrun --prompt-data $DATA/p.jsonl --rollout-batch-size 4\n")
    found = run("peek", "--from-script", script)
    assert found.code == 2
    assert "run.sh:2: --prompt-data is $DATA/p.jsonl, and $DATA is set neither" in found.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--eval", "aime"], "--eval without --from-script"),
        (["--path-map", "/a=/b"], "--path-map without --from-script"),
        (["--from-script", "a", "--from-config", "b"], "--from-script and --from-config"),
        (["--from-script", "none.sh"], "none.sh: cannot be read"),
    ],
)
def test_options_that_make_no_sense_are_refused(run, options, said) -> None:
    found = run("peek", *options)
    assert found.code in (2, 3)
    assert said in found.err


# --- the sample data's scripts ------------------------------------------------------------


@pytest.fixture
def sample_folder(own_folder):
    shutil.copytree(sample_data_folder(), own_folder / "sample")
    return own_folder / "sample"


def test_evaluation_sets_are_chosen_by_name(run, sample_folder) -> None:
    script = str(sample_folder / "run_grpo.sh")
    found = run("peek", "--from-script", script, "--eval", "tail", "--format", "jsonl")
    assert [record["line"] for record in found.records[:12]] == list(range(201, 213))
    assert found.records[0]["n_samples_per_prompt"] == 4
    unknown = run("peek", "--from-script", script, "--eval", "tial")
    assert "no evaluation set 'tial', expected one of 'tail', 'tools'" in unknown.err


def test_the_recipe_peeks_what_the_script_does(run, sample_folder, monkeypatch) -> None:
    pytest.importorskip("yaml")
    monkeypatch.chdir(sample_folder)
    by_script = run("peek", "--from-script", "run_grpo.sh", "--format", "jsonl")
    by_recipe = run("peek", "--from-config", "recipe.yaml", "--format", "jsonl")
    strip = [{**r, "file": Path(r["file"]).name} for r in by_script.records]
    assert strip == [{**r, "file": Path(r["file"]).name} for r in by_recipe.records]
    assert len(strip) == 32


def test_checkpoints_of_the_script_are_found_and_fit(run, sample_folder) -> None:
    script = str(sample_folder / "run_grpo.sh")
    verified = run("ckpt", "verify", "--from-script", script)
    assert verified.code == 0, verified.err
    assert "fits" in verified.out or "ok" in verified.out


def test_media_columns_and_a_command_that_went_elsewhere(run, sample_folder) -> None:
    found = run("peek", "--from-script", str(sample_folder / "run_images.sh"), "--format", "jsonl")
    assert (found.code, len(found.records)) == (0, 32)
    assert found.records[0]["n_samples_per_prompt"] == 4


def test_a_folder_only_the_run_knows_is_asked_for_where_it_is_needed(
    run, prompts, write_script, sample_run
) -> None:
    script = write_script(
        f"run --prompt-data {prompts} --input-key prompt --load $(ls -td runs/* | head -1)\n"
    )
    assert run("peek", "--from-script", script).code == 0
    assert run("ckpt", "list", str(sample_run), "--from-script", script).code == 0
    assert run("validate", str(prompts), "--from-script", script).code == 0
    for command in (("peek", "--from-ckpt", "3"), ("ckpt", "list"), ("validate",)):
        asked = run(*command, "--from-script", script)
        assert asked.code == 2
        assert "--load" in asked.err


@pytest.fixture
def sample_run() -> Path:
    return sample_data_folder() / "run"
