"""`rolloutds schema`: every kind of JSON has a schema, and what commands print holds to it."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import jsonschema
import pytest

from rolloutds.reports.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ROOT / "tests" / "rollouts" / "files"
STATE = "run/rollout/global_dataset_state_dict_{}.pt"
ROWS = (
    '{"prompt": "a", "label": "1"}\n{"prompt": "b", "label": ""}\n{"prompt": "c", "label": null}\n'
)


MANIFEST = "rows.manifest.json"


@pytest.fixture
def sample_data(run, own_folder):
    shutil.copytree(ROOT / "sample_data", own_folder, dirs_exist_ok=True)
    (own_folder / "skip.jsonl").write_text(
        '\ufeff{"prompt": "a", "label": "1", "tools": []}\n\nx\n', "utf-8"
    )
    assert run(*COMMANDS["manifest-skipped"]).code == 0
    (own_folder / MANIFEST).rename("sample.manifest.json")
    (own_folder / "skip.jsonl").unlink()
    (own_folder / "skip.jsonl").write_text(
        '\ufeff{"prompt": "b", "label": "1", "tools": []}\n\nx\n', "utf-8"
    )
    (own_folder / "rows.jsonl").write_text(ROWS, "utf-8")
    (own_folder / "bad.jsonl").write_text('{"input": "a"}\n{"input": 1}\nx\n', "utf-8")
    return own_folder


COMMANDS = {
    "peek": ["peek", "--n", "3"],
    "peek-file-order": ["peek", "rows.jsonl", "--n", "4"],
    "peek-found": ["peek", "rows.jsonl", "--find", "b"],
    "peek-row": ["peek", "rows.jsonl", "--row-id", "1"],
    "peek-group": ["peek", "--group", "3"],
    "peek-full": ["peek", "--n", "1", "--full"],
    "peek-from-state": ["peek", "--from-ckpt", STATE.format(19), "--n", "8"],
    "plan": ["plan", "--rollout-batch-size", "4", "--num-rollout", "9"],
    "plan-open": ["plan", "rows.jsonl", "--rollout-batch-size", "2", "--no-rollout-shuffle"],
    "manifest": ["manifest", "build", "rows.jsonl", "--input-key", "prompt", "-o", MANIFEST],
    "manifest-skipped": ["manifest", "build", "skip.jsonl", "--bad-rows", "skip", "-o", MANIFEST],
    "manifest_check": ["manifest", "check", "sample.manifest.json", "--full"],
    "index": ["index", "rows.jsonl", "--input-key", "prompt"],
    "index-bad": ["index", "bad.jsonl", "--input-key", "input"],
    "config": ["config"],
    "env": ["env"],
    "cache": ["cache", "show"],
    "cache_clear": ["cache", "clear"],
    "explain": ["explain"],
    "explain-one": ["explain", "ROW001"],
    "validate": ["validate", "bad.jsonl", "buffer.jsonl", "run", "--statistics"],
    "validate-clean": ["validate", "rows.jsonl"],
    "ckpt_show": ["ckpt", "show", "run", "--next", "5", "--raw"],
    "ckpt_show-alone": ["ckpt", "show", STATE.format(3)],
    "ckpt_show-of-no-dialect": ["ckpt", "show", "unknown.pt", "--raw"],
    "ckpt_list": ["ckpt", "list", "run"],
    "ckpt_diff": ["ckpt", "diff", STATE.format(3), STATE.format(7)],
    "ckpt_diff-no-data": ["ckpt", "diff", STATE.format(7), STATE.format(7)],
    "ckpt_verify": ["ckpt", "verify", "run"],
    "ckpt_verify-other": ["ckpt", "verify", "run", "--prompt-data", "rows.jsonl"],
    "ckpt_audit": ["ckpt", "audit", "run", "--dumps", str(FILES / "slime" / "12.pt")],
    "ckpt_move": [
        "ckpt",
        "move",
        STATE.format(3),
        "--epoch",
        "0",
        "--offset",
        "1",
        "-o",
        "n.pt",
        "--drop-buffer",
        "--drop-in-flight",
    ],
    "buffer_show": ["buffer", "show", "buffer.jsonl"],
    "buffer_show-verl": ["buffer", "show", str(FILES / "verl" / "40.jsonl")],
    "buffer_group": ["buffer", "show", "buffer.jsonl", "--group", "6"],
    "buffer_stats": ["buffer", "stats", "buffer.jsonl"],
    "buffer_stats-by": ["buffer", "stats", "buffer.jsonl", "--by", "metadata.source"],
    "buffer_replay": ["buffer", "replay", "buffer.jsonl", "--filter", "filters_bad.py:best_first"],
    "buffer_replay-two": [
        *("buffer", "replay", "buffer.jsonl", "--filter", "filters_good.py:mixed_first"),
        *("--filter", "rolloutds.filters.pop_first"),
    ],
    "buffer_convert": ["buffer", "convert", "buffer.jsonl", "new.jsonl"],
    "buffer_filters": ["buffer", "filters"],
}


def unknown_keys(value, schema, path="$"):
    """Keys of a document that its schema says nothing of, wherever it lists some."""
    for part in schema.get("anyOf", ()):
        if "type" in part or "properties" in part:
            kind = {"dict": "object", "list": "array"}.get(type(value).__name__)
            if part.get("type") == kind:
                yield from unknown_keys(value, part, path)
    if isinstance(value, dict):
        known = schema.get("properties")
        for key, item in value.items():
            below = (known or {}).get(key, schema.get("additionalProperties", {}))
            if known is not None and key not in known:
                yield f"{path}.{key}"
            yield from unknown_keys(item, below, f"{path}.{key}")
    if isinstance(value, list):
        for item in value:
            yield from unknown_keys(item, schema.get("items", {}), f"{path}[]")


def write_unknown_state(path):
    """An archive as torch.save writes it, made without torch, of no dialect."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("unknown/data.pkl", pickle.dumps({"weights": [1, 2]}, protocol=2))
        archive.writestr("unknown/byteorder", "little")
        archive.writestr("unknown/version", "3\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_holds_to_its_schema(run, sample_data, name):
    if name.startswith("ckpt_move"):
        pytest.importorskip("torch", reason="needs the torch extra")
    write_unknown_state(sample_data / "unknown.pt")
    outcome = run(*COMMANDS[name], "--format", "json")
    assert outcome.code in (0, 1), outcome.err
    printed = json.loads(outcome.out)
    assert printed["kind"] == name.partition("-")[0]
    schema = SCHEMAS[printed["kind"]]
    jsonschema.validate(printed, schema, cls=jsonschema.Draft202012Validator)
    assert sorted(set(unknown_keys(printed, schema))) == []


def test_every_kind_of_report_has_a_schema_and_a_command_above():
    kinds = set()
    for folder in ("reports", "cli"):
        for path in sorted((ROOT / "rolloutds" / folder).glob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            kinds |= {kind for call in ast.walk(tree) if (kind := report_kind(call, path))}
    assert kinds == set(SCHEMAS)
    # A shared source needs a cluster: test_ray_command holds what is printed to its schema.
    assert {name.partition("-")[0] for name in COMMANDS} | {"ray_status"} == kinds


def report_kind(call, path):
    """The kind that a call of `Report` names."""
    if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Report"):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "kind"]
    kind = (named or call.args)[0]
    assert isinstance(kind, ast.Constant), f"{path}:{call.lineno} has no kind that can be read"
    return kind.value


def test_schema_prints_what_it_holds(run, own_folder):
    assert run("schema").out.split() == list(SCHEMAS)
    for kind, schema in SCHEMAS.items():
        printed = json.loads(run("schema", kind).out)
        assert printed == json.loads(json.dumps(schema))
        jsonschema.Draft202012Validator.check_schema(printed)
    refused = run("schema", "valdate")
    assert refused.code == 2
    assert "did you mean validate?" in refused.err


def test_a_schema_refuses_what_a_command_does_not_print(run, sample_data):
    printed = json.loads(run("ckpt", "show", "run", "--format", "json").out)
    printed["epoch_id"] = "first"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, SCHEMAS["ckpt_show"])
