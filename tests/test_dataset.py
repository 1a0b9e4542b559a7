"""The dataset: order, laziness, length filter, and what it says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds.cache import Cache
from rolloutds.dataset import Dataset
from rolloutds.errors import (
    BadRowsError,
    ConfigError,
    EmptyDatasetError,
    PromptError,
    TokenizerError,
)


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    return write_rows(
        tmp_path / "p.jsonl", [{"text": c, "label": i} for i, c in enumerate("abcdefg")]
    )


def open_dataset(path: Path, **settings: Any) -> Dataset:
    args = SimpleNamespace(prompt_data=str(path), **({"input_key": "text"} | settings))
    return Dataset(args, cache=Cache(None))


def test_rows_come_in_file_order_until_shuffled(letters: Path) -> None:
    dataset = open_dataset(letters, label_key="label")
    assert len(dataset) == 7
    assert [sample.prompt for sample in dataset] == list("abcdefg")
    assert [sample.label for sample in dataset.samples[2:4]] == [2, 3]
    assert dataset[-1].prompt == "g"
    assert dataset.order is None
    assert dataset.place(2).line == 3


@pytest.mark.parametrize("epoch_id", [0, 1, 5])
def test_each_epoch_s_order_starts_from_the_file_s(letters: Path, epoch_id: int) -> None:
    dataset = open_dataset(letters)
    dataset.shuffle(3)
    dataset.shuffle(epoch_id)
    expected = list("abcdefg")
    random.Random(42 + epoch_id).shuffle(expected)
    assert [sample.prompt for sample in dataset] == expected
    assert [dataset[i].prompt for i in range(7)] == expected
    assert [sample.prompt for sample in dataset.samples[::2]] == expected[::2]
    assert dataset.epoch_id == epoch_id


def test_positions_and_places_follow_the_order(letters: Path) -> None:
    dataset = open_dataset(letters)
    dataset.shuffle(2)
    for position in range(7):
        row_id = dataset[position].row_id
        assert dataset.place(position).line == row_id + 1
        assert dataset.position_in_epoch(row_id, 2) == position


def test_out_of_range_is_an_index_error(letters: Path) -> None:
    with pytest.raises(IndexError):
        open_dataset(letters)[7]


def test_samples_are_made_anew_each_time(letters: Path) -> None:
    dataset = open_dataset(letters)
    dataset[0].metadata["edited"] = True
    assert dataset[0].metadata == {}


def test_only_the_rows_asked_for_are_parsed(letters: Path) -> None:
    dataset = open_dataset(letters)
    parsed = dataset.rows.scan_counters.rows_parsed
    dataset.samples[1:3]
    assert dataset.rows.scan_counters.rows_parsed == parsed + 2


def test_no_data_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no prompt data"):
        Dataset(SimpleNamespace(), cache=Cache(None))


def test_bad_rows_stop_the_load(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"text": "a"}, {"prompt": "b"}])
    with pytest.raises(BadRowsError, match=r"p\.jsonl:2.*prompt"):
        open_dataset(path)


@pytest.mark.parametrize("setting", [{"apply_chat_template": True}, {"rollout_max_prompt_len": 4}])
def test_a_template_or_limit_without_a_tokenizer_says_what_to_name(
    letters: Path, setting: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=rf"{next(iter(setting))}.*hf_checkpoint"):
        open_dataset(letters, **setting)


# --- with a tokenizer -------------------------------------------------------------------------


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer with one token a word, that proves nothing by bytes."""
    pytest.importorskip("transformers", reason="needs the tokenizers extra")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("words")
    vocabulary = {"[UNK]": 0, "a": 1, "b": 2}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


def of_lengths(path: Path, lengths: list[int]) -> Path:
    return write_rows(path, [{"text": " ".join("a" * n)} for n in lengths])


def test_p9_exactly_the_limit_is_kept_and_the_order_stays(tmp_path: Path, words: str) -> None:
    path = of_lengths(tmp_path / "p.jsonl", [3, 5, 4, 3, 6])
    dataset = open_dataset(path, hf_checkpoint=words, rollout_max_prompt_len=4)
    assert [sample.row_id for sample in dataset] == [0, 2, 3]
    assert dataset.num_too_long == 2
    assert dataset.position_in_epoch(1, None) is None
    assert dataset.position_in_epoch(3, None) == 2
    dataset.shuffle(0)
    expected = [0, 2, 3]
    random.Random(42).shuffle(expected)
    assert [sample.row_id for sample in dataset] == expected


def test_p8_nothing_left_names_the_shortest(tmp_path: Path, words: str) -> None:
    path = of_lengths(tmp_path / "p.jsonl", [7, 5, 9])
    with pytest.raises(EmptyDatasetError, match=r"0 of 3 rows.*shortest prompt is 5 tokens"):
        open_dataset(path, hf_checkpoint=words, rollout_max_prompt_len=1)


def test_p8_an_empty_file_has_no_rows(tmp_path: Path, words: str) -> None:
    (tmp_path / "p.jsonl").write_text("")
    with pytest.raises(EmptyDatasetError, match="no rows"):
        open_dataset(tmp_path / "p.jsonl", hf_checkpoint=words, rollout_max_prompt_len=1)


def long_list() -> list[dict[str, str]]:
    return [{"role": "user", "content": "a a a a a a a a"}]


def test_p7_a_list_first_means_no_length_filter(tmp_path: Path, words: str) -> None:
    prompts = [long_list(), "a a a a a a", long_list(), "a", long_list()]
    path = write_rows(tmp_path / "p.jsonl", [{"text": prompt} for prompt in prompts])
    dataset = open_dataset(path, hf_checkpoint=words, rollout_max_prompt_len=4)
    assert [sample.prompt for sample in dataset] == prompts
    assert "no_length_filter" in {notice.code for notice in dataset.notices}


def test_p7_a_string_first_and_a_list_later_names_the_row(tmp_path: Path, words: str) -> None:
    prompts = ["a", long_list(), "a"]
    path = write_rows(tmp_path / "p.jsonl", [{"text": prompt} for prompt in prompts])
    with pytest.raises(PromptError, match=r"p\.jsonl:2.*list of messages"):
        open_dataset(path, hf_checkpoint=words, rollout_max_prompt_len=4)


def test_counts_are_kept_in_the_cache_and_serve_another_limit(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_lengths(tmp_path / "p.jsonl", [1, 2, 3, 4])
    cache = Cache(tmp_path / "cache")
    settings = {"prompt_data": str(path), "input_key": "text", "hf_checkpoint": words}

    def kept(limit: int) -> int:
        return len(Dataset(SimpleNamespace(**settings, rollout_max_prompt_len=limit), cache=cache))

    assert kept(2) == 2
    monkeypatch.setattr("rolloutds.tokenization.Tokenizer.count", count_nothing)
    assert [kept(limit) for limit in (1, 2, 3, 4)] == [1, 2, 3, 4]


def count_nothing(self: object, texts: list[str]) -> list[int]:
    assert not texts, "counted again"
    return []


TEMPLATE = "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}<assistant>"


def test_a_template_renders_and_the_messages_stay_beside(tmp_path: Path, words: str) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"text": "hi"}, {"text": long_list()}])
    dataset = open_dataset(
        path, hf_checkpoint=words, chat_template=TEMPLATE, apply_chat_template=True
    )
    assert dataset[0].prompt == "<user> hi <assistant>"
    assert dataset[0].messages == [{"role": "user", "content": "hi"}]
    assert dataset[1].messages == long_list()


def test_a_template_that_cannot_work_is_found_at_once(tmp_path: Path, words: str) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"text": "hi"}])
    with pytest.raises(TokenizerError, match=r"p\.jsonl:1.*not today"):
        open_dataset(
            path,
            hf_checkpoint=words,
            chat_template="{{ raise_exception('not today') }}",
            apply_chat_template=True,
        )


def test_a_prompt_that_cannot_be_counted_is_named_and_never_taken_for_too_long(
    tmp_path: Path, words: str
) -> None:
    (tmp_path / "p.jsonl").write_text('{"text": "a"}\n{"text": "a \\ud800"}\n')
    with pytest.raises(TokenizerError, match=r"p\.jsonl:2"):
        open_dataset(tmp_path / "p.jsonl", hf_checkpoint=words, rollout_max_prompt_len=4)


@pytest.fixture(scope="session")
def letters_of_bytes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A byte-level tokenizer without merges: one token a byte, which its bytes prove."""
    pytest.importorskip("transformers", reason="needs the tokenizers extra")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("bytes")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, [])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


def test_rows_that_fit_by_their_bytes_are_not_counted(
    tmp_path: Path, letters_of_bytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"text": "abc"}, {"text": "é"}, {"text": ""}])
    monkeypatch.setattr("rolloutds.tokenization.Tokenizer.count", count_nothing)
    dataset = open_dataset(path, hf_checkpoint=letters_of_bytes, rollout_max_prompt_len=3)
    assert len(dataset) == 3


def test_a_text_far_over_the_limit_is_left_out_without_counting_it(
    tmp_path: Path, letters_of_bytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"text": "a" * 2**21}, {"text": "ab"}])
    monkeypatch.setattr("rolloutds.tokenization.Tokenizer.count", count_nothing)
    monkeypatch.setattr("rolloutds.tokenization.Tokenizer.min_tokens", lambda self, n: n)
    dataset = open_dataset(path, hf_checkpoint=letters_of_bytes, rollout_max_prompt_len=3)
    assert [sample.prompt for sample in dataset] == ["ab"]
    with pytest.raises(EmptyDatasetError, match="over a megabyte"):
        open_dataset(
            write_rows(tmp_path / "q.jsonl", [{"text": "a" * 2**21}]),
            hf_checkpoint=letters_of_bytes,
            rollout_max_prompt_len=3,
        )
