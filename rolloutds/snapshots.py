"""States pinned for rollouts whose save is due later."""

from __future__ import annotations

from typing import Any

from rolloutds.errors import CheckpointError


class Snapshots:
    """The pinned states, until a later rollout is saved."""

    def __init__(self) -> None:
        self._pinned: dict[int, dict[str, Any]] = {}
        self._passed_id: int | None = None

    def __contains__(self, rollout_id: int) -> bool:
        return rollout_id in self._pinned

    def __len__(self) -> int:
        return len(self._pinned)

    def pin(self, rollout_id: int, state: dict[str, Any]) -> None:
        """Keeps the state of a rollout, in place of one pinned before."""
        self._pinned[rollout_id] = state

    def state_of(self, rollout_id: int) -> dict[str, Any] | None:
        """The state of that rollout; None when none was pinned.

        Raises:
            CheckpointError: it was dropped; what the run is in now is a later rollout's state.
        """
        pinned = self._pinned.get(rollout_id)
        if pinned is None and self._passed_id is not None and rollout_id <= self._passed_id:
            raise CheckpointError(
                f"the snapshot of rollout {rollout_id} is gone: a later rollout was saved",
                expected=f"a rollout after {self._passed_id}",
                hint="save each rollout before the ones after it",
            )
        return pinned

    def drop_before(self, rollout_id: int) -> None:
        """Drops the states of rollouts before one that was saved; its own may be saved again."""
        for passed in [pinned for pinned in self._pinned if pinned < rollout_id]:
            del self._pinned[passed]
            self._passed_id = max(passed, -1 if self._passed_id is None else self._passed_id)

    def state_dict(self) -> dict[str, Any]:
        """The pinned states and what was passed, not copied."""
        return {"pinned": dict(self._pinned), "passed_id": self._passed_id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self._pinned = dict(state["pinned"])
        self._passed_id = state["passed_id"]
