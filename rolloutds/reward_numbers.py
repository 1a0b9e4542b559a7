"""Rewards and weight versions as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rolloutds.errors import GroupError, TorchFileError

_HIGHEST_VERSION = 2**63


def reward_number(sample: Any, reward_key: str | None) -> float | None:
    """A sample's reward as a number; None where it has none (or NaN).

    Args:
        sample: any object with a `reward`.
        reward_key: picks from an object of rewards; None: the reward itself is the number.

    Raises:
        GroupError: the reward is an object and there is no key, or it is no number; the message
            names group and sample.
    """
    value = getattr(sample, "reward", None)
    if type(value) is float:
        return None if value != value else value  # NaN is not itself
    if isinstance(value, Mapping):
        value = _picked(value, reward_key, sample)
    number = as_number(value)
    if number is None and value is not None:
        raise GroupError(
            f"the reward is {value!r:.60}", where=_where(sample), expected="a number or None"
        )
    return None if number is None or math.isnan(number) else number


def _picked(value: Mapping[str, Any], reward_key: str | None, sample: Any) -> Any:
    keys = ", ".join(f"{key!s:.40}" for key in list(value)[:12])
    if not reward_key:
        raise GroupError(
            f"the reward is an object with the keys {keys}",
            where=_where(sample),
            expected="one number",
            hint="set reward_key (--reward-key KEY) to the one that counts",
        )
    if reward_key not in value:
        raise GroupError(
            f"no reward under reward_key {reward_key!r}: there are {keys}",
            where=_where(sample),
            expected="an object with that key",
        )
    return value[reward_key]


def as_number(value: Any) -> float | None:
    """A number, NumPy scalar or tensor of one element as a float; None of anything else."""
    if isinstance(value, bool | int | float):
        return _as_float(value)
    # Tensors and arrays, and what stands for them where torch is not loaded.
    convert = getattr(value, "tolist", None)
    if not callable(convert):
        return None
    try:
        found = convert()
    except (TypeError, ValueError, RuntimeError, TorchFileError):
        return None
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return _as_float(found) if isinstance(found, bool | int | float) else None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _where(sample: Any) -> str:
    group, index = getattr(sample, "group_index", None), getattr(sample, "index", None)
    return f"group {group}, sample {index}"


def weight_versions(sample: Any) -> list[int]:
    """Versions of the weights that generated a sample; those that are no whole number left out."""
    found = getattr(sample, "weight_versions", None)
    if not isinstance(found, list | tuple):
        convert = getattr(found, "tolist", None)
        listed = convert() if callable(convert) else found
        found = listed if isinstance(listed, list) else [listed]
    return [number for number in map(_as_whole, found) if number is not None]


def _as_whole(value: Any) -> int | None:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < _HIGHEST_VERSION else None


def mean(numbers: Iterable[float | None]) -> float | None:
    """The mean of those that are numbers; None when none is."""
    found = [number for number in numbers if number is not None]
    if not found:
        return None
    try:
        return math.fsum(found) / len(found)
    except OverflowError:
        return math.fsum(number / len(found) for number in found)
    except ValueError:  # infinities of both signs
        return math.nan


def spread(numbers: Iterable[float | None]) -> float | None:
    """The standard deviation (of the whole, not of a sample); None when none is a number.

    It is infinite where one of them is, and NaN where one of them is NaN.
    """
    found = [number for number in numbers if number is not None]
    center = mean(found)
    if center is None:
        return None
    if any(math.isnan(number) for number in found):
        return math.nan
    if min(found) == max(found):
        return 0.0  # exactly, whatever rounding would make of it
    if not math.isfinite(center):
        return math.inf
    try:
        return _deviation(found, center)
    except OverflowError:  # of a square
        scale = max(map(abs, found))
        return scale * _deviation([number / scale for number in found], center / scale)


def _deviation(numbers: list[float], center: float) -> float:
    return math.sqrt(math.fsum((number - center) ** 2 for number in numbers) / len(numbers))
