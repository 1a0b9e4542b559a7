from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

KEYS = ("--input-key=prompt", "--label-key=label")
PROMISED_KEYS = [
    "position",
    "epoch_id",
    "sample_offset",
    "row_id",
    "line",
    "file",
    "sample_group_index",
    "sample_index",
    "n_samples_per_prompt",
    "prompt",
    "prompt_tokens",
    "label",
    "metadata",
]


@pytest.fixture
def ten_rows(own_folder):
    path = own_folder / "ten.jsonl"
    path.write_text("".join(f'{{"input": "row {i}"}}\n' for i in range(10)))
    return path


@pytest.mark.parametrize("name", ["train.jsonl", "train.parquet"])
def test_the_order_that_slime_serves(run, shared_data, name):
    path = str(shared_data / "gsm8k" / name)
    order = ("--rollout-shuffle", "--rollout-seed", "42")
    outcome = run("peek", path, *KEYS, *order, "--n", "10", "--format", "jsonl")
    rows = [record["row_id"] for record in outcome.records]
    assert rows == [1458, 3620, 6312, 4833, 5032, 1914, 1258, 5173, 3457, 3341]


@pytest.mark.usefixtures("prompts")
def test_the_keys_of_a_record(run):
    outcome = run("peek", "prompts.jsonl", *KEYS, "--n=1", "--format=jsonl")
    assert [list(record) for record in outcome.records] == [PROMISED_KEYS]
    assert outcome.records[0]["metadata"] == {"source": "even sums", "difficulty": 0}


@pytest.mark.usefixtures("ten_rows")
class TestChoice:
    def rows(self, run, *args):
        outcome = run("peek", "ten.jsonl", *args, "--format=jsonl")
        assert outcome.code == 0, outcome.err
        return [record["row_id"] for record in outcome.records]

    def test_thirty_two_by_default_going_on_through_epochs(self, run):
        assert self.rows(run) == [i % 10 for i in range(32)]

    def test_none(self, run):
        assert self.rows(run, "--n=0") == []
        shown = json.loads(run("peek", "ten.jsonl", "--n=0", "--format=json").out)
        assert shown["groups"] == []

    def test_from_an_epoch_and_offset(self, run):
        outcome = run("peek", "ten.jsonl", "--epoch=2", "--offset=9", "--n=2", "--format=jsonl")
        places = [
            (r["epoch_id"], r["sample_offset"], r["sample_group_index"]) for r in outcome.records
        ]
        assert places == [(2, 9, 29), (3, 0, 30)]

    def test_an_offset_at_the_end_starts_with_the_next_epoch(self, run):
        assert self.rows(run, "--offset=10", "--n=1", "--epoch=0") == [0]
        assert "the next draw begins epoch 1" in run("peek", "ten.jsonl", "--offset=10").out

    def test_from_a_rollout(self, run):
        outcome = run(
            "peek",
            "ten.jsonl",
            "--rollout-id=2",
            "--rollout-batch-size=4",
            "--n=3",
            "--format=jsonl",
        )
        assert [r["sample_group_index"] for r in outcome.records] == [8, 9, 10]
        assert "exact only while" in outcome.err

    def test_over_sampling_is_warned_about(self, run):
        sizes = ("--rollout-batch-size=4", "--over-sampling-batch-size=6")
        assert (
            "warning: the run over-samples" in run("peek", "ten.jsonl", "--batches=1", *sizes).err
        )

    def test_whole_rollouts(self, run):
        assert len(self.rows(run, "--batches=3", "--rollout-batch-size=4")) == 12

    def test_one_row_with_its_rollout(self, run):
        args = ("--row-id=3", "--rollout-shuffle", "--rollout-batch-size=4", "--num-epoch=2")
        outcome = run("peek", "ten.jsonl", *args, "--format=jsonl")
        assert [(r["epoch_id"], r["row_id"]) for r in outcome.records] == [(0, 3), (1, 3)]
        assert [r["rollout_id"] for r in outcome.records] == [
            r["sample_group_index"] // 4 for r in outcome.records
        ]

    def test_text_is_found_up_to_n_rows(self, run):
        outcome = run("peek", "ten.jsonl", "--find=row", "--n=3", "--format=jsonl")
        assert [r["row_id"] for r in outcome.records] == [0, 1, 2]
        assert "stopped at 3 rows" in outcome.err

    def test_one_row_is_no_rows(self, run):
        assert "stopped at 1 row," in run("peek", "ten.jsonl", "--find=row", "--n=1").err

    def test_text_that_is_not_there(self, run):
        outcome = run("peek", "ten.jsonl", "--find=column")
        assert outcome.code == 0
        assert "no prompt holds 'column'" in outcome.err

    @pytest.mark.parametrize(
        "args",
        [
            ("--group=1", "--n=3"),
            ("--n=3", "--batches=1", "--rollout-batch-size=2"),
            ("--rollout-id=1", "--epoch=1", "--rollout-batch-size=2"),
            ("--row-id=1", "--find=a"),
            ("--find=a", "--offset=1"),
            ("--find=",),
            ("--rollout-id=1",),
            ("--batches=1",),
            ("--offset=11",),
            ("--n=-1",),
            ("--epoch=x",),
            ("--n=" + "9" * 5000,),
            ("--config=",),
            ("--prompt-data=ten.jsonl",),
        ],
    )
    def test_wrong_usage(self, run, args):
        outcome = run("peek", "ten.jsonl", *args)
        assert outcome.code == 2
        assert outcome.out == ""
        assert outcome.err.startswith("error: ")

    def test_a_missing_batch_size_is_named(self, run):
        assert "--rollout-batch-size" in run("peek", "ten.jsonl", "--batches=1").err


class TestGuess:
    @pytest.fixture(autouse=True)
    def rows(self, prompts):
        return prompts

    def test_it_is_said_with_the_command_that_does_not_guess(self, run):
        Path("prompts.jsonl").rename("my prompts.jsonl")
        args = ("--debug", "peek", "my prompts.jsonl", "--n", "2", "--format", "jsonl")
        outcome = run(*args)
        line = next(line for line in outcome.err.splitlines() if "without guessing" in line)
        again = shlex.split(line.partition("without guessing: ")[2])
        assert again[:2] == ["rolloutds", "--debug"]
        assert set(args) <= set(again)
        repeated = run(*again[1:])
        assert repeated.out == outcome.out
        assert "guess" not in repeated.err

    def test_a_set_key_is_never_guessed(self, run, monkeypatch):
        assert run("peek", "prompts.jsonl", "--input-key=input").code == 3
        monkeypatch.setenv("ROLLOUTDS_INPUT_KEY", "input")
        assert run("peek", "prompts.jsonl").code == 3
        monkeypatch.delenv("ROLLOUTDS_INPUT_KEY")
        Path("rolloutds.toml").write_text('input_key = "input"\n')
        assert run("peek", "prompts.jsonl").code == 3

    def test_a_label_that_only_some_rows_have_is_not_used(self, run):
        Path("some.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b"}\n')
        outcome = run("peek", "some.jsonl", "--n=2", "--format=jsonl")
        assert [record["label"] for record in outcome.records] == [None, None]
        assert "--input-key text" in outcome.err
        assert "--label-key" not in outcome.err


def test_without_data_the_sample_data_is_shown(run):
    outcome = run("peek", "--n", "32")
    assert outcome.code == 0
    assert "using the sample data" in outcome.err


def test_several_files_name_their_lines(run, own_folder):
    for name in ("a", "b"):
        (own_folder / f"{name}.jsonl").write_text('{"input": "x"}\n')
    outcome = run("peek", ".", "--n=2")
    assert "a.jsonl:1" in outcome.out
    assert "b.jsonl:1" in outcome.out
    assert "2 files" in outcome.out


def test_of_many_files_the_first_are_named(run, own_folder):
    for number in range(12):
        (own_folder / f"{number:02}.jsonl").write_text('{"input": "a"}\n')
    outcome = run("peek", ".", "--n", "1")
    assert "12 files" in outcome.out
    assert "./06.jsonl, ./07.jsonl and 4 more" in outcome.out
    assert "./08.jsonl" not in outcome.out
    printed = json.loads(run("peek", ".", "--n", "1", "--format", "json").out)
    assert len(printed["files"]) == 12


def test_credentials_in_a_url_are_not_shown(run, monkeypatch):
    pytest.importorskip("fsspec", reason="needs the remote extra")
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/d/a.jsonl", b'{"input": "a"}\n')
    monkeypatch.setattr(
        "rolloutds.storage.remote._system", lambda url: (memory, "/" + url.split("/", 3)[3])
    )
    url = "sftp://me:secret@host/d/a.jsonl"
    for form in ("text", "json", "jsonl"):
        outcome = run("peek", url, "--format", form)
        assert outcome.code == 0, outcome.err
        assert "secret" not in outcome.out + outcome.err
    refused = run("peek", f"{url}@[5:]")
    assert refused.code == 3
    assert "sftp://me:***@host/d/a.jsonl" in refused.err
    memory.pipe("/d/b.jsonl", b'{"prompt": "a"}\n')
    guessed = run("peek", url.replace("a.jsonl", "b.jsonl"))
    assert "guessed --input-key prompt" in guessed.err
    assert "secret" not in guessed.out + guessed.err
    assert "secret" not in run("config", url).out
    assert "secret" not in refused.out + refused.err


HOSTILE = "::error::x \x1b[31mred\x07\r\u202e\u2066 [bold]b[/bold] ##[error]\n::warning::y"


@pytest.mark.parametrize("format_name", ["text", "json", "jsonl", "markdown"])
@pytest.mark.parametrize("full", [False, True])
def test_text_from_data_cannot_act(run, own_folder, format_name, full):
    row = {"input": HOSTILE, "label": HOSTILE, "metadata": {"source": HOSTILE, HOSTILE: 1}}
    (own_folder / "hostile.jsonl").write_text(json.dumps(row) + "\n")
    args = ["--label-key=label", "--n=1", f"--format={format_name}", *(["--full"] if full else [])]
    outcome = run("peek", "hostile.jsonl", *args)
    assert outcome.code == 0
    assert not set("\x1b\x07\r\u202e\u2066") & set(outcome.out)
    lines = [line.lstrip() for line in outcome.out.split("\n")]
    assert not [line for line in lines if line.startswith("::")]
    if format_name == "jsonl":
        assert outcome.records[0]["prompt"] == HOSTILE
        assert outcome.records[0]["metadata"] == row["metadata"]


def test_errors_that_quote_data_cannot_act(run, own_folder):
    (own_folder / "bad.jsonl").write_text(json.dumps({HOSTILE: 1}) + "\n")
    outcome = run("peek", "bad.jsonl", "--input-key=x")
    assert outcome.code == 3
    assert not set("\x1b\x07\r\u202e") & set(outcome.err)
    assert not [line for line in outcome.err.split("\n") if line.lstrip().startswith("::")]


def test_numbers_and_text_that_json_has_no_form_for(run, own_folder):
    (own_folder / "odd.jsonl").write_text(
        '{"input": "\\ud800", "label": NaN, "metadata": {"a": 1e999}}\n'
    )
    out = run("peek", "odd.jsonl", "--label-key=label", "--n=1", "--format=jsonl").out
    out.encode("utf-8")

    def refuse(constant):
        raise AssertionError(constant)

    record = json.loads(out, parse_constant=refuse)
    assert record["prompt"] == "\ud800"
    assert record["label"] == {"__rolloutds__": "float", "value": "nan"}
    assert record["metadata"] == {"a": {"__rolloutds__": "float", "value": "inf"}}


def test_an_error_of_ours_and_a_bug(run, monkeypatch, ten_rows):
    from rolloutds import peek

    def broken(*_args, **_kwargs):
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr(peek, "summarize", broken)
    monkeypatch.setattr("rolloutds.reports.peek_report.summarize", broken)
    outcome = run("peek", "ten.jsonl", "--n", "3")
    assert outcome.code == 70
    assert "rolloutds --debug peek ten.jsonl --n 3" in outcome.err
    assert "Traceback" not in outcome.err
    assert "\x1b" not in outcome.err
    for args in (("--debug", "peek", "ten.jsonl"), ("peek", "ten.jsonl", "--debug")):
        debugged = run(*args)
        assert debugged.code == 70
        assert "Traceback (most recent call last)" in debugged.err


def test_debug_shows_the_traceback_of_an_error_of_ours(run):
    outcome = run("peek", "missing.jsonl", "--debug")
    assert outcome.code == 3
    assert "Traceback" in outcome.err
    assert "error: missing.jsonl: " in outcome.err


def test_long_arguments_are_not_repeated_whole(run):
    assert len(run("peek", "--n=" + "9" * 5000).err) < 300


def test_parts_without_a_message_are_shown(run, own_folder):
    rows = '{"input": [{"type": "text", "text": "the words"}, {"type": "image"}]}\n'
    (own_folder / "a.jsonl").write_text(rows)
    assert "the words" in run("peek", "a.jsonl", "--n=1").out


def test_a_prompt_that_cannot_be_counted_is_named(run, own_folder):
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("transformers", reason="needs the tokenizers extra")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    tokenizers.Tokenizer(model).save(str(own_folder / "tokenizer.json"))
    (own_folder / "a.jsonl").write_text('{"input": "a"}\n\n{"input": "b\\ud800"}\n')
    outcome = run("peek", "a.jsonl", "--hf-checkpoint", str(own_folder), "--n=2")
    assert outcome.code == 3
    assert "error: a.jsonl:3: character 1 is U+D800" in outcome.err
