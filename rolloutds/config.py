"""Every setting once: its name, kind, default and help, and where its value came from.

Names, kinds and defaults of the run's own settings are those of slime, so that a launch command
can be pasted. Any object with these attributes works as ``args``; a missing one takes its default.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import operator
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rolloutds.errors import ConfigError
from rolloutds.storage import local_path

Kind = Literal["text", "path", "int", "bool", "choice", "mapping"]

CONFIG_FILE_NAME = "rolloutds.toml"
ENVIRONMENT_PREFIX = "ROLLOUTDS_"
COMMAND_TABLES = ("validate",)
"""Tables of a config file that belong to one command, not to the run."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: as the run spells it (``n_samples_per_prompt``).
        kind: what its values are; ``path`` values in a config file are relative to that file.
        default: its value when nobody sets it.
        help: one sentence.
        choices: the values a ``choice`` takes.
        minimum: the least value an ``int`` takes.
        runs_code: whether its value makes code run; a config file that was only found, not
            named, cannot set such a setting.
        is_ours: whether slime's parser does not know it.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    runs_code: bool = False
    is_ours: bool = False

    @property
    def flag(self) -> str:
        """The command-line spelling, ``--n-samples-per-prompt``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, ``ROLLOUTDS_N_SAMPLES_PER_PROMPT``."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def _setting(default: Any, kind: Kind, help_text: str, **extra: Any) -> Any:
    described = {"default": default, "kind": kind, "help": help_text, **extra}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=described)
    return field(default=default, metadata=described)


def _our_setting(default: Any, kind: Kind, help_text: str, **extra: Any) -> Any:
    return _setting(default, kind, help_text, is_ours=True, **extra)


def _switch(help_text: str, **extra: Any) -> Any:
    return _setting(default=False, kind="bool", help_text=help_text, **extra)


@dataclass(frozen=True)
class DataSourceConfig:
    """The settings of one data source, checked."""

    prompt_data: str | None = _setting(
        None,
        "path",
        "Prompt file (.jsonl, .parquet), folder, glob, URL or manifest; `path@[start:end]` slices.",
    )
    hf_checkpoint: str | None = _setting(
        None, "path", "Folder or hub name of the tokenizer, for the chat template and lengths."
    )
    rollout_global_dataset: bool = _switch(
        "Serve prompts from the dataset; commands that are given data set it."
    )
    rollout_shuffle: bool = _switch("Shuffle anew each epoch, by seed + epoch.")
    rollout_seed: int = _setting(42, "int", "Seed of the shuffle.")
    rollout_batch_size: int | None = _setting(
        None, "int", "Groups (prompts) a rollout trains on.", minimum=1
    )
    over_sampling_batch_size: int | None = _setting(
        None, "int", "Groups asked for at a time when over-sampling (the batch size).", minimum=1
    )
    num_rollout: int | None = _setting(None, "int", "Rollouts in the run.", minimum=0)
    num_epoch: int | None = _setting(None, "int", "Epochs in the run.", minimum=0)
    n_samples_per_prompt: int = _setting(
        8, "int", "Samples in a group: how often each prompt is repeated.", minimum=1
    )
    rollout_max_prompt_len: int | None = _setting(
        None, "int", "Longest prompt kept, in tokens.", minimum=0
    )
    input_key: str = _setting("input", "text", "Key of the prompt in a row.")
    label_key: str | None = _setting(None, "text", "Key of the label in a row.")
    metadata_key: str = _setting("metadata", "text", "Key of the metadata object in a row.")
    tool_key: str | None = _setting("tools", "text", "Key of the tools in a row.")
    multimodal_keys: dict[str, str] | None = _setting(  # noqa: RUF009 - it makes a field
        None, "mapping", 'Media columns by kind, as JSON: {"image": "images"}.'
    )
    apply_chat_template: bool = _switch("Render messages with the tokenizer's chat template.")
    apply_chat_template_kwargs: dict[str, Any] = _setting(  # noqa: RUF009 - it makes a field
        {}, "mapping", "Extra arguments of the chat template, as JSON."
    )
    buffer_filter_path: str | None = _setting(
        None, "text", "Buffer filter: mod.fn, mod:fn or file.py:fn.", runs_code=True
    )
    partial_rollout: bool = _switch("Aborted groups are resumed, not restarted.")
    reward_key: str | None = _setting(None, "text", "Key of the reward when rewards are objects.")
    dump_details: str | None = _setting(
        None, "path", "Folder for run details; the tokenizer is saved in it."
    )
    save: str | None = _setting(None, "path", "Checkpoint folder to save the cursor in.")
    load: str | None = _setting(None, "path", "Checkpoint folder to resume the cursor from.")
    chat_template: str | None = _our_setting(
        None, "path", "Chat template to use instead of the tokenizer's: a file, or its text."
    )
    bad_rows: Literal["error", "skip"] = _our_setting(
        "error", "choice", "What to do with lines that are not JSON.", choices=("error", "skip")
    )
    on_missing_state: Literal["error", "fresh"] = _our_setting(
        "error",
        "choice",
        "What to do when the state file to resume from is missing.",
        choices=("error", "fresh"),
    )
    on_state_mismatch: Literal["error", "ignore"] = _our_setting(
        "error",
        "choice",
        "What to do when the saved state belongs to other data or settings.",
        choices=("error", "ignore"),
    )
    track_in_flight: bool = _switch(
        "Keep groups handed out in the state until they are completed.", is_ours=True
    )
    keep_last: int | None = _our_setting(
        None, "int", "State files kept; older ones are removed after a save.", minimum=1
    )
    on_aborted: Literal["keep", "reset", "drop"] = _our_setting(
        "keep",
        "choice",
        "What becomes of an aborted group that is given back; reset: to its clean prompt.",
        choices=("keep", "reset", "drop"),
    )
    buffer_capacity: str | None = _our_setting(
        None, "text", "Most the buffer holds: groups (512), or bytes (2GB)."
    )
    buffer_eviction: Literal["oldest", "newest"] = _our_setting(
        "oldest",
        "choice",
        "Groups that have no place in a full buffer.",
        choices=("oldest", "newest"),
    )
    trust_remote_code: bool = _switch(
        "Let a tokenizer run code from its repository.", runs_code=True, is_ours=True
    )

    @classmethod
    def from_args(cls, args: Any) -> DataSourceConfig:
        """The settings that `args` (any object with these attributes) carries, checked.

        Raises:
            ConfigError: a value has the wrong type, or is not one of the choices.
        """
        if isinstance(args, cls):
            return args
        given = {s.name: getattr(args, s.name) for s in SETTINGS if hasattr(args, s.name)}
        return cls(**{name: checked(SETTING[name], value) for name, value in given.items()})

    @property
    def groups_per_request(self) -> int | None:
        """Groups the run asks for at a time: the over-sampling size, else the batch size."""
        return self.over_sampling_batch_size or self.rollout_batch_size


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(name=f.name, **f.metadata) for f in dataclasses.fields(DataSourceConfig)
)
"""Every setting, in the order they are shown."""

SLIME_PARSER_DEFAULTS: Mapping[str, Any] = {
    "n_samples_per_prompt": 1,
    "rollout_global_dataset": True,
}
"""Where slime's command line has another default than a Namespace that lacks the setting."""

SETTING: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
"""Every setting by name."""


def checked(setting: Setting, value: Any, *, where: str | None = None) -> Any:
    """`value` as the setting's kind; text is parsed, as it comes from files, flags and variables.

    Raises:
        ConfigError: it is not a value of that kind.
    """
    where = where or setting.name
    if value is None:
        return _checked_none(setting, where)
    value = _CHECKS[setting.kind](setting, value, where)
    if setting.minimum is not None and value < setting.minimum:
        raise ConfigError(
            f"{_shown(value)} is too small", where=where, expected=f"at least {setting.minimum}"
        )
    return value


def _checked_none(setting: Setting, where: str) -> Any:
    # Namespaces carry None for "not given", also where the default is a value.
    if setting.default is None or setting.name == "tool_key":
        return None
    if setting.kind in ("mapping", "bool"):
        return setting.default
    raise ConfigError("no value (None)", where=where, expected=_expected(setting))


def _check_text(setting: Setting, value: Any, where: str) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if setting.name == "buffer_capacity" and isinstance(value, int) and value is not True:
        return str(value)  # a number of groups
    if isinstance(value, str):
        return local_path(value) if setting.name in ("save", "load") else value
    raise _wrong_kind(setting, value, where)


def _check_int(setting: Setting, value: Any, where: str) -> int:
    try:
        if isinstance(value, str):
            return int(value)
        if not isinstance(value, bool):
            return operator.index(value)
    except (TypeError, ValueError):
        pass
    raise _wrong_kind(setting, value, where)


def _check_bool(setting: Setting, value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise _wrong_kind(setting, value, where)


def _check_choice(setting: Setting, value: Any, where: str) -> str:
    if value in setting.choices:
        return str(value)
    raise _wrong_kind(setting, value, where)


def _check_mapping(setting: Setting, value: Any, where: str) -> dict[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ConfigError(
                f"not JSON ({error}): {_shown(value)}", where=where, expected=_expected(setting)
            ) from error
    if value is None:
        return None
    if isinstance(value, Mapping):
        return dict(value)
    raise _wrong_kind(setting, value, where)


_CHECKS = {
    "text": _check_text,
    "path": _check_text,
    "int": _check_int,
    "bool": _check_bool,
    "choice": _check_choice,
    "mapping": _check_mapping,
}


def _expected(setting: Setting) -> str:
    names = {
        "text": "text",
        "path": "a path",
        "int": "a whole number",
        "bool": "true or false",
        "choice": " or ".join(repr(choice) for choice in setting.choices),
        "mapping": "an object",
    }
    return names[setting.kind]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:60]}… ({len(text)} characters)"


def _wrong_kind(setting: Setting, value: Any, where: str) -> ConfigError:
    return ConfigError(
        f"{_shown(value)} ({type(value).__name__})", where=where, expected=_expected(setting)
    )


@dataclass(frozen=True)
class ResolvedConfig:
    """Settings put together from several places.

    Attributes:
        config: the values.
        origins: for each setting, where its value came from ("default", "flag --n", …).
        config_file: the config file that was read, if any.
        notices: sentences the user should see.
        left_out: settings that were left out, by name: a sentence that says why. It matters to
            those who would use the setting.
    """

    config: DataSourceConfig
    origins: Mapping[str, str]
    config_file: Path | None = None
    notices: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def is_set(self, name: str) -> bool:
        """Whether somebody set it (it is not the default)."""
        return self.origins[name] != "default"


class LaunchLayer(NamedTuple):
    """What a launch script or recipe says.

    Attributes:
        origin: its name.
        values: settings by name; None is a value too.
        places: where in it a value comes from; its name for the others.
    """

    origin: str
    values: Mapping[str, Any]
    places: Mapping[str, str] = {}


def resolve(
    flags: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    config_file: Path | None = None,
    start_folder: Path | None = None,
    script: LaunchLayer | tuple[str, Mapping[str, Any]] | None = None,
    fallback_config: Path | None = None,
) -> ResolvedConfig:
    """Puts the settings together: flag, environment, launch script, config file, default.

    Args:
        flags: values given on the command line (``None``: not given).
        environment: where the ``ROLLOUTDS_*`` variables are looked up.
        config_file: a config file named explicitly.
        start_folder: without `config_file`, where the search for one starts, going up.
        script: name and values of a launch script. It speaks for every setting of the run: those
            it leaves out have slime's default there, not a config file's value.
        fallback_config: read when nobody names prompt data (the sample data's config).

    Raises:
        ConfigError: a file, variable or flag has an unknown key or a wrong value.
    """
    found = config_file or (find_config_file(start_folder) if start_folder else None)
    layers = [
        {n: (v, f"flag {SETTING[n].flag}") for n, v in flags.items() if v is not None},
        _from_environment(environment),
        _from_script(LaunchLayer(*script)) if script else {},
    ]
    notices: list[str] = []
    left_out: dict[str, str] = {}
    if found:
        layers.append(_from_file(found, explicit=config_file is not None, left_out=left_out))
    if fallback_config and not any("prompt_data" in layer for layer in layers):
        found = fallback_config
        layers.append(_from_file(fallback_config, explicit=True, left_out=left_out))
        notices.append(f"no prompt data named: using the sample data ({fallback_config})")
    values, origins = _merge(layers)
    if values.get("prompt_data") is not None and "rollout_global_dataset" not in values:
        values["rollout_global_dataset"] = True
        origins["rollout_global_dataset"] = "prompt data is named"
    left_out = {name: why for name, why in left_out.items() if origins[name] == "default"}
    return ResolvedConfig(DataSourceConfig(**values), origins, found, tuple(notices), left_out)


def _merge(
    layers: list[dict[str, tuple[Any, str]]],
) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    origins = {setting.name: "default" for setting in SETTINGS}
    for layer in layers:
        for name, (value, origin) in layer.items():
            if name in values:
                continue
            values[name] = checked(SETTING[name], value, where=f"{name} ({origin})")
            origins[name] = origin
    return values, origins


def _from_script(script: LaunchLayer) -> dict[str, tuple[Any, str]]:
    left_out = {setting.name: setting.default for setting in SETTINGS if not setting.is_ours}
    left_out |= SLIME_PARSER_DEFAULTS
    origin = f"slime's default ({script.origin})"
    return {name: (value, origin) for name, value in left_out.items()} | {
        name: (value, script.places.get(name, script.origin))
        for name, value in script.values.items()
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    return {
        setting.name: (environment[setting.variable], f"variable {setting.variable}")
        for setting in SETTINGS
        if environment.get(setting.variable)
    }


def find_config_file(start: Path) -> Path | None:
    """The nearest ``rolloutds.toml``, or ``pyproject.toml`` with our table, going up."""
    for folder in [start, *start.parents]:
        if (folder / CONFIG_FILE_NAME).is_file():
            return folder / CONFIG_FILE_NAME
        project = folder / "pyproject.toml"
        if project.is_file() and _is_ours(project):
            return project
    return None


def _is_ours(project: Path) -> bool:
    # Somebody else's broken pyproject.toml is not ours to complain about.
    try:
        return isinstance(tomllib.loads(project.read_text("utf-8"))["tool"]["rolloutds"], dict)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _from_file(
    path: Path, *, explicit: bool, left_out: dict[str, str]
) -> dict[str, tuple[Any, str]]:
    values: dict[str, tuple[Any, str]] = {}
    for key, value in _read_table(path).items():
        if key in COMMAND_TABLES and isinstance(value, dict):
            continue  # that command reads it itself
        setting = _known_setting(key, path)
        if setting.runs_code and not explicit:
            left_out[setting.name] = (
                f"{path}: {key} is left out, because it runs code and the file was only found; "
                f"name the file with --config, or give {setting.flag}"
            )
            continue
        if setting.kind == "path" and isinstance(value, str):
            value = _relative_to(path.parent, setting, value)
        values[setting.name] = (value, str(path))
    return values


def read_command_table(path: Path, command: str) -> dict[str, Any]:
    """The table of one command in a config file; empty when there is none.

    Raises:
        ConfigError: the file cannot be read.
    """
    table = _read_table(path).get(command)
    return dict(table) if isinstance(table, dict) else {}


def _read_table(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=str(path), expected="a TOML file"
        ) from error
    except ValueError as error:
        raise ConfigError(f"not TOML ({error})", where=str(path)) from error
    ours = document.get("tool", {})
    if isinstance(ours, dict) and isinstance(ours.get("rolloutds"), dict):
        return dict(ours["rolloutds"])
    return {} if path.name == "pyproject.toml" else document


def _known_setting(key: str, path: Path) -> Setting:
    name = key.replace("-", "_")
    if name in SETTING:
        return SETTING[name]
    nearest = difflib.get_close_matches(name, SETTING, n=1)
    raise ConfigError(
        f"unknown setting {key!r}",
        where=str(path),
        expected=f"one like {nearest[0]!r}" if nearest else None,
        hint="`rolloutds config` lists every setting",
    )


def _relative_to(folder: Path, setting: Setting, value: str) -> str:
    if "://" in value:  # a URL
        return value
    # A hub name and the text of a template are no paths: they are joined only when a file is there.
    joined = folder / Path(value).expanduser()
    if setting.name in ("hf_checkpoint", "chat_template"):
        try:
            return str(joined) if joined.exists() else value
        except (OSError, ValueError):
            return value
    return str(joined)
