"""What the bytes of a text prove of its number of tokens, read off a tokenizer's own file.

A byte-level BPE turns every byte of the normalized text into one symbol and then only merges
symbols. So a text has at most as many tokens as its normalized form has bytes, if every symbol is
a token by itself and no step adds text; an added token takes at least one byte and is one token.
And it has at least its bytes divided by those of the longest token, if no step leaves text out.
Where a part of the file is not known to keep to that, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final, NamedTuple

import msgspec

_Part = Mapping[str, Any] | None

_BYTES_PER_BYTE: Final = {"NFC": 3.0, "NFD": 3.0, "NFKC": 11.0, "NFKD": 11.0, "Lowercase": 1.5}
"""How many bytes a normalizer can make of one, in UTF-8 (Unicode fixes these for all versions)."""
_SPLITTERS: Final = frozenset({"Split", "Digits", "Punctuation", "UnicodeScripts"})
"""Pre-tokenizers that cut text and never add any; they keep all of it unless told otherwise."""
_DROPPING_SPLITTERS: Final = frozenset({"Whitespace", "WhitespaceSplit"})
"""Pre-tokenizers that cut text and leave some of it out."""
_BARE_POST_PROCESSORS: Final = frozenset({"ByteLevel", "BertProcessing", "RobertaProcessing"})
"""Post-processors that change no token when special tokens are not asked for."""


class TokenBounds(NamedTuple):
    """Factors between the UTF-8 bytes of a text and its tokens; None: not proved.

    Attributes:
        tokens_per_byte: the most tokens for a byte; 1 unless a normalizer lengthens text.
        bytes_per_token: the most bytes in one token.
    """

    tokens_per_byte: float | None = None
    bytes_per_token: int | None = None

    def max_tokens(self, num_bytes: int, *, is_ascii: bool) -> int | None:
        """The most tokens a text can have; ASCII is not lengthened by any known normalizer."""
        if self.tokens_per_byte is None:
            return None
        return num_bytes if is_ascii else ceil(num_bytes * self.tokens_per_byte)

    def min_tokens(self, num_bytes: int) -> int | None:
        """The fewest tokens a text can have."""
        if self.bytes_per_token is None:
            return None
        return -(-num_bytes // self.bytes_per_token)


def prove_bounds(file_content: str) -> TokenBounds:
    """The bounds that hold for a Rust tokenizer without truncation, padding and special tokens.

    Args:
        file_content: the live tokenizer as JSON; transformers may have changed what it read.
    """
    content = msgspec.json.decode(file_content, type=_Content)
    steps = _steps(content.pre_tokenizer, "pretokenizers")
    factor = _expansion(_steps(content.normalizer, "normalizers"))
    if (
        factor is None
        or not _is_byte_level(steps)
        or not _keeps_tokens(_steps(content.post_processor, "processors"))
        or not all(token["content"] for token in content.added_tokens)
    ):
        return TokenBounds()
    vocabulary = _byte_level_vocabulary(content.model)
    if vocabulary is None:
        return TokenBounds()
    keeps_text = factor == 1 and not any(map(_drops_text, [*steps, *content.added_tokens]))
    return TokenBounds(factor, _longest(vocabulary, content) if keeps_text else None)


class _Content(msgspec.Struct):
    """The file of a Rust tokenizer; its model is parsed only where it can matter."""

    added_tokens: list[dict[str, Any]]
    normalizer: dict[str, Any] | None
    pre_tokenizer: dict[str, Any] | None
    post_processor: dict[str, Any] | None
    model: msgspec.Raw


class _ModelKind(msgspec.Struct):
    type: str | None = None


class _BpeModel(msgspec.Struct):
    """What the bounds ask of a BPE model; its merges, the largest part, are passed over."""

    vocab: dict[str, int]
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False


def byte_symbols() -> list[str]:
    """The character that byte-level tokenizers write for each byte, ``[256]``.

    A printable Latin-1 byte is its own character; the others follow from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _byte_level_vocabulary(model_content: msgspec.Raw) -> dict[str, int] | None:
    """The vocabulary of a BPE that can write any bytes and changes none; None: it is another."""
    if msgspec.json.decode(model_content, type=_ModelKind).type != "BPE":
        return None
    model = msgspec.json.decode(model_content, type=_BpeModel)
    affixes = model.continuing_subword_prefix or model.end_of_word_suffix
    if model.dropout or affixes or model.byte_fallback:
        return None
    return model.vocab if all(symbol in model.vocab for symbol in byte_symbols()) else None


def _is_byte_level(steps: list[Mapping[str, Any]]) -> bool:
    byte_levels = [step for step in steps if step["type"] == "ByteLevel"]
    others = {step["type"] for step in steps if step["type"] != "ByteLevel"}
    return (
        len(byte_levels) == 1
        and byte_levels[0].get("add_prefix_space") is False
        and others <= _SPLITTERS | _DROPPING_SPLITTERS
    )


def _keeps_tokens(steps: list[Mapping[str, Any]]) -> bool:
    return all(
        step["type"] in _BARE_POST_PROCESSORS
        or (step["type"] == "TemplateProcessing" and _takes_text_once(step))
        for step in steps
    )


def _takes_text_once(template: Mapping[str, Any]) -> bool:
    return sum("Sequence" in piece for piece in template["single"]) == 1


def _expansion(steps: list[Mapping[str, Any]]) -> float | None:
    factor = 1.0
    for step in steps:
        if step["type"] not in _BYTES_PER_BYTE:
            return None
        factor *= _BYTES_PER_BYTE[step["type"]]
    return factor


def _drops_text(part: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer leaves text out, or an added token takes white space with it."""
    return (
        part.get("type") in _DROPPING_SPLITTERS
        or part.get("behavior") == "Removed"
        or bool(part.get("lstrip") or part.get("rstrip"))
    )


def _longest(vocabulary: Mapping[str, int], content: _Content) -> int:
    added = (len(token["content"].encode()) for token in content.added_tokens)
    # One character of a token of the model is one byte of text.
    return max(max(map(len, vocabulary)), max(added, default=0))


def _steps(part: _Part, key: str) -> list[Mapping[str, Any]]:
    """The single steps of a part that may be a sequence, sequences within it included."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [step for inner in part[key] for step in _steps(inner, key)]
