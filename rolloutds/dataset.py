"""The rows of a run in one epoch's order, read when they are asked for."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from rolloutds.cache import Cache, default_cache_folder
from rolloutds.config import DataSourceConfig
from rolloutds.errors import ConfigError, EmptyDatasetError, PromptError, TokenizerError
from rolloutds.fingerprint import Fingerprint
from rolloutds.groups import SampleTemplate
from rolloutds.lengths import Lengths, measure, num_settled, require_some
from rolloutds.prompts import Prompt, PromptSettings, RowInspector, build_prompt
from rolloutds.readers import open_rows
from rolloutds.readers.base import Place, Row, RowKeys
from rolloutds.row_findings import Notice
from rolloutds.sample import Sample
from rolloutds.shuffle import epoch_order
from rolloutds.storage import masked
from rolloutds.tokenization import Tokenizer

_ROWS_READ_AT_ONCE = 256
_CACHED_ORDER_FROM = 100_000
"""Rows from which on reading an order back is quicker than making it anew."""


class Dataset:
    """The prompts that a run serves, in the order of one epoch.

    The files are scanned once, when the dataset is made: everything that would stop the run is
    found then. Rows are read and parsed when they are served; none is kept.

    Args:
        args: any object with the settings (`DataSourceConfig`); `prompt_data` must be set.
        cache: where indexes, orders and counts are kept; None is the user's cache folder.

    Attributes:
        config: the settings.
        rows: the rows that load, slice applied, in file order, before the length filter.
        kept: positions in `rows` that passed the length filter; None when all did.
        lengths: what the length filter measured; None without one.
        notices: what the user should know, one sentence each.
        epoch_id: the epoch whose order is in use; -1 until `shuffle`: the order of the files.

    Raises:
        ConfigError: no prompt data, or a template or limit without a tokenizer.
        DataError: the data cannot be used; every subclass says where.
        TokenizerError: the tokenizer or the chat template cannot be used.
    """

    def __init__(self, args: Any, *, cache: Cache | None = None) -> None:
        self.config = DataSourceConfig.from_args(args)
        self.cache = Cache(default_cache_folder()) if cache is None else cache
        self.epoch_id = -1
        self._orders: dict[int, memoryview] = {}
        self._settings = prompt_settings(self.config)
        inspector = RowInspector(self._settings)
        self.rows = open_rows(
            _require_prompt_data(self.config),
            row_keys(self._settings),
            inspect=inspector,
            bad_rows=self.config.bad_rows,
            cache=self.cache,
        )
        self.notices: list[Notice] = list(self.rows.notices)
        self.lengths = self._measure_lengths()
        self.kept = self.lengths.kept() if self.lengths else None
        if self.lengths:
            require_some(self.lengths, self.kept, where=self._where)
        if self.config.apply_chat_template and not self.lengths:
            # A template that cannot work at all is found now, not at the first rollout.
            self._prompt_text(self.rows.read([0])[0])

    @property
    def _where(self) -> str:
        return masked(str(self.config.prompt_data))

    # --- size and order -------------------------------------------------------------------

    def __len__(self) -> int:
        """Rows served in an epoch."""
        return len(self.rows) if self.kept is None else len(self.kept)

    @property
    def num_too_long(self) -> int:
        """Rows that the length filter left out."""
        return len(self.rows) - len(self)

    def shuffle(self, epoch_id: int) -> None:
        """Puts the rows in the order of that epoch, from the order of the files each time."""
        self.order_of(epoch_id)
        self.epoch_id = epoch_id

    @property
    def order(self) -> memoryview | None:
        """The current epoch's order, ``[len(self)]``; None: the order of the files."""
        return None if self.epoch_id < 0 else self.order_of(self.epoch_id)

    def order_of(self, epoch_id: int) -> memoryview:
        """The shuffled order of an epoch: which kept row is at each position, ``[len(self)]``."""
        order = self._orders.get(epoch_id)
        if order is None:
            order = self._make_order(epoch_id)
            # A draw over an epoch's border needs two orders, nothing needs more.
            recent = list(self._orders.items())[-1:]
            self._orders = dict([*recent, (epoch_id, order)])
        return order

    def _make_order(self, epoch_id: int) -> memoryview:
        num_rows, seed = len(self), self.config.rollout_seed
        if num_rows < _CACHED_ORDER_FROM:
            return epoch_order(num_rows, seed, epoch_id)
        # One file a dataset size and seed: the newest epoch replaces the one before it.
        key, header = f"{num_rows}-{seed}", {"num_rows": num_rows, "seed": seed + epoch_id}
        entry = self.cache.read("order", key)
        if entry is not None and header.items() <= entry.header.items():
            return entry.arrays["order"]
        order = epoch_order(num_rows, seed, epoch_id)
        about = {"source": f"{num_rows} rows, seed {seed}, epoch {epoch_id}"}
        self.cache.write("order", key, header | about, {"order": order})
        return order

    def row_positions(self, epoch_id: int | None, start: int, stop: int) -> list[int]:
        """Positions in `rows` of an epoch's groups ``start <= i < stop``.

        Args:
            epoch_id: the epoch; None is the order of the files.
            start: first position in the epoch.
            stop: the position after the last.
        """
        if epoch_id is None:
            taken: Sequence[int] = range(start, stop)
        else:
            taken = self.order_of(epoch_id)[start:stop].tolist()
        return list(taken) if self.kept is None else [self.kept[i] for i in taken]

    def position_in_epoch(self, row_position: int, epoch_id: int | None) -> int | None:
        """Where an epoch serves the row at `row_position` of `rows`; None: it is too long."""
        position = row_position
        if self.kept is not None:
            position = bisect_left(self.kept, row_position)
            if position == len(self.kept) or self.kept[position] != row_position:
                return None
        return position if epoch_id is None else self.order_of(epoch_id).tolist().index(position)

    def _in_use(self, index: int) -> int:
        return self.row_positions(None if self.epoch_id < 0 else self.epoch_id, index, index + 1)[0]

    # --- samples --------------------------------------------------------------------------

    @property
    def samples(self) -> SampleView:
        """The samples in the current order, made when they are taken."""
        return SampleView(self)

    def __getitem__(self, index: int) -> Sample:
        """The sample at a position of the current order."""
        return self.samples[index]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    def place(self, index: int) -> Place:
        """File and line of the row at a position of the current order."""
        return self.rows.place(self._in_use(index))

    def templates(self, row_positions: Sequence[int]) -> list[SampleTemplate]:
        """One template for each row, to make its samples from, ``[len(row_positions)]``.

        Raises:
            DataError: a row changed on disk, or its template fails to render.
        """
        return [self._template(row) for row in self.rows.read(row_positions)]

    def _template(self, row: Row) -> SampleTemplate:
        prompt = self._build(row)
        fields: dict[str, Any] = {
            "prompt": prompt.content,
            "label": prompt.label,
            "metadata": prompt.metadata,
            "row_id": row.place.row_id,
        }
        if self.config.apply_chat_template:
            fields["prompt"] = self._render(prompt, row.place)
            fields["messages"] = prompt.messages
        return SampleTemplate(fields)

    def _build(self, row: Row) -> Prompt:
        try:
            return build_prompt(row.value, self._settings)
        except PromptError as error:
            error.where = str(row.place)
            raise

    def _render(self, prompt: Prompt, place: Place) -> str:
        tokenizer = self._require_tokenizer()
        kwargs = self.config.apply_chat_template_kwargs
        try:
            return tokenizer.render(prompt.messages, prompt.tools, kwargs)
        except TokenizerError as error:
            error.where = error.where or str(place)
            raise

    def _prompt_text(self, row: Row) -> str | list[dict[str, Any]]:
        prompt = self._build(row)
        if self.config.apply_chat_template:
            return self._render(prompt, row.place)
        return prompt.content

    # --- tokens ---------------------------------------------------------------------------

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of `hf_checkpoint`; None when none is named."""
        if self.config.hf_checkpoint is None:
            return None
        return Tokenizer.load(
            self.config.hf_checkpoint,
            chat_template=self.config.chat_template,
            trust_remote_code=self.config.trust_remote_code,
            cache=self.cache,
        )

    def _require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            needs = "rollout_max_prompt_len"
            if self.config.apply_chat_template:
                needs = "apply_chat_template"
            raise ConfigError(
                f"{needs} needs a tokenizer and hf_checkpoint is not set",
                hint="name its folder or hub name with --hf-checkpoint",
            )
        return self.tokenizer

    def count_tokens(self, samples: Sequence[Sample]) -> list[int] | None:
        """Tokens of each sample's prompt; None without a tokenizer or with message prompts."""
        texts = [sample.prompt for sample in samples if isinstance(sample.prompt, str)]
        if self.tokenizer is None or len(texts) < len(samples):
            return None
        return self.tokenizer.count(texts)

    def _measure_lengths(self) -> Lengths | None:
        limit = self.config.rollout_max_prompt_len
        if limit is None:
            return None
        if not len(self.rows):
            raise EmptyDatasetError("no rows", where=self._where)
        tokenizer = self._require_tokenizer()
        first = self._build(self.rows.read([0])[0])
        if not self.config.apply_chat_template and not isinstance(first.content, str):
            text = (
                "the first prompt is a list of messages and no chat template is applied: "
                "rollout_max_prompt_len is not applied to any row (as in slime)"
            )
            self.notices.append(Notice("no_length_filter", text))
            return None
        if self.config.multimodal_keys:
            text = "prompt lengths count text only, not what a processor makes of media"
            self.notices.append(Notice("media_not_counted", text))
        return measure(
            len(self.rows),
            limit,
            self._read_texts,
            tokenizer,
            place=self.rows.place,
            cache=self.cache,
            cache_key=self._lengths_key(tokenizer),
            source=self._where,
            byte_bounds=self._byte_bounds,
        )

    def _byte_bounds(self) -> Sequence[int] | None:
        """For each row the most bytes of its prompt; None where it is not sent as it is."""
        return None if self._settings.needs_messages else self.rows.byte_bounds()

    def num_measured(self, limit: int) -> int:
        """Of how many rows the cache says whether their prompts are within a limit, in tokens."""
        key = self._lengths_key(self._require_tokenizer())
        return num_settled(self.cache, key, len(self.rows), limit)

    def _read_texts(self, row_positions: Sequence[int]) -> list[str]:
        return [self._only_text(row) for row in self.rows.read(row_positions)]

    def _only_text(self, row: Row) -> str:
        text = self._prompt_text(row)
        if isinstance(text, str):
            return text
        raise PromptError(
            "the prompt is a list of messages, while the first row's is text",
            where=str(row.place),
            expected="text in every row, because rollout_max_prompt_len is measured on text",
            hint="set --apply-chat-template, or make all prompts one kind",
        )

    def _lengths_key(self, tokenizer: Tokenizer) -> str:
        parts = [
            self.rows.digest,
            RowInspector(self._settings).identity,
            tokenizer.digest,
            tokenizer.template_digest if self.config.apply_chat_template else None,
            self.config.apply_chat_template_kwargs,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()

    # --- identity -------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What a saved cursor belongs to: content, order and keys, as plain values."""
        tokenizer = self._tokenizer_in_use()
        return {
            "content_digest": self._content_digest(),
            "num_rows_in_files": self.rows.num_loadable,
            "slice": self.rows.slice_text,
            "num_rows": len(self),
            "rollout_shuffle": self.config.rollout_shuffle,
            "rollout_seed": self.config.rollout_seed if self.config.rollout_shuffle else None,
            "rollout_max_prompt_len": self.config.rollout_max_prompt_len,
            "tokenizer_digest": tokenizer.digest if tokenizer else None,
            "template_digest": self._template_digest(),
            "n_samples_per_prompt": self.config.n_samples_per_prompt,
            "keys": {
                "input_key": self.config.input_key,
                "label_key": self.config.label_key,
                "metadata_key": self.config.metadata_key,
                "tool_key": self.config.tool_key,
                "multimodal_keys": self.config.multimodal_keys,
            },
        }

    def _content_digest(self) -> str:
        files = "".join(f"{file.digest} {file.num_bytes}\n" for file in self.rows.files)
        return hashlib.sha256(files.encode()).hexdigest()

    def _tokenizer_in_use(self) -> Tokenizer | None:
        uses = self.config.apply_chat_template or self.lengths is not None
        return self.tokenizer if uses else None

    def _template_digest(self) -> str | None:
        if not self.config.apply_chat_template:
            return None
        kwargs = json.dumps(self.config.apply_chat_template_kwargs, sort_keys=True, default=repr)
        text = f"{self._require_tokenizer().template_digest} {kwargs}"
        return hashlib.sha256(text.encode()).hexdigest()


class SampleView(Sequence[Sample]):
    """The samples of a dataset in its current order; each is made anew when it is taken."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        positions = range(len(self))[index]
        if isinstance(positions, int):
            return self._take(positions, positions + 1)[0]
        if positions.step == 1:
            return self._take(positions.start, positions.stop)
        return [self._take(i, i + 1)[0] for i in positions]

    def __iter__(self) -> Iterator[Sample]:
        for start in range(0, len(self), _ROWS_READ_AT_ONCE):
            yield from self._take(start, min(start + _ROWS_READ_AT_ONCE, len(self)))

    def _take(self, start: int, stop: int) -> list[Sample]:
        dataset = self._dataset
        epoch_id = None if dataset.epoch_id < 0 else dataset.epoch_id
        positions = dataset.row_positions(epoch_id, start, max(start, stop))
        return [template.make() for template in dataset.templates(positions)]


def _require_prompt_data(config: DataSourceConfig) -> str:
    if config.prompt_data is None:
        raise ConfigError("no prompt data is named", hint="name a file with --prompt-data")
    return config.prompt_data


def row_keys(settings: PromptSettings) -> RowKeys:
    """The keys of rows that prompts are made from."""
    return RowKeys(
        input_key=settings.input_key,
        label_key=settings.label_key,
        metadata_key=settings.metadata_key,
        tool_key=settings.tool_key,
        media_keys=settings.media_keys,
    )


def prompt_settings(config: DataSourceConfig) -> PromptSettings:
    """What of a run's settings decides how a row becomes a prompt."""
    return PromptSettings(
        input_key=config.input_key,
        label_key=config.label_key,
        metadata_key=config.metadata_key,
        tool_key=config.tool_key,
        multimodal_keys=config.multimodal_keys,
        apply_chat_template=config.apply_chat_template,
    )
