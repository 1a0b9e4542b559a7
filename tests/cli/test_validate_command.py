"""``rolloutds validate`` as a user calls it: cases, exit codes, options, streams."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rolloutds.checks.registry import CHECKS
from rolloutds.reports import FINDING_FORMATS

PROMPT = ("--input-key", "prompt")
LABEL = (*PROMPT, "--label-key", "label")


def write(path: Path, *rows, end: str = "\n") -> str:
    """A JSON Lines file; text is a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + end for line in lines), "utf-8")
    return path.name


@pytest.fixture
def found(run, own_folder):
    """Codes and lines of the findings of a call."""

    def call(*args: str) -> list[tuple[str, int | None]]:
        outcome = run("validate", *args, "--format", "jsonl")
        return [(record["code"], record["line"]) for record in outcome.records]

    return call


# --- cases --------------------------------------------------------------------------------


def test_r1_bom_and_a_bad_line(found, own_folder):
    lines = b'\xef\xbb\xbf{"text":"a"}\n{"text": "b"\n{"text":"c"}\n'
    (own_folder / "r1.jsonl").write_bytes(lines)
    codes = found("r1.jsonl", "--input-key", "text", "--select", "ROW,PORT")
    assert codes == [("PORT003", 1), ("ROW001", 2)]


def test_r2_blank_lines_are_no_findings(run, own_folder):
    write(own_folder / "r2.jsonl", {"text": "a"}, "", {"text": "b"})
    outcome = run("validate", "r2.jsonl", "--input-key", "text")
    assert outcome.code == 0
    assert "2 rows" in outcome.out


def test_r3_wrong_encoding_names_the_byte(run, own_folder):
    (own_folder / "r3.jsonl").write_bytes('{"text":"你好"}\n'.encode("gbk"))
    outcome = run("validate", "r3.jsonl", "--input-key", "text", "--format", "jsonl")
    assert outcome.records[0]["code"] == "ROW002"
    assert "byte 10" in outcome.records[0]["message"]
    assert "UTF-8" in outcome.records[0]["message"]


@pytest.mark.parametrize("name", ["r4.jsonl", "r4.json"])
@pytest.mark.parametrize(
    "text", ['[{"text":"a"},{"text":"b"}]', '[\n{"text":"a"},\n{"text":"b"}\n]\n']
)
def test_r4_json_arrays(run, own_folder, name, text):
    (own_folder / name).write_text(text, "utf-8")
    outcome = run("validate", name, "--input-key", "text", "--format", "jsonl")
    assert [record["code"] for record in outcome.records] == ["ROW012"]
    assert "jq -c" in outcome.records[0]["message"]
    assert outcome.code == 1


def test_r7_labels_absent_null_and_empty_apart(found, own_folder):
    rows = [{"prompt": "a"}, {"prompt": "b", "label": None}, {"prompt": "c", "label": ""}]
    write(own_folder / "r7.jsonl", *rows)
    codes = found("r7.jsonl", *LABEL)
    assert codes == [("KEY004", 1), ("KEY005", 2), ("KEY006", 3)]


def test_r8_types_of_labels(run, own_folder):
    labels = ["42", 42, 42.0, 123456789012345678901234567890]
    write(
        own_folder / "r8.jsonl",
        *({"prompt": p, "label": v} for p, v in zip("abcd", labels, strict=True)),
    )
    (record,) = run("validate", "r8.jsonl", *LABEL, "--format", "jsonl").records
    assert record["code"] == "KEY007"
    assert "text in 1 row" in record["message"]
    assert "a whole number in 2 rows" in record["message"]


def test_r9_metadata(found, own_folder):
    values = ['{"d":1}', "{bad", [1], "", [], 0]
    write(
        own_folder / "r9.jsonl", *({"prompt": f"p{i}", "metadata": v} for i, v in enumerate(values))
    )
    codes = found("r9.jsonl", *PROMPT, "--select", "KEY013,PORT")
    assert codes == [("PORT002", 1), ("KEY013", 2), ("KEY013", 3)]


def test_r10_tools(found, own_folder):
    tool = {"type": "function", "function": {"name": "f"}}
    rows: list = [
        {"tools": json.dumps([tool])},
        {"tools": [tool]},
        {"tools": None},
        {"tools": ""},
        {},
    ]
    rows.append({"tools": {"a": 1}})
    write(own_folder / "r10.jsonl", *({"prompt": f"p{i}", **row} for i, row in enumerate(rows)))
    codes = found("r10.jsonl", *PROMPT, "--select", "TOOL,PORT")
    assert codes == [("PORT001", 3), ("PORT001", 4), ("TOOL002", 6)]


def test_r11_slices(found, run, own_folder):
    rows: list = [{"prompt": f"p{i}"} for i in range(10)]
    rows[1], rows[8] = {"prompt": None}, {"prompt": None}
    write(own_folder / "r11.jsonl", *rows)
    assert found("r11.jsonl@[2:5]", *PROMPT) == []
    assert found("r11.jsonl@[0:5]", *PROMPT) == [("KEY002", 2)]
    assert ("KEY002", 9) in found("r11.jsonl@[-3:]", *PROMPT)
    for bad in ("@[5:2]", "@[0:10:2]", "@[99:]"):
        assert run("validate", f"r11.jsonl{bad}", *PROMPT).code == 3
    write(own_folder / "real.jsonl@[1]", {"prompt": None})
    assert found("real.jsonl@[1]", *PROMPT) == [("KEY002", 1)]


def test_a_slice_still_sees_bad_lines_before_it(found, own_folder):
    write(own_folder / "s.jsonl", {"prompt": "a"}, "{", {"prompt": "b"}, {"prompt": "c"}, "{")
    assert found("s.jsonl@[1:3]", *PROMPT, "--select", "ROW") == [("ROW001", 2)]


def test_r14_a_file_cut_short(run, own_folder):
    (own_folder / "r14.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b', "utf-8")
    (record,) = run("validate", "r14.jsonl", *PROMPT, "--format", "jsonl").records
    assert (record["line"], record["code"]) == (2, "ROW001")
    assert "may be cut short" in record["message"]


def test_r16_long_integers(found, own_folder):
    lines = [f'{{"prompt": "p{n}", "n": {"1" * n}}}' for n in (4000, 5000)]
    write(own_folder / "r16.jsonl", *lines)
    assert found("r16.jsonl", *PROMPT) == [("ROW004", 2)]


def test_r17_line_ends(found, own_folder):
    data = '{"prompt": "a\u2028b"}\r\n{"prompt": "c"}\r{"prompt": null}\r\n\u3000\n'
    (own_folder / "r17.jsonl").write_bytes(data.encode())
    assert found("r17.jsonl", *PROMPT) == [("KEY002", 3)]


def test_b5_group_sizes(run, own_folder):
    def group(index, size, first):
        samples = [
            {
                "index": first + i,
                "group_index": index,
                "prompt": "a",
                "reward": 1,
                "status": "completed",
                "response": "x",
            }
            for i in range(size)
        ]
        return {"group_index": index, "samples": samples}

    write(own_folder / "b5.jsonl", group(0, 4, 0), group(1, 3, 4), group(2, 4, 7))
    args = ("--n-samples-per-prompt", "4", "--select", "GROUP002", "--format", "jsonl")
    outcome = run("validate", "b5.jsonl", *args)
    (record,) = outcome.records
    assert record["message"] == "group 1 has 3 rollouts, expected 4 (3 completed)"
    assert outcome.code == 1
    write(own_folder / "fits.jsonl", group(0, 5, 0), group(1, 3, 5))
    messages = [record["message"] for record in run("validate", "fits.jsonl", *args).records]
    assert len(messages) == 2
    assert all("fits all the same" in message for message in messages)


def test_b7_two_dumps_that_share_numbers(run, own_folder):
    def dump(prompt):
        sample = {"index": 0, "group_index": 0, "prompt": prompt, "reward": 1, "response": "x"}
        return {"group_index": 0, "samples": [sample]}

    folder = own_folder / "dumps"
    folder.mkdir()
    write(folder / "0.jsonl", dump("a"))
    write(folder / "1.jsonl", dump("b"))
    outcome = run(
        "validate", "dumps", "--kind", "groups", "--select", "GROUP005", "--format", "jsonl"
    )
    (record,) = outcome.records
    assert record["file"].endswith("1.jsonl")
    assert outcome.code == 1
    for names in (("0.jsonl", "1.jsonl"), ("0.jsonl", "1.jsonl", "0.jsonl", "./1.jsonl")):
        paths = [str(folder / name) for name in names]
        outcome = run("validate", *paths, "--select", "GROUP005", "--format", "jsonl")
        (found,) = outcome.records
        assert (found["file"], found["fingerprint"]) == (paths[1], record["fingerprint"])
        assert outcome.code == 1
    paths = [str(folder / "0.jsonl")] * 2
    assert run("validate", *paths, "--select", "GROUP005").code == 0


def test_b8_a_finding_names_group_sample_and_numbers(run, own_folder):
    samples = [
        {"index": i, "group_index": 7, "prompt": "a", "reward": 1, "response": "x"}
        | {"status": "completed", "response_length": 1, "tokens": [1, 2]}
        for i in range(4)
    ]
    samples[1]["loss_mask"] = []
    samples[2]["reward"] = None
    samples[3]["prompt"] = "b"
    write(own_folder / "b.jsonl", {"group_index": 7, "samples": samples})
    for name in ("text", "github", "gitlab", "junit", "sarif", "markdown"):
        out = run("validate", "b.jsonl", "--format", name).out.replace("\\_", "_")
        assert "group 7, sample 1: loss_mask has 0 items, expected 1" in out
        assert "group 7, sample 2: no reward" in out
        assert "group 7, sample 3: the prompt of sample 3 differs" in out


def test_findings_of_groups_come_in_the_order_of_the_inputs(run, own_folder):
    sample = {"index": 0, "group_index": 0, "prompt": "a", "reward": None, "status": "completed"}
    write(own_folder / "b.jsonl", {"group_index": 0, "samples": [sample]})
    write(own_folder / "a.jsonl", {"group_index": 0, "samples": [sample | {"prompt": "b"}]})
    outcome = run("validate", "b.jsonl", "a.jsonl", "--fail-on=error", "--format=jsonl")
    files = [record["file"] for record in outcome.records if record["severity"] == "error"]
    assert files == sorted(files, reverse=True)
    assert set(files) == {"a.jsonl", "b.jsonl"}


def test_real_data_has_nothing_wrong(run, shared_data):
    data = str(shared_data / "gsm8k" / "train.jsonl")
    outcome = run("validate", data, *LABEL)
    assert outcome.code == 0
    assert "nothing wrong in 7,473 rows" in outcome.out
    dumps = run("validate", str(shared_data / "rollouts"), "--n-samples-per-prompt", "4")
    assert dumps.code == 0
    assert "128 groups" in dumps.out


# --- exit codes and options ---------------------------------------------------------------


def test_every_bad_line_is_reported(found, own_folder):
    write(own_folder / "many.jsonl", *(["{"] * 700))
    assert found("many.jsonl", *PROMPT) == [("ROW001", line) for line in range(1, 701)]


def test_exit_codes(run, own_folder):
    write(own_folder / "bad.jsonl", {"prompt": None})
    write(own_folder / "meh.jsonl", {"prompt": ""})
    write(own_folder / "good.jsonl", {"prompt": "a"})
    codes = {
        0: [("good.jsonl",), ("meh.jsonl",), ("bad.jsonl", "--exit-zero")],
        1: [("bad.jsonl",), ("good.jsonl", "bad.jsonl"), ("meh.jsonl", "--fail-on", "warning")],
        2: [
            ("good.jsonl", "--select", "NOPE"),
            ("good.jsonl", "--format", "xml"),
            ("--jobs", "-1"),
        ],
        3: [("absent.jsonl",), ("good.jsonl", "--against", "absent.jsonl")],
        4: [("good.jsonl", "--select", "LEN"), ("good.jsonl", "--select", "CKPT")],
    }
    for code, calls in codes.items():
        for args in calls:
            assert run("validate", *args, *PROMPT).code == code, args


def test_an_unknown_code_names_the_nearest(run, own_folder):
    write(own_folder / "good.jsonl", {"prompt": "a"})
    outcome = run("validate", "good.jsonl", "--select", "DUPP")
    assert "such as DUP" in outcome.err


def test_select_and_ignore_by_prefix(found, own_folder):
    write(own_folder / "d.jsonl", {"prompt": "a", "label": 1}, {"prompt": "a", "label": 2})
    assert [c for c, _ in found("d.jsonl", *LABEL)] == ["DUP001", "DUP003"]
    assert [c for c, _ in found("d.jsonl", *LABEL, "--ignore", "dup")] == []
    both = ("--ignore", "DUP", "--select", "DUP003,ROW")
    assert [c for c, _ in found("d.jsonl", *LABEL, *both)] == ["DUP003"]


def test_the_config_table(run, own_folder):
    write(own_folder / "d.jsonl", {"prompt": "a"}, {"prompt": "a"}, {"prompt": ""})
    (own_folder / "rolloutds.toml").write_text(
        'prompt_data = "d.jsonl"\ninput_key = "prompt"\n'
        '[validate]\nignore = ["KEY003"]\nseverity = { DUP = "error" }\n',
        "utf-8",
    )
    outcome = run("validate", "--format", "jsonl")
    assert [(r["code"], r["severity"]) for r in outcome.records] == [("DUP001", "error")]
    assert outcome.code == 1
    (own_folder / "rolloutds.toml").write_text("[validate]\nignroe = []\n", "utf-8")
    refused = run("validate", "d.jsonl")
    assert refused.code == 2
    assert "validate.ignroe" in refused.err


def test_without_paths_all_that_the_config_names_is_taken(run, repository, own_folder):
    shutil.copytree(repository / "sample_data" / "run", own_folder / "run")
    for name in ("prompts.jsonl", "buffer.jsonl"):
        shutil.copy(repository / "sample_data" / name, own_folder / name)
    settings = (repository / "sample_data" / "rolloutds.toml").read_text("utf-8")
    config = own_folder / "rolloutds.toml"
    config.write_text(settings + '\n[validate]\nbuffer = "buffer.jsonl"\n', "utf-8")
    report = json.loads(run("validate", "--format=json").out)
    assert [checked["kind"] for checked in report["checked"]] == ["dataset", "groups", "checkpoint"]
    config.write_text(settings + '\n[validate]\nbuffer = ["buffer.jsonl"]\n', "utf-8")
    assert json.loads(run("validate", "--format=json").out) == report
    config.write_text(settings + "\n[validate]\nbuffer = [1]\n", "utf-8")
    refused = run("validate")
    assert (refused.code, "a list of paths" in refused.err) == (2, True)


def test_baseline_survives_moved_lines(run, own_folder):
    write(own_folder / "b.jsonl", {"prompt": None, "id": 1}, {"prompt": "x"})
    args = ("validate", "b.jsonl", *PROMPT, "--baseline", "known.json")
    assert run(*args).code == 2  # there is none yet
    assert run(*args, "--write-baseline").code == 0
    write(own_folder / "b.jsonl", {"prompt": "y"}, {"prompt": None, "id": 1}, {"prompt": "x"})
    moved = run(*args)
    assert moved.code == 0
    assert "1 known finding (baseline) is not shown" in moved.out
    write(own_folder / "b.jsonl", {"prompt": None, "id": 1}, {"prompt": None, "id": 2})
    new = run(*args, "--format", "jsonl")
    assert [record["line"] for record in new.records] == [2]
    assert new.code == 1


def test_the_same_bad_row_again_is_new(run, own_folder):
    write(own_folder / "b.jsonl", {"prompt": None})
    args = ("validate", "b.jsonl", *PROMPT, "--baseline", "known.json")
    run(*args, "--write-baseline")
    write(own_folder / "b.jsonl", {"prompt": None}, {"prompt": None})
    assert run(*args).code == 1


def test_max_findings_counts_the_rest(run, own_folder):
    write(own_folder / "m.jsonl", *({"prompt": ""} for _ in range(30)), "{")
    outcome = run("validate", "m.jsonl", *PROMPT, "--max-findings", "3")
    assert "m.jsonl:31:2: ROW001" in outcome.out
    assert "28 further findings are counted" in outcome.out
    assert "30  KEY003" in outcome.out
    assert outcome.code == 1


@pytest.mark.parametrize("name", FINDING_FORMATS)
def test_what_is_not_listed_is_said_in_every_format(run, own_folder, name):
    write(own_folder / "b.jsonl", *("x" for _ in range(1_234)))
    outcome = run("validate", "b.jsonl", *PROMPT, "--max-findings", "3", "--format", name)
    said = outcome.out + outcome.err
    assert "1,231" in said or '"num_not_listed": 1231' in said


def test_split_bad_keeps_every_byte(run, own_folder):
    data = b'\xef\xbb\xbf{"prompt": "a"}\r\n\n{"prompt": \n{"prompt": null}\r{"prompt": "\xff"}\n {"prompt":"b"}'
    (own_folder / "s.jsonl").write_bytes(data)
    run("validate", "s.jsonl", *PROMPT, "--split-bad", "out")
    good, bad = ((own_folder / "out" / side / "s.jsonl").read_bytes() for side in ("good", "bad"))
    assert good == b'\xef\xbb\xbf{"prompt": "a"}\r\n\n {"prompt":"b"}'
    assert bad == b'{"prompt": \n{"prompt": null}\r{"prompt": "\xff"}\n'
    assert run("validate", "out/good/s.jsonl", *PROMPT, "--ignore", "PORT").code == 0


def test_standard_input(run_process, own_folder):
    done = subprocess.run(
        [sys.executable, "-m", "rolloutds", "validate", "-", *PROMPT, "--format", "jsonl"],
        input=b'{"prompt": null}\n',
        capture_output=True,
        check=False,
    )
    record = json.loads(done.stdout)
    assert (record["file"], record["line"], done.returncode) == ("<stdin>", 1, 1)


def test_parquet_on_standard_input(own_folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"prompt": prompt} for prompt in ("a", None, "a")]
    parquet.write_table(pyarrow.Table.from_pylist(rows), "rows.parquet")
    command = [sys.executable, "-m", "rolloutds", "validate", "-", "--format=jsonl"]
    with Path("rows.parquet").open("rb") as file:
        done = subprocess.run(
            [*command, "--input-key=prompt"], stdin=file, capture_output=True, check=False
        )
    records = list(map(json.loads, done.stdout.splitlines()))
    found = [(record["code"], record["row_id"], record["line"]) for record in records]
    assert found == [("KEY002", 1, None), ("DUP001", 2, None)]
    assert records[1]["message"] == "the same prompt as <stdin> row 0"
    assert done.returncode == 1


def test_parquet_numbers_inside_and_repeated_columns(run, own_folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    nested = pyarrow.table({"prompt": ["a"], "metadata": [{"a": [{"b": float("nan")}]}]})
    parquet.write_table(nested, "nested.parquet")
    (record,) = run("validate", "nested.parquet", *PROMPT, "--format=jsonl").records
    assert record["code"] == "ROW005"
    assert record["message"] == "a number in 'metadata' is nan, not a finite number"
    columns = [pyarrow.array(["a"]), pyarrow.array(["b"])]
    twice = pyarrow.Table.from_arrays(columns, names=["prompt", "prompt"])
    parquet.write_table(twice, "twice.parquet")
    outcome = run("validate", "twice.parquet", *PROMPT, "--select=ROW013", "--format=jsonl")
    assert "2 columns are named 'prompt'" in outcome.records[0]["message"]
    assert outcome.code == 1


def test_a_pipe_by_name_is_refused_at_once(run_process, own_folder):
    os.mkfifo("pipe.jsonl")
    for args in ([], ["--kind", "dataset"], ["--input-key", "a", "--against", "pipe.jsonl"]):
        outcome = run_process("validate", "pipe.jsonl", *args)
        assert outcome.code == 3
        assert "not a regular file" in outcome.err


def test_processes_change_nothing(run_process, own_folder, monkeypatch):
    rng = random.Random(7)
    lines = [
        rng.choice([f'{{"prompt": "a{rng.randrange(99)}"}}', '{"prompt": null}', "{", "[1]", ""])
        for _ in range(3000)
    ]
    for number in range(3):
        write(own_folder / f"{number}.jsonl", *lines[number * 1000 : (number + 1) * 1000])
    args = ("validate", "*.jsonl", *PROMPT, "--format", "json")
    one, two = run_process(*args), run_process(*args, "--jobs", "2")
    assert one.out == two.out
    assert one.code == two.code == 1


def test_contamination(run, own_folder):
    question = "a train leaves the station at nine and travels for three hours at sixty miles"
    write(
        own_folder / "train.jsonl",
        {"prompt": question.upper()},
        {"prompt": question + " so"},
        {"prompt": "b"},
    )
    write(own_folder / "eval.jsonl", {"text": "something else"}, {"text": question})
    outcome = run("validate", "train.jsonl", "--against", "eval.jsonl", "--format", "jsonl")
    assert [(r["code"], r["line"]) for r in outcome.records] == [("EVAL001", 1), ("EVAL002", 2)]
    assert all("eval.jsonl:2" in record["message"] for record in outcome.records)
    assert outcome.code == 1


def test_states_are_held_against_the_data_beside_them(run, repository, own_folder, monkeypatch):
    monkeypatch.chdir(repository / "sample_data")
    outcome = run("validate")
    assert outcome.code == 0
    assert "states" in outcome.out


def test_keys_are_guessed_and_said(run, own_folder):
    write(
        own_folder / "g.jsonl", {"question": "a", "answer": "1"}, {"question": "b", "answer": "2"}
    )
    outcome = run("validate", "g.jsonl")
    assert outcome.code == 0
    assert "--input-key question --label-key answer" in outcome.err


def test_explain_lists_and_refuses(run, own_folder):
    assert all(code in run("explain").out for code in CHECKS)
    assert "duplicate-prompt" in run("explain", "dup001").out
    refused = run("explain", "DUP01")
    assert (refused.code, "DUP001" in refused.err) == (2, True)


# --- hostile input ------------------------------------------------------------------------

_PIECES = [
    b'{"prompt": "a"}', b'{"prompt": ', b"null", b"[", b"]", b"{", b"}", b'"', b":", b",", b"\n", b"\r",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"NaN", b"1e999", b"-", b"\\ud800", b'"prompt"', b'"tools"',
    b'"metadata"', b'[{"role": "user", "content": "x"}]', b'{"samples": []}', b'{"samples": [{}]}',
    b"PK\x03\x04", b"PAR1", b"9" * 4400, b"[" * 300, b'{"group_index": 1, "samples": [{"prompt": 1}]}',
    b'{"role": {}}', b'{"content": []}', b'"label"', b"\xe2\x80\xa8", b" ", b"true",
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".pt", ".json", ""])
def test_no_input_ends_in_a_traceback(run, own_folder, suffix):
    rng = random.Random(suffix)
    for number in range(40):
        data = b"".join(rng.choices(_PIECES, k=rng.randint(0, 12)))
        name = f"f{number}{suffix}"
        (own_folder / name).write_bytes(data)
        kind = rng.choice([(), ("--kind", "groups"), ("--kind", "dataset")])
        outcome = run("validate", name, *LABEL, "--format", "json", *kind)
        assert outcome.code in (0, 1, 3), (data, outcome.err)
        if outcome.code in (0, 1):
            report = json.loads(outcome.out)
            assert (outcome.code == 1) == (report["num_errors"] > 0)
        else:
            assert outcome.err.startswith(("error: ", "note: "))
