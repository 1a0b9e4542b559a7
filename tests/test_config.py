"""Settings: kinds, checks, and which place wins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rolloutds.config import (
    SETTINGS,
    DataSourceConfig,
    LaunchLayer,
    find_config_file,
    resolve,
)
from rolloutds.errors import ConfigError


def test_defaults_are_the_reference_s() -> None:
    config = DataSourceConfig()
    assert (config.rollout_seed, config.n_samples_per_prompt, config.input_key) == (42, 8, "input")
    assert config.rollout_global_dataset is False
    assert (config.metadata_key, config.tool_key, config.label_key) == ("metadata", "tools", None)
    assert (config.bad_rows, config.on_missing_state, config.on_state_mismatch) == ("error",) * 3


def test_any_object_works_as_args_and_missing_attributes_take_their_default() -> None:
    config = DataSourceConfig.from_args(SimpleNamespace(rollout_seed=7, something_else=1))
    assert config.rollout_seed == 7
    assert config.rollout_batch_size is None


def test_none_means_not_given_for_mappings_and_switches() -> None:
    args = SimpleNamespace(apply_chat_template_kwargs=None, rollout_shuffle=None, tool_key=None)
    config = DataSourceConfig.from_args(args)
    assert (config.apply_chat_template_kwargs, config.rollout_shuffle) == ({}, False)
    assert config.tool_key is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rollout_seed", "x"),
        ("rollout_seed", 1.5),
        ("rollout_seed", True),
        ("n_samples_per_prompt", 0),
        ("n_samples_per_prompt", None),
        ("rollout_shuffle", "maybe"),
        ("bad_rows", "ignore"),
        ("multimodal_keys", "[1]"),
        ("multimodal_keys", "{"),
        ("input_key", 3),
        ("keep_last", -1),
    ],
)
def test_wrong_values_name_the_setting(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        DataSourceConfig.from_args(SimpleNamespace(**{name: value}))


def test_every_setting_has_help_and_a_flag() -> None:
    assert len({setting.flag for setting in SETTINGS}) == len(SETTINGS)
    assert all(setting.help.endswith(".") for setting in SETTINGS)


def write_config(folder: Path, text: str, name: str = "rolloutds.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_flag_beats_variable_beats_script_beats_file_beats_default(tmp_path: Path) -> None:
    write_config(
        tmp_path,
        'rollout_seed = 1\ninput_key = "file"\nlabel_key = "file"\nbad_rows = "skip"\n',
    )
    resolved = resolve(
        {"rollout_seed": 5, "input_key": None},
        environment={"ROLLOUTDS_ROLLOUT_SEED": "4", "ROLLOUTDS_INPUT_KEY": "variable"},
        script=("run.sh", {"input_key": "script", "label_key": "script"}),
        start_folder=tmp_path,
    )
    config = resolved.config
    assert (config.rollout_seed, config.input_key) == (5, "variable")
    assert (config.label_key, config.bad_rows, config.keep_last) == ("script", "skip", None)
    assert resolved.origins["rollout_seed"] == "flag --rollout-seed"
    assert resolved.origins["label_key"] == "run.sh"
    assert resolved.origins["keep_last"] == "default"
    assert not resolved.is_set("keep_last")


def test_a_script_speaks_for_every_setting_of_the_run(tmp_path: Path) -> None:
    write_config(tmp_path, 'rollout_seed = 1\nlabel_key = "file"\nprompt_data = "file.jsonl"\n')
    resolved = resolve(
        {"reward_key": "score"},
        environment={},
        start_folder=tmp_path,
        script=LaunchLayer(
            "run.sh", {"input_key": "q", "tool_key": None}, {"input_key": "run.sh:3"}
        ),
    )
    config, origins = resolved.config, resolved.origins
    assert (config.rollout_seed, config.label_key, config.prompt_data) == (42, None, None)
    assert (config.n_samples_per_prompt, config.rollout_global_dataset) == (1, True)
    assert (config.tool_key, origins["tool_key"]) == (None, "run.sh")
    assert origins["input_key"] == "run.sh:3"
    assert origins["label_key"] == "slime's default (run.sh)"
    assert origins["reward_key"] == "flag --reward-key"


def test_the_run_s_settings_and_ours_are_told_apart() -> None:
    ours = {setting.name for setting in SETTINGS if setting.is_ours}
    assert {"chat_template", "bad_rows", "track_in_flight", "trust_remote_code"} <= ours
    assert not ours & {"prompt_data", "n_samples_per_prompt", "buffer_filter_path", "save", "load"}


def test_the_nearest_config_file_is_found_going_up(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write_config(tmp_path, "[tool.rolloutds]\nrollout_seed = 3\n", "pyproject.toml")
    write_config(inner.parent, "[tool.other]\nx = 1\n", "pyproject.toml")
    assert find_config_file(inner) == tmp_path / "pyproject.toml"
    assert resolve({}, environment={}, start_folder=inner).config.rollout_seed == 3


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    path = write_config(
        tmp_path,
        'prompt_data = "p.jsonl@[0:3]"\nhf_checkpoint = "tokenizer"\nchat_template = "{{ x }}"\n',
    )
    config = resolve({}, environment={}, config_file=path).config
    assert config.prompt_data == str(tmp_path / "p.jsonl@[0:3]")
    assert config.hf_checkpoint == str(tmp_path / "tokenizer")
    assert config.chat_template == "{{ x }}"


def test_a_url_in_a_file_stays_as_it_is(tmp_path: Path) -> None:
    path = write_config(tmp_path, 'prompt_data = "s3://bucket/x.jsonl@[0:3]"\n')
    config = resolve({}, environment={}, config_file=path).config
    assert config.prompt_data == "s3://bucket/x.jsonl@[0:3]"


def test_a_hub_name_stays_a_hub_name(tmp_path: Path) -> None:
    path = write_config(tmp_path, 'hf_checkpoint = "org/model"\n')
    assert resolve({}, environment={}, config_file=path).config.hf_checkpoint == "org/model"


def test_unknown_settings_are_errors_with_the_nearest_name(tmp_path: Path) -> None:
    path = write_config(tmp_path, "rollout_sed = 1\n")
    with pytest.raises(ConfigError, match=r"rollout_sed.*'rollout_seed'"):
        resolve({}, environment={}, config_file=path)


@pytest.mark.parametrize("text", ["rollout_seed = ", "rollout_seed = 'x'\n"])
def test_broken_config_files_name_the_file(tmp_path: Path, text: str) -> None:
    path = write_config(tmp_path, text)
    with pytest.raises(ConfigError, match=r"rolloutds\.toml"):
        resolve({}, environment={}, config_file=path)


def test_a_file_that_was_only_found_cannot_make_code_run(tmp_path: Path) -> None:
    path = write_config(tmp_path, 'buffer_filter_path = "evil.fn"\ntrust_remote_code = true\n')
    found = resolve({}, environment={}, start_folder=tmp_path)
    assert found.config.buffer_filter_path is None
    assert found.config.trust_remote_code is False
    assert set(found.left_out) == {"buffer_filter_path", "trust_remote_code"}
    assert found.notices == ()
    named = resolve({}, environment={}, config_file=path)
    assert named.config.buffer_filter_path == "evil.fn"
    assert named.config.trust_remote_code is True


def test_named_data_turns_the_global_dataset_on_unless_somebody_says_no() -> None:
    on = resolve({"prompt_data": "p.jsonl"}, environment={})
    off = resolve({"prompt_data": "p.jsonl", "rollout_global_dataset": False}, environment={})
    assert on.config.rollout_global_dataset is True
    assert off.config.rollout_global_dataset is False


def test_the_fallback_config_is_read_only_when_no_data_is_named(tmp_path: Path) -> None:
    fallback = write_config(tmp_path, 'prompt_data = "sample.jsonl"\n', "sample.toml")
    without = resolve({}, environment={}, fallback_config=fallback)
    assert without.config.prompt_data == str(tmp_path / "sample.jsonl")
    assert "sample data" in without.notices[0]
    named = resolve({"prompt_data": "mine"}, environment={}, fallback_config=fallback)
    assert named.config.prompt_data == "mine"
    assert named.notices == ()
