"""A stand-in for the frameworks: their Sample's fields and helpers, nothing else of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass
class Counters:
    counts: dict = field(default_factory=dict)

    def to_dict(self):
        return dict(self.counts)

    @classmethod
    def from_dict(cls, data):
        return cls(dict(data))


@dataclass
class TheirSample:
    """The fields of slime's sample, and one of a fork's own."""

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: Any = ""
    tokens: list = field(default_factory=list)
    multimodal_inputs: dict | None = None
    multimodal_train_inputs: dict | None = None
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: list | None = None
    weight_versions: list = field(default_factory=list)
    rollout_log_probs: list | None = None
    remove_sample: bool = False
    teacher_log_probs: list | None = None
    fork_scores: list | None = None

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    status: Status = Status.PENDING
    metadata: dict = field(default_factory=dict)
    generate_function_path: str | None = None
    train_metadata: dict | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: Counters = field(default_factory=Counters)
    prefix_cache_info: Counters = field(default_factory=Counters)

    SpecInfo = Counters
    PrefixCacheInfo = Counters

    def to_dict(self):
        value = dict(self.__dict__)
        value["status"] = self.status.value
        value["spec_info"] = self.spec_info.to_dict()
        value["prefix_cache_info"] = self.prefix_cache_info.to_dict()
        return value


class Picture:
    """A decoded image: neither plain data nor comparable."""

    def __init__(self, source):
        self.source = source


@pytest.fixture
def make_framework(monkeypatch):
    """Installs a stand-in package of that name; its processor and decoded media are recorded."""

    def make(name, processor=None):
        decoded = []

        def process_vision_info(messages, processor):
            parts = [p for m in messages if isinstance(m["content"], list) for p in m["content"]]
            images = [Picture(p["image"]) for p in parts if p["type"] == "image"]
            if any(image.source == "broken.png" for image in images):
                raise OSError("broken.png is broken")
            decoded.append([image.source for image in images])
            return {"images": images or None, "videos": None}

        types, processing = ModuleType(f"{name}.utils.types"), ModuleType("processing_utils")
        types.Sample = TheirSample
        processing.process_vision_info = process_vision_info
        processing.load_processor = lambda path, **kwargs: processor
        for module, content in (
            (name, ModuleType(name)),
            (f"{name}.utils", ModuleType(f"{name}.utils")),
            (f"{name}.utils.types", types),
            (f"{name}.utils.processing_utils", processing),
        ):
            monkeypatch.setitem(sys.modules, module, content)
        return SimpleNamespace(decoded=decoded, processor=processor, Sample=TheirSample)

    return make


@pytest.fixture
def slime(make_framework):
    return make_framework("slime")
