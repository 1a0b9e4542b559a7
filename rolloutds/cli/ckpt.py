"""``rolloutds ckpt``: where a run stands, read from its cursor files and run from none of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from rolloutds import checkpoints
from rolloutds.cli import output
from rolloutds.cli.ckpt_inputs import Chosen, Data, choose, named_path, say_bad
from rolloutds.cli.command import PlainCommand, take_plain_values
from rolloutds.cli.engine_options import EngineName, FilesDone, Jobs, RayAddress, opened_engine
from rolloutds.cli.group import COULD_NOT_RUN
from rolloutds.cli.options import DATA_SETTINGS, Invocation, takes_settings
from rolloutds.errors import CheckpointError, DataError

if TYPE_CHECKING:
    from rolloutds.checkpoints.base import CursorFile
    from rolloutds.checkpoints.diff import Consumed
    from rolloutds.checkpoints.move import Waiting
    from rolloutds.checkpoints.upcoming import UpcomingGroup
    from rolloutds.cursor import Cursor


class _PlainGroup(TyperGroup):
    """The group, which starts without pydantic, as its subcommands do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses without pydantic."""
        take_plain_values(self.get_params(ctx))
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_PlainGroup,
    rich_markup_mode=None,
    add_completion=False,
    help="Look at cursor files: where a run stands, what it serves next, whether it fits the data.",
)

FOUND_ERRORS = 1

_SETTINGS = ("prompt_data", *DATA_SETTINGS, "on_state_mismatch", "load", "save")

_DialectName: Any = Literal[tuple(checkpoints.DIALECTS)]
_Dialect = Annotated[
    _DialectName | None,
    typer.Option("--dialect", help="Take the file for this system's, whatever it looks like."),
]
_Path = Annotated[
    str | None,
    typer.Argument(
        metavar="PATH|DIR",
        help="Cursor file or checkpoint folder; else `load` or `save` of the config, else the "
        "sample run.",
    ),
]
_Id = Annotated[
    int | None,
    typer.Option("--id", metavar="N", help="Rollout id (or step) in the folder. [default: newest]"),
]
_NumRows = Annotated[
    int | None,
    typer.Option("--num-rows", metavar="N", help="Rows of the dataset, when no data is named."),
]


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_data=False, dispensable=("load", "save"))
def show(
    context: typer.Context,
    *,
    path: _Path = None,
    rollout_id: _Id = None,
    num_next: Annotated[
        int | None,
        typer.Option("--next", metavar="K", help="Show the next K groups (needs the data)."),
    ] = None,
    num_rows: _NumRows = None,
    raw: Annotated[bool, typer.Option("--raw", help="Show everything in the file.")] = False,
    dialect: _Dialect = None,
    invocation: Invocation,
) -> None:
    """Show where a saved state stands: in words, then its fields, then what is odd about it.

    Nothing in the file is run. With --prompt-data the state is held against that data; --next also
    takes the data that a config names.
    """
    from rolloutds.reports.ckpt_report import raw_report, show_report

    named = named_path(invocation, path)
    chosen = choose(named.path, rollout_id, dialect)
    say_bad(chosen)
    if chosen.file is None and raw:
        invocation.write(raw_report(chosen.path, chosen.value))
        return
    file = chosen.require()
    data = Data(context, invocation, named.resolved, file)
    upcoming, refused = _upcoming(data, num_next, num_rows)
    invocation.write(
        show_report(
            file,
            data.against if data.is_given else None,
            upcoming=upcoming,
            raw=raw,
            skipped=[(bad.found.rollout_id, bad.error.headline) for bad in chosen.newer_bad],
        )
    )
    _end(chosen, refused)


def _upcoming(
    data: Data, num_next: int | None, num_rows: int | None
) -> tuple[list[UpcomingGroup] | None, CheckpointError | None]:
    """The next groups; where the state cannot say, it is shown all the same."""
    if num_next is None:
        return None, None
    try:
        return data.upcoming(num_next, num_rows), None
    except CheckpointError as error:
        return None, error


def _end(chosen: Chosen, refused: CheckpointError | None) -> None:
    if refused is not None:
        output.say(refused.headline, label="error")
        if refused.hint:
            output.say(refused.hint)
    if refused is not None or chosen.newer_bad:
        raise typer.Exit(COULD_NOT_RUN)


@app.command("list", cls=PlainCommand)
@takes_settings("load", "save", has_data=False, has_cache=False, dispensable=("load", "save"))
def list_files(*, path: _Path = None, dialect: _Dialect = None, invocation: Invocation) -> None:
    """List the cursor files of a folder, one a row, with gaps and jumps marked."""
    from rolloutds.reports.ckpt_list_report import list_report

    named = named_path(invocation, path)
    listing = checkpoints.list_folder(named.path, dialect_name=dialect)
    invocation.write(list_report(listing))
    if listing.newest_good is None:
        raise typer.Exit(COULD_NOT_RUN)


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_data=False, dispensable=("load", "save"))
def diff(
    context: typer.Context,
    *,
    old: Annotated[str, typer.Argument(metavar="A", help="The earlier file.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The later file.")],
    num_rows: _NumRows = None,
    dialect: _Dialect = None,
    invocation: Invocation,
) -> None:
    """Show each field that differs; with the data, which rows were consumed between the two."""
    from rolloutds.checkpoints.diff import changes
    from rolloutds.reports.ckpt_change_report import diff_report

    named = named_path(invocation, old)
    before, after = (choose(Path(path), None, dialect).require() for path in (old, new))
    data = Data(context, invocation, named.resolved, before)
    consumed = _consumed(data, before, after, num_rows)
    invocation.write(diff_report(before, after, changes(before, after), consumed))


def _consumed(
    data: Data, before: CursorFile, after: CursorFile, num_rows: int | None
) -> Consumed | None:
    """The rows between two states; where they cannot be told, the fields are shown all the same."""
    from rolloutds.checkpoints.diff import consumed

    if not data.is_named and num_rows is None:
        return None
    try:
        dataset = data.dataset if num_rows is None else None
        return consumed(before, after, dataset=dataset, num_rows=num_rows)
    except (CheckpointError, DataError) as error:
        if isinstance(error, DataError) and data.is_given:
            raise
        output.say(f"which rows lie between is not known: {error.headline}", label="note")
        return None


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_data=False, dispensable=("load", "save"))
def verify(
    context: typer.Context,
    *,
    path: _Path = None,
    rollout_id: _Id = None,
    dialect: _Dialect = None,
    invocation: Invocation,
) -> None:
    """Say whether a state belongs to the data and is legal; exit 1 when it does not or is not.

    Settings that nobody gives are taken from the state.
    """
    from rolloutds.checkpoints.verify import examine, has_errors
    from rolloutds.reports.ckpt_report import verify_report

    named = named_path(invocation, path)
    file = choose(named.path, rollout_id, dialect, passes_bad=False).require()
    against = Data(context, invocation, named.resolved, file).against
    findings = examine(file, against)
    invocation.write(verify_report(file, against, findings))
    if has_errors(findings):
        raise typer.Exit(FOUND_ERRORS)


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_data=False, dispensable=("load", "save"))
def audit(
    context: typer.Context,
    *,
    path: _Path = None,
    rollout_id: _Id = None,
    dumps: Annotated[
        list[str],
        typer.Option("--dumps", metavar="GLOB", help="Rollout dumps of the run; repeatable."),
    ],
    engine: EngineName = None,
    jobs: Jobs = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Show which rows a run trained on once, more than once, never, or with another text.

    Its rollout dumps are held against the order of the data, up to where the newest state stands.
    The settings must be those the run had from its start.
    """
    from rolloutds.audit import audit as audit_dumps
    from rolloutds.audit import read_dumps
    from rolloutds.reports.ckpt_audit_report import audit_report
    from rolloutds.rollouts.opening import find_dumps

    named = named_path(invocation, path)
    chosen = choose(named.path, rollout_id, None)
    say_bad(chosen)
    file = chosen.require()
    data = Data(context, invocation, named.resolved, file)
    files = find_dumps(dumps)
    saved = data.saved()
    _say_shifted(saved.cursor, len(data.dataset))
    waiting = [group.group_index for group in (*saved.buffer, *saved.in_flight)]
    size = data.dataset.config.n_samples_per_prompt
    with (
        opened_engine(engine, jobs, ray_address) as opened,
        FilesDone("reading", len(files)) as done,
    ):
        found = audit_dumps(
            data.dataset,
            read_dumps(files, opened, n_samples_per_prompt=size, on_done=done),
            num_drawn=saved.cursor.sample_group_index,
            waiting=[group_index for group_index in waiting if group_index is not None],
            num_discarded=sum(saved.num_discarded.values()),
        )
    invocation.write(audit_report(found, files=files, state=str(file.path)))


def _say_shifted(cursor: Cursor, num_rows: int) -> None:
    if cursor.sample_group_index != cursor.epoch_id * num_rows + cursor.sample_offset:
        output.say(
            "the state's numbers say that the dataset was not the same from the start: rows are "
            "placed as if it was",
            label="warning",
        )


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_data=False, dispensable=("load", "save"))
def move(
    context: typer.Context,
    *,
    path: Annotated[str, typer.Argument(metavar="PATH|DIR", help="Cursor file, or its folder.")],
    epoch: Annotated[int, typer.Option("--epoch", metavar="E", help="Epoch to move to.")],
    offset: Annotated[
        int, typer.Option("--offset", metavar="K", help="Groups of that epoch already served.")
    ],
    new: Annotated[str, typer.Option("--output", "-o", metavar="NEW", help="File to write.")],
    rollout_id: _Id = None,
    drop_buffer: Annotated[
        bool | None,
        typer.Option("--drop-buffer/--keep-buffer", help="What becomes of the buffer's groups."),
    ] = None,
    drop_in_flight: Annotated[
        bool | None,
        typer.Option("--drop-in-flight/--keep-in-flight", help="And of groups in flight."),
    ] = None,
    invocation: Invocation,
) -> None:
    """Write a new state that stands elsewhere in the data, with the counters that belong there.

    The old file is not changed, and no file is overwritten. A state with groups in its buffer or in
    flight is refused until you say what becomes of them.
    """
    from rolloutds.checkpoints.move import moved_state, target_of, write_moved
    from rolloutds.reports.ckpt_change_report import move_report

    named = named_path(invocation, path)
    file = choose(named.path, rollout_id, None, passes_bad=False).require()
    data = Data(context, invocation, named.resolved, file)
    against = data.against if data.is_named else None
    state = moved_state(
        file,
        target_of(file, epoch, offset, against),
        buffer=_waiting(is_dropped=drop_buffer),
        in_flight=_waiting(is_dropped=drop_in_flight),
    )
    write_moved(file.path, Path(new), state)
    invocation.write(move_report(file, Path(new), state))


def _waiting(*, is_dropped: bool | None) -> Waiting:
    if is_dropped is None:
        return "refuse"
    return "drop" if is_dropped else "keep"
