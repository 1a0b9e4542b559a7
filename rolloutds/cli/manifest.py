"""``rolloutds manifest``: one file that says what each file of a dataset holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.engine_options import EngineName, FilesDone, Jobs, RayAddress, opened_engine
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.config import SETTING, DataSourceConfig
from rolloutds.errors import ConfigError

if TYPE_CHECKING:
    from rolloutds.readers.manifest_build import RowSettings

_KEY_SETTINGS = (
    "input_key",
    "label_key",
    "metadata_key",
    "tool_key",
    "multimodal_keys",
    "apply_chat_template",
    "bad_rows",
)
_DIFFERS = 1

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Write down what each file of a dataset holds, so that a run opens none to start.",
)


@app.command(cls=PlainCommand)
@takes_settings(*_KEY_SETTINGS)
def build(
    *,
    target: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The manifest: NAME.manifest.json."),
    ],
    jobs: Jobs = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Index every file of DATA and write its rows, size and digest to a manifest.

    The manifest is prompt data itself: a run that names it opens a file once a row of it is drawn.
    Give the keys that the run reads; bad rows stop the build as they would the run.
    """
    from rolloutds.readers.manifest_build import build_manifest
    from rolloutds.reports.manifest_report import manifest_report

    config = invocation.resolve().config
    if config.prompt_data is None:
        raise ConfigError("no prompt data is named", hint="name the files as DATA")
    with opened_engine(engine, jobs, ray_address) as opened:
        built = build_manifest(
            config.prompt_data,
            target,
            _row_settings(config),
            cache=invocation.cache(),
            engine=opened,
            progress=partial(FilesDone, "indexing"),
        )
    invocation.write(manifest_report(built))


def _row_settings(config: DataSourceConfig) -> RowSettings:
    from rolloutds.dataset import prompt_settings, row_keys
    from rolloutds.prompts import RowInspector
    from rolloutds.readers.manifest_build import RowSettings

    settings = prompt_settings(config)
    shown = {SETTING[name].flag: getattr(config, name) for name in _KEY_SETTINGS}
    return RowSettings(row_keys(settings), RowInspector(settings), config.bad_rows, shown)


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def check(
    *,
    manifest: Annotated[str, typer.Argument(metavar="FILE", help="The manifest.")],
    full: Annotated[
        bool, typer.Option("--full", help="Read every file and compare the digest of its bytes.")
    ] = False,
    jobs: Jobs = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Compare a manifest with its files: missing, changed, and more than it lists.

    One listing says what is there. A file of the same size that was written since is read. The
    exit code is 1 where something differs.
    """
    from rolloutds.readers.manifest_build import check_manifest
    from rolloutds.reports.manifest_report import check_report

    with opened_engine(engine, jobs, ray_address) as opened:
        checked = check_manifest(
            manifest, is_full=full, engine=opened, progress=partial(FilesDone, "reading")
        )
    invocation.write(check_report(checked))
    if not checked.difference.is_empty:
        raise typer.Exit(_DIFFERS)
