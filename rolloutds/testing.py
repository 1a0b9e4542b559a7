"""Checks for authors of data sources and filters, usable in any test runner."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol

from rolloutds.sample import Sample, SampleGroup


class ResumableSource(Protocol):
    """What `assert_resumes_exactly` needs of a data source."""

    def get_samples(self, num_samples: int) -> list[SampleGroup]:
        """The next groups, ``[num_samples, n_samples_per_prompt]``."""

    def save(self, rollout_id: int) -> None:
        """Saves the state as of that rollout."""

    def load(self, rollout_id: int | None = None) -> None:
        """Resumes from that state."""

    def __len__(self) -> int:
        """Prompts in the dataset."""


Step = Callable[[Any, list[SampleGroup], int], None]
"""What a run does with a draw: the source, the groups, the number of the draw."""


def assert_resumes_exactly(
    make_source: Callable[[], ResumableSource],
    *,
    num_samples: int = 1,
    num_epochs: int = 3,
    step: Step | None = None,
    compare_state: bool = True,
) -> int:
    """Asserts that resuming at any step equals never having stopped.

    A source is run for `num_epochs` epochs in draws of `num_samples` groups, without any save. All
    that follows must serve the same, to the last type and value: a run that is saved after each
    draw, a fresh source for every one of those saves that loads it and goes on to the end, and at
    last a run that is stopped and resumed at every draw.

    Args:
        make_source: makes a fresh source; all of them must save to and load from one folder.
        num_samples: groups a draw.
        num_epochs: how far to run, in epochs of the dataset.
        step: what the run does with each draw before the save: put some back, complete them,
            change metadata. It must do the same for the same draw.
        compare_state: also compare `state_dict()` where sources have one: a loaded state must be
            the one that was saved, and all runs must end in the same.

    Returns:
        How many saves were resumed from.

    Raises:
        AssertionError: a resumed source served something else; the message names the step.
    """
    source = make_source()
    num_draws = max(1, math.ceil(num_epochs * len(source) / num_samples))
    all_draws = range(num_draws)
    run = _Runner(num_samples, step, compare_state)
    expected = [run.draw(source, draw) for draw in all_draws]

    saving = make_source()
    for draw in all_draws:
        _assert_same(run.draw(saving, draw), expected[draw], f"saved after every draw, draw {draw}")
        saving.save(draw)
    for resumed_at in all_draws:
        resumed = make_source()
        resumed.load(resumed_at)
        where = f"resumed after draw {resumed_at}"
        _assert_same(run.state(resumed), expected[resumed_at].state, f"{where}, the state loaded")
        for draw in all_draws[resumed_at + 1 :]:
            _assert_same(run.draw(resumed, draw), expected[draw], f"{where}, at draw {draw}")

    stopped = make_source()
    for draw in all_draws:
        where = f"stopped after every draw, at draw {draw}"
        _assert_same(run.draw(stopped, draw), expected[draw], where)
        stopped.save(draw)
        stopped = make_source()
        stopped.load(draw)
    return num_draws


class _Drawn(NamedTuple):
    """What a draw gave, and the state that its step left."""

    groups: Any
    state: Any


class _Runner(NamedTuple):
    num_samples: int
    step: Step | None
    compare_state: bool

    def draw(self, source: ResumableSource, draw: int) -> _Drawn:
        groups = source.get_samples(self.num_samples)
        served = _frozen(groups)
        if self.step is not None:
            self.step(source, groups, draw)
        return _Drawn(served, self.state(source))

    def state(self, source: ResumableSource) -> Any:
        read = getattr(source, "state_dict", None) if self.compare_state else None
        return None if read is None else _frozen(read())


def _frozen(value: Any) -> Any:
    """The value as lists, dicts and single values, in which no later edit shows."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_frozen(item) for item in value]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # tensors and arrays
        return {"dtype": str(value.dtype), "values": value.tolist()}
    if hasattr(value, "__dict__") and not isinstance(value, Enum | type):
        return _frozen(vars(value))
    return value


def _assert_same(got: Any, expected: Any, where: str) -> None:
    difference = _difference(got, expected, "")
    if difference is not None:
        raise AssertionError(f"{where}: {difference}")


def _difference(got: Any, expected: Any, way: str) -> str | None:
    """The first place where two frozen values differ; None: nowhere."""
    if isinstance(got, _Drawn) and isinstance(expected, _Drawn):
        return _difference(got.groups, expected.groups, "groups") or _difference(
            got.state, expected.state, "state"
        )
    if type(got) is not type(expected):
        return f"{way} is {got!r:.200}, expected {expected!r:.200}"
    if isinstance(got, dict | list) and len(got) == len(expected):
        pairs = got.items() if isinstance(got, dict) else enumerate(got)
        for key, item in pairs:
            if isinstance(got, dict) and key not in expected:
                return f"{way}[{key!r}] is there, and was not expected"
            found = _difference(item, expected[key], f"{way}[{key!r}]")
            if found is not None:
                return found
        return None
    # repr: not a number is itself, and 0.0 is not -0.0.
    same = repr(got) == repr(expected) if isinstance(got, float) else got == expected
    return None if same else f"{way} is {got!r:.200}, expected {expected!r:.200}"


def make_group(
    group_index: int, size: int, *, first_index: int | None = None, **fields: Any
) -> SampleGroup:
    """A group of samples for tests of filters and sources.

    Args:
        group_index: number of the group.
        size: samples in it.
        first_index: index of its first sample; ``group_index * size`` when None.
        fields: values every sample gets (``reward=1.0``); a list in ``rewards`` gives each its own.
    """
    rewards = fields.pop("rewards", None)
    start = group_index * size if first_index is None else first_index
    group = [Sample(group_index=group_index, index=start + i, **fields) for i in range(size)]
    for sample, reward in zip(group, rewards or [], strict=rewards is not None):
        sample.reward = reward
    return group
