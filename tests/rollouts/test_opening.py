from __future__ import annotations

import os

import pytest

from rolloutds.errors import ConfigError, DataError, DataNotFoundError, GroupError, TorchFileError
from rolloutds.rollouts import READERS, open_groups
from rolloutds.rollouts.opening import find_dumps


def line(index, prompt, group_index=0):
    return {"group_index": group_index, "samples": [{"index": index, "prompt": prompt}]}


def test_files_folders_and_globs(tmp_path):
    for name in ("2.pt", "10.pt", "1.pt", ".hidden.pt", "README.md"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "deeper").mkdir()
    expected = [str(tmp_path / name) for name in ("1.pt", "2.pt", "10.pt")]
    assert find_dumps([str(tmp_path)]) == expected
    assert find_dumps([str(tmp_path / "*.pt")]) == expected
    assert find_dumps([expected[2], expected[0], expected[2]]) == [expected[2], expected[0]]


def test_a_path_that_names_nothing(tmp_path):
    for name in ("missing.pt", "*.pt", ""):
        with pytest.raises(DataNotFoundError, match=r"no such file|no file"):
            open_groups(os.path.join(str(tmp_path), name))


def test_nothing_is_read_before_it_is_asked_for(write_lines):
    groups = open_groups(write_lines(line(0, "a"), line(1, "b", 1), {"samples": []}))
    iterator = iter(groups)
    assert next(iterator).group_index == 0
    assert next(iterator).group_index == 1
    assert groups.files[0].num_groups == 2
    with pytest.raises(GroupError):
        next(iterator)


def test_an_unknown_file_says_what_was_looked_for(write_lines, tmp_path, write_torch):
    path = write_lines({"question": "a", "answer": "b"})
    with pytest.raises(DataError) as caught:
        list(open_groups(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: has no format that is known")
    assert "'question', 'answer'" in message
    for name in ("rolloutds", "verl", "prime-rl", "skyrl"):
        assert f"{name}: {READERS[name].looks_for}" in message
    with pytest.raises(DataError, match="a list `samples`"):
        list(open_groups(write_torch({"weights": [1]})))
    with pytest.raises(DataError, match="cursor file without a buffer"):
        list(open_groups(write_torch({"sample_offset": 1, "epoch_id": 0})))


def test_an_unknown_parquet_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"question": ["a"]}), path)
    with pytest.raises(DataError, match="the columns 'question'"):
        list(open_groups(str(path)))


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b" \n\n", "is empty"),
        ("a.bin", b"\x00\x01\x02", "neither JSON Lines"),
        ("a.jsonl.gz", b"\x1f\x8b\x08", "unpack it first"),
        ("a.json", b'{\n "samples": []\n}', "goes over several lines"),
        ("a.jsonl", b"\xff\xfe", "not UTF-8"),
        ("a.parquet", b"PAR1", "not a Parquet file"),
        ("a.jsonl", b"7\n", "has no format that is known"),
        ("a.jsonl", b"[]\n", "an empty list"),
        ("a.jsonl", b'{"samples": 1' + b"1" * 5000 + b"}", "4300 digits"),
    ],
)
def test_files_that_are_no_dumps(tmp_path, name, data, found):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        list(open_groups(str(path)))
    assert found in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_torch_file_is_known_by_its_bytes(write_torch, tmp_path):
    sample = {"prompt": "a", "group_index": 0}
    path = write_torch({"samples": [sample]}, "dump.bin")
    assert len(list(open_groups(path))) == 1
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(TorchFileError, match="is a text file"):
        list(open_groups(str(tmp_path / "text.pt")))


def test_the_format_can_be_named(write_lines):
    # A file of one system's form with the keys of another's.
    path = write_lines(
        {"input": "a", "output": "b", "score": 1, "input_prompt": "c", "output_response": "d"}
    )
    (group,) = open_groups(path)
    assert group.samples[0].prompt == "a"
    (group,) = open_groups(path, format_name="skyrl")
    assert group.samples[0].prompt == "c"
    with pytest.raises(ConfigError, match="did you mean 'skyrl'"):
        open_groups(path, format_name="skyrll")
    with pytest.raises(ConfigError, match="is JSON Lines, expected slime"):
        list(open_groups(path, format_name="slime"))


# --- several files ------------------------------------------------------------------------


def test_files_that_share_an_index_with_different_prompts(write_lines):  # case B7
    first = write_lines(line(0, "a"), line(1, "b", 1), name="0.jsonl")
    other = write_lines(line(2, "c"), line(1, "z", 1), name="1.jsonl")
    with pytest.raises(GroupError) as caught:
        list(open_groups([first, other]))
    assert str(caught.value).startswith(f"{other}:2: its sample with index 1 has another prompt")
    assert first in str(caught.value)


def test_files_that_share_an_index_with_the_same_prompt(write_lines):
    messages = [{"role": "user", "content": "a"}]
    paths = [write_lines(line(0, messages), name=f"{i}.jsonl") for i in range(2)]
    assert len(list(open_groups(paths))) == 2


def test_evaluations_have_indices_of_their_own(write_torch):
    def dump(prompt):
        return {"samples": [{"index": 0, "group_index": 0, "prompt": prompt}]}

    paths = [write_torch(dump("a"), "1.pt"), write_torch(dump("b"), "eval_1.pt")]
    assert [group.is_eval for group in open_groups(paths)] == [False, True]


def test_formats_without_indices_may_say_anything(files):
    assert (
        len(list(open_groups([str(files / "verl"), str(files / "skyrl" / "*" / "*" / "*")]))) == 9
    )


def test_iterating_again_starts_anew(files):
    groups = open_groups(str(files / "rolloutds" / "buffer.jsonl"))
    assert len(list(groups)) == len(list(groups)) == 3
    assert groups.files[0].num_groups == 3
    assert groups.unknown_keys["foo"] == 1
