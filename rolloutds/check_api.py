"""Checks from Python: `check_dataset` and `check_groups` return findings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rolloutds.checks.base import Severity
from rolloutds.checks.findings import Finding
from rolloutds.checks.group_runner import as_result, check_group_stream, checks_on_groups
from rolloutds.checks.inputs import Input, first_rows, usable_label
from rolloutds.checks.selection import Selection
from rolloutds.checks.validate import Options, check_settings, validate
from rolloutds.config import SETTING, DataSourceConfig, checked
from rolloutds.engines import open_engine
from rolloutds.errors import ConfigError
from rolloutds.key_guess import guess_keys
from rolloutds.rollouts.base import GroupPlace, ReadGroup
from rolloutds.sample import Sample

__all__ = ["check_dataset", "check_groups"]


def check_dataset(
    prompt_data: str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    severities: Mapping[str, Severity] | None = None,
    against: str | os.PathLike[str] | None = None,
    check_media: bool = False,
    num_processes: int | None = None,
    engine: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    **settings: Any,
) -> list[Finding]:
    """Checks prompt data.

    Args:
        prompt_data: a file, folder, glob, URL or manifest, sliced or not.
        select: codes or their beginnings; empty: all checks.
        ignore: codes or their beginnings that are left out.
        severities: severities other than the check's own, by code or its beginning.
        against: a file whose prompts must not be in the data.
        check_media: whether local media files are looked for.
        num_processes: processes (on Ray: tasks in flight) that share the work; 0: one a core;
            None: this process (on Ray: one task a CPU of the cluster).
        engine: ``local`` for processes of this machine, ``ray`` for a Ray cluster.
        ray_address: of the cluster to join.
        settings: settings of the run by name (``input_key``, ``label_key``, …). Without
            `input_key` the keys are guessed from the first row.

    Returns:
        Every finding, in the order of the data.

    Raises:
        ConfigError: there is no such code or setting, or a value is wrong.
        DataError: the data is not there, or of a kind that cannot be read.
        TokenizerError: the tokenizer cannot be loaded.
        MissingExtraError: Ray is not installed.
        EngineError: the cluster cannot be joined, or the processes that worked on a part of the
            data died each time.
    """
    unknown = [name for name in settings if name not in SETTING]
    if unknown:
        raise ConfigError(f"there is no setting {unknown[0]!r}")
    config = DataSourceConfig(**{n: checked(SETTING[n], v) for n, v in settings.items()})
    options = Options(
        selection=_selection(select, ignore, severities),
        against=None if against is None else os.fspath(against),
        checks_media=check_media,
        max_kept=None,
    )

    def config_of(one: Input) -> DataSourceConfig:
        return config if "input_key" in settings else _with_guessed_keys(one, config, settings)

    data = [Input("dataset", os.fspath(prompt_data))]
    with open_engine(engine, num_processes, ray_address) as opened:
        return validate(data, config_of, replace(options, engine=opened)).findings


def _selection(
    select: Sequence[str], ignore: Sequence[str], severities: Mapping[str, Severity] | None
) -> Selection:
    return Selection(tuple(select), tuple(ignore), dict(severities or {}))


def _with_guessed_keys(
    one: Input, config: DataSourceConfig, settings: Mapping[str, Any]
) -> DataSourceConfig:
    rows = first_rows(one)
    has_label = "label_key" in settings
    guessed = (
        guess_keys(rows[0], configured=config.input_key, has_label=has_label) if rows else None
    )
    if guessed is None:
        return config
    label_key = usable_label(rows, guessed.label_key) or config.label_key
    return replace(config, input_key=guessed.input_key, label_key=label_key)


def check_groups(
    groups: str | os.PathLike[str] | Iterable[Sequence[Any]],
    *,
    n_samples_per_prompt: int | None = None,
    reward_key: str | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    severities: Mapping[str, Severity] | None = None,
) -> list[Finding]:
    """Checks groups of samples.

    Args:
        groups: the path of a buffer file or dump, or groups in memory: lists of samples, or of
            lists of samples for compact rollouts.
        n_samples_per_prompt: size of a group; None: the commonest size.
        reward_key: key of rewards that are objects.
        select: codes or their beginnings; empty: all checks.
        ignore: codes or their beginnings that are left out.
        severities: severities other than the check's own, by code or its beginning.

    Returns:
        Every finding, in the order of the groups.

    Raises:
        ConfigError: there is no such code.
        DataError: there is no such file.
    """
    selection = _selection(select, ignore, severities)
    options = Options(selection, n_samples_per_prompt=n_samples_per_prompt, max_kept=None)
    config = DataSourceConfig(reward_key=reward_key)
    if isinstance(groups, str | os.PathLike):
        return validate([Input("groups", os.fspath(groups))], lambda _: config, options).findings
    checks = checks_on_groups(check_settings(config, options), selection)
    check_group_stream(_in_memory(groups), _MEMORY, checks)
    return as_result(checks, selection).findings


_MEMORY = "groups"


def _in_memory(groups: Iterable[Sequence[Any]]) -> Iterator[ReadGroup]:
    for position, members in enumerate(groups):
        flat = [s for m in members for s in (m if isinstance(m, list) else [m])]
        indices = (sample.group_index for sample in flat if isinstance(sample, Sample))
        index = next((i for i in indices if isinstance(i, int)), None)
        yield ReadGroup(list(members), GroupPlace(_MEMORY, position), index, origin="buffer")
