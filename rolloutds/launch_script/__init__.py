"""Settings read from a run's launch script, or from a recipe, without running anything."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from rolloutds.launch_script import flags, shell_script
from rolloutds.launch_script.launch_settings import Arguments, LaunchSettings
from rolloutds.launch_script.path_map import PathMap
from rolloutds.launch_script.yaml_file import read_mapping

__all__ = ["LaunchSettings", "PathMap", "read_recipe", "read_script"]


def read_script(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    path_map: PathMap | None = None,
    eval_name: str | None = None,
    needed: Collection[str] | None = None,
) -> LaunchSettings:
    """The settings that a launch script gives a run.

    The script is read, never run. Flags that a run does not have are ignored; those it leaves out
    have the default of slime's parser.

    Args:
        path: the script.
        environment: fills in variables that the script does not set; None is the process's.
        path_map: rewrites paths of another machine.
        eval_name: an evaluation set of the script, to be served in place of the training prompts.
        needed: the settings that must be known; None is all of them. A value that only a shell
            can compute is an error in these, and left out in others.

    Raises:
        ConfigError: the script cannot be read, a needed value is not known without running it, or
            there is no such evaluation set.
        MissingExtraError: it names a YAML file, and PyYAML is not installed.
    """
    path_map = path_map or PathMap()
    environment = os.environ if environment is None else environment
    script = shell_script.read(Path(path), environment, path_map)
    launch = flags.find_launch(script, str(path))
    given, remarks = flags.parse(launch.words)
    arguments = Arguments(str(path), path_map, needed, folder=launch.folder)
    arguments.add_flags(given)
    settings = arguments.settings(eval_name)
    return settings.with_notices([*script.notices, *launch.remarks, *remarks])


def read_recipe(
    path: str | os.PathLike[str],
    *,
    path_map: PathMap | None = None,
    eval_name: str | None = None,
) -> LaunchSettings:
    """The settings that a recipe gives a run: a YAML or JSON file with the names of the flags.

    Keys that are not read are ignored; what is left out has the default of slime's parser.

    Args:
        path: the file.
        path_map: rewrites paths of another machine.
        eval_name: an evaluation set of the recipe, to be served in place of the training prompts.

    Raises:
        ConfigError: the file cannot be read, or there is no such evaluation set.
        MissingExtraError: it is YAML, and PyYAML is not installed.
    """
    arguments = Arguments(str(path), path_map or PathMap(), None, folder=None)
    arguments.add_file(read_mapping(Path(path)), str(path))
    return arguments.settings(eval_name)
