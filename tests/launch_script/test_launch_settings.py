"""From a script's flags to settings: slime's defaults, rules and evaluation sets."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rolloutds.config import resolve
from rolloutds.errors import ConfigError, MissingExtraError
from rolloutds.launch_script import PathMap, read_recipe, read_script
from rolloutds.sample_files import sample_data_folder

RUN = "python3 train.py --rollout-batch-size 4 "


@pytest.fixture
def run(tmp_path):
    """Reads a script of that text; settings come back resolved, with their origins."""
    path = tmp_path / "run.sh"

    def read(text: str, environment=None, **options) -> SimpleNamespace:
        path.write_text(text)
        script = read_script(path, environment=environment or {}, **options)
        resolved = resolve({}, environment={}, script=script.layer)
        origins = {n: o.replace(f"{tmp_path}/", "") for n, o in resolved.origins.items()}
        notices = [notice.replace(f"{tmp_path}/", "") for notice in script.notices]
        return SimpleNamespace(config=resolved.config, origins=origins, notices=notices)

    return read


# --- flags --------------------------------------------------------------------------------


def test_flags_left_out_take_slime_s_defaults(run) -> None:
    read = run(RUN + "--prompt-data p.jsonl\n")
    config = read.config
    assert (config.prompt_data, config.rollout_batch_size) == ("p.jsonl", 4)
    assert (config.n_samples_per_prompt, config.rollout_global_dataset) == (1, True)
    assert (config.rollout_seed, config.rollout_shuffle, config.input_key) == (42, False, "input")
    assert read.origins["prompt_data"] == "run.sh:1"
    assert read.origins["rollout_seed"].startswith("slime's default (")
    assert read.origins["bad_rows"] == "default"


def test_every_kind_of_flag(run) -> None:
    config = run(
        "ARGS=(--prompt-data=p.jsonl@[2:5] --rollout-shuffle --rollout-seed 1\n"
        '--multimodal-keys \'{"image": "images"}\' --apply-chat-template-kwargs \'{"a": 1}\'\n'
        "--tool-key t --metadata-key m --partial-rollout --rollout-seed 7 --unknown 9 --other)\n"
        + RUN
        + '"${ARGS[@]}" --reward-key score --buffer-filter-path my.filter --dump-details d\n'
    ).config
    assert config.prompt_data == "p.jsonl@[2:5]"
    assert (config.rollout_shuffle, config.partial_rollout, config.rollout_seed) == (True, True, 7)
    assert config.multimodal_keys == {"image": "images"}
    assert config.apply_chat_template_kwargs == {"a": 1}
    assert (config.tool_key, config.metadata_key, config.reward_key) == ("t", "m", "score")
    assert (config.buffer_filter_path, config.dump_details) == ("my.filter", "d")


def test_our_own_settings_are_not_flags_of_a_run(run) -> None:
    config = run(RUN + "--bad-rows skip --trust-remote-code --keep-last 1\n").config
    assert (config.bad_rows, config.trust_remote_code, config.keep_last) == ("error", False, None)


def test_the_global_dataset_can_be_off(run) -> None:
    read = run(RUN + "--disable-rollout-global-dataset --prompt-data p\n")
    assert read.notices == [
        "run.sh:1: the run turns its global dataset off, so it draws no prompts"
    ]
    assert read.config.rollout_global_dataset is False
    assert read.origins["rollout_global_dataset"] == "run.sh:1"


@pytest.mark.parametrize(
    ("flags", "limit"),
    [
        ("--rollout-max-context-len 100", 99),
        ("--rollout-max-context-len 100 --rollout-max-prompt-len 50", 50),
        ("--rollout-max-prompt-len 50", 50),
        ("", None),
    ],
)
def test_the_context_limits_prompts_unless_they_have_a_limit(run, flags, limit) -> None:
    assert run(RUN + flags + "\n").config.rollout_max_prompt_len == limit


def test_a_context_that_is_no_number_is_named(run) -> None:
    with pytest.raises(ConfigError, match=r"run\.sh:1: rollout_max_context_len is 'x'"):
        run(RUN + "--rollout-max-context-len x\n")


def test_miles_chat_template_counts(run) -> None:
    read = run(RUN + "--chat-template-path t.jinja\n")
    assert read.config.chat_template == "t.jinja"
    assert read.origins["chat_template"] == "run.sh:1"


def test_a_flag_without_its_value_is_refused(run) -> None:
    with pytest.raises(ConfigError, match=r"run\.sh:1: --label-key has no value"):
        run(RUN + "--label-key --rollout-shuffle\n")


def test_a_wrong_value_is_named_with_its_line(run) -> None:
    with pytest.raises(ConfigError, match=r"rollout_seed .*run\.sh:2.*'x'.*a whole number"):
        run(RUN + "\\\n --rollout-seed x\n")


@pytest.mark.parametrize(
    ("flag", "near"),
    [
        ("--n-samples-per 3", "--n-samples-per-prompt"),
        ("--prompt_data p", "--prompt-data"),
        ("--imput-keys x", None),
        ("--label-keyy x", "--label-key"),
        ("--save-interval 3", None),
        ("--eval-interval 3", None),
        ("--rollout-max-response-len 3", None),
        ("--rollout-temperature 1", None),
    ],
)
def test_abbreviations_and_slips_are_not_read_and_the_nearest_flag_is_said(run, flag, near) -> None:
    read = run(RUN + flag + "\n")
    spelled = flag.split()[0]
    expected = [f"run.sh:1: {spelled} is not read; a flag of nearly that name is {near}"]
    assert read.notices == (expected if near else [])
    assert read.config.n_samples_per_prompt == 1


# --- which words count --------------------------------------------------------------------


def test_a_command_of_another_program_does_not_count(run) -> None:
    read = run(
        "python3 tools/convert.py --hf-checkpoint other --save other\n"
        + RUN
        + "--hf-checkpoint mine\necho --prompt-data not this\n"
    )
    assert (read.config.hf_checkpoint, read.config.save) == ("mine", None)
    assert read.config.prompt_data is None


def test_of_several_runs_the_last_counts_and_is_named(run) -> None:
    read = run(RUN + "--prompt-data a\n\n" + RUN + "--prompt-data b\n")
    assert read.config.prompt_data == "b"
    assert read.notices == ["run.sh:3: this command counts, the one before does not (run.sh:1)"]


def test_an_array_that_is_not_passed_does_not_count_and_is_named(run) -> None:
    read = run("A=(--prompt-data a)\nB=(--label-key b)\nC=(--lr 1)\n" + RUN + "${A[@]}\n")
    assert (read.config.prompt_data, read.config.label_key) == ("a", None)
    assert read.notices == [
        "run.sh: the array B is not passed to the command as a whole, so its flags do not count"
    ]


def test_without_a_command_all_arrays_and_texts_count(run) -> None:
    read = run('A=(--prompt-data a)\nA+=(--label-key l)\nB="--rollout-seed 3 --input-key q"\n')
    config = read.config
    assert (config.prompt_data, config.label_key) == ("a", "l")
    assert (config.rollout_seed, config.input_key) == (3, "q")
    assert "no command is given a run's flags" in read.notices[0]


def test_flags_in_one_text_are_split(run) -> None:
    read = run('FLAGS="--prompt-data $D/x --input-key q"\n' + RUN + "$FLAGS\n", {"D": "/d"})
    assert (read.config.prompt_data, read.config.input_key) == ("/d/x", "q")


def test_what_depends_on_a_condition_is_used_and_said(run) -> None:
    read = run(
        "D=a\nif [ $X ]; then\n D=b\n EXTRA=(--rollout-shuffle)\nfi\n"
        + RUN
        + '--prompt-data "$D" "${EXTRA[@]}" --save "$D"\n'
    )
    assert (read.config.prompt_data, read.config.rollout_shuffle) == ("b", True)
    condition = "depends on a condition, which is not evaluated"
    assert read.notices[:2] == [
        f"run.sh:3: the assignment of D {condition}; --prompt-data uses it",
        f"run.sh:4: the assignment of EXTRA {condition}; --rollout-shuffle uses it",
    ]


def test_a_script_that_reads_its_own_arguments_keeps_its_defaults(run) -> None:
    read = run(
        "D=${D:-/d}\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    --data) D=$2; shift 2 ;;\n"
        "    --env) E=$2 ;;\n  esac\ndone\n" + RUN + '--prompt-data "$D" --input-key "$E"\n',
        {"E": "e"},
    )
    assert (read.config.prompt_data, read.config.input_key) == ("/d", "e")
    assert read.notices == [
        f"run.sh:{line}: what the script does to {name} depends on a condition, which is not "
        f"evaluated; {flag} uses it"
        for line, name, flag in ((4, "D", "--prompt-data"), (5, "E", "--input-key"))
    ]


def test_runs_that_differ_in_nothing_that_is_read_are_not_told_apart(run) -> None:
    read = run(
        "CMD=(python3 train.py --rollout-batch-size 4)\nif [ $X ]; then\n"
        '  ray job submit -- "${CMD[@]}"\nelse\n  "${CMD[@]}" 2>&1 | tee log\nfi\n'
    )
    assert (read.config.rollout_batch_size, read.notices) == (4, [])


# --- what is not known --------------------------------------------------------------------


def test_an_unknown_variable_in_a_needed_flag_is_named(run) -> None:
    text = "A=(\n  --prompt-data ${DATA}/p.jsonl\n)\n" + RUN + '"${A[@]}"\n'
    with pytest.raises(ConfigError) as caught:
        run(text)
    assert str(caught.value).endswith(
        "run.sh:2: --prompt-data is ${DATA}/p.jsonl, and ${DATA} is set neither in the script nor "
        "in the environment\n"
        "set the variable in the environment, or give the setting itself as a flag"
    )
    assert run(text, {"DATA": "/d"}).config.prompt_data == "/d/p.jsonl"


def test_what_only_a_run_knows_in_a_needed_flag_is_named(run) -> None:
    with pytest.raises(ConfigError, match=r"run\.sh:1: --save is s/\$\(date\), and \$\(date\) is"):
        run(RUN + "--save s/$(date)\n")


def test_it_is_ignored_in_other_flags_and_in_settings_nobody_needs(run) -> None:
    text = RUN + "--wandb-group g-$(date) --lr $LR --save s/$(date) --input-key q $EXTRA\n"
    read = run(text, needed={"prompt_data", "input_key"})
    assert (read.config.input_key, read.config.save) == ("q", None)
    assert read.notices == []


def test_the_last_of_a_repeated_flag_counts_also_when_the_first_is_unknown(run) -> None:
    assert run(RUN + "--input-key $X --input-key q\n").config.input_key == "q"


def test_what_the_arguments_of_the_script_add_is_not_known(run) -> None:
    assert run(RUN + '"$@"\n').notices == ["run.sh:1: what $@ adds to the command is not known"]
    assert run(RUN + '--num-gpus "$@"\n').notices != []
    assert run("B=${1:-4}\n" + RUN + "--label-key $B\n").config.label_key == "4"


def test_what_a_variable_that_only_a_run_fills_adds_is_not_known(run) -> None:
    read = run("read -r -d '' MORE < flags.txt\n" + RUN + "--colocate=1 $MORE $(cat more.txt)\n")
    assert read.notices == [
        "run.sh:1: what $MORE adds to the command is not known",
        "run.sh:2: what $(cat more.txt) adds to the command is not known",
    ]
    # The value of a flag that is not read is nobody's business.
    assert run(RUN + "--num-gpus $(nvidia-smi -L | wc -l) --port $((1 + 1)) $EMPTY\n").notices == []


def test_arithmetic_of_known_numbers_is_worked_out(run) -> None:
    text = "LONGEST=4096\nANSWER=${ANSWER:-1024}\n" + RUN
    config = run(text + "--rollout-max-prompt-len $((LONGEST - ANSWER))\n").config
    assert config.rollout_max_prompt_len == 3072
    with pytest.raises(ConfigError, match=r"is \$\(\(LONGEST - NONE\)\), and"):
        run(text + "--rollout-max-prompt-len $((LONGEST - NONE))\n")


@pytest.mark.parametrize(
    "command",
    [
        'COMMAND="python3 train.py --rollout-batch-size 4 --label-key \'a b\'"\neval "$COMMAND"\n',
        'ray job submit --no-wait -- bash -c "python3 train.py --rollout-batch-size 4 \\\n'
        "  --label-key 'a b'\"\n",
        "srun --nodes 2 /bin/bash -lc 'cd / && python3 train.py --rollout-batch-size 4 "
        '--label-key "a b"\'\n',
    ],
)
def test_a_command_given_as_text_is_read(run, command) -> None:
    config = run(command).config
    assert (config.rollout_batch_size, config.label_key) == (4, "a b")


# --- paths --------------------------------------------------------------------------------


def test_prefixes_of_paths_are_rewritten(run) -> None:
    read = run(
        RUN + "--prompt-data /far/data/p.jsonl@[0:5] --hf-checkpoint /far/m --load /farther/l "
        "--save /far/data/s --label-key /far/x\n",
        path_map=PathMap(["/far=/here", "/far/data=/d/"]),
    )
    config = read.config
    assert (config.prompt_data, config.hf_checkpoint) == ("/d/p.jsonl@[0:5]", "/here/m")
    assert (config.load, config.save, config.label_key) == ("/farther/l", "/d/s", "/far/x")


@pytest.mark.parametrize("pair", ["/a", "=/b", "/a="])
def test_a_wrong_path_map_is_refused(pair) -> None:
    with pytest.raises(ConfigError, match=r"--path-map: .*expected /old=/new"):
        PathMap([pair])


def test_relative_paths_start_where_the_script_went(run, tmp_path) -> None:
    (tmp_path / "model").mkdir()
    flags = "--prompt-data p.jsonl --hf-checkpoint {} --load l\n"
    read = run(f"cd {tmp_path}\n" + RUN + flags.format("model"))
    assert read.config.prompt_data == str(tmp_path / "p.jsonl")
    assert (read.config.hf_checkpoint, read.config.load) == (f"{tmp_path}/model", f"{tmp_path}/l")
    assert run(f"cd {tmp_path}\n" + RUN + flags.format("a/b")).config.hf_checkpoint == "a/b"
    assert run("cd $X\n" + RUN + flags.format("model")).config.prompt_data == "p.jsonl"


# --- files of settings --------------------------------------------------------------------


def test_values_of_the_custom_config_win(run, tmp_path) -> None:
    pytest.importorskip("yaml")
    custom = tmp_path / "custom.yaml"
    custom.write_text("rollout_seed: 7\nlabel_key: null\nrollout_max_context_len: 30\nmine: 1\n")
    read = run(RUN + f"--rollout-seed 3 --label-key l --custom-config-path {custom}\n")
    config = read.config
    assert (config.rollout_seed, config.label_key, config.rollout_max_prompt_len) == (7, None, 29)
    assert read.origins["rollout_seed"] == "custom.yaml"


def test_a_custom_config_is_found_beside_the_script(run, tmp_path) -> None:
    (tmp_path / "custom.json").write_text('{"rollout_global_dataset": false, "input_key": "q"}')
    config = run(RUN + "--custom-config-path custom.json --input-key $X\n").config
    assert (config.rollout_global_dataset, config.input_key) == (False, "q")


def test_a_custom_config_sets_attributes_so_only_their_names_count(run, tmp_path) -> None:
    pytest.importorskip("yaml")
    custom = tmp_path / "custom.yaml"
    custom.write_text("rollout-seed: 7\ndisable_rollout_global_dataset: true\nmy-own: 1\n")
    read = run(RUN + f"--rollout-seed 3 --custom-config-path {custom}\n")
    assert (read.config.rollout_seed, read.config.rollout_global_dataset) == (3, True)
    assert read.notices == [
        "custom.yaml: disable_rollout_global_dataset changes nothing in a run; slime's name for "
        "it is rollout_global_dataset: false",
        "custom.yaml: rollout-seed changes nothing in a run; slime's name for it is rollout_seed",
    ]


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "a: b: c"])
def test_a_broken_file_is_named(run, tmp_path, text) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "custom.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"custom\.yaml: (holds list|not YAML)"):
        run(RUN + f"--custom-config-path {tmp_path}/custom.yaml\n")


def test_without_pyyaml_the_extra_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    (tmp_path / "recipe.yaml").write_text("input_key: q\n")
    with pytest.raises(MissingExtraError, match=r"pip install 'rolloutds\[yaml\]'"):
        read_recipe(tmp_path / "recipe.yaml")


def test_a_recipe_has_the_names_of_the_flags(tmp_path) -> None:
    recipe = tmp_path / "recipe.json"
    values = {"prompt-data": "/a/p", "n_samples_per_prompt": 4, "multimodal_keys": {"image": "i"}}
    recipe.write_text(json.dumps({**values, "eval_prompt_data": ["aime", "/a/e"], "lr": 1e-6}))
    script = read_recipe(recipe, path_map=PathMap(["/a=/b"]))
    config = resolve({}, environment={}, script=script.layer).config
    assert (config.prompt_data, config.n_samples_per_prompt) == ("/b/p", 4)
    assert (config.multimodal_keys, config.rollout_global_dataset) == ({"image": "i"}, True)
    assert read_recipe(recipe, eval_name="aime").values["prompt_data"] == "/a/e"


# --- evaluation sets ----------------------------------------------------------------------

EVAL = (
    RUN + "--prompt-data p --input-key q --label-key l --n-samples-per-prompt 8 --rollout-shuffle "
    "--rollout-max-context-len 50 --tool-key t "
)


def test_an_evaluation_set_is_served_as_slime_serves_it(run) -> None:
    read = run(
        EVAL + "--eval-prompt-data aime /d/a.jsonl gpqa /d/g.jsonl --eval-label-key e "
        "--n-samples-per-eval-prompt 16 --eval-max-prompt-len 20\n",
        eval_name="gpqa",
    )
    config = read.config
    assert (config.prompt_data, config.n_samples_per_prompt) == ("/d/g.jsonl", 16)
    assert (config.input_key, config.label_key, config.tool_key) == ("q", "e", "t")
    assert (config.rollout_shuffle, config.rollout_max_prompt_len) == (False, 20)
    assert read.origins["rollout_shuffle"] == "evaluation set gpqa"


def test_an_evaluation_set_has_defaults_of_its_own(run) -> None:
    config = run(EVAL + "--eval-prompt-data aime /d/a.jsonl\n", eval_name="aime").config
    assert (config.n_samples_per_prompt, config.rollout_max_prompt_len) == (1, None)


def test_only_the_chosen_set_must_be_known(run) -> None:
    text = RUN + "--prompt-data $X --eval-prompt-data a /d/a b $Y/b\n"
    assert run(text, eval_name="a").config.prompt_data == "/d/a"
    with pytest.raises(ConfigError, match=r"--eval-prompt-data is \$Y/b"):
        run(text, eval_name="b")


def test_an_unknown_set_is_refused_with_those_there_are(run) -> None:
    with pytest.raises(ConfigError, match=r"no evaluation set 'aim', expected one of 'aime'"):
        run(EVAL + "--eval-prompt-data aime /d/a.jsonl\n", eval_name="aim")
    with pytest.raises(ConfigError, match="expected a script with evaluation sets"):
        run(EVAL + "\n", eval_name="aime")


def test_an_eval_config_file_goes_before_the_flag(run, tmp_path) -> None:
    document = {
        "eval": {
            "defaults": {"n_samples_per_eval_prompt": 4, "label_key": "d"},
            "datasets": [{"name": "aime", "path": "/d/c.jsonl", "input_key": "c", "top_p": 1}],
        }
    }
    (tmp_path / "eval.json").write_text(json.dumps(document))
    read = run(
        EVAL + f"--eval-prompt-data aime /d/a.jsonl --eval-config {tmp_path}/eval.json\n",
        eval_name="aime",
        path_map=PathMap(["/d=/e"]),
    )
    config = read.config
    assert (config.prompt_data, config.n_samples_per_prompt) == ("/e/c.jsonl", 4)
    assert (config.input_key, config.label_key) == ("c", "d")


# --- the sample scripts -------------------------------------------------------------------


def test_the_sample_scripts_are_read_without_a_remark() -> None:
    folder = sample_data_folder()
    grpo = read_script(folder / "run_grpo.sh", environment={})
    images = read_script(folder / "run_images.sh", environment={"IMAGE_COLUMN": "pictures"})
    assert (grpo.notices, images.notices) == ((), ())
    assert grpo.values["hf_checkpoint"] == "/models/example-4B"
    assert grpo.values["save"] == "/checkpoints/grpo"
    assert Path(images.values["prompt_data"]) == folder / "images.jsonl"
    assert images.values["multimodal_keys"] == '{"image": "pictures"}'


def test_the_sample_recipe_is_the_run_of_the_script() -> None:
    pytest.importorskip("yaml")
    folder = sample_data_folder()
    script = read_script(folder / "run_grpo.sh", environment={})
    recipe = read_recipe(folder / "recipe.yaml")
    ours = {name: str(value) for name, value in recipe.values.items()}
    theirs = {n: str(v).removeprefix(f"{folder}/") for n, v in script.values.items()}
    assert ours == {name: theirs[name] for name in ours}
    assert theirs.keys() - ours.keys() == {"hf_checkpoint"}
