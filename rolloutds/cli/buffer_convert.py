"""``rolloutds buffer convert``: groups written to a file of another format."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from rolloutds.cli import output
from rolloutds.cli.buffer_inputs import From, chosen_groups, say_notices
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.reports.buffer_convert_report import convert_report
from rolloutds.rollouts.convert import WRITERS, Conversion, convert

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WriterName: Any = Literal[tuple(WRITERS)]
_ENDINGS = ", ".join(f"{writer.ending} {name}" for name, writer in WRITERS.items())


@app.command("convert", cls=PlainCommand)
@takes_settings("n_samples_per_prompt", has_data=False, has_cache=False)
def convert_file(
    *,
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Buffer file or dump; a folder or glob of them.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help=f"The file to write, by its ending: {_ENDINGS}.")
    ],
    from_format: From = None,
    to_format: Annotated[
        _WriterName | None, typer.Option("--to", help="Format to write. [default: by the ending]")
    ] = None,
    no_tokens: Annotated[
        bool, typer.Option("--no-tokens", help="Leave out tokens, masks and log-probs.")
    ] = False,
    drop_foreign: Annotated[
        bool,
        typer.Option(
            "--drop-foreign", help="Leave out and count values of classes that cannot be written."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    invocation: Invocation,
) -> None:
    """Write the groups of a buffer file or rollout dump to a file of another format.

    Between our buffer file (.jsonl) and a slime dump (.pt) nothing is lost. OUT appears whole or
    not at all.
    """
    groups = chosen_groups(invocation, source, from_format)
    written = convert(
        groups,
        target,
        format_name=to_format,
        drop_tokens=no_tokens,
        drop_foreign=drop_foreign,
        force=force,
    )
    say_notices(groups)
    _say_changes(written)
    invocation.write(convert_report(groups.files, written))


def _say_changes(written: Conversion) -> None:
    for remark in written.remarks:
        output.say(remark, label="note")
    for name, count in written.dropped.items():
        output.say(f"left out {count:,} values of the class {name}", label="warning")
