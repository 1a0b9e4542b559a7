"""Flags of a run as settings of ours, with the rules that slime applies after parsing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from rolloutds.config import SETTING, LaunchLayer
from rolloutds.errors import ConfigError
from rolloutds.launch_script.flags import FLAGS, LISTS, RUN_SETTINGS, Flag
from rolloutds.launch_script.path_map import PathMap
from rolloutds.launch_script.yaml_file import read_mapping

_NO_ATTRIBUTE: Final = "disable_rollout_global_dataset"
"""A flag whose value slime keeps under another name."""
_EVAL_KEYS: Final = ("input_key", "label_key", "tool_key", "metadata_key")


@dataclass(frozen=True)
class LaunchSettings:
    """What a launch script or a recipe says.

    Attributes:
        origin: the file, as it was named.
        values: the settings it gives, by name.
        places: for each, where in it the value comes from.
        notices: what was not read or is uncertain, one sentence each.
    """

    origin: str
    values: Mapping[str, Any]
    places: Mapping[str, str]
    notices: tuple[str, ...] = ()

    @property
    def layer(self) -> LaunchLayer:
        """What `rolloutds.config.resolve` takes."""
        return LaunchLayer(self.origin, self.values, self.places)

    def with_notices(self, notices: Sequence[str]) -> LaunchSettings:
        """The same, with these notices before its own."""
        return replace(self, notices=tuple(dict.fromkeys([*notices, *self.notices])))


class _Given(NamedTuple):
    value: Any
    place: str
    remarks: tuple[str, ...] = ()


class Arguments:
    """Arguments of a run, put together from flags and files.

    Args:
        origin: the file they come from.
        path_map: rewrites paths of another machine.
        needed: settings that must be known; None is all.
        folder: the folder that relative paths start from; None is the current one.
    """

    def __init__(
        self,
        origin: str,
        path_map: PathMap,
        needed: Collection[str] | None,
        *,
        folder: str | None,
    ) -> None:
        self._origin = origin
        self._path_map = path_map
        self._folder = None if folder == str(Path.cwd()) else folder
        self._needed = needed
        self._given: dict[str, _Given] = {}
        self._unknown: dict[str, Flag] = {}
        self._notices: list[str] = []

    def add_flags(self, flags: Mapping[str, Flag]) -> None:
        """Takes in flags, and the file that one of them names.

        Raises:
            ConfigError: a needed value is not known.
        """
        for name, flag in flags.items():
            if any(value.unknown for value in flag.values):
                self._unknown[name] = flag
                continue
            texts = flag.texts()
            value: Any = texts if name in LISTS else texts[0] if texts else True
            self._given[name] = _Given(value, flag.place, flag.remarks)
        if "custom_config_path" in self._unknown:
            self._unknown["custom_config_path"].texts()
        path = self._take("custom_config_path")
        if path is not None and path.value:
            file = self._path_map.apply(path.value)
            self.add_file(self._attributes(self._read_file(file, path.place), file), file)

    def _attributes(self, values: Mapping[str, Any], origin: str) -> dict[str, Any]:
        """The keys of a custom config that slime's arguments have; the others change nothing."""
        kept = {n: v for n, v in values.items() if "-" not in n and n != _NO_ATTRIBUTE}
        for name in values.keys() - kept.keys():
            known = name.replace("-", "_")
            meant = "rollout_global_dataset: false" if known == _NO_ATTRIBUTE else known
            if known in FLAGS or known in RUN_SETTINGS:
                self._notices.append(
                    f"{origin}: {name} changes nothing in a run; slime's name for it is {meant}"
                )
        return kept

    def add_file(self, values: Mapping[str, Any], origin: str) -> None:
        """Takes in the values of a file; they win over flags."""
        for key, value in values.items():
            name = key.replace("-", "_")
            if name in FLAGS or name in RUN_SETTINGS:
                self._given[name] = _Given(value, origin)
                self._unknown.pop(name, None)

    def settings(self, eval_name: str | None = None) -> LaunchSettings:
        """The run's settings.

        Args:
            eval_name: an evaluation set, in place of the training prompts.

        Raises:
            ConfigError: a needed value is not known, or there is no such set.
        """
        self._set_global_dataset()
        if eval_name is not None:
            self._choose_eval(eval_name)
        else:
            self._limit_by_context()
        self._rename("chat_template_path", "chat_template")
        self._check_known()
        values, places = dict[str, Any](), dict[str, str]()
        notices = sorted(self._notices)
        for name in (*RUN_SETTINGS, "chat_template"):
            if name in self._given:
                value, places[name], remarks = self._given[name]
                values[name] = self._mapped(name, value)
                if self._is_needed(name):
                    flag = "--" + name.replace("_", "-")
                    notices += [f"{remark}; {flag} uses it" for remark in remarks]
        if values.get("rollout_global_dataset") is False and values.get("prompt_data"):
            place = places["rollout_global_dataset"]
            notices.append(f"{place}: the run turns its global dataset off, so it draws no prompts")
        return LaunchSettings(self._origin, values, places, tuple(notices))

    # --- rules ----------------------------------------------------------------------------

    def _set_global_dataset(self) -> None:
        disabled = self._take("disable_rollout_global_dataset")
        if disabled is not None and "rollout_global_dataset" not in self._given:
            self._given["rollout_global_dataset"] = disabled._replace(value=not disabled.value)

    def _limit_by_context(self) -> None:
        limit = self._given.get("rollout_max_prompt_len")
        if (limit is not None and limit.value is not None) or (
            "rollout_max_prompt_len" in self._unknown
        ):
            return
        self._rename_unknown("rollout_max_context_len", "rollout_max_prompt_len")
        context = self._take("rollout_max_context_len")
        if context is None or context.value is None:
            return
        place = f"{context.place} (rollout_max_context_len - 1)"
        self._given["rollout_max_prompt_len"] = context._replace(
            value=_whole(context) - 1, place=place
        )

    def _rename(self, name: str, new: str) -> None:
        self._rename_unknown(name, new)
        given = self._take(name)
        if given is not None:
            self._given[new] = given

    def _rename_unknown(self, name: str, new: str) -> None:
        if name in self._unknown:
            self._unknown[new] = self._unknown.pop(name)

    def _take(self, name: str) -> _Given | None:
        return self._given.pop(name, None)

    def _check_known(self) -> None:
        for name, flag in self._unknown.items():
            is_setting = name in RUN_SETTINGS or name == "chat_template"
            if is_setting and self._is_needed(name):
                flag.texts()

    def _is_needed(self, name: str) -> bool:
        return self._needed is None or name in self._needed

    def _mapped(self, name: str, value: Any) -> Any:
        if SETTING[name].kind != "path" or not isinstance(value, str):
            return value
        return self._path_map.apply(self._in_folder(name, value))

    def _in_folder(self, name: str, path: str) -> str:
        if self._folder is None or path.startswith(("/", "~")):
            return path
        joined = Path(self._folder) / path
        # A hub name and the text of a template are no paths, unless a file is there.
        is_other = name in ("hf_checkpoint", "chat_template") and not joined.exists()
        return path if is_other else str(joined)

    def _read_file(self, file: str, place: str) -> dict[str, Any]:
        """A file that a flag names: from the folder of the command, else beside the script."""
        named = Path(self._folder or "") / file
        beside = Path(place.rpartition(":")[0]).parent / file
        return read_mapping(beside if beside.exists() and not named.exists() else named)

    # --- evaluation sets ------------------------------------------------------------------

    def _choose_eval(self, name: str) -> None:
        if "eval_config" in self._unknown:
            self._unknown["eval_config"].texts()
        for setting in ("prompt_data", "rollout_max_prompt_len", "n_samples_per_prompt"):
            self._unknown.pop(setting, None)
            self._given.pop(setting, None)
        chosen = self._configured_sets(name) or self._named_sets(name)
        for setting, flag in (
            ("n_samples_per_prompt", "n_samples_per_eval_prompt"),
            ("rollout_max_prompt_len", "eval_max_prompt_len"),
            *((key, f"eval_{key}") for key in _EVAL_KEYS),
        ):
            self._rename(flag, setting)
        self._given.update(chosen)
        # An evaluation serves its file from the first row to the last.
        self._given["rollout_shuffle"] = _Given(value=False, place=f"evaluation set {name}")

    def _named_sets(self, name: str) -> dict[str, _Given]:
        unknown = self._unknown.get("eval_prompt_data")
        given = self._given.get("eval_prompt_data", _Given([], self._origin))
        texts = [v.text for v in unknown.values] if unknown else _texts(given.value)
        names, paths = texts[::2], texts[1::2]
        if name not in names[: len(paths)]:
            raise _no_such_set(name, names, self._origin)
        at = len(names) - 1 - names[::-1].index(name)
        if unknown:
            Flag("eval_prompt_data", unknown.values[2 * at : 2 * at + 2], unknown.place, ()).texts()
            return {"prompt_data": _Given(paths[at], unknown.place, unknown.remarks)}
        return {"prompt_data": given._replace(value=paths[at])}

    def _configured_sets(self, name: str) -> dict[str, _Given]:
        config = self._take("eval_config")
        if config is None or not config.value:
            return {}
        path = self._path_map.apply(config.value)
        document = self._read_file(path, config.place)
        part = document.get("eval", document)
        part = part if isinstance(part, dict) else {}
        sets = {entry.get("name"): entry for entry in _entries(part.get("datasets"))}
        if name not in sets:
            raise _no_such_set(name, [str(known) for known in sets], path)
        values = {**(part.get("defaults") or {}), **sets[name]}
        renamed = {
            "prompt_data": values.get("path"),
            "input_key": values.get("input_key", values.get("prompt_key")),
            "n_samples_per_prompt": values.get("n_samples_per_eval_prompt"),
            **{key: values.get(key) for key in ("label_key", "tool_key", "metadata_key")},
        }
        return {key: _Given(value, path) for key, value in renamed.items() if value is not None}


def _entries(datasets: Any) -> list[dict[str, Any]]:
    if isinstance(datasets, dict):
        return [{"name": name, **(entry or {})} for name, entry in datasets.items()]
    return [entry for entry in datasets or [] if isinstance(entry, dict)]


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else str(value).split()


def _no_such_set(name: str, names: Sequence[str], where: str) -> ConfigError:
    known = ", ".join(repr(known) for known in names)
    return ConfigError(
        f"no evaluation set {name!r}",
        where=where,
        expected=f"one of {known}" if known else "a script with evaluation sets",
    )


def _whole(given: _Given) -> int:
    try:
        return int(given.value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"rollout_max_context_len is {given.value!r}",
            where=given.place,
            expected="a whole number",
        ) from None
