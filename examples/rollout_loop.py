"""How a run uses its data source, with a stand-in for the engine, killed and resumed anywhere.

    python examples/rollout_loop.py --run-folder /tmp/run --num-rollout 40
    python examples/rollout_loop.py --run-folder /tmp/run --num-rollout 40 --crash-at 7:generated
    python examples/rollout_loop.py --run-folder /tmp/run --num-rollout 40      # resumes

Each rollout asks for more groups than it needs, keeps the first that pass a dynamic filter, gives
back what was aborted or not needed, and every few rollouts saves a "model checkpoint" together
with the state of the data source. Whatever the moment of a crash, the log of prompts trained on
ends the same as that of a run that never stopped. Saving a state needs the extra `torch`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path

from rolloutds import RolloutDataSourceWithBuffer, Sample, SampleGroup
from rolloutds.sample_files import sample_data_folder

SAMPLE_PROMPTS = sample_data_folder() / "prompts.jsonl"
STAGES = ("drawn", "generated", "trained", "saved-state", "saved-model")


def main(words: Sequence[str] | None = None) -> None:
    """Runs, or resumes, the rollouts that are left."""
    args = read_arguments(words)
    source = RolloutDataSourceWithBuffer(args)
    start = last_checkpoint(args.run_folder) + 1
    source.load(start - 1)
    forget_rollouts_from(args.run_folder, start)
    for rollout_id in range(start, args.num_rollout):
        batch = collect_batch(source, args, rollout_id)
        train(args.run_folder, rollout_id, batch)
        source.complete(batch)
        crash_if_asked(args, rollout_id, "trained")
        if (rollout_id + 1) % args.save_interval == 0 or rollout_id + 1 == args.num_rollout:
            save_checkpoint(source, args, rollout_id)
    print(f"{args.num_rollout} rollouts, {source.in_flight.num_completed} groups trained on")


def read_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The run's settings; the data source takes the same object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run-folder", type=Path, required=True)
    parser.add_argument("--prompt-data", default=str(SAMPLE_PROMPTS))
    parser.add_argument("--input-key", default="prompt")
    parser.add_argument("--num-rollout", type=int, default=20)
    parser.add_argument("--rollout-batch-size", type=int, default=8)
    parser.add_argument("--over-sampling-batch-size", type=int, default=12)
    parser.add_argument("--n-samples-per-prompt", type=int, default=4)
    parser.add_argument("--rollout-seed", type=int, default=42)
    parser.add_argument("--save-interval", type=int, default=3, help="rollouts a checkpoint")
    parser.add_argument(
        "--crash-at",
        metavar="ROLLOUT:STAGE",
        help=f"kill the process there; stages: {', '.join(STAGES)}",
    )
    args = parser.parse_args(words)
    if args.crash_at and args.crash_at.partition(":")[2] not in STAGES:
        parser.error(f"--crash-at {args.crash_at}: expected ROLLOUT: and one of {STAGES}")
    args.rollout_global_dataset = True
    args.rollout_shuffle = True
    args.track_in_flight = True
    args.save = args.load = str(args.run_folder)
    return args


def collect_batch(
    source: RolloutDataSourceWithBuffer, args: argparse.Namespace, rollout_id: int
) -> list[SampleGroup]:
    """Groups to train on, ``[rollout_batch_size, n_samples_per_prompt]``."""
    batch: list[SampleGroup] = []
    while len(batch) < args.rollout_batch_size:
        groups = source.get_samples(args.over_sampling_batch_size, rollout_id)
        crash_if_asked(args, rollout_id, "drawn")
        for group in groups:
            generate(group)
        crash_if_asked(args, rollout_id, "generated")
        wanted = args.rollout_batch_size - len(batch)
        batch += sort_out(source, groups, wanted)
    return batch


def sort_out(
    source: RolloutDataSourceWithBuffer, groups: list[SampleGroup], num_wanted: int
) -> list[SampleGroup]:
    """The first groups that pass; the rest go back to the buffer or are discarded."""
    taken: list[SampleGroup] = []
    given_back: list[SampleGroup] = []
    for group in groups:
        if is_aborted(group) or len(taken) == num_wanted:
            given_back.append(group)
        elif len({sample.reward for sample in group}) == 1:
            source.discard([group], "zero reward spread")
        else:
            taken.append(group)
    source.add_samples(given_back)
    return taken


def generate(group: SampleGroup) -> None:
    """Stands in for the engine: what it answers depends on the group and the attempt alone."""
    attempt = group[0].metadata.get("attempt", 0) + 1
    for sample in group:
        sample.metadata["attempt"] = attempt
        dice = zlib.crc32(f"{sample.index} {attempt}".encode())
        aborted = dice % 7 == 0 and attempt < 3
        sample.status = Sample.Status.ABORTED if aborted else Sample.Status.COMPLETED
        sample.response = f"answer {dice % 100}"
        sample.reward = float(dice // 7 % 3 == 0)


def is_aborted(group: SampleGroup) -> bool:
    """Whether any sample of the group was interrupted."""
    return any(sample.status is Sample.Status.ABORTED for sample in group)


# --- the model's side: a log of what was trained on, and a checkpoint marker ---------------------


def train(run_folder: Path, rollout_id: int, batch: list[SampleGroup]) -> None:
    """Adds the batch to the log, one line a group."""
    run_folder.mkdir(parents=True, exist_ok=True)
    with log_path(run_folder).open("a", encoding="utf-8") as log:
        for group in batch:
            entry = {
                "rollout_id": rollout_id,
                "group_index": group[0].group_index,
                "row_id": group[0].row_id,
                "responses": [sample.response for sample in group],
            }
            log.write(json.dumps(entry) + "\n")


def save_checkpoint(
    source: RolloutDataSourceWithBuffer, args: argparse.Namespace, rollout_id: int
) -> None:
    """The data source's state first: a model checkpoint without one could not be resumed."""
    source.save(rollout_id)
    crash_if_asked(args, rollout_id, "saved-state")
    replace_text(args.run_folder / "latest_checkpoint.txt", str(rollout_id))
    crash_if_asked(args, rollout_id, "saved-model")


def last_checkpoint(run_folder: Path) -> int:
    """Rollout id of the newest model checkpoint, -1 without one."""
    marker = run_folder / "latest_checkpoint.txt"
    return int(marker.read_text(encoding="utf-8")) if marker.exists() else -1


def forget_rollouts_from(run_folder: Path, start: int) -> None:
    """What was trained after the checkpoint is lost with the weights: the log forgets it too."""
    if log_path(run_folder).exists():
        text = log_path(run_folder).read_text(encoding="utf-8")
        whole_lines = text.split("\n")[:-1]  # a crash may have cut the last one
        kept = [line for line in whole_lines if json.loads(line)["rollout_id"] < start]
        replace_text(log_path(run_folder), "".join(f"{line}\n" for line in kept))


def replace_text(path: Path, text: str) -> None:
    """Writes beside and renames: a crash leaves the old text or the new one."""
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def log_path(run_folder: Path) -> Path:
    """The log of groups that were trained on."""
    return run_folder / "completed.jsonl"


def crash_if_asked(args: argparse.Namespace, rollout_id: int, stage: str) -> None:
    """Dies as a machine does, without a chance to clean up."""
    if args.crash_at == f"{rollout_id}:{stage}":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
