"""Every check has a page, a line in the docs, and examples that pass and fail; found by folder."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rolloutds.checks.base import SEVERITIES
from rolloutds.checks.registry import CHECKS
from rolloutds.cli.root import app

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "tests" / "examples"
CASES = sorted(path.parent for path in (EXAMPLES / "checks").glob("*/*/args"))
HAS_TOKENIZERS = importlib.util.find_spec("transformers") is not None


def validate(*args: str):
    return CliRunner().invoke(app, ["validate", *args], prog_name="rolloutds")


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_example_is_found_or_passes(case, tmp_path, monkeypatch):
    args = (case / "args").read_text("utf-8").splitlines()
    if "{tokenizer}" in args and not HAS_TOKENIZERS:
        pytest.skip("transformers is not installed")
    shutil.copytree(case, tmp_path / "case")
    monkeypatch.chdir(tmp_path / "case")
    args = [arg.replace("{tokenizer}", str(EXAMPLES / "tokenizer")) for arg in args]
    code = case.parent.name
    result = validate(*args, "--select", code, "--format", "json")
    report = json.loads(result.stdout)
    assert report["codes_run"] == [code], result.stderr
    found = {finding["code"] for finding in report["findings"]}
    assert found == ({code} if case.name == "fail" else set()), report["findings"]
    is_error = CHECKS[code].severity == "error"
    assert result.exit_code == (1 if case.name == "fail" and is_error else 0)


def test_every_code_has_examples_a_page_and_a_line_in_the_docs():
    table = (ROOT / "docs" / "checks.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w-]+) \| (.+) \|$", table, re.MULTILINE)
    assert [row[0] for row in rows] == list(CHECKS)
    for code, severity, name, what in rows:
        check = CHECKS[code]
        assert (severity, name) == (check.severity, check.name)
        assert what == check.explanation.what.partition(". ")[0].removesuffix(".").replace(
            "|", "\\|"
        )
    for code in CHECKS:
        sides = {path.name for path in (EXAMPLES / "checks" / code).iterdir()}
        assert sides == {"pass", "fail"}, code
        page = CliRunner().invoke(app, ["explain", code], prog_name="rolloutds").stdout
        assert all(title in page for title in ("What", "Why it hurts", "Example", "How to fix"))


def test_codes_and_names_are_unique_and_well_formed():
    names = [check.name for check in CHECKS.values()]
    assert len(set(names)) == len(names)
    for code, check in CHECKS.items():
        assert re.fullmatch(r"[A-Z]+\d{3}", code)
        assert re.fullmatch(r"[a-z0-9-]+", check.name)
        assert check.severity in SEVERITIES
        texts = check.explanation
        assert all((texts.what, texts.why, texts.example, texts.fix))


def test_no_folder_of_examples_is_left_over():
    assert {path.name for path in (EXAMPLES / "checks").iterdir()} == set(CHECKS)
