from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CHEAP_FIGURES = (
    "startup",
    "cold_peek",
    "warm_peek",
    "cold_index",
    "order",
    "groups_text",
    "validate",
    "parquet_epoch",
)
TIMING_KEYS = {"seconds", "median_seconds", "peak_bytes", "median_peak_bytes"}
TARGET_KEYS = {"what", "value", "unit", "limit", "later", "reached"}

pytestmark = pytest.mark.skipif(
    not (PROJECT / "benchmarks").is_dir(), reason="the benchmarks are not part of a package"
)


def measurable_figures() -> list[str]:
    """The cheap figures, less those of parts of the package that are not there."""
    run, figures = harness("run", "figures")
    return [
        name
        for name in CHEAP_FIGURES
        if all(run._is_importable(module) for module in figures.FIGURES[name].needs)
    ]


def run_benchmarks(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], dict]:
    folder = tmp_path_factory.mktemp("bench")
    chosen = [part for name in measurable_figures() for part in ("--only", name)]
    report = folder / "report.json"
    done = run_benchmarks(
        *chosen, "--rows", "2000", "--repeat", "1", "--folder", folder, "--json", report
    )
    assert done.returncode == 0, done.stderr
    return done, json.loads(report.read_text(encoding="utf-8"))


def test_report_says_when_and_where_it_was_measured(measured):
    _, report = measured
    assert (report["kind"], report["schema_version"]) == ("benchmarks", 1)
    assert (report["rows"], report["repeat"]) == (2000, 1)
    assert set(report["machine"]) == {"system", "architecture", "num_cores", "python"}
    assert len(report["date"]) == len("2026-01-31")


def test_every_figure_is_measured_beside_a_yardstick(measured):
    _, report = measured
    assert [figure["name"] for figure in report["figures"]] == measurable_figures()
    for figure in report["figures"]:
        assert figure["status"] == "measured", figure
        assert figure["targets"]
        for timing in (figure["ours"], *figure["yardsticks"].values()):
            assert set(timing) == TIMING_KEYS
            assert len(timing["seconds"]) == 1
            assert timing["median_seconds"] > 0


def test_every_target_states_its_limit_and_whether_it_is_reached(measured):
    _, report = measured
    for target in (target for figure in report["figures"] for target in figure["targets"]):
        assert set(target) == TARGET_KEYS
        assert target["reached"] == (target["value"] <= target["limit"])
        assert target["unit"] in ("ratio", "bytes")


def test_table_names_every_figure_and_verdict(measured):
    done, report = measured
    lines = done.stdout.splitlines()
    for figure in report["figures"]:
        assert any(line.startswith(figure["name"]) for line in lines)
    num_targets = sum(len(figure["targets"]) for figure in report["figures"])
    assert done.stdout.count("reached: ") + done.stdout.count("MISSED: ") == num_targets


def test_results_page_has_a_line_for_each_figure_with_its_verdict(measured):
    _, report = measured
    (results_page,) = harness("results_page")
    page = results_page.format_results(report)
    for figure in report["figures"]:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{figure['name']}`")]
        is_reached = all(target["reached"] for target in figure["targets"])
        assert line.endswith("| reached |") == is_reached
        assert line.count(" | ") == 4


def test_results_page_says_why_a_figure_has_no_numbers():
    (results_page,) = harness("results_page")
    machine = {"system": "Linux", "architecture": "x86_64", "num_cores": 2, "python": "3.11.7"}
    entry = {"name": "save", "title": "save", "status": "failed", "reason": "exit 3\na | b"}
    report = {"date": "2026-12-01", "machine": machine, "rows": 9, "repeat": 1, "figures": [entry]}
    page = results_page.format_results(report)
    assert "2 cores shared, Linux x86_64, Python 3.11" in page
    assert "| failed: exit 3 a \\| b |" in page


def test_growth_has_a_column_for_each_number_of_rows(tmp_path):
    pytest.importorskip("torch", reason="growth measures a save, which needs the torch extra")
    report = tmp_path / "report.json"
    done = run_benchmarks(
        *("--growth", "--growth-rows", "100", "300"), "--folder", tmp_path, "--json", report
    )
    assert done.returncode == 0, done.stderr
    growth = json.loads(report.read_text(encoding="utf-8"))["growth"]
    assert len(growth) == 6
    for by_rows in growth.values():
        assert list(by_rows) == ["100", "300"]
    assert "| | 100 rows | 300 rows |" in done.stdout


def test_unknown_figure_is_wrong_usage():
    done = run_benchmarks("--only", "nonsense")
    assert done.returncode == 2
    assert "cold_peek" in done.stderr


def test_only_strict_fails_on_a_missed_target(tmp_path, monkeypatch):
    run, result, figures = harness("run", "result", "figures")
    slow = result.Timing([2.0])
    quick = result.Timing([1.0])
    target = result.time_target(slow, quick, "quick", limit=0.5)
    figure = figures.Figure(
        "slow", lambda bench: result.Outcome(slow, {"quick": quick}, [target]), ()
    )
    monkeypatch.setitem(figures.FIGURES, "slow", figure)
    assert run.main(["--only", "slow", "--folder", str(tmp_path)]) == 0
    assert run.main(["--only", "slow", "--folder", str(tmp_path), "--strict"]) == 1


def test_figure_that_cannot_be_measured_is_reported_and_the_rest_goes_on(tmp_path, monkeypatch):
    run, bench, figures = harness("run", "bench", "figures")

    def fail(_):
        message = "exit 3\nno such file"
        raise bench.MeasureError(message)

    monkeypatch.setitem(figures.FIGURES, "broken", figures.Figure("broken", fail, ()))
    monkeypatch.setitem(
        figures.FIGURES, "absent", figures.Figure("absent", fail, ("rolloutds.nothing",))
    )
    report = tmp_path / "report.json"
    arguments = ["--only", "broken", "--only", "absent", "--json", str(report)]
    assert run.main([*arguments, "--folder", str(tmp_path)]) == 0
    broken, absent = json.loads(report.read_text(encoding="utf-8"))["figures"]
    assert (broken["status"], broken["reason"]) == ("failed", "exit 3\nno such file")
    assert (absent["status"], absent["reason"]) == ("skipped", "rolloutds.nothing not found")


def test_prompt_files_are_the_same_for_the_same_number_of_rows(tmp_path):
    (prompt_files,) = harness("prompt_files")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first = prompt_files.make(tmp_path / "a", prompt_files.message_line, 500)
    second = prompt_files.make(tmp_path / "b", prompt_files.message_line, 500)
    assert first.read_bytes() == second.read_bytes()
    lines = first.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 501
    assert 600 < first.stat().st_size / 500 < 700


def test_eager_loader_copies_deeply(tmp_path):
    (eager,) = harness("eager")
    path = tmp_path / "rows.jsonl"
    row = {"prompt": [{"role": "user", "content": "a"}], "label": "b", "metadata": None}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    ((first, second),) = eager.make_groups(eager.load(str(path)), 2)
    first.prompt[0]["content"] = "changed"
    assert second.prompt == row["prompt"]
    assert (second.index, second.label, second.metadata) == (1, "b", {})


def test_eager_loader_shows_the_rows_of_pythons_shuffle(tmp_path):
    (eager,) = harness("eager")
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"prompt": str(row), "label": row}) + "\n" for row in range(20)]
    path.write_text("".join(lines), encoding="utf-8")
    order = list(range(20))
    random.Random(42).shuffle(order)
    shown = eager.peek(str(path), num_groups=5, seed=42)
    assert [group["row_id"] for group in shown] == order[:5]
    assert [group["prompt"] for group in shown] == [str(row) for row in order[:5]]


def harness(*names: str) -> list:
    """Modules of the benchmarks, which lie beside the package and are not installed."""
    if str(PROJECT) not in sys.path:
        sys.path.insert(0, str(PROJECT))
    return [importlib.import_module(f"benchmarks.{name}") for name in names]
