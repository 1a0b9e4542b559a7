"""How deep and how large a value is, each shared part counted once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.foreign import ForeignObject

_CONTAINERS = (list, tuple, dict, set, frozenset, ForeignObject, ArrayValue)
_LEAF_TYPES = frozenset({str, int, float, bool, type(None), bytes})


def check_extent(value: Any, file: OpenFile, budget: Budget) -> None:
    """Compares a value with the budget.

    Raises:
        TorchFileError: it is deeper or larger than the budget allows.
    """
    deepest, num_items = 0, 0
    # Levels of each container met, itself included; 0 while it is on the way down, so that a
    # circle ends where it closes. The way down is a list of ours: Python's own stack is short.
    levels: dict[int, int] = {id(value): 0}
    way_down = [_Visit(value)]
    while way_down:
        visit = way_down[-1]
        if visit.waiting:
            child = visit.waiting.pop()
            if id(child) in levels:
                visit.levels = max(visit.levels, levels[id(child)] + 1)
            elif type(child) is list and _is_numeric(child):
                levels[id(child)] = 1
                visit.levels = max(visit.levels, 2)
                num_items += len(child)
            else:
                levels[id(child)] = 0
                way_down.append(_Visit(child))
        else:
            way_down.pop()
            num_items += visit.num_items
            levels[id(visit.container)] = visit.levels
            if way_down:
                way_down[-1].levels = max(way_down[-1].levels, visit.levels + 1)
        deepest = max(deepest, len(way_down), visit.levels)
        if deepest > budget.max_depth:
            raise file.refusal(
                "is nested too deeply", expected=f"at most {budget.max_depth} levels"
            )
        if num_items > budget.max_items:
            raise file.refusal("holds too many items", expected=f"at most {budget.max_items}")


class _Visit:
    """A container on the way down: the children still to be seen, and its levels so far."""

    __slots__ = ("container", "levels", "num_items", "waiting")

    def __init__(self, container: Any) -> None:
        self.container = container
        self.levels = 1
        self.num_items = 0
        self.waiting: list[Any] = []
        for part in _parts(container):
            self.num_items += len(part)
            if not (type(part) is list and _is_numeric(part)):
                self.waiting += [
                    item
                    for item in part
                    if type(item) not in _LEAF_TYPES and isinstance(item, _CONTAINERS)
                ]


def _parts(container: Any) -> tuple[Collection[Any], ...]:
    """The collections that hold a container's elements."""
    if isinstance(container, dict):
        return container.keys(), container.values()
    if isinstance(container, ForeignObject):
        named = list(container.kwargs.values())
        return container.args, named, (container.state,), container.items, container.pairs
    if isinstance(container, ArrayValue):
        return (container.data,) if isinstance(container.data, list) else ()
    return (container,) if isinstance(container, list | tuple | set | frozenset) else ()


def _is_numeric(items: list[Any]) -> bool:
    """Whether all are numbers; adding them up is the fastest way to see that."""
    try:
        sum(items)
    except (TypeError, OverflowError):
        return False
    return True
