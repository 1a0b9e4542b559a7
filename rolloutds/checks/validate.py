"""One call of validate: each input checked by what it is, the results put together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rolloutds.cache import Cache
from rolloutds.checkpoints.verify import Against
from rolloutds.checks.base import Totals
from rolloutds.checks.checkpoint_runner import check_checkpoints
from rolloutds.checks.evaluation import EvaluationSet
from rolloutds.checks.findings import Result
from rolloutds.checks.group_runner import check_groups_of
from rolloutds.checks.inputs import Input
from rolloutds.checks.parts import PART_BYTES, lay_out
from rolloutds.checks.runner import Progress, check_rows
from rolloutds.checks.scan import batches
from rolloutds.checks.selection import Selection
from rolloutds.checks.settings import KEPT_OF_A_CODE, CheckSettings
from rolloutds.config import DataSourceConfig
from rolloutds.dataset import Dataset
from rolloutds.engines import Engine
from rolloutds.errors import DataError, RolloutDSError
from rolloutds.prompts import PromptSettings

ConfigOf = Callable[[Input], DataSourceConfig]
"""The settings for one input: keys may be guessed from it."""


@dataclass(frozen=True)
class Options:
    """What the caller asks for.

    Attributes:
        selection: the checks, and how bad their findings are.
        engine: what prompt data are checked on; None: this process.
        n_samples_per_prompt: size of a group; None when nobody set it.
        against: a file whose prompts must not be in the data.
        checks_media: whether local media are looked for.
        max_kept: findings of one code that are kept one by one; None: all.
        part_bytes: bytes of a file that one process takes at a time.
    """

    selection: Selection = field(default_factory=Selection)
    engine: Engine | None = None
    n_samples_per_prompt: int | None = None
    against: str | None = None
    checks_media: bool = False
    max_kept: int | None = KEPT_OF_A_CODE
    part_bytes: int = PART_BYTES


def validate(
    inputs: Sequence[Input],
    config_of: ConfigOf,
    options: Options,
    *,
    progress: Callable[[Input, int], Progress] | None = None,
) -> Result:
    """Checks some inputs.

    Args:
        inputs: what to check.
        config_of: the settings for each.
        options: what is asked for.
        progress: for an input and its bytes, what is told how far the work is.

    Raises:
        DataError: an input is not there, or of a kind that cannot be read.
        TokenizerError: the tokenizer cannot be loaded.
        EngineError: the processes that worked on a part died each time.
    """
    evaluation = None
    if options.against is not None and any(one.kind == "dataset" for one in inputs):
        config = config_of(Input("dataset", options.against))
        evaluation = read_evaluation(options.against, check_settings(config, options))
    whole = Result()
    groups = [one for one in inputs if one.kind == "groups"]
    for one in inputs:
        if one.kind == "groups":
            if one is groups[0]:
                settings = check_settings(config_of(one), options)
                whole.add(check_groups_of(groups, settings, options.selection))
        elif one.kind == "checkpoint":
            against, notices = _against(inputs, config_of, options)
            whole.add(check_checkpoints(one.path or one.name, options.selection, against))
            whole.notices += notices
        else:
            whole.add(_validate_dataset(one, config_of(one), options, evaluation, progress))
    return whole


def _against(
    inputs: Sequence[Input], config_of: ConfigOf, options: Options
) -> tuple[Against | None, list[str]]:
    """The one dataset among the inputs, as states are held against it; or why it cannot be."""
    datasets = [one for one in inputs if one.kind == "dataset" and one.path is None]
    if len(datasets) != 1:
        return None, []
    config = replace(
        config_of(datasets[0]), prompt_data=datasets[0].name, rollout_global_dataset=True
    )
    try:
        dataset = Dataset(config, cache=Cache(None))
    except RolloutDSError as error:
        reason = error.headline.partition("\n")[0]
        return None, [f"states are not compared with the data, which does not load: {reason}"]
    return (
        Against(
            num_rows=len(dataset),
            num_rows_in_files=len(dataset.rows),
            fingerprint=dataset.fingerprint,
            n_samples_per_prompt=options.n_samples_per_prompt,
        ),
        [],
    )


def _validate_dataset(
    one: Input,
    config: DataSourceConfig,
    options: Options,
    evaluation: EvaluationSet | None,
    progress: Callable[[Input, int], Progress] | None,
) -> Result:
    settings = replace(check_settings(config, options), evaluation=evaluation)
    layout = lay_out(one.name, shown_as=one.name, path=one.path, part_bytes=options.part_bytes)
    report = None if progress is None else progress(one, layout.num_bytes)
    return check_rows(
        layout,
        settings,
        options.selection,
        engine=options.engine,
        progress=report,
    )


def check_settings(config: DataSourceConfig, options: Options) -> CheckSettings:
    """What checks need to know of a run's settings."""
    return CheckSettings(
        prompts=PromptSettings(
            input_key=config.input_key,
            label_key=config.label_key,
            metadata_key=config.metadata_key,
            tool_key=config.tool_key,
            multimodal_keys=config.multimodal_keys,
            apply_chat_template=config.apply_chat_template,
        ),
        hf_checkpoint=config.hf_checkpoint,
        chat_template=config.chat_template,
        template_kwargs=config.apply_chat_template_kwargs,
        trust_remote_code=config.trust_remote_code,
        max_prompt_len=config.rollout_max_prompt_len,
        batch_size=config.rollout_batch_size,
        n_samples_per_prompt=options.n_samples_per_prompt,
        reward_key=config.reward_key,
        checks_media=options.checks_media,
        max_kept=sys.maxsize if options.max_kept is None else options.max_kept,
    )


def read_evaluation(name: str, settings: CheckSettings) -> EvaluationSet:
    """The prompts of an evaluation file.

    Args:
        name: the file, sliced or not.
        settings: what a run reads of a row.

    Raises:
        DataError: the file is not there, or holds no prompt under that key.
    """
    evaluation, totals = EvaluationSet(name), Totals()
    for part in lay_out(name).parts:
        for batch in batches(part, settings, totals, None):
            has_prompt = [bool(prompt) for prompt in batch.prompts]
            evaluation.add(batch, has_prompt)
    if not evaluation.num_prompts:
        expected = f"rows with a prompt under {settings.prompts.input_key!r}"
        raise DataError("no prompts to compare with", where=name, expected=expected)
    evaluation.close(totals)
    return evaluation
