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


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("peek", ["peek", "--n", "2"]),
        ("plan", ["plan", "--rollout-batch-size", "4"]),
        ("config", ["config"]),
        ("env", ["env"]),
        ("cache", ["cache", "show"]),
        ("explain", ["explain", "ROW001"]),
        ("explain", ["explain"]),
    ],
)
def test_json_of_other_commands_holds_to_its_schema(run, own_folder, kind, args):
    outcome = run(*args, "--format", "json")
    jsonschema.validate(json.loads(outcome.out), SCHEMAS[kind])


def test_schema_prints_what_it_holds(run, own_folder):
    assert run("schema").out.split() == list(SCHEMAS)
    for kind, schema in SCHEMAS.items():
        printed = json.loads(run("schema", kind).out)
        assert printed == json.loads(json.dumps(schema))
        jsonschema.Draft202012Validator.check_schema(printed)
    refused = run("schema", "valdate")
    assert refused.code == 2
    assert "did you mean validate?" in refused.err
