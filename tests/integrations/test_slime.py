"""The data source in slime's place: driven as its rollout manager does."""

from __future__ import annotations

import copy
import importlib
import json
import random
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds import source
from rolloutds.errors import ConfigError, MissingStateError, PromptError, ReadOnlyError
from rolloutds.integrations import miles as miles_integration
from rolloutds.integrations import slime as integration
from rolloutds.integrations.slime import (
    RolloutDataSource,
    RolloutDataSourceWithBuffer,
    config_of,
    pop_oldest,
)

NUM_ROWS = 10
N = 3


def write_rows(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def args(tmp_path, slime):
    """What slime's parser makes of a small run; attributes as its command line names them."""
    pytest.importorskip("torch", reason="a run that saves its state needs torch")
    rows = [{"prompt": f"question {i}", "label": str(i), "metadata": {"i": i}} for i in range(10)]
    return SimpleNamespace(
        prompt_data=write_rows(tmp_path / "p.jsonl", rows),
        hf_checkpoint=None,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        rollout_seed=42,
        rollout_batch_size=4,
        over_sampling_batch_size=4,
        num_rollout=None,
        num_epoch=2,
        n_samples_per_prompt=N,
        rollout_max_prompt_len=None,
        input_key="prompt",
        label_key="label",
        metadata_key="metadata",
        tool_key="tools",
        multimodal_keys=None,
        apply_chat_template=False,
        apply_chat_template_kwargs={},
        buffer_filter_path=None,
        partial_rollout=False,
        reward_key=None,
        dump_details=None,
        save=str(tmp_path / "save"),
        load=str(tmp_path / "save"),
        chat_template_path=None,
        train_backend="megatron",
    )


def expected_labels(num_groups: int, seed: int = 42) -> list[str]:
    labels: list[str] = []
    epoch = 0
    while len(labels) < num_groups:
        order = list(range(NUM_ROWS))
        random.Random(seed + epoch).shuffle(order)
        labels += map(str, order)
        epoch += 1
    return labels[:num_groups]


def labels(groups) -> list[str]:
    return [group[0].label for group in groups]


# --- what it serves -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RolloutDataSource", "RolloutDataSourceWithBuffer"])
def test_it_loads_by_the_path_that_the_command_line_gives(args, name) -> None:
    module, _, cls = f"rolloutds.integrations.slime.{name}".rpartition(".")
    data_source = getattr(importlib.import_module(module), cls)(args)
    assert len(data_source) == NUM_ROWS
    assert args.num_epoch * (len(data_source) // args.rollout_batch_size) == 4


def test_groups_hold_samples_of_slime_s_class_in_slime_s_order(args, slime) -> None:
    groups = RolloutDataSourceWithBuffer(args).get_samples(14)
    assert labels(groups) == expected_labels(14)
    samples = [sample for group in groups for sample in group]
    assert {type(sample) for sample in samples} == {slime.Sample}
    assert [sample.index for sample in samples] == list(range(14 * N))
    assert [group[0].group_index for group in groups] == list(range(14))
    assert [sample.row_id for sample in samples] == [int(sample.label) for sample in samples]
    assert {sample.status for sample in samples} == {slime.Sample.Status.PENDING}
    blank = slime.Sample()
    assert vars(samples[0]).keys() == vars(blank).keys() | {"row_id", "messages"}
    assert samples[0].spec_info == blank.spec_info


def test_editing_a_sample_never_shows_in_a_sibling_or_later(args) -> None:
    args.rollout_shuffle = False
    data_source = RolloutDataSource(args)
    (group,) = data_source.get_samples(1)
    before = copy.deepcopy(group[1].to_dict())
    group[0].metadata["new"] = group[0].tokens.append(1)
    group[0].weight_versions.append("v")
    assert group[1].to_dict() == before | {"index": 1}
    data_source.get_samples(NUM_ROWS - 1)
    (again,) = data_source.get_samples(1)
    assert again[0].metadata == {"i": 0}


def test_it_serves_what_our_own_source_serves(args) -> None:
    ours = source.RolloutDataSource(args).get_samples(25)
    theirs = RolloutDataSource(args).get_samples(25)
    names = ("prompt", "label", "metadata", "index", "group_index", "row_id")
    for mine, other in zip(ours, theirs, strict=True):
        for one, two in zip(mine, other, strict=True):
            assert [getattr(one, n) for n in names] == [getattr(two, n) for n in names]


def test_without_a_dataset_blank_samples_of_slime_s_class_are_made(args, slime) -> None:
    args.rollout_global_dataset = False
    groups = RolloutDataSource(args).get_samples(2)
    assert [type(group[0]) for group in groups] == [slime.Sample] * 2
    assert [group[0].index for group in groups] == [0, N]


def test_the_plain_source_takes_nothing_back(args) -> None:
    data_source = RolloutDataSource(args)
    with pytest.raises(RuntimeError, match="RolloutDataSource is read-only"):
        data_source.add_samples(data_source.get_samples(1))
    assert issubclass(ReadOnlyError, RuntimeError)


# --- the rollout manager's way ------------------------------------------------------------


def generate(groups, status) -> None:
    for group in groups:
        for sample in group:
            sample.tokens, sample.response, sample.response_length = [1, 2, 3], "yes", 2
            sample.reward, sample.loss_mask = 1.0, [1, 1]
            sample.weight_versions.append("3")
            sample.status = sample.Status(status)


def run_rollout(data_source, args, rollout_id: int) -> list[str]:
    """Draws, trains the first half of the batch, and gives the aborted rest back."""
    drawn = data_source.get_samples(args.over_sampling_batch_size)
    trained, rest = drawn[:3], drawn[3:]
    generate(trained, "completed")
    generate(rest, "aborted")
    data_source.add_samples(rest)
    data_source.save(rollout_id)
    return labels(trained)


def test_stopping_after_every_rollout_changes_nothing(args) -> None:
    whole = RolloutDataSourceWithBuffer(args)
    whole.load(-1)
    uninterrupted = [run_rollout(whole, args, i) for i in range(6)]
    resumed = []
    for rollout_id in range(6):
        data_source = RolloutDataSourceWithBuffer(args)
        data_source.load(rollout_id - 1)
        resumed.append(run_rollout(data_source, args, rollout_id))
    assert resumed == uninterrupted
    assert whole.get_buffer_length() == 1


def test_a_group_from_the_buffer_comes_back_as_it_was_given(args, slime) -> None:
    data_source = RolloutDataSourceWithBuffer(args)
    group, other = data_source.get_samples(2)
    generate([group], "aborted")
    group[0].trace = ["a step"]
    group[1].fork_scores = [0.5]
    group[1].spec_info = slime.Sample.SpecInfo({"spec_draft_token_num": 4})
    data_source.add_samples([group, other])
    data_source.save(0)
    resumed = RolloutDataSourceWithBuffer(args)
    resumed.load(0)
    again, untouched = resumed.get_samples(2)
    assert {type(sample) for sample in again} == {slime.Sample}
    assert again[0].status is slime.Sample.Status.ABORTED
    assert again[0].trace == ["a step"]
    assert again[1].fork_scores == [0.5]
    assert again[1].spec_info.to_dict()["spec_draft_token_num"] == 4
    assert [s.tokens for s in again] == [[1, 2, 3]] * N
    assert [vars(s) for s in untouched] == [vars(s) for s in other]
    state = data_source.state_dict()["rolloutds"]["buffer"]
    assert isinstance(state[0], list | dict)
    assert "row_position" in state[1]  # an untouched group is named by its row
    # The very objects were waiting in the source that was not stopped.
    assert data_source.get_samples(1)[0] is group


def test_a_status_that_slime_does_not_know_stays_text(args) -> None:
    data_source = RolloutDataSourceWithBuffer(args)
    (group,) = data_source.get_samples(1)
    group[0].status = "paused"
    data_source.add_samples([group])
    data_source.save(0)
    resumed = RolloutDataSourceWithBuffer(args)
    resumed.load(0)
    assert resumed.get_samples(1)[0][0].status == "paused"


def test_filters_get_slime_s_arguments(args) -> None:
    seen = []

    def keep_all(given_args, rollout_id, buffer, num_samples):
        seen.append((given_args, rollout_id, num_samples))
        return []

    data_source = RolloutDataSourceWithBuffer(args)
    data_source.buffer_filter = keep_all
    data_source.add_samples(data_source.get_samples(1))
    data_source.get_samples(2)
    assert seen == [(args, None, 2)]
    assert data_source.args is args


def test_groups_of_the_oldest_weights_come_first_when_asked_for(args) -> None:
    args.buffer_sort_by_staleness = True
    data_source = RolloutDataSourceWithBuffer(args)
    assert data_source.buffer_filter is pop_oldest
    groups = data_source.get_samples(4)
    for group, versions in zip(groups, (["7"], [], ["x", "3"], ["7", "5"]), strict=True):
        group[1].weight_versions = versions
    data_source.add_samples(groups)
    assert labels(data_source.get_samples(4)) == labels([groups[i] for i in (2, 3, 0, 1)])


def test_threads_share_it(args) -> None:
    data_source = RolloutDataSourceWithBuffer(args)
    drawn: list[int] = []

    def draw() -> None:
        for _ in range(20):
            drawn.extend(group[0].group_index for group in data_source.get_samples(2))

    def save() -> None:
        for rollout_id in range(10):
            data_source.save(rollout_id)

    threads = [threading.Thread(target=work) for work in (draw, draw, save)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == list(range(80))


# --- state files, both ways ---------------------------------------------------------------


class FrameworkState:
    """The four numbers and the metadata as slime saves and loads them, in a few lines of ours."""

    KEYS = ("sample_offset", "epoch_id", "sample_group_index", "sample_index")

    def __init__(self) -> None:
        self.values = dict.fromkeys(self.KEYS, 0)
        self.metadata: dict = {}

    def draw(self, num_groups: int) -> None:
        left = NUM_ROWS - self.values["sample_offset"]
        if num_groups <= left:
            self.values["sample_offset"] += num_groups
        else:
            self.values["epoch_id"] += 1
            self.values["sample_offset"] = num_groups - left
        self.values["sample_group_index"] += num_groups
        self.values["sample_index"] += num_groups * N

    @staticmethod
    def path(folder: str, rollout_id: int) -> Path:
        return Path(folder) / "rollout" / f"global_dataset_state_dict_{rollout_id}.pt"

    def save(self, folder: str, rollout_id: int) -> None:
        torch = pytest.importorskip("torch")
        path = self.path(folder, rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({**self.values, "metadata": self.metadata}, path)

    def load(self, folder: str, rollout_id: int) -> None:
        torch = pytest.importorskip("torch")
        # weights_only, as torch does it by default since 2.6.
        state = torch.load(self.path(folder, rollout_id), weights_only=True)
        self.values = {key: state.get(key, 0) for key in self.KEYS}
        self.metadata = state.get("metadata", {})


def test_the_state_is_that_of_our_own_source(args) -> None:
    states = []
    for cls in (source.RolloutDataSourceWithBuffer, RolloutDataSourceWithBuffer):
        data_source = cls(args)
        groups = data_source.get_samples(13)
        generate(groups[:2], "aborted")
        groups[1][0].trace = {"step": 1}
        data_source.add_samples(groups[:4])
        states.append(data_source.state_dict())
    assert states[0] == states[1]


def test_slime_s_file_loads_here(args, caplog) -> None:
    theirs = FrameworkState()
    theirs.metadata = {"seen": 3}
    for _ in range(4):
        theirs.draw(4)
    theirs.save(args.save, 3)
    data_source = RolloutDataSourceWithBuffer(args)
    data_source.load(3)
    assert data_source.get_metadata() == {"seen": 3}
    groups = data_source.get_samples(5)
    assert labels(groups) == expected_labels(21)[16:]
    assert groups[0][0].index == 16 * N
    assert "another" not in caplog.text


def test_our_file_loads_in_slime(args) -> None:
    data_source = RolloutDataSourceWithBuffer(args)
    data_source.update_metadata({"seen": 1})
    group, *_ = data_source.get_samples(13)
    data_source.add_samples([group])
    data_source.save(2)
    theirs, expected = FrameworkState(), FrameworkState()
    theirs.load(args.save, 2)
    expected.draw(10)
    expected.draw(3)
    assert theirs.values == expected.values
    assert theirs.metadata == {"seen": 1}


def test_a_missing_state_is_refused_unless_a_variable_says_otherwise(args, monkeypatch) -> None:
    RolloutDataSource(args).save(4)
    with pytest.raises(MissingStateError, match="4"):
        RolloutDataSource(args).load(5)
    monkeypatch.setenv("ROLLOUTDS_ON_MISSING_STATE", "fresh")
    fresh = RolloutDataSource(args)
    fresh.load(5)
    assert fresh.sample_offset == 0


# --- settings -----------------------------------------------------------------------------


def test_variables_reach_our_own_settings_only(args) -> None:
    environment = {
        "ROLLOUTDS_BAD_ROWS": "skip",
        "ROLLOUTDS_TRACK_IN_FLIGHT": "1",
        "ROLLOUTDS_KEEP_LAST": "2",
        "ROLLOUTDS_ROLLOUT_SEED": "7",
        "ROLLOUTDS_PROMPT_DATA": "elsewhere.jsonl",
        "ROLLOUTDS_BUFFER_FILTER_PATH": "evil.fn",
    }
    config = config_of(args, environment)
    assert (config.bad_rows, config.track_in_flight, config.keep_last) == ("skip", True, 2)
    assert (config.rollout_seed, config.prompt_data) == (42, args.prompt_data)
    assert config.buffer_filter_path is None


def test_a_wrong_variable_is_named(args) -> None:
    with pytest.raises(ConfigError, match="variable ROLLOUTDS_KEEP_LAST"):
        config_of(args, {"ROLLOUTDS_KEEP_LAST": "few"})


def test_groups_in_flight_come_back_as_slime_s_samples(args, slime, monkeypatch) -> None:
    monkeypatch.setenv("ROLLOUTDS_TRACK_IN_FLIGHT", "true")
    data_source = RolloutDataSourceWithBuffer(args)
    first, second, third = data_source.get_samples(3)
    data_source.complete([second])
    data_source.add_samples([third])
    generate([third], "aborted")
    (picked,) = data_source.get_samples(1)
    assert picked is third
    data_source.save(0)
    resumed = RolloutDataSourceWithBuffer(args)
    resumed.load(0)
    groups = resumed.get_samples(3)
    assert labels(groups) == [*labels([first, third]), expected_labels(4)[3]]
    assert {type(group[0]) for group in groups} == {slime.Sample}
    assert groups[1][0].response == "yes"


def test_without_the_framework_it_says_what_to_use(args, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "slime.utils.types", None)
    monkeypatch.setitem(sys.modules, "slime", None)
    with pytest.raises(ConfigError, match=r"none of slime, vime is installed"):
        RolloutDataSource(args)


def test_vime_is_served_by_the_same_module(args, make_framework, monkeypatch) -> None:
    for name in ("slime", "slime.utils", "slime.utils.types"):
        monkeypatch.delitem(sys.modules, name)
    vime = make_framework("vime")
    assert type(RolloutDataSource(args).get_samples(1)[0][0]) is vime.Sample


# --- media --------------------------------------------------------------------------------


@pytest.fixture
def media_args(args, tmp_path):
    rows = [
        {"prompt": "<image> what is it?", "images": ["a.png"], "label": "a"},
        {"prompt": "no picture at all", "images": None, "label": "b"},
        {"prompt": "<image> and <image>", "images": ["c.png", "d.png"], "label": "c"},
    ]
    args.prompt_data = write_rows(tmp_path / "media.jsonl", rows)
    args.hf_checkpoint, args.rollout_shuffle = "some/model", False
    args.multimodal_keys = {"image": "images"}
    return args


class Processor:
    def __init__(self) -> None:
        self.saved_in: list[str] = []

    def __call__(self, text, images=None, videos=None):
        return {"input_ids": [[0] * (len(text.split()) + 10 * len(images or ()))]}

    def save_pretrained(self, folder) -> None:
        self.saved_in.append(folder)


def sources(sample):
    inputs = sample.multimodal_inputs
    return None if inputs is None else [picture.source for picture in inputs["images"]]


def test_media_are_decoded_when_a_row_is_served(media_args, make_framework) -> None:
    slime = make_framework("slime", Processor())
    data_source = RolloutDataSource(media_args)
    assert slime.decoded == []
    groups = data_source.get_samples(2)
    assert slime.decoded == [["a.png"]]
    assert [sources(group[0]) for group in groups] == [["a.png"], None]
    assert groups[0][0].multimodal_inputs is groups[0][1].multimodal_inputs
    assert sources(data_source.get_samples(1)[0][2]) == ["c.png", "d.png"]


def test_media_that_do_not_decode_name_the_row_and_move_nothing(
    media_args, make_framework, tmp_path
) -> None:
    make_framework("slime", Processor())
    rows = [{"prompt": "<image>", "images": ["broken.png"], "label": "a"}]
    media_args.prompt_data = write_rows(tmp_path / "broken.jsonl", rows)
    data_source = RolloutDataSourceWithBuffer(media_args)
    with pytest.raises(PromptError, match=r"row 0: its media cannot be decoded \(OSError"):
        data_source.get_samples(1)
    assert data_source.sample_group_index == 0


def test_without_a_processor_references_stay(media_args, slime) -> None:
    (group,) = RolloutDataSource(media_args).get_samples(1)
    assert group[0].multimodal_inputs is None
    first_part: Any = group[0].prompt[0]
    assert first_part["content"][0] == {"type": "image", "image": "a.png"}
    assert slime.decoded == []


def test_decoded_media_are_not_in_the_state_and_come_back(media_args, make_framework) -> None:
    slime = make_framework("slime", Processor())
    data_source = RolloutDataSourceWithBuffer(media_args)
    touched, plain, untouched = data_source.get_samples(3)
    generate([touched], "aborted")
    data_source.add_samples([touched, untouched, plain])
    data_source.save(0)
    assert sources(touched[0]) == ["a.png"]
    num_decoded = len(slime.decoded)
    resumed = RolloutDataSourceWithBuffer(media_args)
    resumed.load(0)
    groups = resumed.get_samples(3)
    assert [sources(group[1]) for group in groups] == [["a.png"], ["c.png", "d.png"], None]
    assert groups[0][0].response == "yes"
    assert slime.decoded[num_decoded:] == [["a.png"], ["c.png", "d.png"]]


class WordTokenizer:
    """Stands in for a tokenizer: a token a word."""

    name = digest = "words"
    template_digest = chat_template = None

    def render(self, messages, tools, kwargs):
        parts = [p for m in messages for p in _content_parts(m)]
        return " ".join(part.get("text", "<image>").strip() for part in parts)

    def count(self, texts):
        return [len(text.split()) for text in texts]

    def max_tokens(self, num_bytes, *, is_ascii=False):
        return None

    def min_tokens(self, num_bytes):
        return None

    def save_pretrained(self, folder):
        Path(folder).mkdir(parents=True)


def _content_parts(message):
    content = message["content"]
    return content if isinstance(content, list) else [{"text": content}]


@pytest.fixture
def word_tokenizer(monkeypatch):
    monkeypatch.setattr(
        "rolloutds.dataset.Tokenizer.load", staticmethod(lambda *a, **k: WordTokenizer())
    )


@pytest.mark.usefixtures("word_tokenizer")
@pytest.mark.parametrize(("limit", "kept"), [(13, ["b"]), (14, ["a", "b"]), (23, ["a", "b", "c"])])
def test_the_length_filter_counts_what_the_processor_makes_of_media(
    media_args, make_framework, caplog, limit, kept
) -> None:
    make_framework("slime", Processor())
    media_args.apply_chat_template, media_args.rollout_max_prompt_len = True, limit
    data_source = RolloutDataSource(media_args)
    assert labels(data_source.get_samples(len(data_source))) == kept
    assert "count text only" not in caplog.text
    assert "put those with media last" in caplog.text


@pytest.mark.usefixtures("word_tokenizer", "slime")
def test_without_a_processor_the_length_filter_counts_text_and_says_so(media_args, caplog) -> None:
    media_args.apply_chat_template, media_args.rollout_max_prompt_len = True, 4
    assert len(RolloutDataSource(media_args)) == 3
    assert "count text only" in caplog.text


@pytest.mark.usefixtures("word_tokenizer")
def test_dump_details_gets_the_tokenizer_and_the_processor(
    media_args, make_framework, tmp_path
) -> None:
    processor = Processor()
    make_framework("slime", processor)
    media_args.dump_details = str(tmp_path / "details")
    RolloutDataSource(media_args)
    assert (tmp_path / "details" / "tokenizer").is_dir()
    assert processor.saved_in == [f"{tmp_path}/details/processor"]


# --- miles --------------------------------------------------------------------------------


def test_miles_gets_its_samples_and_its_chat_template(args, make_framework, tmp_path) -> None:
    miles = make_framework("miles")
    data_source = miles_integration.RolloutDataSourceWithBuffer(args)
    groups = data_source.get_samples(14)
    assert labels(groups) == expected_labels(14)
    assert type(groups[0][0]) is miles.Sample
    args.chat_template_path = "template.jinja"
    assert miles_integration.RolloutDataSource(args).config.chat_template == "template.jinja"
    assert integration.RolloutDataSource(args).config.chat_template is None
