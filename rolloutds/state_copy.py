"""Copies for a saved state: what a run edits later never shows in them.

`copy.deepcopy` asks a registry about every value. A state is nearly all plain containers, so here
each is copied in one go and only what is not plain in it is looked at.
"""

from __future__ import annotations

import copy
from typing import Any

from rolloutds.errors import UnsavableValueError

ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
"""Types whose values cannot be edited."""


class StateCopier:
    """Copies values for one state; what is shared among them is shared among the copies.

    Tensors and arrays are copied too, each once: generation may edit them in place, and siblings
    often share one. A value of another kind is deep-copied where it allows that, else kept.
    """

    def __init__(self) -> None:
        # The original is kept as well: its id must not pass to another object.
        self._made: dict[int, tuple[Any, Any]] = {}

    def copy(self, value: Any) -> Any:
        """The copy.

        Raises:
            UnsavableValueError: the value is nested too deeply to be saved.
        """
        try:
            return self._copy(value)
        except RecursionError as error:
            raise UnsavableValueError(
                "a value is nested too deeply", expected="plain data of a few levels"
            ) from error

    def _copy(self, value: Any) -> Any:
        if type(value) in ATOMS:
            return value
        made = self._made.get(id(value))
        if made is not None:
            return made[1]
        if type(value) is dict:
            return self._fill_dict(value, self._keep(value, value.copy()))
        if type(value) is list:
            return self._fill_list(value, self._keep(value, value.copy()))
        if type(value) is tuple:
            return self._keep(value, tuple([self._copy(item) for item in value]))
        return self._keep(value, _copy_other(value))

    def _keep(self, value: Any, copied: Any) -> Any:
        self._made[id(value)] = (value, copied)
        return copied

    def _fill_dict(self, value: dict[Any, Any], copied: dict[Any, Any]) -> dict[Any, Any]:
        # The copy is walked, not the original: another thread may be adding to that.
        for key, item in copied.items():
            if type(item) not in ATOMS:
                copied[key] = self._copy(item)
        return copied

    def _fill_list(self, value: list[Any], copied: list[Any]) -> list[Any]:
        if not ATOMS.issuperset(map(type, copied)):  # token ids are done here, at C speed
            copied[:] = [self._copy(item) for item in copied]
        return copied


def _copy_other(value: Any) -> Any:
    if type(value).__module__ == "torch" and hasattr(value, "detach"):
        return value.detach().clone().requires_grad_(value.requires_grad)
    try:
        return copy.deepcopy(value)
    except RecursionError:
        raise
    except Exception:  # whatever the class raises; a save then names the key
        return value
