"""Prompt files for the benchmarks, the same for the same number of rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SEED = 20_240
_ROWS_AT_ONCE = 10_000
_NUM_SENTENCES = 2_000
_WORDS = """
angle average bakery bottle boxes bridge circle class coins cost day distance divides dollars
each earns eggs every fence field first floor garden gives half height hours houses how if in
integer into kilometres length less many marbles minutes more number of often on one other pages
pays people percent per prime price product rate remain rope second sells seven shop side speed
square students sum takes than the then third three times total train triangle twice two until
walks water week what when which width with workers year
"""
# Real prompts are not all ASCII, and their quotes and line ends are escaped.
_ENDINGS = (". ", ". ", ". ", "? ", ".\n", ' "so". ', " naïve, déjà vu. ", " $x^2 \\le 5$. ", "。 ")

MakeLine = Callable[[random.Random, list[str], int], str]


def message_line(rng: random.Random, sentences: list[str], row: int) -> str:
    """A row of messages with label and metadata, about 640 bytes."""
    content = "".join(rng.choices(sentences, k=7))
    return _line(
        {
            "prompt": [{"role": "user", "content": content}],
            "label": str(row % 997),
            "metadata": {"source": "made", "row": row},
        }
    )


def text_line(rng: random.Random, sentences: list[str], row: int) -> str:
    """A row whose prompt is plain text, about 270 bytes."""
    prompt = "".join(rng.choices(sentences, k=3))
    return _line({"prompt": prompt, "label": str(row % 997), "metadata": {"row": row}})


def short_line(rng: random.Random, sentences: list[str], row: int) -> str:
    """A row as short as they come, about 40 bytes; written without ``json``, for speed."""
    return f'{{"prompt": "{row} + {row % 89}", "label": {row + row % 89}}}\n'


def make(folder: Path, make_line: MakeLine, num_rows: int) -> Path:
    """Returns a file of that many rows, made if it is not there yet.

    The whole file is read once, so that it is in the page cache when something is measured.

    Args:
        folder: where it is, or goes.
        make_line: what a row is; its name becomes part of the file's.
        num_rows: how many.
    """
    path = folder / f"{make_line.__name__}s-{num_rows}-{_SEED}.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        _write(unfinished, make_line, num_rows)
        unfinished.replace(path)
    _read_through(path)
    return path


def _write(path: Path, make_line: MakeLine, num_rows: int) -> None:
    rng = random.Random(_SEED)
    sentences = [_sentence(rng) for _ in range(_NUM_SENTENCES)]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, num_rows, _ROWS_AT_ONCE):
            rows = range(start, min(start + _ROWS_AT_ONCE, num_rows))
            file.writelines(make_line(rng, sentences, row) for row in rows)


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _sentence(rng: random.Random) -> str:
    words = " ".join(rng.choices(_WORDS.split(), k=rng.randint(6, 16)))
    return words.capitalize() + rng.choice(_ENDINGS)


def _read_through(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
