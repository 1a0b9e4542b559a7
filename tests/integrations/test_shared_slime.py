"""A shared source whose groups hold a framework's own samples."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rolloutds.integrations.ray.client import SharedClient
from rolloutds.integrations.ray.options import SharedOptions
from tests.shared_clients import LocalConnection

CLASS = "rolloutds.integrations.slime.RolloutDataSourceWithBuffer"


def test_the_groups_are_the_framework_s_and_survive_a_restart(slime: Any, tmp_path: Path) -> None:
    rows = [json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(5)]
    (tmp_path / "p.jsonl").write_text("".join(rows))
    args = SimpleNamespace(
        prompt_data=str(tmp_path / "p.jsonl"),
        input_key="prompt",
        rollout_global_dataset=True,
        n_samples_per_prompt=2,
        track_in_flight=True,
    )
    connection = LocalConnection(args, tmp_path / "shared", SharedOptions(source=CLASS))
    source = SharedClient(args, connection)
    groups = source.get_samples(3)
    kind = type(groups[0][0])
    assert kind.__name__ == "TheirSample"
    groups[0][0].response = "half"
    source.add_samples(groups[:1])
    source.complete(groups[1:2])
    connection.restart()
    again = source.get_samples(2)
    assert [(group[0].response, group[0].prompt) for group in again] == [
        ("half", "question 0"),
        ("", "question 3"),
    ]
    assert {type(sample) for group in again for sample in group} == {kind}
    source.complete([*again, groups[2]])
    assert source.stats()["num_completed"] == 4
    connection.close()
