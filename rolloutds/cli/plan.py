"""``rolloutds plan``: rollouts an epoch, leftovers, and where epochs wrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rolloutds.cli import output
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.guessed_keys import open_with_guessed_keys
from rolloutds.cli.options import DATA_SETTINGS, Invocation, takes_settings
from rolloutds.config import DataSourceConfig
from rolloutds.errors import ConfigError

if TYPE_CHECKING:
    from rolloutds.dataset import Dataset
    from rolloutds.plan import Plan
    from rolloutds.readers.base import Place

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=PlainCommand)
@takes_settings(*DATA_SETTINGS, "num_rollout", "num_epoch")
def plan(context: typer.Context, *, invocation: Invocation) -> None:
    """Lay the run's rollouts out over its epochs: leftovers, and where epochs wrap.

    With --num-epoch the run has num_epoch * (rows // rollout_batch_size) rollouts, as in slime;
    --num-rollout wins over it.
    """
    from rolloutds.peek import summarize
    from rolloutds.plan import make_plan
    from rolloutds.reports.peek_report import data_facts, data_record
    from rolloutds.reports.plan_report import plan_report

    resolved = invocation.resolve()
    batch = _batch_size(resolved.config)
    dataset = open_with_guessed_keys(context, invocation, resolved)
    config = dataset.config
    laid_out = make_plan(
        len(dataset),
        rollout_batch_size=batch,
        n_samples_per_prompt=config.n_samples_per_prompt,
        num_rollout=config.num_rollout,
        num_epoch=config.num_epoch,
    )
    _warn(laid_out, config)
    summary = summarize(dataset)
    invocation.write(
        plan_report(
            laid_out,
            data=data_record(dataset, summary),
            facts=data_facts(summary),
            leftovers=_leftovers(dataset, laid_out),
        )
    )


def _batch_size(config: DataSourceConfig) -> int:
    if config.rollout_batch_size is None:
        raise ConfigError(
            "a plan needs the batch size, which is not set",
            hint="give --rollout-batch-size, as the run has it",
        )
    return config.rollout_batch_size


def _leftovers(dataset: Dataset, laid_out: Plan) -> list[Place]:
    """The last rows of epoch 0, which the first rollout that wraps takes."""
    epoch_id = 0 if dataset.config.rollout_shuffle else None
    start = len(dataset) - laid_out.num_leftover_rows
    rows = dataset.row_positions(epoch_id, start, len(dataset))
    return [dataset.rows.place(row) for row in rows]


def _warn(laid_out: Plan, config: DataSourceConfig) -> None:
    if config.num_rollout is not None and config.num_epoch is not None:
        output.say("num_rollout and num_epoch are both set: num_epoch is ignored", label="note")
    if laid_out.batch_spans_epochs:
        output.say(
            f"a batch of {laid_out.rollout_batch_size:,} groups spans more than one epoch of "
            f"{laid_out.num_rows:,} rows: rows come more than once in a rollout",
            label="warning",
        )
    elif laid_out.num_mixed_rollouts:
        twice = "; shuffled, a row may come twice in one" if config.rollout_shuffle else ""
        output.say(
            f"batches that span more than one epoch: {laid_out.num_mixed_rollouts:,} of "
            f"{laid_out.num_rollouts_shown:,}{twice}",
            label="warning",
        )
    if laid_out.num_rollout == 0:
        output.say("the run has no rollout", label="warning")
    size = config.over_sampling_batch_size
    if size is not None and size != config.rollout_batch_size:
        output.say(
            f"the run over-samples ({size} groups a request): epochs wrap earlier than shown",
            label="warning",
        )
