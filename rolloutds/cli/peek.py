"""``rolloutds peek``: the next groups, in the exact order of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rolloutds.cli import output
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.guessed_keys import open_with_guessed_keys
from rolloutds.cli.options import DATA_SETTINGS, Invocation, takes_settings
from rolloutds.cli.progress import Progress
from rolloutds.config import DataSourceConfig
from rolloutds.errors import ConfigError

if TYPE_CHECKING:
    from rolloutds.cursor import Cursor
    from rolloutds.dataset import Dataset
    from rolloutds.peek import PeekedGroup

app = typer.Typer(rich_markup_mode=None, add_completion=False)

DEFAULT_GROUPS = 32


@dataclass(frozen=True)
class Choice:
    """Which groups are asked for; None is not given."""

    n: int | None
    batches: int | None
    epoch: int | None
    offset: int | None
    rollout_id: int | None
    group: int | None
    row_id: int | None
    find: str | None
    from_ckpt: str | None

    _EXCLUDES: ClassVar = {
        "group": ("n", "batches", "epoch", "offset", "rollout_id", "row_id", "find"),
        "row_id": ("n", "batches", "offset", "rollout_id", "find"),
        "find": ("batches", "offset", "rollout_id"),
        "rollout_id": ("epoch", "offset"),
        "batches": ("n",),
        "from_ckpt": ("batches", "epoch", "offset", "rollout_id", "group", "row_id", "find"),
    }

    def check(self) -> None:
        """Refuses options that contradict each other.

        Raises:
            ConfigError: two of them are given together.
        """
        for name, others in self._EXCLUDES.items():
            given = [other for other in others if getattr(self, other) is not None]
            if getattr(self, name) is not None and given:
                raise ConfigError(
                    f"{_flag(name)} and {_flag(given[0])} contradict each other",
                    expected="one of them",
                )
        if self.find == "":
            raise ConfigError("--find is empty", expected="some text of a prompt")

    @property
    def needs_batch_size(self) -> str | None:
        """The flag given that only means something with a batch size."""
        given = (name for name in ("rollout_id", "batches") if getattr(self, name) is not None)
        return next(map(_flag, given), None)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@app.command(cls=PlainCommand)
@takes_settings(
    *(*DATA_SETTINGS, "num_epoch", "load", "buffer_filter_path", "on_state_mismatch"),
    dispensable=("load",),
)
def peek(
    context: typer.Context,
    *,
    n: Annotated[
        int | None, typer.Option("--n", metavar="N", help="Groups shown. [default: 32]")
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(metavar="K", help="Show K rollouts' worth of groups, borders drawn."),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(metavar="E", help="Epoch to start in. [default: 0]")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(metavar="K", help="Groups of the epoch already served. [default: 0]"),
    ] = None,
    rollout_id: Annotated[
        int | None,
        typer.Option(
            metavar="R", help="Start with the first group of rollout R (needs the batch size)."
        ),
    ] = None,
    group: Annotated[
        int | None, typer.Option(metavar="N", help="Show the group of index N in full.")
    ] = None,
    row_id: Annotated[
        int | None,
        typer.Option(metavar="R", help="When is row R trained? Rows are lines counted from 0."),
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="When are the rows trained whose prompt holds TEXT?"),
    ] = None,
    from_ckpt: Annotated[
        str | None,
        typer.Option(
            metavar="ID|PATH",
            help="Start where a saved state stands: a rollout id in --load, or a file or folder.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole prompts, as they will be sent.")
    ] = False,
    invocation: Invocation,
) -> None:
    """Show the next groups, in the exact order the run gets them.

    Without DATA and without a config file, the sample data is shown. Prompts in the table are
    cut to the terminal's width, to 100 characters off a terminal; JSON holds them whole.
    """
    choice = Choice(n, batches, epoch, offset, rollout_id, group, row_id, find, from_ckpt)
    choice.check()
    if from_ckpt is not None:
        from rolloutds.cli.peek_resume import show_resume

        show_resume(context, invocation, from_ckpt, DEFAULT_GROUPS if n is None else n, full=full)
        return
    resolved = invocation.resolve()
    _require_batch_size(choice, resolved.config)
    dataset = open_with_guessed_keys(context, invocation, resolved)
    _say_how_exact(choice, dataset)
    if row_id is not None or find is not None:
        _show_appearances(invocation, dataset, choice, full=full)
    else:
        _show_listing(invocation, dataset, choice, full=full)


def _require_batch_size(choice: Choice, config: DataSourceConfig) -> None:
    if choice.needs_batch_size and config.rollout_batch_size is None:
        raise ConfigError(
            f"{choice.needs_batch_size} needs the batch size, which is not set",
            hint="give --rollout-batch-size, as the run has it",
        )


def _say_how_exact(choice: Choice, dataset: Dataset) -> None:
    config = dataset.config
    if config.rollout_batch_size is None:
        return
    if not (choice.needs_batch_size or choice.row_id is not None or choice.find is not None):
        return
    size = config.over_sampling_batch_size
    if size is not None and size != config.rollout_batch_size:
        output.say(
            f"the run over-samples ({size} groups a request): where a rollout starts depends on "
            "what was given back, so rollouts shown here are the earliest possible",
            label="warning",
        )
        return
    output.say(
        "rollouts are exact only while every group drawn is trained on: over-sampling, dynamic "
        "filtering and aborted groups shift them",
        label="note",
    )


# --- what is shown ------------------------------------------------------------------------


def _show_listing(invocation: Invocation, dataset: Dataset, choice: Choice, *, full: bool) -> None:
    from rolloutds.peek import Listing
    from rolloutds.reports.peek_report import group_report, listing_report

    listing = Listing(dataset, _start(dataset, choice), _num_groups(dataset, choice))
    if choice.group is not None:
        invocation.write(group_report(listing))
        return
    draws_rollouts = choice.needs_batch_size is not None
    invocation.write(listing_report(listing, full=full, draws_rollouts=draws_rollouts))


def _start(dataset: Dataset, choice: Choice) -> Cursor:
    from rolloutds.peek import start_of_epoch, start_of_group

    if choice.group is not None:
        return start_of_group(dataset, choice.group)
    if choice.rollout_id is not None:
        batch = dataset.config.rollout_batch_size or 0
        return start_of_group(dataset, choice.rollout_id * batch)
    return start_of_epoch(dataset, choice.epoch or 0, choice.offset or 0)


def _num_groups(dataset: Dataset, choice: Choice) -> int:
    if choice.group is not None:
        return 1
    if choice.batches is not None:
        return choice.batches * (dataset.config.rollout_batch_size or 0)
    return DEFAULT_GROUPS if choice.n is None else choice.n


def _show_appearances(
    invocation: Invocation, dataset: Dataset, choice: Choice, *, full: bool
) -> None:
    from rolloutds.peek import Appearances
    from rolloutds.reports.peek_report import appearances_report

    search = _Search(dataset, choice)
    found = Appearances(dataset, search.row_positions(), _epochs(dataset, choice))
    groups: Iterator[PeekedGroup] = iter(found)
    try:
        invocation.write(appearances_report(found, groups, full=full))
    finally:
        search.progress.clear()
    search.say_how_it_ended()


def _epochs(dataset: Dataset, choice: Choice) -> range:
    """The epoch asked for; else all of the run, when its length is known."""
    if choice.epoch is not None:
        return range(choice.epoch, choice.epoch + 1)
    return range(max(dataset.config.num_epoch or 1, 1))


class _Search:
    """Rows by id or by text, a search stopped at the number of rows asked for."""

    def __init__(self, dataset: Dataset, choice: Choice) -> None:
        self._dataset = dataset
        self._row_id = choice.row_id
        self._text = choice.find
        self._most = DEFAULT_GROUPS if choice.n is None else choice.n
        self._num_found = 0
        self.progress = Progress("searching", len(dataset))

    def row_positions(self) -> Iterator[int]:
        from rolloutds.peek import rows_with_id, rows_with_text

        if self._text is None:
            return iter(rows_with_id(self._dataset, self._row_id or 0))
        found = rows_with_text(self._dataset, self._text, on_progress=self.progress)
        return self._counted(islice(found, self._most))

    def _counted(self, positions: Iterator[int]) -> Iterator[int]:
        for position in positions:
            self._num_found += 1
            self.progress.clear()
            yield position

    def say_how_it_ended(self) -> None:
        if self._text is None:
            return
        if self._num_found == 0 and self._most:
            output.say(f"no prompt holds {self._text!r}", label="note")
        elif self._num_found == self._most:
            rows = "row" if self._most == 1 else "rows"
            output.say(f"stopped at {self._most} {rows}, --n changes that", label="note")
