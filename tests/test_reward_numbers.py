from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from rolloutds.reward_numbers import mean, spread, weight_versions
from rolloutds.rollouts.stats import Numbers


@pytest.mark.parametrize(
    ("numbers", "center", "deviation"),
    [
        ([], None, None),
        ([None, 1.0, 3.0], 2.0, 1.0),
        ([1e308, 1e308], 1e308, 0.0),
        ([1e308, -1e308], 0.0, 1e308),
        ([1e308, 1e308, 1e308, -1e308], 5e307, math.sqrt(0.75) * 1e308),
        ([math.inf, 1.0], math.inf, math.inf),
        ([math.inf, -math.inf], math.nan, math.inf),
        ([math.nan, 1.0], math.nan, math.nan),
    ],
)
def test_mean_and_spread_of_any_numbers(numbers, center, deviation):
    for found, right in ((mean(numbers), center), (spread(numbers), deviation)):
        assert found == pytest.approx(right, nan_ok=True) if right is not None else found is None


def test_a_histogram_over_all_that_a_float_can_be():
    numbers = Numbers()
    numbers.add([1.7e308 / 6 * (step - 6) for step in range(13)])
    bins = numbers.histogram()
    assert sum(part.num for part in bins) == 13
    assert all(math.isfinite(part.low) and math.isfinite(part.high) for part in bins)


@pytest.mark.parametrize(
    ("value", "versions"),
    [
        (["1", 2, 3.0], [1, 2, 3]),
        (5, [5]),
        ("12", [12]),
        (None, []),
        ([1.5, True, math.nan, None, "x", 2**70, {}], []),
        ({"1": 2}, []),
    ],
)
def test_weight_versions_of_any_form(value, versions):
    assert weight_versions(SimpleNamespace(weight_versions=value)) == versions
