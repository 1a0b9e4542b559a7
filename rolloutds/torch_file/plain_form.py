"""What may be written into a `.pt` file: a value of plain types, or the key that is not."""

from __future__ import annotations

import enum
import sys
from array import array
from collections.abc import Callable
from typing import Any, ClassVar

from rolloutds.errors import UnsavableValueError
from rolloutds.torch_file.dtypes import TENSOR_TYPES
from rolloutds.torch_file.foreign import PlainDict
from rolloutds.torch_file.scalars import PlainScalar, ScalarValue
from rolloutds.torch_file.tensors import TensorMaker, TensorValue

Way = tuple[Any, ...]
"""A place in a value: `()`, or the way to what holds it and the key or index there."""

_MAX_DEPTH = 150
_PLAIN_TYPES = frozenset({str, float, bool, type(None)})
_TEXT = frozenset({str})
_SMALL = 1 << 62
# A longer list is looked through once, and not again where it is shared.
_SHORT = 1 << 12


class PlainForm:
    """Turns one value into plain types: `turn`.

    What is plain already is not copied, and what is shared stays shared.

    Args:
        torch: the module.
        where: the file it is for, for messages.

    Attributes:
        has_tensors: whether a tensor is in what was turned so far.
    """

    # torch's careful loader knows integers of up to 255 bytes only.
    max_int_bits: ClassVar[int | None] = 255 * 8 - 1

    def __init__(self, torch: Any, where: str) -> None:
        self._torch = torch
        self._where = where
        self._made: dict[int, Any] = {}
        self._originals: list[Any] = []
        self._open: set[int] = set()
        self._tensors: TensorMaker | None = None
        self.has_tensors = False

    def turn(self, value: Any, way: Way = ()) -> Any:
        """The value to write.

        Raises:
            UnsavableValueError: it is, or holds, something else; the message names its key.
        """
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return value
        if kind is int:
            return self._int(value, way)
        if kind in (list, tuple, dict, PlainDict) or _is_ordered_dict(value):
            return self._container(value, way)
        return value if kind is bytes and value else self.other(value, way)

    def other(self, value: Any, way: Way) -> Any:
        """The value to write for one that is neither plain nor a container.

        Raises:
            UnsavableValueError: there is none.
        """
        if isinstance(value, PlainScalar):
            return self.turn(value.tolist(), way)
        if isinstance(value, TensorValue):
            self.has_tensors = True
            return self.shared(value, self._tensor)
        if type(value) in (self._torch.Tensor, self._torch.nn.Parameter):
            self.has_tensors = True
            self._check_tensor(value, way)
            is_here = value.device.type == "cpu"
            return value if is_here else self.shared(value, lambda tensor: tensor.cpu())
        if type(value).__module__ == "numpy":
            number = _numpy_plain(value)
            if number is not None:
                return number
        raise self._unsavable(way, _type_name(value), _advice(value))

    def _check_tensor(self, value: Any, way: Way) -> None:
        """Only what `read` gives back is written: elements in memory, of a type it knows."""
        layout, dtype = (str(it).removeprefix("torch.") for it in (value.layout, value.dtype))
        if layout != "strided":
            raise self._unsavable(way, f"a tensor of the layout {layout}", "store its .to_dense()")
        if value.device.type == "meta":
            raise self._unsavable(way, "a tensor on the meta device", "it has no contents")
        if dtype not in TENSOR_TYPES:
            raise self._unsavable(way, f"a tensor of the type {dtype}", "store it as another type")

    def shared(self, value: Any, make: Callable[[Any], Any]) -> Any:
        """What `make` gives for the value; the same object each time it occurs."""
        key = id(value)
        if key not in self._made:
            self._keep(value, make(value))
        return self._made[key]

    def _keep(self, value: Any, made: Any) -> None:
        if made is not value:
            self._originals.append(value)  # its id must not pass to another object
        self._made[id(value)] = made

    def _tensor(self, value: TensorValue) -> Any:
        self._tensors = self._tensors or TensorMaker()
        return self._tensors.tensor(value)

    def _int(self, value: int, way: Way) -> int:
        if self.max_int_bits is not None and value.bit_length() > self.max_int_bits:
            raise self._unsavable(
                way, f"an integer of {value.bit_length()} bits", "torch.load cannot read it back"
            )
        return value

    def _container(self, value: Any, way: Way) -> Any:
        key = id(value)
        if key in self._made:
            return self._made[key]
        if key in self._open:
            raise self._unsavable(way, "a container inside itself", "plain data has an end")
        if len(self._open) >= _MAX_DEPTH:
            raise self._unsavable(way, f"nested more than {_MAX_DEPTH} levels deep", None)
        if isinstance(value, list | tuple) and _is_flat(value):
            self._made[key] = value
            return value
        self._open.add(key)
        made = self._dict(value, way) if isinstance(value, dict) else self._items(value, way)
        self._open.discard(key)
        self._keep(value, made)
        return made

    def _dict(self, value: dict[Any, Any], way: Way) -> dict[Any, Any]:
        if not _TEXT.issuperset(map(type, value)):
            self._check_keys(value, way)
        made = value if type(value) is dict else dict(value)
        # Most of a state are dicts of samples: what needs no look gets no call.
        for key, item in value.items():
            kind = type(item)
            if kind in _PLAIN_TYPES or (kind is int and -_SMALL < item < _SMALL):
                continue
            if kind is list and len(item) < _SHORT and _is_flat(item):
                continue
            turn = self._container if kind is dict or kind is list else self.turn
            new = turn(item, (way, key))
            if new is not item:
                made = dict(value) if made is value else made
                made[key] = new
        return made

    def _check_keys(self, value: dict[Any, Any], way: Way) -> None:
        for key in value:
            if type(key) is int:
                self._int(key, way)
            elif type(key) is not str:
                raise self._unsavable(way, f"the key {_shown_key(key)}", "keys are text or int")

    def _items(self, value: list[Any] | tuple[Any, ...], way: Way) -> Any:
        made = [self.turn(item, (way, i)) for i, item in enumerate(value)]
        if all(new is old for new, old in zip(made, value, strict=True)):
            return value
        return tuple(made) if isinstance(value, tuple) else made

    def _unsavable(self, way: Way, what: str, hint: str | None) -> UnsavableValueError:
        return UnsavableValueError(
            f"{_spelled(way)} is {what}",
            where=self._where,
            expected="plain values and tensors only",
            hint=hint,
        )


def _spelled(way: Way) -> str:
    """A place inside a value, as one would write it: ``metadata["score"][3]``."""
    parts: list[Any] = []
    while way:
        way, part = way
        parts.append(part)
    if not parts:
        return "the value itself"
    head, *rest = reversed(parts)
    name = head if isinstance(head, str) else f"[{head}]"
    return name + "".join(f'["{key}"]' if isinstance(key, str) else f"[{key}]" for key in rest)


def _is_flat(items: list[Any] | tuple[Any, ...]) -> bool:
    """Whether nothing in it needs a look: token ids, masks and log-probs are long."""
    if not items:
        return True
    kinds = list(map(type, items))
    if kinds.count(kinds[0]) < len(kinds):
        return set(kinds) <= _PLAIN_TYPES
    if kinds[0] is not int:
        return kinds[0] in _PLAIN_TYPES
    try:
        array("q", items)  # the fastest way to see that none is beyond 64 bits
    except OverflowError:
        return False
    return True


def _is_ordered_dict(value: Any) -> bool:
    return type(value).__module__ == "collections" and type(value).__name__ == "OrderedDict"


def _numpy_plain(value: Any) -> Any:
    """The Python value a NumPy number or text equals; None for other kinds."""
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.bool_ | numpy.integer | numpy.floating | numpy.str_):
        plain = value.item()
        return plain if type(plain) in (bool, int, float, str) else None
    return None


def _type_name(value: Any) -> str:
    kind = type(value)
    if isinstance(value, ScalarValue):
        return f"numpy.{kind.__qualname__}"
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{'empty ' if kind is bytes else ''}{module}{kind.__qualname__}"


def _advice(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return "store its .value or its .name"
    if isinstance(value, set | frozenset):
        return "store a sorted list of it"
    if isinstance(value, tuple):
        return "store tuple(…) or a dict of its fields"
    if hasattr(value, "tolist"):
        return "store its .tolist(), or a torch tensor"
    return "store plain values that it can be made from"


def _shown_key(key: Any) -> str:
    is_short = isinstance(key, float | bool | type(None))
    return f"{key!r:.40}" if is_short else f"of type {_type_name(key)}"
