"""Options that commands share: the run's settings, each a flag, and where the result goes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rolloutds.cli import output
from rolloutds.cli.group import DEBUG
from rolloutds.config import SETTING, SETTINGS, LaunchLayer, ResolvedConfig, Setting, resolve
from rolloutds.errors import CheckpointError, ConfigError, DataNotFoundError, TokenizerError
from rolloutds.reports import FORMATS

if TYPE_CHECKING:
    from rolloutds.cache import Cache
    from rolloutds.dataset import Dataset
    from rolloutds.launch_script import LaunchSettings
    from rolloutds.reports.model import Report

_Format: Any = Literal[tuple(FORMATS)]

_WARNINGS = frozenset({"no_length_filter"})
"""Codes of notices that say that a setting has no effect."""

DATA_SETTINGS = (
    "hf_checkpoint",
    "rollout_shuffle",
    "rollout_seed",
    "rollout_batch_size",
    "over_sampling_batch_size",
    "n_samples_per_prompt",
    "rollout_max_prompt_len",
    "input_key",
    "label_key",
    "metadata_key",
    "tool_key",
    "multimodal_keys",
    "apply_chat_template",
    "apply_chat_template_kwargs",
    "chat_template",
    "bad_rows",
    "trust_remote_code",
)
"""Settings that say which groups a run is served; commands on prompt data take them as flags."""

_SCRIPT_PATHS = ("prompt_data", "hf_checkpoint")
_ANOTHER_MACHINE = (
    "the path is the launch script's: name the file here (DATA, --hf-checkpoint), or rewrite the "
    "script's paths with --path-map /old=/new"
)

ALL_SETTINGS = tuple(setting.name for setting in SETTINGS if setting.name != "prompt_data")

_DATA = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA", help=f"The same as --prompt-data. {SETTING['prompt_data'].help}"
    ),
]
_CONFIG = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Config file; else the nearest rolloutds.toml or pyproject.toml, going up.",
    ),
]
_FORMAT = Annotated[
    _Format,
    typer.Option("--format", help="Form of the result.", show_default=True),
]
_FROM_SCRIPT = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Launch script whose flags are taken; it is read, never run."
    ),
]
_FROM_CONFIG = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="YAML recipe with the names of the flags, likewise."),
]
_EVAL = Annotated[
    str | None,
    typer.Option("--eval", metavar="NAME", help="Take this evaluation set of the script."),
]
_PATH_MAP = Annotated[
    list[str] | None,
    typer.Option(
        "--path-map", metavar="/OLD=/NEW", help="Rewrite paths of the script; may be repeated."
    ),
]
_LAUNCH = {
    "from_script": _FROM_SCRIPT,
    "from_config": _FROM_CONFIG,
    "eval_name": _EVAL,
    "path_map": _PATH_MAP,
}
_NO_CACHE = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the cache of indexes and counts.")
]


@dataclass(frozen=True)
class LaunchOptions:
    """Where a run's settings are read from: the values of the options of these names.

    `dispensable` names settings that the command can do without, where a script's value is one
    that only a run can know.
    """

    from_script: str | None = None
    from_config: str | None = None
    eval_name: str | None = None
    path_map: tuple[str, ...] = ()
    dispensable: frozenset[str] = frozenset()

    def read(self, flags: Mapping[str, Any]) -> LaunchLayer | None:
        """What the script or recipe says; remarks on it go to stderr.

        Args:
            flags: the settings that the command takes, those given on the command line with a
                value: of the others nothing that only a run can know is needed.

        Raises:
            ConfigError: it cannot be read, or the options contradict each other.
        """
        if self.from_script is None and self.from_config is None:
            if self.eval_name is not None or self.path_map:
                option = "--path-map" if self.path_map else "--eval"
                raise ConfigError(f"{option} without --from-script", expected="a launch script")
            return None
        if self.from_script is not None and self.from_config is not None:
            raise ConfigError("--from-script and --from-config", expected="one of them")
        settings = self._read(flags)
        for notice in settings.notices:
            output.say(notice, label="note")
        return _without_absent_tokenizer(settings.layer, flags)

    def _read(self, flags: Mapping[str, Any]) -> LaunchSettings:
        from rolloutds.launch_script import PathMap, read_recipe, read_script

        path_map = PathMap(self.path_map)
        given = {n for n, v in flags.items() if v is not None or SETTING[n].variable in os.environ}
        settings = (
            read_recipe(self.from_config or "", path_map=path_map, eval_name=self.eval_name)
            if self.from_script is None
            else read_script(
                self.from_script,
                path_map=path_map,
                eval_name=self.eval_name,
                needed=flags.keys() - given - self.dispensable,
            )
        )
        for pair in path_map.unused:
            output.say(f"--path-map {pair}: no path of {settings.origin} begins so", label="note")
        return settings


def say_left_out(resolved: ResolvedConfig, *names: str) -> None:
    """Says on stderr which of these settings were left out, and why."""
    for name in names:
        if name in resolved.left_out:
            output.say(resolved.left_out[name], label="note")


def current_folder() -> Path | None:
    """The folder the command runs in; None when it was removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class Invocation:
    """What the shared options of one call say.

    Attributes:
        flags: settings given on the command line, by name; None where not given.
        config_file: the value of ``--config``.
        format_name: the value of ``--format``.
        is_cached: whether the cache may be used.
    """

    flags: dict[str, Any]
    config_file: str | None
    format_name: str
    is_cached: bool = True
    launch: LaunchOptions = LaunchOptions()

    @cached_property
    def script(self) -> LaunchLayer | None:
        """What the launch script or recipe says; remarks on it go to stderr."""
        return self.launch.read(self.flags)

    def resolve(self) -> ResolvedConfig:
        """The settings from flags, environment, config file and defaults; remarks go to stderr.

        Raises:
            ConfigError: a setting is unknown or has a wrong value.
        """
        from rolloutds.sample_files import sample_data_folder

        folder = sample_data_folder()
        fallback = folder / "rolloutds.toml"
        resolved = resolve(
            self.flags,
            environment=os.environ,
            config_file=Path(self.config_file) if self.config_file is not None else None,
            start_folder=current_folder(),
            script=self.script,
            fallback_config=fallback if fallback.is_file() else None,
        )
        for notice in resolved.notices:
            output.say(notice, label="note")
        if resolved.config.hf_checkpoint is not None:
            say_left_out(resolved, "trust_remote_code")
        return resolved

    def cache(self) -> Cache:
        """The cache of the user, or one that is switched off."""
        from rolloutds.cache import Cache, default_cache_folder

        return Cache(default_cache_folder() if self.is_cached else None)

    def open_dataset(self, config: Any) -> Dataset:
        """The dataset of a config; what it has to remark goes to stderr.

        Raises:
            DataError: the data cannot be used.
        """
        from rolloutds.dataset import Dataset
        from rolloutds.tokenization import leave_torch_out

        if config.hf_checkpoint is not None:
            leave_torch_out()  # counting and rendering need no torch, which takes seconds to load
        try:
            dataset = Dataset(config, cache=self.cache())
        except (DataNotFoundError, TokenizerError) as error:
            if self._is_missing_path_of_script(config):
                error.hint = _ANOTHER_MACHINE
            raise
        for notice in dataset.notices:
            output.say(notice.text, label="warning" if notice.code in _WARNINGS else "note")
        if config.chat_template is not None and not config.apply_chat_template:
            output.say("the chat template is not used without --apply-chat-template", label="note")
        return dataset

    def check_checkpoint_folder(self, folder: str) -> None:
        """Refuses a folder that the launch script names and that is not here.

        Raises:
            CheckpointError: it is such a folder; the hint says what to try.
        """
        said = self.script.values if self.script is not None else {}
        if folder in (said.get("load"), said.get("save")) and not _is_here(folder):
            raise CheckpointError(
                "no such folder",
                where=folder,
                hint="it is the launch script's: name the folder here, or rewrite the script's "
                "paths with --path-map /old=/new",
            )

    def _is_missing_path_of_script(self, config: Any) -> bool:
        said = self.script.values if self.script is not None else {}
        paths = (said.get(n) for n in _SCRIPT_PATHS if said.get(n) == getattr(config, n))
        return any(path is not None and not _is_here(path) for path in paths)

    def write(self, report: Report) -> None:
        """Writes a report to stdout in the format asked for."""
        output.write_report(report, self.format_name)


def takes_settings(
    *names: str,
    has_data: bool = True,
    has_cache: bool = True,
    dispensable: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the shared options and one flag for each setting named.

    The command takes a keyword ``invocation`` in their place.

    Args:
        names: names of settings.
        has_data: whether it takes ``DATA`` and ``--prompt-data``.
        has_cache: whether it takes ``--no-cache``.
        dispensable: those it can do without, when a launch script has a value for them that only
            a run can know.
    """
    settings = [SETTING[name] for name in names]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            flags = {setting.name: values.pop(setting.name) for setting in settings}
            if has_data:
                flags["prompt_data"] = _one_prompt_data(
                    values.pop("data"), values.pop("prompt_data")
                )
            del values["debug"]  # acts through its callback
            invocation = Invocation(
                flags,
                config_file=values.pop("config_file"),
                format_name=values.pop("format_name"),
                is_cached=not values.pop("no_cache", False),
                launch=LaunchOptions(
                    values.pop("from_script"),
                    values.pop("from_config"),
                    values.pop("eval_name"),
                    tuple(values.pop("path_map") or ()),
                    frozenset(dispensable),
                ),
            )
            return function(**values, invocation=invocation)

        _set_parameters(command, function, _shared(settings, has_data, has_cache))
        return command

    return decorate


def _one_prompt_data(argument: str | None, flag: str | None) -> str | None:
    if argument is not None and flag is not None:
        raise ConfigError(
            f"DATA {argument!r} and --prompt-data {flag!r}", expected="the data named once"
        )
    return flag if argument is None else argument


def _shared(
    settings: Iterable[Setting],
    has_data: bool,  # noqa: FBT001 - private, and read at its only call
    has_cache: bool,  # noqa: FBT001 - private, and read at its only call
) -> list[inspect.Parameter]:
    shared = [_parameter("data", _DATA, None)] if has_data else []
    shared += [_parameter("config_file", _CONFIG, None), _parameter("format_name", _FORMAT, "text")]
    shared += [_parameter(name, option, None) for name, option in _LAUNCH.items()]
    if has_cache:
        shared.append(_parameter("no_cache", _NO_CACHE, default=False))
    shared.append(_parameter("debug", Annotated[bool, DEBUG], default=False))
    if has_data:
        shared.append(_setting_parameter(SETTING["prompt_data"]))
    return shared + [_setting_parameter(setting) for setting in settings]


def _without_absent_tokenizer(script: LaunchLayer, flags: Mapping[str, Any]) -> LaunchLayer:
    """The same without a tokenizer that is not here and that only counts tokens."""
    values = {**script.values, **{n: v for n, v in flags.items() if v is not None}}
    name = script.values.get("hf_checkpoint")
    is_needed = values.get("apply_chat_template") or values.get("rollout_max_prompt_len")
    if is_needed or values.get("hf_checkpoint") != name or not _is_absent_path(name):
        return script
    output.say(
        f"the script's tokenizer {name} is not here: tokens are not counted (--hf-checkpoint names "
        "another, --path-map /old=/new rewrites paths)",
        label="note",
    )
    places = {**script.places, "hf_checkpoint": f"{script.places['hf_checkpoint']} (not here)"}
    return LaunchLayer(script.origin, {**script.values, "hf_checkpoint": None}, places)


def _is_absent_path(name: Any) -> bool:
    return isinstance(name, str) and name.startswith(("/", "~", ".")) and not _is_here(name)


def _is_here(path: str) -> bool:
    return path != "" and Path(path.rpartition("@[")[0] or path).expanduser().exists()


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _setting_parameter(setting: Setting) -> inspect.Parameter:
    flag = setting.flag
    if setting.kind == "bool":
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=_help(setting))
        return _parameter(setting.name, Annotated[bool | None, option], None)
    option = typer.Option(flag, help=_help(setting), metavar=_metavar(setting))
    # Text, whatever the kind: `config.checked` parses it, as it does values from elsewhere.
    return _parameter(setting.name, Annotated[str | None, option], None)


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(setting.choices)
    return {"int": "N", "path": "PATH", "mapping": "JSON"}.get(setting.kind, "TEXT")


def _help(setting: Setting) -> str:
    default = setting.default
    if default is None or default == {}:
        return setting.help
    shown = {True: "on", False: "off"}.get(default, default) if setting.kind == "bool" else default
    return f"{setting.help} [default: {shown}]"


def _set_parameters(
    command: Callable[..., Any],
    function: Callable[..., Any],
    shared: list[inspect.Parameter],
) -> None:
    """Makes Typer see the function's own parameters, then the shared ones."""
    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "invocation"]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in [*own, *shared]
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
