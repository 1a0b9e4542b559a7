"""Makes the sample run: five checkpoints of a data source, as a run leaves them.

    python sample_data/make_sample_run.py [FOLDER]

Each rollout asks for a few groups more than it trains on and gives the rest back, some of them
half generated; when a checkpoint is due, the first groups of the next rollout are already out. The
states are the same each time. Needs torch.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from rolloutds import RolloutDataSourceWithBuffer, Sample, SampleGroup
from rolloutds.config import resolve

HERE = Path(__file__).resolve().parent
NUM_ROLLOUTS = 20
SAVE_EVERY = 4
NUM_EXTRA = 4
NUM_AHEAD = 2


def main(folder: Path) -> None:
    """Writes the run to `folder`."""
    config = resolve({}, environment={}, config_file=HERE / "rolloutds.toml").config
    config = dataclasses.replace(config, save=str(folder), load=None, track_in_flight=True)
    source = RolloutDataSourceWithBuffer(config)
    source.update_metadata({"run": "sample"})
    ahead: list[SampleGroup] = []
    for rollout_id in range(NUM_ROLLOUTS):
        wanted = (config.rollout_batch_size or 0) + NUM_EXTRA
        groups = ahead + source.get_samples(wanted - len(ahead), rollout_id)
        ahead = source.get_samples(NUM_AHEAD, rollout_id + 1)
        rest = groups[config.rollout_batch_size :]
        source.complete(groups[: config.rollout_batch_size])
        abort(rest[0])
        source.add_samples(rest)
        if (rollout_id + 1) % SAVE_EVERY == 0:
            source.save(rollout_id)


def abort(group: SampleGroup) -> None:
    """Leaves a group as an engine does that is stopped while it generates."""
    for number, sample in enumerate(group[:3]):
        sample.response = "Let me think"[: 4 + 3 * number]
        sample.response_length = number + 1
        sample.tokens = list(range(100, 105 + number))
        sample.status = Sample.Status.ABORTED


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "run")
