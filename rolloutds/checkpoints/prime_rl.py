"""prime-rl's progress: a pickled dataclass of four counts, and the state of its train source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolloutds.checkpoints.base import CERTAIN, LIKELY, UNLIKE, Dialect, Position, is_count
from rolloutds.errors import CheckpointError
from rolloutds.torch_file import ForeignObject

_COUNTS = ("step", "total_tokens", "total_samples", "total_problems")


class PrimeRLDialect(Dialect):
    """``progress.pt`` of prime-rl's orchestrator."""

    name = "prime-rl"
    systems = "prime-rl"
    form = "progress of the orchestrator"
    looked_for = "an object with progress (a Progress with a step)"
    layouts = (
        "step_{id}/orchestrator/progress.pt",
        "checkpoints/step_{id}/orchestrator/progress.pt",
        "orchestrator/progress.pt",
        "progress.pt",
    )

    def likeness(self, value: Any, path: Path) -> int:
        """By the counts of its progress."""
        fields = _progress_fields(value)
        if "step" not in fields:
            return UNLIKE
        return CERTAIN if "train_source" in value or len(fields) > 1 else LIKELY

    def position(self, value: Any) -> Position:
        """The counts; its environments are drawn from at random, so there is no offset."""
        fields = _progress_fields(value)
        counts = {key: fields[key] for key in _COUNTS if is_count(fields.get(key))}
        if not counts:
            raise CheckpointError("holds no progress", expected=self.looked_for)
        environments = _environments(value)
        facts = [(key.replace("_", " "), f"{count:,}") for key, count in counts.items()]
        if environments:
            facts.append(("environments", ", ".join(environments)))
        return Position(
            num_groups=counts.get("total_problems"),
            facts=facts,
            data={**counts, "environments": environments},
        )


def _progress_fields(value: Any) -> dict[str, Any]:
    progress = value.get("progress") if isinstance(value, dict) else None
    if isinstance(progress, ForeignObject):
        return progress.fields
    return progress if isinstance(progress, dict) else {}


def _environments(value: dict[str, Any]) -> list[str]:
    source = value.get("train_source")
    envs = source.get("envs") if isinstance(source, dict) else None
    return [name for name in envs if isinstance(name, str)] if isinstance(envs, dict) else []
