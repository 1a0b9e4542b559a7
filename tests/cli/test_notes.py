"""Remarks on stderr: said where they matter, once."""

from __future__ import annotations

from pathlib import Path

import pytest

LEFT_OUT = "buffer_filter_path is left out"


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize(
    ("call", "count"),
    [
        (("peek", "--n=1"), 0),
        (("plan", "--rollout-batch-size=4"), 0),
        (("ckpt", "show"), 0),
        (("ckpt", "list"), 0),
        (("buffer", "show", "--limit=1"), 0),
        (("buffer", "stats"), 0),
        (("buffer", "replay", "--filter=rolloutds.filters.pop_first"), 0),
        (("buffer", "replay", "--buffer-filter-path=rolloutds.filters.pop_first"), 0),
        (("buffer", "replay"), 1),
        (("config",), 1),
    ],
)
def test_a_filter_that_is_left_out_is_said_where_it_would_be_used(run, call, count):
    Path("rolloutds.toml").write_text(
        "buffer_filter_path = 'evil.py:take'\nprompt_data = 'prompts.jsonl'\ninput_key = 'prompt'\n"
    )
    assert run(*call).err.count(LEFT_OUT) == count


@pytest.mark.parametrize(
    "call", [("buffer", "show", "--limit=1"), ("buffer", "stats"), ("ckpt", "list"), ("config",)]
)
def test_a_path_map_that_fits_no_path_is_said_once(run, call):
    Path("run.sh").write_text(
        "python3 train.py --prompt-data /data/x.jsonl --load /ckpt/a --rollout-batch-size 8\n"
    )
    script = ("--from-script=run.sh", "--path-map=/ckpt=/there", "--path-map=/nowhere=/there")
    err = run(*call, *script).err
    assert err.count("--path-map /nowhere=/there: no path of run.sh begins so") == 1
    assert "--path-map /ckpt" not in err
