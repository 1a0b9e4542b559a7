"""``rolloutds validate``: prompts, groups and checkpoints, checked before the run."""

from __future__ import annotations

import dataclasses
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from rolloutds.cli import output
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.engine_options import EngineName, Jobs, RayAddress, opened_engine
from rolloutds.cli.options import DATA_SETTINGS, Invocation, takes_settings
from rolloutds.cli.progress import Progress
from rolloutds.config import (
    SETTING,
    DataSourceConfig,
    ResolvedConfig,
    find_config_file,
    read_command_table,
)
from rolloutds.engines import ENGINES
from rolloutds.errors import ConfigError
from rolloutds.reports import FINDING_FORMATS, render_findings
from rolloutds.storage import is_remote

if TYPE_CHECKING:
    from rolloutds.checks.findings import Result
    from rolloutds.checks.inputs import Input
    from rolloutds.checks.validate import Options
    from rolloutds.engines import Engine
    from rolloutds.reports.model import Report

app = typer.Typer(rich_markup_mode=None, add_completion=False)

FINDINGS = 1
NOTHING_CHECKED = 4
STDIN = "-"

_Format: Any = Literal[tuple(FINDING_FORMATS)]
_Severity = Literal["error", "warning", "note"]
_Kind = Literal["dataset", "groups", "checkpoint"]
_CODES = "Codes or their beginnings, by commas"

Function = TypeVar("Function", bound=Callable[..., Any])


def _offers_formats(command: Function) -> Function:
    """Gives ``--format`` the formats of findings."""
    signature: inspect.Signature = command.__signature__  # type: ignore[attr-defined]
    option = Annotated[_Format, typer.Option("--format", help="Form of the result.")]
    parameters = [
        p.replace(annotation=option) if p.name == "format_name" else p
        for p in signature.parameters.values()
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__["format_name"] = option
    return command


@app.command(cls=PlainCommand)
@_offers_formats
@takes_settings(*DATA_SETTINGS, "reward_key", "load", has_data=False, has_cache=False)
def validate(
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATHS]...",
            help="Prompt data, dumps, buffer files, checkpoints; - is standard input. "
            "[default: what the config names]",
        ),
    ] = None,
    kind: Annotated[
        _Kind | None, typer.Option("--kind", help="What PATHS are. [default: seen from content]")
    ] = None,
    select: Annotated[str | None, typer.Option(help=f"{_CODES}: only these.")] = None,
    ignore: Annotated[str | None, typer.Option(help=f"{_CODES}: not these.")] = None,
    fail_on: Annotated[
        _Severity | None, typer.Option("--fail-on", help="Mildest that exits 1. [default: error]")
    ] = None,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit 0 whatever is found.")
    ] = False,
    max_findings: Annotated[
        int | None, typer.Option("--max-findings", metavar="N", help="List at most N findings.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="FILE", help="Known findings: only new ones count."),
    ] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write what is found to --baseline.")
    ] = False,
    output_file: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Write the result to a file.")
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Count the findings of each code.")
    ] = False,
    split_bad: Annotated[
        str | None,
        typer.Option("--split-bad", metavar="DIR", help="Write good and bad lines apart."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="FILE", help="Prompts that must not be in the data."),
    ] = None,
    check_media: Annotated[
        bool, typer.Option("--check-media", help="Look for local media files.")
    ] = False,
    engine: EngineName = None,
    jobs: Jobs = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Check prompts, groups and checkpoints: no GPU, no model, one pass.

    Exit codes: 0 fine, 1 findings, 2 wrong usage, 3 could not run, 4 nothing was checked.
    `rolloutds explain CODE` says what a code means.
    """
    from rolloutds.checks.validate import validate as validate_inputs

    table = _Table(invocation)
    request = _Request(
        select=_codes(select) or table.codes("select"),
        ignore=_codes(ignore) or table.codes("ignore"),
        severities=table.severities(),
        fail_on=fail_on or table.choice("fail-on", ("error", "warning", "note")) or "error",
        max_findings=max_findings if max_findings is not None else table.number("max-findings"),
        baseline=baseline or table.path("baseline"),
        writes_baseline=write_baseline,
        split_folder=split_bad,
        against=against or table.path("against"),
        checks_media=check_media or table.switch("check-media"),
        engine=engine or table.choice("engine", ENGINES),
        jobs=jobs if jobs is not None else table.number("jobs"),
        ray_address=ray_address or table.ray_address(is_wanted=engine in (None, "ray")),
    )
    if write_baseline and request.baseline is None:
        raise ConfigError("--write-baseline without --baseline", expected="the file to write")
    resolved = _resolve(invocation, paths)
    keys = _Keys(resolved)
    with _inputs(paths or _configured(resolved, table), kind) as inputs:
        progress = _Bars()
        try:
            with opened_engine(request.engine, request.jobs, request.ray_address) as opened:
                options = request.options(resolved, opened)
                result = validate_inputs(inputs, keys.config_of, options, progress=progress)
        finally:
            progress.clear()
        if request.split_folder is not None:
            _split(inputs, result, request.split_folder)
    _finish(invocation, request, result, output_file, shows_statistics=statistics)
    _exit(request, result, exit_zero=exit_zero)


@dataclasses.dataclass(frozen=True)
class _Request:
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    severities: Mapping[str, Any]
    fail_on: Any
    max_findings: int | None
    baseline: str | None
    writes_baseline: bool
    split_folder: str | None
    against: str | None
    checks_media: bool
    engine: str | None
    jobs: int | None
    ray_address: str | None

    def options(self, resolved: ResolvedConfig, engine: Engine) -> Options:
        from rolloutds.checks.selection import Selection
        from rolloutds.checks.settings import KEPT_OF_A_CODE
        from rolloutds.checks.validate import Options

        keeps_all = self.baseline is not None or self.split_folder is not None
        most = max(self.max_findings or 0, KEPT_OF_A_CODE)
        size = resolved.config.n_samples_per_prompt
        return Options(
            selection=Selection(self.select, self.ignore, self.severities),
            engine=engine,
            n_samples_per_prompt=size if resolved.is_set("n_samples_per_prompt") else None,
            against=self.against,
            checks_media=self.checks_media,
            max_kept=None if keeps_all else most,
        )


class _Table:
    """The table ``[tool.rolloutds.validate]``, or ``[validate]`` of a ``rolloutds.toml``."""

    def __init__(self, invocation: Invocation) -> None:
        named = invocation.config_file
        self._path = Path(named) if named else find_config_file(Path.cwd())
        self._is_named = named is not None
        self._values = read_command_table(self._path, "validate") if self._path else {}
        unknown = [key for key in self._values if key not in _TABLE_KEYS]
        if unknown:
            expected = f"one of {', '.join(_TABLE_KEYS)}"
            raise self._wrong(unknown[0], "unknown setting", expected)

    def _wrong(self, key: str, what: str, expected: str) -> ConfigError:
        return ConfigError(what, where=f"{self._path}: validate.{key}", expected=expected)

    def _get(self, key: str, kind: type | tuple[type, ...], expected: str) -> Any:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self._wrong(key, f"{value!r:.60}", expected)
        return value

    def codes(self, key: str) -> tuple[str, ...]:
        value = self._get(key, (str, list), "a list of codes")
        if isinstance(value, list):
            if not all(isinstance(code, str) for code in value):
                raise self._wrong(key, f"{value!r:.60}", "a list of codes")
            return tuple(value)
        return _codes(value)

    def severities(self) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self._get("severity", dict, 'a table such as {KEY005 = "error"}')
        return value or {}

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        value: str | None = self._get(key, str, f"one of {', '.join(choices)}")
        if value is not None and value not in choices:
            raise self._wrong(key, repr(value), f"one of {', '.join(choices)}")
        return value

    def number(self, key: str) -> int | None:
        value: int | None = self._get(key, int, "a whole number")
        if value is not None and value < 0:
            raise self._wrong(key, str(value), "0 or more")
        return value

    def switch(self, key: str) -> bool:
        return bool(self._get(key, bool, "true or false"))

    def ray_address(self, *, is_wanted: bool) -> str | None:
        """The cluster to join: what it sends is run, so a file that was only found names none."""
        value: str | None = self._get("ray-address", str, "a text")
        if value is None or not is_wanted:
            return None
        if self._is_named:
            return value
        text = f"{self._path}: ray-address is left out: name the file with --config to use it"
        output.say(text, label="note")
        return None

    def path(self, key: str) -> str | None:
        value = self._get(key, str, "a path")
        return None if value is None else self._found(value)

    def paths(self, key: str) -> list[str]:
        value = self._get(key, (str, list), "a path, or a list of paths")
        values = [value] if isinstance(value, str) else value or []
        if not all(isinstance(path, str) for path in values):
            raise self._wrong(key, f"{value!r:.60}", "a path, or a list of paths")
        return [self._found(path) for path in values]

    def _found(self, path: str) -> str:
        """A path of the config: from the folder the config is in; a URL as it is."""
        if is_remote(path):
            return path
        folder = self._path.parent if self._path is not None else Path()
        return str(folder / Path(path).expanduser())


_TABLE_KEYS = (
    "select",
    "ignore",
    "severity",
    "fail-on",
    "max-findings",
    "baseline",
    "against",
    "check-media",
    "engine",
    "jobs",
    "ray-address",
    "buffer",
)


def _codes(text: str | None) -> tuple[str, ...]:
    return tuple(code.strip().upper() for code in (text or "").split(",") if code.strip())


def _resolve(invocation: Invocation, paths: list[str] | None) -> ResolvedConfig:
    """The settings; with paths on the command line no data of the config is needed."""
    if paths:
        flags = {**invocation.flags, "prompt_data": paths[0]}
        launch = dataclasses.replace(invocation.launch, dispensable=frozenset({"load"}))
        invocation = dataclasses.replace(invocation, flags=flags, launch=launch)
    return invocation.resolve()


def _configured(resolved: ResolvedConfig, table: _Table) -> list[str]:
    """What the config names: the data, buffers and dumps, the checkpoints to resume from."""
    config = resolved.config
    named = [config.prompt_data, *table.paths("buffer"), config.load]
    return [name for name in named if name is not None]


@contextmanager
def _inputs(paths: list[str], kind: Any) -> Iterator[list[Input]]:
    """What to check; standard input is kept in a file meanwhile."""
    from rolloutds.checks.inputs import Input, kind_of, kind_of_file

    with tempfile.TemporaryDirectory() as folder:
        inputs = []
        for path in dict.fromkeys(paths):
            if path == STDIN:
                copy = _keep_stdin(Path(folder))
                found = kind or kind_of_file(str(copy), suffix=copy.suffix)
                inputs.append(Input(found, "<stdin>", str(copy)))
            else:
                inputs.append(Input(kind or kind_of(path), path))
        yield inputs


def _keep_stdin(folder: Path) -> Path:
    if sys.stdin is None:
        raise ConfigError("standard input is closed", expected="data on it")
    stream = sys.stdin.buffer
    head = stream.read(4)
    suffix = {b"PAR1": ".parquet", b"PK\x03\x04": ".pt"}.get(head, ".jsonl")
    copy = folder / f"stdin{suffix}"
    with copy.open("wb") as file:
        file.write(head)
        shutil.copyfileobj(stream, file, 1 << 20)
    return copy


class _Keys:
    """The settings of each input: keys nobody configured are guessed, which stderr says."""

    def __init__(self, resolved: ResolvedConfig) -> None:
        self._resolved = resolved
        self._said: set[str] = set()

    def config_of(self, one: Input) -> DataSourceConfig:
        from rolloutds.checks.inputs import first_rows, usable_label
        from rolloutds.key_guess import guess_keys

        config = self._resolved.config
        if one.kind != "dataset" or self._resolved.is_set("input_key"):
            return config
        has_label = self._resolved.is_set("label_key")
        rows = first_rows(one)
        if not rows:
            return config
        guessed = guess_keys(rows[0], configured=config.input_key, has_label=has_label)
        if guessed is None:
            return config
        changes = {"input_key": guessed.input_key}
        label_key = usable_label(rows, guessed.label_key)
        if label_key is not None:
            changes["label_key"] = label_key
        self._say(one, changes)
        return dataclasses.replace(config, **changes)  # type: ignore[arg-type]

    def _say(self, one: Input, changes: Mapping[str, str]) -> None:
        if one.name not in self._said:
            self._said.add(one.name)
            said = " ".join(f"{SETTING[name].flag} {value}" for name, value in changes.items())
            output.say(f"{one.name}: keys taken from its first row: {said}", label="note")


class _Bars:
    """Progress over the bytes of each input."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def __call__(self, one: Input, num_bytes: int) -> Progress:
        self.clear()
        self._bar = Progress(f"checking {one.name}, bytes", num_bytes)
        return self._bar

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()


def _split(inputs: list[Input], result: Result, folder: str) -> None:
    from rolloutds.checks.split import split_bad

    for one in inputs:
        path = one.path or one.name
        if one.kind != "dataset" or not Path(path).is_file() or path.endswith(".parquet"):
            output.say(f"{one.name}: not split, only JSON Lines files are", label="note")
            continue
        split = split_bad(path, one.name, result, folder)
        output.say(
            f"{split.num_good:,} good lines in {split.good}, {split.num_bad:,} bad in {split.bad}"
        )


def _finish(
    invocation: Invocation,
    request: _Request,
    result: Result,
    output_file: str | None,
    *,
    shows_statistics: bool,
) -> None:
    from rolloutds.checks.baseline import read_baseline, without_known, write_baseline
    from rolloutds.reports.findings_report import findings_report, summary

    for notice in result.notices:
        output.say(notice, label="note")
    if request.writes_baseline and request.baseline is not None:
        count = write_baseline(request.baseline, result)
        noun = "finding" if count == 1 else "findings"
        output.say(f"{count:,} {noun} written to {request.baseline}")
    if request.baseline is not None:
        without_known(result, read_baseline(request.baseline))
    report = findings_report(
        result,
        max_findings=request.max_findings,
        shows_statistics=shows_statistics,
        fail_on=request.fail_on,
    )
    _say_what_is_not_listed(report, invocation.format_name)
    _write(report, invocation.format_name, output_file)
    if invocation.format_name == "github":
        _write_job_summary(report)
    if output_file is not None:
        output.say(f"{summary(report.data)}, written to {output_file}")


_COUNTS_ALL = ("text", "json", "github", "markdown")
"""Formats that have a place for the findings that are counted and not listed."""


def _say_what_is_not_listed(report: Report, format_name: str) -> None:
    count = report.data["num_not_listed"]
    if count and format_name not in _COUNTS_ALL:
        noun = "finding is" if count == 1 else "findings are"
        output.say(
            f"{count:,} further {noun} not listed (--max-findings N lists more)", label="note"
        )


def _write(report: Report, format_name: str, output_file: str | None) -> None:
    # A file gets no colour, whoever watches the command.
    is_watched = output_file is None and sys.stdout is not None and sys.stdout.isatty()
    pieces = render_findings(report, format_name, on_terminal=is_watched)
    if output_file is None:
        output.write_pieces(pieces, is_for_programs=format_name not in ("text", "markdown"))
        return
    from rolloutds.rollouts.atomic_output import whole_file

    with whole_file(output_file) as handle:
        for piece in pieces:
            handle.write(piece.encode("utf-8", "backslashreplace"))


def _write_job_summary(report: Report) -> None:
    """Every finding in the summary of the job, where annotations end at ten of a kind."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(render_findings(report, "markdown"))
    except OSError as error:
        output.say(f"the job summary cannot be written: {error.strerror}", label="warning")


def _exit(request: _Request, result: Result, *, exit_zero: bool) -> None:
    if not result.was_anything_checked:
        output.say("nothing was checked", label="error")
        raise typer.Exit(NOTHING_CHECKED)
    if result.fails(request.fail_on) and not exit_zero:
        raise typer.Exit(FINDINGS)
