"""What only a real process shows: start-up, exit codes, streams that fail."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rolloutds.cli.root import SUBCOMMANDS

HEAVY = ("torch", "transformers", "pyarrow", "numpy", "pydantic", "rich", "orjson")
COMMAND = [sys.executable, "-m", "rolloutds"]


def remarks(err: str | bytes) -> list[str]:
    """Lines of stderr, without the notes on the data."""
    text = err.decode() if isinstance(err, bytes) else err
    return [line for line in text.splitlines() if not line.startswith("note: ")]


def modules_after(*args: str) -> set[str]:
    """Modules that a call of the command leaves imported."""
    code = (
        "import sys\n"
        "from rolloutds.cli import main\n"
        f"sys.argv = {['rolloutds', *args]!r}\n"
        "try:\n    main()\nexcept SystemExit as exit:\n    assert not exit.code, exit.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(done.stderr.split("\n"))


@pytest.mark.parametrize("args", [["--help"], ["peek", "--help"], ["plan", "--help"], ["config"]])
def test_help_loads_nothing_heavy(args):
    loaded = modules_after(*args)
    assert not loaded & set(HEAVY)
    assert "rolloutds.dataset" not in loaded


def test_root_help_loads_no_subcommand():
    assert not modules_after("--help") & {"rolloutds.cli.peek", "rolloutds.cli.cache"}


@pytest.mark.parametrize("format_name", ["text", "json", "jsonl", "markdown"])
def test_warm_peek_on_json_lines_loads_nothing_heavy(prompts, format_name):
    args = ("peek", "prompts.jsonl", "--input-key=prompt", "--rollout-shuffle", "--format")
    modules_after(*args, format_name)
    assert not modules_after(*args, format_name) & set(HEAVY)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["peek", "prompts.jsonl", "--input-key", "prompt"], 0),
        (["--version"], 0),
        ([], 2),
        (["peak"], 2),
        (["peek", "--rollout-sed", "1"], 2),
        (["peek", "--n", "-1"], 2),
        (["peek", "prompts.jsonl", "--rollout-seed", "x"], 2),
        (["peek", "missing.jsonl"], 3),
        (["peek", "prompts.jsonl", "--input-key", "nothing"], 3),
    ],
)
@pytest.mark.usefixtures("prompts")
def test_exit_codes(run_process, args, code):
    outcome = run_process(*args)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    assert ("error: " in outcome.err or "Usage: " in outcome.err) == (code != 0)


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("format_name", ["text", "json", "jsonl", "markdown"])
def test_a_closed_pipe_ends_quietly(format_name):
    args = ["peek", "prompts.jsonl", "--input-key=prompt", "--n=1000000", "--format", format_name]
    process = subprocess.Popen([*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert remarks(process.stderr.read()) == []
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.mark.usefixtures("prompts")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("n", ["3", "100000"])
def test_an_unwritable_output_is_an_error(n):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "peek", "prompts.jsonl", "--input-key=prompt", "--n", n],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert done.returncode == 3
    said = "error: standard output cannot be written (No space left on device)"
    assert remarks(done.stderr) == [said]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("args", [["--version"], ["--help"], ["peek", "--help"]])
def test_unwritable_help_is_no_bug(args):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *args], stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    assert done.returncode == 3
    assert [line[:6] for line in remarks(done.stderr)] == ["error:"]


@pytest.mark.parametrize(("args", "code"), [(["peek", "--n=1"], 0), (["env"], 0), (["config"], 0)])
def test_a_removed_folder_to_run_in(tmp_path, prompts, args, code):
    gone = tmp_path / "gone"
    gone.mkdir()
    arguments = [str(prompts) if a == "peek" else "" for a in args[:1]]
    command = [*COMMAND, *args, *filter(None, arguments)]
    done = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', *command],
        cwd=gone,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout != "") == (code, True), done.stderr
    assert not [line for line in remarks(done.stderr) if line.startswith(("error", "bug"))]


@pytest.mark.usefixtures("prompts")
def test_an_interrupt_exits_130():
    process = subprocess.Popen(
        [*COMMAND, "peek", "prompts.jsonl", "--input-key=prompt", "--n=100000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is at work
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, remarks(err)) == (130, ["error: interrupted"])


@pytest.mark.usefixtures("prompts")
def test_a_locale_without_the_characters_still_shows_all(run_process):
    Path("wide.jsonl").write_text('{"input": "日本語"}\n', encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = run_process("peek", "wide.jsonl", "--n=1", **plain)
    assert outcome.code == 0
    assert r"\u65e5\u672c\u8a9e" in outcome.out
    assert "日本語" in run_process("peek", "wide.jsonl", "--n=1", "--format=jsonl", **plain).out


def test_completion_knows_subcommands_and_options(run_process):
    def complete(words: str) -> list[str]:
        return run_process(
            _ROLLOUTDS_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split(" ")) - 1),
        ).out.split()

    assert complete("rolloutds ") == list(SUBCOMMANDS)
    assert complete("rolloutds p") == ["peek", "plan"]
    assert complete("rolloutds cache ") == ["show", "clear"]
    assert complete("rolloutds peek --input") == ["--input-key"]
    assert complete("rolloutds peek --format j") == ["json", "jsonl"]
    assert complete("rolloutds peek ") == []  # the shell offers files


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run_process, shell):
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    outcome = run_process("--show-completion", shell, **environment)
    assert outcome.code == 0
    assert "_ROLLOUTDS_COMPLETE" in outcome.out


def test_progress_is_shown_on_a_terminal_after_half_a_second(monkeypatch, capsys):
    from rolloutds.cli import progress

    now = [0.0]
    shown = progress.Progress("searching", 200, clock=lambda: now[0])
    monkeypatch.setattr(progress, "stderr_is_terminal", lambda: True)
    shown(10)
    assert capsys.readouterr().err == ""
    now[0] = 0.6
    shown(100)
    assert "searching 100 of 200 (50 %)" in capsys.readouterr().err
    shown.clear()
    assert capsys.readouterr().err == "\r\x1b[K"


def test_progress_is_not_shown_off_a_terminal(capsys):
    from rolloutds.cli.progress import Progress

    now = [0.0]
    shown = Progress("searching", 200, clock=lambda: now[0])
    now[0] = 9.0
    shown(100)
    shown.clear()
    assert capsys.readouterr().err == ""


def test_an_interrupt_while_the_command_loads_ends_quietly():
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from rolloutds.cli import main\n"
        "main()\n"
    )
    stopped = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True
    )
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "")
