"""Each format of findings: a golden file, and what the readers of that format make of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import junitparser
import pytest

from rolloutds.reports import FINDING_FORMATS
from rolloutds.reports.schemas import FINDING, SCHEMAS

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "golden" / "validate"

# A bad line, a wrong key, text that would act on logs, and enough of one kind to be cut.
LINES = [
    '{"prompt": "a", "label": "1"}',
    '{"prompt": "a" "label": "1"}',
    '{"text": "::error::forged%0A", "label": "1"}',
    '{"prompt": [{"role": "::error\\n\\u001b[31m", "content": "<b>"}], "label": null}',
    *('{"prompt": "a", "label": ""}' for _ in range(12)),
]


@pytest.fixture
def prompts(own_folder):
    path = own_folder / "prompts.jsonl"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def checked(run, *args: str):
    keys = ("--input-key", "prompt", "--label-key", "label")
    return run("validate", "prompts.jsonl", *keys, *args)


@pytest.mark.parametrize("name", FINDING_FORMATS)
def test_golden(run, prompts, name):
    outcome = checked(run, "--format", name)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(outcome.out, "utf-8")
    assert outcome.out == path.read_text("utf-8")
    assert outcome.code == 1
    assert "\x1b" not in outcome.out


def test_json_holds_to_its_schema(run, prompts):
    report = json.loads(checked(run, "--format", "json", "--statistics").out)
    jsonschema.validate(report, SCHEMAS["validate"])
    for line in checked(run, "--format", "jsonl").out.splitlines():
        jsonschema.validate(json.loads(line), FINDING)


def test_sarif_holds_to_the_published_schema(run, prompts):
    report = json.loads(checked(run, "--format", "sarif").out)
    schema = json.loads((ROOT / "schemas" / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(report)] == []
    assert len(report["runs"][0]["results"]) == report_size(run)


def report_size(run) -> int:
    return len(checked(run, "--format", "jsonl").out.splitlines())


def test_junit_parses_and_counts(run, prompts):
    text = checked(run, "--format", "junit").out
    suites = junitparser.JUnitXml.fromstring(text.encode())
    assert (suites.failures, suites.errors) == (2, 0)
    assert suites.tests == sum(len(list(suite)) for suite in suites)
    strict = checked(run, "--format", "junit", "--fail-on", "note").out
    assert junitparser.JUnitXml.fromstring(strict.encode()).failures == report_size(run)


def test_gitlab_has_unique_fingerprints(run, prompts):
    issues = json.loads(checked(run, "--format", "gitlab").out)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == report_size(run)
    assert all(issue["location"]["lines"]["begin"] >= 1 for issue in issues)


def test_github_stays_under_its_ceiling_and_loses_nothing(run, prompts, monkeypatch, tmp_path):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = checked(run, "--format", "github").out.splitlines()
    for kind in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{kind} ") for line in lines) <= 10
    records = [json.loads(line) for line in checked(run, "--format", "jsonl").out.splitlines()]
    for record in records:
        place = f"prompts.jsonl:{record['line']}"
        is_shown = any(
            record["code"] in line and (f"line={record['line']}" in line or place in line)
            for line in lines
        )
        assert is_shown, record
    assert summary.read_text("utf-8").count("| prompts.jsonl:") == len(records)
    commands = [line for line in lines if "::" in line]
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in commands)


def test_output_file_is_written_whole(run, prompts, own_folder):
    outcome = checked(run, "--format", "sarif", "--output", "out.sarif")
    assert (outcome.out, outcome.code) == ("", 1)
    assert json.loads((own_folder / "out.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert sorted(path.name for path in own_folder.iterdir()) == ["out.sarif", "prompts.jsonl"]


def test_colour_is_for_a_terminal_only(run_process, run_on_terminal, prompts):
    args = ("validate", "prompts.jsonl", "--input-key", "prompt", "--label-key", "label")
    piped = run_process(*args, FORCE_COLOR="1", CLICOLOR_FORCE="1", TTY_COMPATIBLE="1")
    assert piped.out == (GOLDEN / "text.txt").read_text("utf-8")
    assert "\x1b[1;31mROW001" in run_on_terminal(*args, columns=80, NO_COLOR="").out
    assert "\x1b" not in run_on_terminal(*args, columns=80, NO_COLOR="1").out
    run_on_terminal(*args, "--output", "found.txt", columns=80, NO_COLOR="")
    assert Path("found.txt").read_text("utf-8") == piped.out


def test_prompts_and_media_are_told_apart_by_rule_not_by_wording(run, own_folder):
    rows = [
        {"prompt": ["has a column or a mark in it"], "images": []},
        {"prompt": "<image>", "images": []},
        {"prompt": 4, "images": "a.png"},
    ]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    keys = ("--input-key", "prompt", "--multimodal-keys", '{"image": "images"}')
    outcome = run(
        "validate", "rows.jsonl", *keys, "--select", "PROMPT001,MEDIA001", "--format=jsonl"
    )
    found = [(record["line"], record["code"]) for record in outcome.records]
    assert found == [(1, "PROMPT001"), (2, "MEDIA001"), (3, "MEDIA001"), (3, "PROMPT001")]


def test_names_and_texts_cannot_forge_commands(run, own_folder):
    name = "::error::forged##[error]x.jsonl"
    row = {"prompt": [{"role": "##[error]y", "content": "a"}]}
    (own_folder / name).write_text("".join(json.dumps(row) + "\n" for _ in range(15)), "utf-8")
    keys = ("--input-key", "prompt", "--format", "github")
    lines = run("validate", *keys, "--", name).out.splitlines()
    assert not any("##[" in line for line in lines)
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert all(line.startswith(("::warning ", "::notice ")) for line in commands)
    assert sum("PROMPT003" in line for line in lines) == 15
    assert sum(line.startswith(":\\:error") for line in lines) > 0
