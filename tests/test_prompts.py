"""One row to one prompt: every rule once, the cases R7, R9, R10, P1 to P5, and two properties."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import ConfigError, PromptError
from rolloutds.prompts import MEDIA_KINDS, PromptSettings, RowInspector, build_prompt

IMAGES = {"image": "images"}


def settings(**changes: Any) -> PromptSettings:
    return PromptSettings(**{"input_key": "text", **changes})


def content_of(text: Any, media: dict[str, str] | None = None, **columns: Any) -> Any:
    """Content of the only message of a row."""
    prompt = build_prompt({"text": text, **columns}, settings(multimodal_keys=media or IMAGES))
    assert isinstance(prompt.content, list)
    assert len(prompt.content) == 1
    return prompt.content[0]["content"]


def error_of(row: dict[str, Any], using: PromptSettings) -> str:
    """The one error of a row, which building and inspecting must word alike."""
    with pytest.raises(PromptError) as caught:
        build_prompt(row, using)
    findings = RowInspector(using)(row)
    assert [finding.is_error for finding in findings] == [True]
    assert findings[0].what == caught.value.headline
    return findings[0].what


# --- prompts ----------------------------------------------------------------------------------


def test_text_stays_text_without_template_or_media() -> None:
    prompt = build_prompt({"text": "hi <image>"}, settings())
    assert (prompt.content, prompt.messages) == ("hi <image>", None)


@pytest.mark.parametrize(
    "changes", [{"apply_chat_template": True}, {"multimodal_keys": IMAGES}, {"multimodal_keys": {}}]
)
def test_text_becomes_one_user_message(changes: dict[str, Any]) -> None:
    prompt = build_prompt({"text": "hi"}, settings(**changes))
    assert prompt.content == [{"role": "user", "content": "hi"}]
    assert prompt.messages is prompt.content


@pytest.mark.parametrize("template", [False, True])
@pytest.mark.parametrize("media", [None, IMAGES])
def test_messages_of_every_role_are_untouched(template: bool, media: dict[str, str] | None) -> None:
    messages = [
        {"role": "system", "content": "be brief", "name": "s"},
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "assistant"},
    ]
    using = settings(apply_chat_template=template, multimodal_keys=media)
    prompt = build_prompt({"text": copy.deepcopy(messages)}, using)
    assert prompt.content == prompt.messages == messages


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (7, "the number 7"),
        (True, "true"),
        (None, "null"),
        ({"role": "user"}, "an object with the keys ['role']"),
        (["hi"], "message 0 of the prompt 'text' is the text 'hi'"),
        ([{"role": "user"}, []], "message 1 of the prompt 'text' is a list of 0 items"),
    ],
)
def test_other_prompts_are_refused_by_what_they_are(value: Any, named: str) -> None:
    what = error_of({"text": value}, settings())
    assert named in what
    assert "'text'" in what


def test_a_row_without_the_prompt_is_refused() -> None:
    assert "no key 'text'" in error_of({"prompt": "a"}, settings())


def test_no_messages_are_refused_where_the_template_would_refuse_them() -> None:
    assert "an empty list" in error_of({"text": []}, settings(apply_chat_template=True))
    assert build_prompt({"text": []}, settings()).content == []


def test_dotted_keys_work_for_every_column_and_literal_keys_come_first() -> None:
    using = PromptSettings("a.p", "a.l", "a.m", "a.t", {"image": "a.i"})
    nested = {"p": "<image>", "l": 1, "m": {"k": 2}, "t": [{}], "i": ["x.png"]}
    prompt = build_prompt({"a": nested, "a.l": 0}, using)
    assert prompt.content[0]["content"] == [{"type": "image", "image": "x.png"}]  # type: ignore[index]
    assert (prompt.label, prompt.metadata, prompt.tools) == (0, {"k": 2, "tools": [{}]}, [{}])


# --- labels (R7, R8) --------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["42", 42, 42.0, 10**29 + 1, None, "", [], {"a": 1}], ids=repr)
def test_labels_keep_value_and_type(label: Any) -> None:
    prompt = build_prompt({"text": "a", "label": label}, settings(label_key="label"))
    assert prompt.label == label
    assert type(prompt.label) is type(label)


def test_an_absent_label_is_refused_only_where_one_is_read() -> None:
    assert "no key 'label'" in error_of({"text": "a"}, settings(label_key="label"))
    assert build_prompt({"text": "a", "label": 1}, settings()).label is None


# --- metadata (R9) ----------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ["", [], 0, None, False, 0.0, {}])
def test_falsy_metadata_is_an_empty_object(metadata: Any) -> None:
    row = {"text": "a", "metadata": metadata}
    assert build_prompt(row, settings()).metadata == {}
    assert RowInspector(settings())(row) == []


def test_absent_or_unread_metadata_is_an_empty_object() -> None:
    assert build_prompt({"text": "a"}, settings()).metadata == {}
    assert build_prompt({"text": "a", "m": {"k": 1}}, settings(metadata_key=None)).metadata == {}


def test_metadata_as_text_is_parsed_and_said() -> None:
    row = {"text": "a", "metadata": '{"d":1}'}
    assert build_prompt(row, settings()).metadata == {"d": 1}
    (finding,) = RowInspector(settings())(row)
    assert (finding.code, finding.is_error) == ("port_metadata_text", False)
    assert "slime keeps the text" in finding.what


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ("{bad", "not JSON"),
        ([1], "is a list of 1 item"),
        ("[1]", "JSON text of a list of 1 item"),
        ("null", "JSON text of null"),
        (3, "is the number 3"),
        ("1" * 5000, "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_other_metadata_is_refused(metadata: Any, named: str) -> None:
    what = error_of({"text": "a", "metadata": metadata}, settings())
    assert named in what
    assert "the metadata 'metadata'" in what
    assert len(what) < 300


# --- tools (R10) ------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "zzz_probe"}}


@pytest.mark.parametrize("template", [False, True])
@pytest.mark.parametrize("tools", [[TOOL], json.dumps([TOOL])])
def test_tools_reach_the_template_and_the_metadata(tools: Any, template: bool) -> None:
    row = {"text": "a", "tools": tools, "metadata": {"k": 1}}
    prompt = build_prompt(row, settings(apply_chat_template=template))
    assert prompt.tools == [TOOL]
    assert prompt.metadata == {"k": 1, "tools": [TOOL]}
    assert row["metadata"] == {"k": 1}
    assert RowInspector(settings())(row) == []


def test_an_empty_list_of_tools_is_kept_as_slime_keeps_it() -> None:
    prompt = build_prompt({"text": "a", "tools": []}, settings())
    assert (prompt.tools, prompt.metadata) == ([], {"tools": []})


@pytest.mark.parametrize("tools", [None, ""])
def test_null_and_empty_tools_are_none_and_said(tools: Any) -> None:
    row = {"text": "a", "tools": tools}
    prompt = build_prompt(row, settings())
    assert (prompt.tools, prompt.metadata) == (None, {})
    (finding,) = RowInspector(settings())(row)
    assert (finding.code, finding.is_error) == ("port_tools", False)


def test_absent_and_unread_tools_are_none() -> None:
    assert build_prompt({"text": "a"}, settings()).tools is None
    assert RowInspector(settings())({"text": "a"}) == []
    assert build_prompt({"text": "a", "tools": 7}, settings(tool_key=None)).tools is None


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ({"a": 1}, "an object with the keys ['a']"),
        ({}, "an empty object"),
        (0, "the number 0"),
        (False, "false"),
        ('{"a": 1}', "JSON text of an object"),
        (" ", "not JSON"),
        ("search", "not JSON"),
    ],
)
def test_other_tools_are_refused(tools: Any, named: str) -> None:
    what = error_of({"text": "a", "tools": tools}, settings())
    assert named in what
    assert "the tools 'tools'" in what


def test_a_tool_that_a_template_cannot_take_is_refused_where_there_is_one() -> None:
    row = {"text": "a", "tools": ["search"]}
    assert "tool 0 of 'tools'" in error_of(row, settings(apply_chat_template=True))
    assert build_prompt(row, settings()).tools == ["search"]


# --- media (P1 to P3) -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [{}, {"images": None}])
@pytest.mark.parametrize("text", ["hi yo", "<image> a", ""])
def test_a_row_without_media_keeps_its_text_whole(text: str, columns: dict[str, Any]) -> None:
    assert content_of(text, **columns) == text


def test_marks_are_replaced_in_order() -> None:
    item = {"type": "image", "image": "b.png", "max_pixels": 9}
    assert content_of("x<image><image> y\n<image>", images=["a.png", item, "c.png"]) == [
        {"type": "text", "text": "x"},
        {"type": "image", "image": "a.png"},
        item,
        {"type": "text", "text": " y\n"},
        {"type": "image", "image": "c.png"},
    ]


def test_each_kind_has_its_own_column_and_a_null_one_keeps_its_marks() -> None:
    media = {"image": "i", "video": "v", "audio": "a"}
    content = content_of("<video><image><audio>", media, i=["i.png"], v=None, a=["a.wav"])
    assert content == [
        {"type": "text", "text": "<video>"},
        {"type": "image", "image": "i.png"},
        {"type": "audio", "audio": "a.wav"},
    ]


def test_marks_are_taken_across_messages_without_editing_the_row() -> None:
    messages = [{"role": r, "content": f"<image> {r}"} for r in ("system", "user")]
    row = {"text": messages, "images": ["1", "2"]}
    before = copy.deepcopy(row)
    prompt = build_prompt(row, settings(multimodal_keys=IMAGES))
    assert [m["content"][0]["image"] for m in prompt.messages or []] == ["1", "2"]
    assert prompt.has_media
    assert row == before


def test_an_empty_list_without_marks_is_text_in_parts() -> None:
    assert content_of("hi", images=[]) == [{"type": "text", "text": "hi"}]
    assert not build_prompt(
        {"text": "hi", "images": []}, settings(multimodal_keys=IMAGES)
    ).has_media


@pytest.mark.parametrize(
    ("text", "images", "marks", "items"),
    [
        ("<image> a", ["1", "2"], "1 <image> mark", "2 image items"),
        ("<image><image>", ["1"], "2 <image> marks", "1 image item"),
        ("<Image>", ["1"], "0 <image> marks", "1 image item"),
        ("<image>", [], "1 <image> mark", "0 image items"),
        ("hi", ["1"], "0 <image> marks", "1 image item"),
    ],
)
def test_miscounts_name_both_counts(text: str, images: list[str], marks: str, items: str) -> None:
    what = error_of({"text": text, "images": images}, settings(multimodal_keys=IMAGES))
    assert f"{marks} and" in what
    assert f"{items}," in what


@pytest.mark.parametrize("images", ["a.png", {"image": "a.png"}, 3])
def test_a_column_that_is_no_list_is_refused(images: Any) -> None:
    row = {"text": "<image>", "images": images}
    assert "the image column 'images'" in error_of(row, settings(multimodal_keys=IMAGES))


PARTS = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "<image>?"}]


@pytest.mark.parametrize("images", [None, [], ["a.png"]])
def test_list_content_passes_through_and_its_column_is_not_counted(images: Any) -> None:
    row = {"text": [{"role": "user", "content": PARTS}], "images": images}
    prompt = build_prompt(row, settings(multimodal_keys=IMAGES))
    assert prompt.messages == row["text"]
    assert prompt.has_media


def test_parts_make_up_for_marks_beside_text_content() -> None:
    system = {"role": "system", "content": "look"}
    user = {"role": "user", "content": PARTS}
    using = settings(multimodal_keys=IMAGES)
    prompt = build_prompt({"text": [system, user], "images": ["a.png"]}, using)
    assert (prompt.messages or [])[1] == user
    row = {"text": [system, user], "images": ["a.png", "lost.png"]}
    assert "2 image items" in error_of(row, using)


# --- settings ---------------------------------------------------------------------------------


def test_unknown_kinds_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        settings(multimodal_keys={"images": "images"})
    assert "'images'" in str(caught.value)
    assert all(kind in str(caught.value) for kind in MEDIA_KINDS)


@pytest.mark.parametrize("keys", [{"image": 3}, {"image": ""}, ["image"]])
def test_media_settings_of_a_wrong_type_are_refused(keys: Any) -> None:
    with pytest.raises(ConfigError, match="multimodal_keys"):
        settings(multimodal_keys=keys)


def test_settings_do_not_follow_later_edits() -> None:
    keys = {"image": "images"}
    using = settings(multimodal_keys=keys)
    keys["video"] = "v"
    assert using.media_keys == ("images",)


def test_inspectors_pickle_and_have_a_stable_identity() -> None:
    inspector = RowInspector(settings(multimodal_keys=IMAGES))
    again = pickle.loads(pickle.dumps(inspector))
    row = {"text": "<image>", "images": []}
    assert again(row) == inspector(row) != []
    assert again.identity == inspector.identity
    expected = 'prompts-2 ["text", null, "metadata", "tools", {"image": "images"}, false]'
    assert inspector.identity == expected


def test_every_setting_is_in_the_identity() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"input_key": "x"},
        {"label_key": "x"},
        {"metadata_key": "x"},
        {"tool_key": "x"},
        {"multimodal_keys": {}},
        {"multimodal_keys": IMAGES},
        {"apply_chat_template": True},
    ]
    identities = {RowInspector(settings(**change)).identity for change in changes}
    assert len(identities) == len(changes)


# --- properties -------------------------------------------------------------------------------

_scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("<image>")
_values = st.recursive(
    _scalars | st.sampled_from(['{"a":1}', "[]", "{", "<image><video>"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_rows = st.dictionaries(
    st.sampled_from(["text", "label", "metadata", "tools", "images", "videos"]), _values
)
_settings = st.builds(
    PromptSettings,
    input_key=st.just("text"),
    label_key=st.sampled_from([None, "label"]),
    multimodal_keys=st.sampled_from([None, {}, IMAGES, {"image": "images", "video": "videos"}]),
    apply_chat_template=st.booleans(),
)


@given(_rows, _settings)
def test_what_passes_inspection_builds_and_nothing_is_edited(
    row: dict[str, Any], using: PromptSettings
) -> None:
    before = copy.deepcopy(row)
    refused = any(finding.is_error for finding in RowInspector(using)(row))
    try:
        prompt = build_prompt(row, using)
    except PromptError:
        assert refused
    else:
        assert not refused
        assert isinstance(prompt.metadata, dict)
        assert (prompt.messages is None) == isinstance(prompt.content, str)
    assert row == before


@given(st.lists(st.sampled_from(["<image>", "<video>", "<Image>", "<", "image>", "a", "\n", "é"])))
def test_parts_joined_again_are_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    columns = {f"{kind}s": [f"<{kind}>"] * text.count(f"<{kind}>") for kind in ("image", "video")}
    content = content_of(text, {"image": "images", "video": "videos"}, **columns)
    assert "".join(part[part["type"]] for part in content) == text


def test_media_have_a_code_of_their_own() -> None:
    inspect = RowInspector(settings(multimodal_keys=IMAGES))

    def codes(**row: Any) -> list[str]:
        return [finding.code for finding in inspect(row)]

    assert codes(text="<image>", images=[]) == ["media"]
    assert codes(text="a", images="a.png") == ["media"]
    assert codes(text=["a column and a mark"], images=[]) == ["prompt"]
    assert codes(text=4, images="a.png") == ["prompt", "media"]
    assert codes(text=4, images=["a.png"]) == ["prompt"]
    assert codes(text="<image>", images=["a.png"]) == []
