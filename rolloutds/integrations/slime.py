"""slime's data source, in place: ``--data-source-path rolloutds.integrations.slime.…``.

Order, indices and state files are slime's; groups hold slime's own samples. vime, which took over
slime's classes, uses this module too.
"""

from __future__ import annotations

import dataclasses
import math
import os
from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from rolloutds import source
from rolloutds.config import SETTINGS, DataSourceConfig, checked
from rolloutds.dataset import Dataset
from rolloutds.in_flight import DrawnGroup
from rolloutds.integrations.framework import Framework, Media, media_messages
from rolloutds.lengths import Lengths
from rolloutds.readers.base import Row
from rolloutds.row_findings import Notice
from rolloutds.sample import SampleGroup
from rolloutds.state_copy import StateCopier

_ROWS_AT_ONCE = 64


def config_of(args: Any, environment: Mapping[str, str] | None = None) -> DataSourceConfig:
    """The settings of a run of slime.

    Args:
        args: slime's arguments.
        environment: its ``ROLLOUTDS_*`` variables give our own settings, which slime's parser
            does not know; never a setting of the run. None is the process's.

    Raises:
        ConfigError: a setting has a wrong value.
    """
    environment = os.environ if environment is None else environment
    ours = {
        setting.name: checked(
            setting, environment[setting.variable], where=f"variable {setting.variable}"
        )
        for setting in SETTINGS
        if setting.is_ours and environment.get(setting.variable)
    }
    return dataclasses.replace(DataSourceConfig.from_args(args), **ours)


class FrameworkSource(source.RolloutDataSource):
    """A data source whose groups hold a framework's own samples, with their media decoded.

    Args:
        args: the framework's arguments.

    Attributes:
        packages: names of the frameworks it serves.
    """

    packages: ClassVar[tuple[str, ...]] = ("slime", "vime")

    def __init__(self, args: Any) -> None:
        self._framework = Framework(self.packages)
        super().__init__(self._config_of(args))
        self.args = args

    def _config_of(self, args: Any) -> DataSourceConfig:
        return config_of(args)

    @cached_property
    def _media(self) -> Media:
        config = self.config
        has_use = config.multimodal_keys is not None or config.dump_details is not None
        if not has_use or config.hf_checkpoint is None:
            return Media(self._framework, None)
        return Media(
            self._framework,
            self._framework.load_processor(
                config.hf_checkpoint, trust_remote_code=config.trust_remote_code
            ),
        )

    def _open_dataset(self) -> Dataset | None:
        dataset = super()._open_dataset()
        processor: Any = self._media.processor if dataset is not None else None
        if self.config.dump_details is not None and hasattr(processor, "save_pretrained"):
            processor.save_pretrained(f"{self.config.dump_details}/processor")
        return dataset

    def _make_dataset(self) -> Dataset:
        if self.config.multimodal_keys is None:
            return super()._make_dataset()
        return MediaDataset(self.config, self._media)

    def _make(self, positions: Sequence[int | None]) -> list[SampleGroup]:
        return self._as_theirs(super()._make(positions))

    def _revive(self, drawn: Sequence[DrawnGroup]) -> list[SampleGroup]:
        return self._as_theirs(super()._revive(drawn))

    def _as_theirs(self, groups: list[SampleGroup]) -> list[SampleGroup]:
        theirs = self._framework.groups(groups)
        if self.config.multimodal_keys is not None:
            self._media.fill_in(theirs)
        return theirs

    def _describe(self, group: SampleGroup, copier: StateCopier) -> DrawnGroup:
        return super()._describe(self._framework.our_group(group), copier)


class RolloutDataSource(FrameworkSource):
    """Groups of slime's samples from the dataset, in slime's order.

    Args:
        args: slime's arguments. Our own settings come from ``ROLLOUTDS_*`` variables.

    Raises:
        ConfigError: a setting is wrong, or slime is not installed.
        DataError: the prompt data cannot be used.
    """


class RolloutDataSourceWithBuffer(FrameworkSource, source.RolloutDataSourceWithBuffer):
    """Groups of slime's samples from a buffer of returned groups first, then from the dataset.

    Args:
        args: slime's arguments. Our own settings come from ``ROLLOUTDS_*`` variables.

    Raises:
        ConfigError: a setting is wrong, or slime is not installed.
        DataError: the prompt data cannot be used.
        FilterError: `buffer_filter_path` cannot be loaded.
    """

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        sorts = getattr(args, "buffer_sort_by_staleness", False)
        if sorts and self.config.buffer_filter_path is None:
            self.buffer_filter = pop_oldest


def pop_oldest(
    args: Any, rollout_id: int | None, buffer: list[SampleGroup], num_samples: int
) -> list[SampleGroup]:
    """Takes the groups first whose tokens come from the oldest weights.

    It is what ``--buffer-sort-by-staleness`` asks for; groups without tokens come last, and
    groups alike in the order they wait.

    Args:
        args: the run's settings; nothing is read from them.
        rollout_id: the rollout the groups are for.
        buffer: the waiting groups; it is sorted, and what is returned is removed from it.
        num_samples: how many groups are asked for.

    Returns:
        At most `num_samples` groups, ``[num_groups, n_samples_per_prompt]``.
    """
    buffer.sort(key=_oldest_version)
    taken = buffer[:num_samples]
    del buffer[:num_samples]
    return taken


def _oldest_version(group: SampleGroup) -> float:
    versions = [str(v) for sample in group for v in sample.weight_versions or ()]
    numbers = [int(v) for v in versions if v.isascii() and v.removeprefix("-").isdigit()]
    return min(numbers, default=math.inf)


class MediaDataset(Dataset):
    """A dataset whose length filter counts what a processor makes of media.

    Args:
        config: the settings.
        media: decodes a row's media.
    """

    def __init__(self, config: DataSourceConfig, media: Media) -> None:
        self._media = media
        super().__init__(config)

    def _measure_lengths(self) -> Lengths | None:
        lengths = super()._measure_lengths()
        if lengths is None or self._media.processor is None:
            return lengths
        self.notices = [n for n in self.notices if n.code != "media_not_counted"]
        return self._with_media(lengths)

    def _with_media(self, lengths: Lengths) -> Lengths:
        """The lengths of rows that fit by their text, counted again where they have media."""
        values = array("i", lengths.values)
        fitting = [i for i, length in enumerate(values) if length <= lengths.limit]
        num_counted = 0
        for start in range(0, len(fitting), _ROWS_AT_ONCE):
            some = fitting[start : start + _ROWS_AT_ONCE]
            for position, row in zip(some, self.rows.read(some), strict=True):
                length = self._length_with_media(row)
                if length is not None:
                    values[position] = length
                    num_counted += 1
        if 0 < num_counted < len(fitting):
            self.notices.append(Notice("media_order", _MEDIA_ORDER))
        return Lengths(values, lengths.limit)

    def _length_with_media(self, row: Row) -> int | None:
        prompt = self._build(row)
        messages = media_messages(prompt.content, prompt.messages)
        if messages is None:
            return None
        return self._media.num_tokens(self._only_text(row), messages, where=str(row.place))


_MEDIA_ORDER = (
    "rows with and without media stay in the order of the file; with a processor and "
    "rollout_max_prompt_len, miles and some versions of slime put those with media last"
)
