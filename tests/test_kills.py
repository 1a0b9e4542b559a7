"""kill -9 in the middle of a save, again and again: there is always a good file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="states are saved with torch")

# One parent with torch loaded forks every child: importing it 200 times would take minutes.
PROGRAM = r"""
import json, os, random, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
import torch
from rolloutds import RolloutDataSourceWithBuffer, Sample, torch_file
from rolloutds.checkpoints import native
from rolloutds.torch_file import writer

folder, num_kills = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
rows = "".join(json.dumps({"input": f"row {i}"}) + "\n" for i in range(50))
(folder / "p.jsonl").write_text(rows)
args = SimpleNamespace(
    prompt_data=str(folder / "p.jsonl"), rollout_global_dataset=True, rollout_shuffle=True,
    n_samples_per_prompt=2, save=str(folder), load=str(folder),
)
dice = random.Random(5)


def new_source():
    return RolloutDataSourceWithBuffer(args)


def draw_and_save_for_ever(reader, first_id, kill_at):
    # One id again and again, and now and then the next one.
    signal.alarm(60)  # a kill that never comes must not hang the suite
    source = new_source()
    source.load(first_id)
    if kill_at is not None:
        die_at(*kill_at)
    os.write(reader, b"x")
    for save in range(1_000_000):
        groups = source.get_samples(7)
        for sample in groups[0]:
            sample.response, sample.status = "half " * 2_000, Sample.Status.ABORTED
        source.add_samples(groups[:1])
        del source.buffer[40:]
        source.save(first_id + save // 5)
        os.write(reader, b"s")


def die_at(name, call):
    real, calls = getattr(os, name), [0]

    def dying(*arguments, **more):
        calls[0] += 1
        if calls[0] == call:
            if name == "write":  # half of it reaches the file
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **more)

    # Only in the writer: the pipe to the parent uses the same calls.
    setattr(writer, "os", SimpleNamespace(**{**vars(os), name: dying}))


def check():
    ids = native.saved_ids(folder)
    assert ids, "no state at all"
    for rollout_id in ids[-3:]:
        path = native.state_path(folder, rollout_id)
        state = torch_file.read(path)
        assert torch.load(path, weights_only=True) == state
        assert state["sample_index"] == 2 * state["sample_group_index"]
        assert state["sample_group_index"] == 50 * state["epoch_id"] + state["sample_offset"]
        source = new_source()
        source.load(rollout_id)
        assert source.sample_group_index == state["sample_group_index"]
    return ids[-1]


first = new_source()
first.save(0)
points = [(name, call) for name in ("open", "write", "fsync", "replace") for call in (1, 2, 3)]
num_finished = 0
for kill in range(num_kills):
    kill_at = points[kill] if kill < len(points) else None
    newest = check()
    reader, writer_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            draw_and_save_for_ever(writer_end, newest, kill_at)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(9)
    os.close(writer_end)
    if kill_at is None:
        os.read(reader, 1)
        time.sleep(dice.random() * 0.03)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (kill, status)
    said = b""
    while part := os.read(reader, 65536):
        said += part
    num_finished += said.count(b"s")
    os.close(reader)
    check()
left = [p.name for p in (folder / "rollout").iterdir() if not p.name.endswith(".pt")]
print(json.dumps({"finished": num_finished, "leftovers": left, "ids": native.saved_ids(folder)}))
"""


def run_kills(folder: Path, num_kills: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(num_kills)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "child:" not in done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize(
    "num_kills", [20, pytest.param(200, marks=pytest.mark.proof)], ids=["some", "many"]
)
def test_c8_after_every_kill_there_is_a_good_state(tmp_path: Path, num_kills: int) -> None:
    said = run_kills(tmp_path, num_kills)
    # The kills hit saves, and not a process that never got to one.
    assert said["finished"] > 0
    assert said["leftovers"], "no kill was in the middle of a save"
    assert said["ids"][0] == 0
