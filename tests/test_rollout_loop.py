"""The example run: killed at any stage and resumed, it trains on what it would have anyway."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rolloutds import RolloutDataSourceWithBuffer

pytest.importorskip("torch", reason="states are saved with torch")

NUM_ROWS = 40
NUM_ROLLOUT = 8
SETTINGS = ("--num-rollout", str(NUM_ROLLOUT), "--save-interval", "3")


class Killed(BaseException):
    """Stands in for SIGKILL; no `except Exception` stops it."""


@pytest.fixture
def loop(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(
        "rollout_loop", repository / "examples" / "rollout_loop.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def die(pid: int, number: int) -> None:
        raise Killed

    monkeypatch.setattr(module.os, "kill", die)
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: None)  # the power does not fail
    return module


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"row {i}"}) + "\n" for i in range(NUM_ROWS)))
    return path


def words(folder: Path, prompts: Path, *more: str) -> list[str]:
    return ["--run-folder", str(folder), "--prompt-data", str(prompts), *SETTINGS, *more]


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "completed.jsonl").read_text().splitlines()]


def test_the_log_is_the_same_whenever_the_run_is_killed(
    loop: ModuleType, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.main(words(tmp_path / "whole", prompts))
    expected = log_of(tmp_path / "whole")
    assert [entry["rollout_id"] for entry in expected] == [
        rollout_id for rollout_id in range(NUM_ROLLOUT) for _ in range(8)
    ]
    num_killed = 0
    for rollout_id in (0, 2, 3, 5, 7):
        for stage in loop.STAGES:
            folder = tmp_path / f"{rollout_id}-{stage}"
            try:
                loop.main(words(folder, prompts, "--crash-at", f"{rollout_id}:{stage}"))
            except Killed:
                num_killed += 1
            loop.main(words(folder, prompts))
            assert log_of(folder) == expected, (rollout_id, stage)
    # At rollout 0 and 3 nothing is saved, so the two stages of a save do not come.
    assert num_killed == 5 * 5 - 2 * 2
    said = capsys.readouterr().out.splitlines()
    assert set(said) == {f"{NUM_ROLLOUT} rollouts, {NUM_ROLLOUT * 8} groups trained on"}


def test_a_run_killed_again_and_again_gets_there(
    loop: ModuleType, prompts: Path, tmp_path: Path
) -> None:
    loop.main(words(tmp_path / "whole", prompts))
    folder = tmp_path / "killed"
    for place in ("1:drawn", "2:trained", "2:saved-state", "3:generated", "4:trained"):
        with pytest.raises(Killed):
            loop.main(words(folder, prompts, "--crash-at", place))
        with (folder / "completed.jsonl").open("a") as log:  # and the log is cut in a line
            log.write('{"rollout_id": 1, "responses": ["}')
    loop.main(words(folder, prompts))
    assert log_of(folder) == log_of(tmp_path / "whole")


def test_it_does_what_a_run_does(loop: ModuleType, prompts: Path, tmp_path: Path) -> None:
    sources: list[Watched] = []

    class Watched(RolloutDataSourceWithBuffer):
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            self.given_back = 0
            sources.append(self)

        def add_samples(self, samples: list[Any]) -> None:
            self.given_back += len(samples)
            super().add_samples(samples)

    loop.__dict__["RolloutDataSourceWithBuffer"] = Watched
    loop.main(words(tmp_path / "run", prompts))
    source = sources[0]
    assert source.given_back > 0
    assert source.in_flight.num_discarded["zero reward spread"] > 0
    assert len(source.in_flight) == 0
    settled = source.in_flight.num_completed + sum(source.in_flight.num_discarded.values())
    assert settled + source.get_buffer_length() == source.sample_group_index
    trained = Counter(entry["group_index"] for entry in log_of(tmp_path / "run"))
    assert set(trained.values()) == {1}


def test_a_stage_that_does_not_exist_is_refused(
    loop: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        loop.main(["--run-folder", str(tmp_path), "--crash-at", "3:saved"])
    assert "saved-state" in capsys.readouterr().err


@pytest.mark.proof
def test_real_processes_that_kill_themselves(repository: Path, tmp_path: Path) -> None:
    """On the sample data, as the top of the example says."""
    program = [sys.executable, str(repository / "examples" / "rollout_loop.py")]

    def run(folder: str, *more: str) -> int:
        given = ["--run-folder", str(tmp_path / folder), "--num-rollout", "7", *more]
        return subprocess.run([*program, *given], capture_output=True, text=True).returncode

    assert run("whole") == 0
    for stage in ("drawn", "generated", "trained", "saved-state", "saved-model"):
        for rollout_id in (2, 5):
            folder = f"{rollout_id}-{stage}"
            assert run(folder, "--crash-at", f"{rollout_id}:{stage}") == -9
            assert run(folder) == 0
            assert log_of(tmp_path / folder) == log_of(tmp_path / "whole")
