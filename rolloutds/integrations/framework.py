"""What a framework brings along: its class of samples, and its way of decoding media."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import Any, Final

from rolloutds.errors import ConfigError, PromptError
from rolloutds.prompts import MEDIA_KINDS
from rolloutds.sample import SAMPLE_FIELDS, Sample, SampleGroup

_logger = logging.getLogger("rolloutds")
_OUR_FIELDS: Final = ("row_id", "messages")
_COUNTERS: Final = {"spec_info": "SpecInfo", "prefix_cache_info": "PrefixCacheInfo"}
_MISSING: Final = object()
_APART: Final = frozenset({*_COUNTERS, "status"})

Message = dict[str, Any]


class Framework:
    """slime, or a framework that took over its classes.

    Args:
        names: packages it may be: it is the one that runs, else the first that is installed.

    Raises:
        ConfigError: none is installed.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.name, types = _first_installed(names)
        self._sample_class: Any = types.Sample
        known = {field.name for field in fields(self._sample_class)}
        self._blank: dict[str, Any] = vars(self._sample_class())
        self._shared = [n for n in SAMPLE_FIELDS if n in known - _APART] + list(_OUR_FIELDS)

    # --- samples --------------------------------------------------------------------------

    def groups(self, groups: Sequence[SampleGroup]) -> list[SampleGroup]:
        """The groups with samples of the framework's class; ours are taken over, not copied."""
        return [[self._member(member) for member in group] for group in groups]

    def _member(self, member: Any) -> Any:
        if isinstance(member, list):  # a compact group: the samples of one rollout
            return [self._sample(sample) for sample in member]
        return self._sample(member)

    def _sample(self, sample: Sample) -> Any:
        own, made = sample.__dict__, self._sample_class()
        vars(made).update({name: own[name] for name in self._shared})
        if sample.status is not Sample.Status.PENDING:
            made.status = self._status(sample.status)
        for name, counters in _COUNTERS.items():
            counted = own[name].to_dict()
            if any(counted.values()) and hasattr(self._sample_class, counters):
                setattr(made, name, getattr(self._sample_class, counters).from_dict(counted))
        if len(own) > len(_SAMPLE_FIELDS):  # what a run set on its samples
            vars(made).update({n: v for n, v in own.items() if n not in _SAMPLE_FIELDS})
        return made

    def _status(self, status: Any) -> Any:
        text = getattr(status, "value", status)
        try:
            return self._sample_class.Status(text)
        except ValueError:
            return text

    def our_group(self, group: Sequence[Any]) -> SampleGroup:
        """The same group in our class, without media that can be decoded again."""
        return [
            [self._our_sample(sample) for sample in member]  # type: ignore[misc]  # compact
            if isinstance(member, list)
            else self._our_sample(member)
            for member in group
        ]

    def _our_sample(self, sample: Any) -> Sample:
        if not isinstance(sample, self._sample_class):
            return Sample.from_dict(sample.to_dict())
        data = {
            name: value
            for name, value in vars(sample).items()
            if name in _SAMPLE_FIELDS or value is not self._blank.get(name, _MISSING)
        }
        # Not by the class's own to_dict, which stops at a status it does not know.
        data["status"] = getattr(sample.status, "value", sample.status)
        data |= {name: getattr(sample, name).to_dict() for name in _COUNTERS if name in data}
        if media_messages(sample.prompt, data.get("messages")) is not None:
            data["multimodal_inputs"] = None
        return Sample.from_dict(data)

    # --- media ----------------------------------------------------------------------------

    def load_processor(self, hf_checkpoint: str, *, trust_remote_code: bool) -> Any | None:
        """The checkpoint's processor of media; None when it has none that loads."""
        try:
            load = self._processing.load_processor
            return load(hf_checkpoint, trust_remote_code=trust_remote_code)
        except Exception as error:  # whatever a foreign checkpoint or a missing package raises
            _logger.warning("the processor of %s does not load: %s", hf_checkpoint, error)
            return None

    def decode(self, messages: Sequence[Message], processor: Any, *, where: str) -> Any:
        """The media that messages refer to, decoded by the framework's own helper.

        Raises:
            PromptError: they cannot be decoded.
        """
        try:
            return self._processing.process_vision_info(messages, processor)
        except Exception as error:  # whatever decoding a foreign file raises
            raise PromptError(
                f"its media cannot be decoded ({type(error).__name__}: {error})", where=where
            ) from error

    @cached_property
    def _processing(self) -> ModuleType:
        return importlib.import_module(f"{self.name}.utils.processing_utils")


_SAMPLE_FIELDS: Final = frozenset(SAMPLE_FIELDS)


def _first_installed(names: Sequence[str]) -> tuple[str, ModuleType]:
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return name, importlib.import_module(f"{name}.utils.types")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.utils.types".startswith(error.name):
                raise  # the framework is there, and lacks something itself
    raise ConfigError(
        f"none of {', '.join(names)} is installed",
        where="rolloutds.integrations",
        hint="without a framework use rolloutds.RolloutDataSourceWithBuffer",
    )


def media_messages(prompt: Any, messages: Any) -> list[Message] | None:
    """The messages of a sample that refer to media; None where it has none."""
    found = messages if messages is not None else prompt
    if not isinstance(found, list):
        return None
    parts = (part for m in found if isinstance(m, Mapping) for part in _parts(m.get("content")))
    return found if any(part.get("type") in MEDIA_KINDS for part in parts) else None


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [p for p in content if isinstance(p, Mapping)] if isinstance(content, list) else []


@dataclass(frozen=True)
class Media:
    """Decodes the media of rows, as far as a processor is there.

    Attributes:
        framework: whose helper decodes.
        processor: the checkpoint's; None: nothing is decoded.
    """

    framework: Framework
    processor: Any | None

    def fill_in(self, groups: Sequence[SampleGroup]) -> None:
        """Sets the media of groups that were made from rows; the samples of a group share them.

        Raises:
            PromptError: a row's media cannot be decoded.
        """
        for group in groups:
            for sample in _leaves(group):
                self._fill_in(sample, group)

    def _fill_in(self, sample: Any, group: Any) -> None:
        if self.processor is None or sample.multimodal_inputs is not None:
            return
        messages = media_messages(sample.prompt, getattr(sample, "messages", None))
        if messages is None:
            return
        where = f"row {getattr(sample, 'row_id', None)}"
        decoded = self.framework.decode(messages, self.processor, where=where)
        for sibling in _leaves(group):
            sibling.multimodal_inputs = decoded

    def num_tokens(self, text: str, messages: Sequence[Message], *, where: str) -> int:
        """Tokens of a prompt with what the processor makes of its media.

        Raises:
            PromptError: the media cannot be decoded, or the processor fails on them.
        """
        inputs = self.framework.decode(messages, self.processor, where=where)
        try:
            return len(self.processor(text=text, **inputs)["input_ids"][0])  # type: ignore[misc]
        except Exception as error:  # whatever a foreign processor raises
            raise PromptError(
                f"the processor fails on it ({type(error).__name__}: {error})", where=where
            ) from error


def _leaves(group: Any) -> list[Any]:
    return [s for member in group for s in (member if isinstance(member, list) else [member])]
