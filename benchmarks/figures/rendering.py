"""Rendering a chat template over many rows, beside a call of the tokenizer for each row."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench, MeasureError
from benchmarks.figures.length_filter import tokenizer_folder
from benchmarks.result import Outcome, Timing, time_target

_ROWS_A_RENDERED_ROW = 50
"""A fiftieth of the rows shows what each takes."""
_BATCH = 128
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] | trim }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def measure(bench: Bench) -> Outcome:
    """Rendering rows that were loaded before, both ways; then with reading and parsing them."""
    timings, digests = {}, set()
    for work in (render_loaded, apply_template, draw_rows, load_and_apply):
        calls = [_call(bench, work) for _ in range(bench.repeat)]
        timings[work] = Timing([result["seconds"] for result in calls])
        digests |= {result["digest"] for result in calls}
    if len(digests) != 1:
        msg = "the rendered texts are not the same"
        raise MeasureError(msg)
    ours, own, drawing, loading = timings.values()
    targets = [
        time_target(ours, own, "apply_chat_template", limit=1 / 2),
        time_target(drawing, loading, "json, then apply", limit=1),
    ]
    note = f"{_num_rows(bench)} rows; the calls alone, one process each, with a tokenizer loaded"
    yardsticks = {
        "apply_chat_template": own,
        "drawing samples": drawing,
        "json, then apply": loading,
    }
    return Outcome(ours, yardsticks, targets, [note])


def _num_rows(bench: Bench) -> int:
    return max(bench.rows // _ROWS_A_RENDERED_ROW, 1)


def _call(bench: Bench, work: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    path = str(bench.message_file)
    result: dict[str, Any] = bench.call(work, path=path, num_rows=_num_rows(bench))[1]
    return result


def render_loaded(path: str, num_rows: int) -> dict[str, Any]:
    """Renders messages that are in memory, as a data source does."""
    from rolloutds.tokenization import Tokenizer

    prompts: list[Any] = [sample.prompt for sample in eager.load(path, max_rows=num_rows)]
    tokenizer = Tokenizer.load(tokenizer_folder(), chat_template=_TEMPLATE)
    return _timed(lambda: [tokenizer.render(prompt) for prompt in prompts])


def apply_template(path: str, num_rows: int) -> dict[str, Any]:
    """Calls the tokenizer for each, of the same messages."""
    prompts = [sample.prompt for sample in eager.load(path, max_rows=num_rows)]
    apply = _own_method()
    return _timed(lambda: [apply(prompt) for prompt in prompts])


def draw_rows(path: str, num_rows: int) -> dict[str, Any]:
    """Draws rows in batches from a data source that renders them."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=1,
        hf_checkpoint=tokenizer_folder(),
        chat_template=_TEMPLATE,
        apply_chat_template=True,
    )
    source = RolloutDataSource(settings)
    sizes = [min(_BATCH, num_rows - start) for start in range(0, num_rows, _BATCH)]
    return _timed(lambda: [group[0].prompt for size in sizes for group in source.get_samples(size)])


def load_and_apply(path: str, num_rows: int) -> dict[str, Any]:
    """Reads and parses the rows, and calls the tokenizer for each."""
    apply = _own_method()
    return _timed(lambda: [apply(sample.prompt) for sample in eager.load(path, max_rows=num_rows)])


def _own_method() -> Callable[[Any], Any]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder())
    tokenizer.chat_template = _TEMPLATE
    return partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)


def _timed(render: Callable[[], list[Any]]) -> dict[str, Any]:
    # A full collection walks all of transformers; into whose turn it fell was chance.
    gc.collect()
    started = time.perf_counter()
    texts = render()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "digest": hashlib.sha256(repr(texts).encode()).hexdigest()}
