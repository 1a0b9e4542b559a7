"""Rendering from the compiled template gives the text of the tokenizer's own method, or steps aside."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rolloutds.chat_templates import are_plain_messages, is_plain
from rolloutds.errors import TokenizerError
from rolloutds.tokenization import Tokenizer

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")

_CHATML = (
    "{%- if tools %}{{ '<|im_start|>tools\\n' }}{% for tool in tools %}{{ tool | tojson(indent=2) }}"
    "{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}"
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}"
    "{% set rest = messages %}{% endif %}"
    "{% for message in rest %}{% if message.role == 'bad' %}{{ raise_exception('no bad') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] }}\n"
    "{% if message.content is string %}{{ message.content | trim }}{% else %}"
    "{% for part in message.content %}{{ part.text or part.type }}{% endfor %}{% endif %}"
    "{% if loop.last %}{{ eos_token }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
    "{% endif %}"
)
_STATE = (
    "{% set state = namespace(users=0) %}{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set state.users = state.users + 1 %}{% endif %}"
    "{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{% generation %}{{ m.role }}:{{ m.content }}{% endgeneration %}"
    "{% endfor %}{{ state.users }}{{ documents }}{{ tools is none }}{{ unknown }}"
    "{{ strftime_now('%Y') | length }}{{ dict(a=1) | tojson }}{{ system_text or '' }}"
)
_EVERYTHING = (
    "{{ messages | tojson }}{{ tools | tojson }}{{ enable_thinking }}{{ self is defined }}"
)
_MACRO = (
    "{% macro body(m) %}[{{ m.content }}]{% endmacro %}{% block top %}{{ eos_token }}{% endblock %}"
    "{% for m in messages %}{{ loop.index0 }}{{ body(m) }}{{ loop.cycle('a', 'b') }}{% endfor %}"
)
_FOLDER = Path(__file__).parent.parent
_TEMPLATES = {
    "chatml": _CHATML,
    "state": _STATE,
    "everything": _EVERYTHING,
    "macro": _MACRO,
    **{
        path.name: path.read_text(encoding="utf-8")
        for path in [
            *sorted(_FOLDER.glob("sample_data/*.jinja")),
            *sorted(_FOLDER.glob("tests/examples/checks/*/*/*.jinja")),
        ]
    },
}
_USER = {"role": "user", "content": "What is 2 + 2?"}
_CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None]}}}
_CONVERSATIONS: dict[str, Any] = {
    "one": [_USER],
    "system": [{"role": "system", "content": "Be brief."}, _USER],
    "turns": [_USER, {"role": "assistant", "content": "4"}, {"role": "user", "content": "Sure?"}],
    "unicode": [
        {"role": "user", "content": "数學 🙂 \u2028\x00 <|im_end|> e\u0301 {{ 1 }} {% x %}"}
    ],
    "half a pair": [{"role": "user", "content": "a\ud800b"}],
    "empty": [{"role": "user", "content": ""}],
    "white": [{"role": "user", "content": " \n text \t"}],
    "parts": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "See."}]}],
    "calls": [_USER, {"role": "assistant", "content": "", "tool_calls": [_CALL]}],
    "null": [_USER, {"role": "assistant", "content": None, "tool_calls": [_CALL]}],
    "reasoning": [_USER, {"role": "assistant", "content": "4", "reasoning": "It is."}, _USER],
    "numbers": [{"role": "user", "content": 3, "weight": 0.1, "last": True, "x": 10**30}],
    "no content": [{"role": "user"}],
    "raises": [{"role": "bad", "content": ""}],
    "tuple": ({"role": "user", "content": "t"},),
    "tuple inside": [{"role": "user", "content": ({"type": "image"},)}],
    "number keys": [{"role": "user", "content": "k", 7: "seven"}],
    "no dict": ["text"],
    "none": [],
    "batch": [[_USER], [_USER]],
    "bytes": [{"role": "user", "content": [{"type": "image", "image": b"\x89PNG"}]}],
}
_TOOLS = {
    "no tools": None,
    "empty": [],
    "one": [{"type": "function", "function": {"name": "é", "parameters": {"<": [1, None]}}}],
    "text": ["no tool"],
}
_KWARGS: dict[str, dict[str, Any]] = {
    "no kwargs": {},
    "flag": {"enable_thinking": False},
    "text": {"system_text": "s", "bos_token": "<other>", "nested": {"a": [1]}},
    "a global": {"strftime_now": "now", "dict": {"a": 1}},
    "documents": {"documents": [{"title": "t", "text": "x"}]},
    "own": {"continue_final_message": True},
    "template": {"chat_template": "{{ messages | length }}"},
}


@pytest.fixture(scope="module")
def plain() -> Any:
    return _transformers_tokenizer()


def _transformers_tokenizer(kind: type | None = None) -> Any:
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models
    from transformers import PreTrainedTokenizerFast

    rust = RustTokenizer(models.BPE({"a": 0, "<s>": 1, "</s>": 2}, []))
    return (kind or PreTrainedTokenizerFast)(
        tokenizer_object=rust, bos_token="<s>", eos_token="</s>"
    )


def _outcome(render: Callable[..., Any], *arguments: Any) -> str:
    """The text, or that there is none."""
    try:
        return str(render(*arguments))
    except Exception:
        return "<raises>"


def _apply(tokenizer: Any, messages: Any, tools: Any, kwargs: dict[str, Any]) -> Any:
    return tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=True, **kwargs
    )


def _cases() -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    yield from itertools.product(_CONVERSATIONS.values(), _TOOLS.values(), _KWARGS.values())


@pytest.mark.parametrize("template", _TEMPLATES)
def test_the_text_is_that_of_the_tokenizers_own_method(plain: Any, template: str) -> None:
    plain.chat_template = _TEMPLATES[template]
    tokenizer = Tokenizer(plain, "plain")
    compiled = tokenizer._compiled_template
    assert compiled is not None
    num_claimed = 0
    for case in _cases():
        own = _outcome(_apply, plain, *case)
        text = compiled.text(*case)
        assert text is None or text == own
        num_claimed += text is not None
        assert _outcome(tokenizer.render, *case) == own
    assert num_claimed >= 50
    assert not compiled._is_wrong


def test_plain_conversations_take_the_short_way(plain: Any) -> None:
    plain.chat_template = _CHATML
    compiled = Tokenizer(plain, "plain")._compiled_template
    assert compiled is not None
    taken = {name for name, messages in _CONVERSATIONS.items() if compiled.text(messages, None, {})}
    assert taken >= {"one", "system", "turns", "unicode", "empty", "parts", "calls"}
    assert not taken & {"null", "reasoning", "raises", "tuple", "tuple inside", "bytes", "batch"}
    assert compiled.text([_USER], [_CALL], {"enable_thinking": False}) is not None


def test_the_own_method_is_called_for_the_first_and_then_ever_fewer(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.chat_template = _CHATML
    tokenizer = Tokenizer(plain, "plain")
    assert tokenizer._compiled_template is not None
    own = Mock(wraps=plain.apply_chat_template)
    monkeypatch.setattr(plain, "apply_chat_template", own)
    for _ in range(1000):
        tokenizer.render([_USER])
    assert own.call_count == 16 + len([32, 64, 128, 256, 512])


def test_a_method_of_the_tokenizer_itself_is_called(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.chat_template = _CHATML
    monkeypatch.setattr(plain, "apply_chat_template", lambda *_, **__: "own way")
    assert Tokenizer(plain, "plain").render([_USER]) == "own way"


def test_messages_are_handed_over_unchanged(plain: Any) -> None:
    plain.chat_template = _MACRO
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    tokenizer = Tokenizer(plain, "plain")
    for _ in range(40):
        tokenizer.render(messages, [_CALL], {"a": {"b": [1]}})
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]


def test_where_the_texts_differ_the_own_method_is_used_and_it_is_said(
    plain: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.chat_template = _CHATML
    tokenizer = Tokenizer(plain, "plain")
    assert tokenizer._compiled_template is not None
    monkeypatch.setattr(tokenizer._compiled_template, "_render", lambda variables: "another text")
    with caplog.at_level(logging.WARNING):
        texts = {tokenizer.render([_USER]) for _ in range(40)}
    assert texts == {plain.apply_chat_template([_USER], tokenize=False, add_generation_prompt=True)}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the chat template gives another text" in caplog.text


def test_a_template_that_tells_the_time_is_no_difference(
    plain: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.chat_template = "{{ strftime_now('%f') }}"
    tokenizer = Tokenizer(plain, "plain")
    compiled = tokenizer._compiled_template
    assert compiled is not None
    texts = iter(["before", "after", "later"])
    monkeypatch.setattr(compiled, "_render", lambda _: next(texts))
    monkeypatch.setattr(plain, "apply_chat_template", lambda *_, **__: "after")
    with caplog.at_level(logging.WARNING):
        assert tokenizer.render([_USER]) == "after"
    assert not compiled._is_wrong
    assert not caplog.records


def test_a_class_that_renders_in_its_own_way_is_called(plain: Any) -> None:
    from transformers import PreTrainedTokenizerFast

    own = {"apply_chat_template": lambda *_, **__: "own way"}
    own_tokens = {"special_tokens_map": property(lambda _: {"eos_token": "own token"})}
    for methods, expected in ((own, "own way"), (own_tokens, "own token")):
        changed = _transformers_tokenizer(type("Own", (PreTrainedTokenizerFast,), methods))
        changed.chat_template = "{{ eos_token }}"
        tokenizer = Tokenizer(changed, "changed")
        assert tokenizer._compiled_template is None
        assert tokenizer.render([_USER]) == expected
    plain.chat_template = _CHATML
    assert Tokenizer(_Wrapped(plain), "wrapped")._compiled_template is None


class _Wrapped:
    """A stand-in such as a processor: it has a tokenizer's methods and is none."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def test_several_named_templates_are_left_to_the_tokenizer(plain: Any) -> None:
    plain.chat_template = {"default": "plain", "tool_use": "tools"}
    tokenizer = Tokenizer(plain, "plain")
    assert tokenizer._compiled_template is None
    assert [tokenizer.render([_USER]), tokenizer.render([_USER], [_CALL])] == ["plain", "tools"]


def test_what_a_template_raises_is_told_once_as_the_own_method_tells_it(plain: Any) -> None:
    plain.chat_template = "{{ 1 }}\n{{ messages[0].content.nothing.more }}"
    tokenizer = Tokenizer(plain, "plain")
    with pytest.raises(
        TokenizerError, match=r"has no attribute 'nothing' \(line 2|has no attribute"
    ):
        tokenizer.render([_USER])
    plain.chat_template = "{% if %}"
    with pytest.raises(TokenizerError, match="line 1 of the template"):
        Tokenizer(plain, "plain").render([_USER])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        ({"a": [1, 2.5, True, None, {"b": "c"}]}, True),
        (type("Text", (str,), {})("x"), False),
        ({"a": (1,)}, False),
        ({1: "a"}, False),
        ([{"a": [b"bytes"]}], False),
    ],
)
def test_plain_is_what_json_has(value: Any, *, expected: bool) -> None:
    assert is_plain(value) is expected
    assert are_plain_messages([{"role": "user", "content": [value]}]) is expected
