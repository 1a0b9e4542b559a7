"""A test for your own data: copy it, name your files and keys."""

from __future__ import annotations

from pathlib import Path

import rolloutds

PROMPTS = Path(__file__).parent.parent / "sample_data" / "prompts.jsonl"


def test_prompts_are_fit_to_train_on():
    """No finding is an error, and no prompt comes twice."""
    findings = rolloutds.check_dataset(
        PROMPTS, input_key="prompt", label_key="label", severities={"DUP": "error"}
    )
    errors = [f"{f.place}: {f.code} {f.message}" for f in findings if f.severity == "error"]
    assert errors == []
