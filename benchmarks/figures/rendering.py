"""Rendering chat templates while rows are drawn, beside a call of the tokenizer for each row."""

from __future__ import annotations

import hashlib
import time
from types import SimpleNamespace
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench, MeasureError
from benchmarks.figures.length_filter import tokenizer_folder
from benchmarks.result import Outcome, Timing, time_target

_ROWS_A_RENDERED_ROW = 50
"""A fiftieth of the rows shows what each takes."""
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] | trim }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def measure(bench: Bench) -> Outcome:
    """Rows read, parsed and rendered, beside rendering rows that were loaded before."""
    path, num_rows = str(bench.message_file), max(bench.rows // _ROWS_A_RENDERED_ROW, 1)
    timings = []
    digests = set()
    for render in (render_rows, apply_template):
        calls = [bench.call(render, path=path, num_rows=num_rows) for _ in range(bench.repeat)]
        timings.append(Timing([result["seconds"] for _, result in calls]))
        digests |= {result["digest"] for _, result in calls}
    if len(digests) != 1:
        msg = "the rendered texts are not the same"
        raise MeasureError(msg)
    ours, calls_alone = timings
    target = time_target(ours, calls_alone, "apply_chat_template", limit=1 / 2)
    note = f"{num_rows} rows; the calls alone, one process each"
    return Outcome(ours, {"apply_chat_template": calls_alone}, [target], [note])


def render_rows(path: str, num_rows: int) -> dict[str, Any]:
    """Draws rows from a data source that renders them."""
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
    started = time.perf_counter()
    texts = [group[0].prompt for group in source.get_samples(num_rows)]
    return _result(texts, time.perf_counter() - started)


def apply_template(path: str, num_rows: int) -> dict[str, Any]:
    """Calls the tokenizer for each row."""
    from transformers import AutoTokenizer

    samples = eager.load(path, max_rows=num_rows)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder())
    tokenizer.chat_template = _TEMPLATE
    started = time.perf_counter()
    texts = [
        tokenizer.apply_chat_template(sample.prompt, tokenize=False, add_generation_prompt=True)
        for sample in samples
    ]
    return _result(texts, time.perf_counter() - started)


def _result(texts: list[Any], seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "digest": hashlib.sha256(repr(texts).encode()).hexdigest()}
