from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tracemalloc
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rolloutds import shuffle
from rolloutds.errors import ConfigError
from rolloutds.shuffle import epoch_order

GOLDEN_ORDERS = json.loads(
    (Path(__file__).parent / "golden" / "orders.json").read_text(encoding="utf-8")
)
# Every size at which epoch_order changes what it does, and its neighbours.
STAGE_BOUNDARIES = sorted(
    {
        size + step
        for size in (
            *(1 << bits for bits in range(1, 19)),
            shuffle._MIN_STEPS,
            shuffle._PLAIN_BELOW_ROWS + shuffle._MIN_STEPS,
            shuffle._PLAIN_BELOW_ROWS + shuffle._MAX_STEPS,
            2 * shuffle._MAX_STEPS,
            3 * shuffle._MAX_STEPS,
            4 * shuffle._MAX_STEPS + shuffle._MIN_STEPS,
        )
        for step in (-1, 0, 1)
    }
)
seeds = st.integers(min_value=-(2**80), max_value=2**80)


def order_by_python(num_rows: int, seed: int, epoch_id: int) -> list[int]:
    order = list(range(num_rows))
    random.Random(seed + epoch_id).shuffle(order)
    return order


def order_in_blocks(num_rows: int, seed: int, epoch_id: int) -> list[int]:
    rng = random.Random(seed + epoch_id)
    return shuffle._shuffle_in_blocks(num_rows, rng).tolist()


def golden_name(case: dict) -> str:
    return f"{case['num_rows']}-{case['seed']}-{case['epoch_id']}"


@pytest.mark.parametrize("case", GOLDEN_ORDERS, ids=golden_name)
def test_order_is_the_pinned_one(case):
    order = epoch_order(case["num_rows"], case["seed"], case["epoch_id"])
    if "order" in case:
        assert order.tolist() == case["order"]
    else:
        packed = np.asarray(order, dtype="<i8").tobytes()
        assert order[:10].tolist() == case["head"]
        assert hashlib.sha256(packed).hexdigest() == case["sha256_of_int64"]


def test_pinned_orders_cover_both_ways():
    sizes = {case["num_rows"] for case in GOLDEN_ORDERS}
    assert {shuffle._BLOCKS_FROM_ROWS - 1, shuffle._BLOCKS_FROM_ROWS} <= sizes


@given(num_rows=st.integers(0, 3000), seed=seeds, epoch_id=st.integers(0, 1000))
@example(num_rows=0, seed=0, epoch_id=0)
@example(num_rows=1, seed=-1, epoch_id=1)
def test_order_equals_pythons_shuffle(num_rows, seed, epoch_id):
    expected = order_by_python(num_rows, seed, epoch_id)
    assert epoch_order(num_rows, seed, epoch_id).tolist() == expected


@settings(deadline=None, max_examples=60)
@given(num_rows=st.integers(0, 70_000), seed=seeds)
def test_blocks_equal_pythons_shuffle(num_rows, seed):
    assert order_in_blocks(num_rows, seed, 0) == order_by_python(num_rows, seed, 0)


@pytest.mark.parametrize("num_rows", STAGE_BOUNDARIES)
def test_blocks_equal_pythons_shuffle_at_stage_boundaries(num_rows):
    for seed in (0, 42):
        assert order_in_blocks(num_rows, seed, 1) == order_by_python(num_rows, seed, 1)


@settings(deadline=None)
@given(
    num_rows=st.integers(0, 600),
    seed=seeds,
    max_steps=st.integers(1, 100),
    min_steps=st.integers(1, 20),
    plain_below=st.integers(1, 40),
)
def test_blocks_of_any_size_equal_pythons_shuffle(
    num_rows, seed, max_steps, min_steps, plain_below
):
    """Tiny blocks down to the last rows, where targets collide most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "_MAX_STEPS", max_steps)
        patch.setattr(shuffle, "_MIN_STEPS", min_steps)
        patch.setattr(shuffle, "_PLAIN_BELOW_ROWS", plain_below)
        assert order_in_blocks(num_rows, seed, 0) == order_by_python(num_rows, seed, 0)


@given(data=st.data(), num_rows=st.integers(1, 80))
def test_exchange_equals_swaps_one_by_one(data, num_rows):
    """Any targets at all, so also those a generator gives once in a million."""
    num_steps = data.draw(st.integers(1, num_rows))
    first = num_rows - 1
    targets = [data.draw(st.integers(0, first - step)) for step in range(num_steps)]
    expected = list(range(num_rows))
    for step, target in enumerate(targets):
        place = first - step
        expected[place], expected[target] = expected[target], expected[place]

    order = np.arange(num_rows, dtype=np.intc)
    shuffle._exchange(order, first, np.array(targets, dtype=np.int32))

    assert order.tolist() == expected


def test_steps_are_sorted_by_whole_targets():
    targets = np.array([2**31 - 2, 65_536, 3, 65_539, 3, 65_536, 0], dtype=np.int32)
    assert shuffle._steps_by_target(targets).tolist() == [6, 2, 4, 1, 5, 3, 0]


@pytest.mark.parametrize("first", [2_147_483_645, 2_147_483_646, 1_500_000_000, 1_073_741_823])
def test_targets_near_31_bits_equal_the_plain_draw(first):
    rng, rng_too = random.Random(5), random.Random(5)
    targets = shuffle._draw_targets(first, 3000, rng)
    expected, place = [], first
    for _ in range(3000):
        number = rng_too.getrandbits((first + 1).bit_length())
        if number <= place:
            expected.append(number)
            place -= 1
    assert targets.tolist() == expected
    assert rng.getstate() == rng_too.getstate()


def test_more_rows_than_32_bits_count_give_64_bit_positions(monkeypatch):
    monkeypatch.setattr(shuffle, "_MAX_INT32", 99)
    assert epoch_order(99, 42, 0).format == "i"
    assert epoch_order(100, 42, 0).format == "q"
    assert epoch_order(100, 42, 0).tolist() == order_by_python(100, 42, 0)


@pytest.mark.parametrize("num_rows", [0, 1, 1000, shuffle._BLOCKS_FROM_ROWS])
def test_order_is_a_read_only_view_of_32_bit_integers(num_rows):
    order = epoch_order(num_rows, 42, 0)
    assert (order.format, order.itemsize, order.ndim, len(order)) == ("i", 4, 1, num_rows)
    assert order.readonly
    assert bytes(order[:1]) == array("i", order[:1].tolist()).tobytes()


def test_negative_num_rows_is_an_error():
    with pytest.raises(ConfigError, match="num_rows is -1, expected 0 or more"):
        epoch_order(-1, 42, 0)


def test_only_the_sum_of_seed_and_epoch_counts():
    """As in the reference: epoch 1 of seed 42 is epoch 0 of seed 43."""
    assert epoch_order(100, 42, 1) == epoch_order(100, 43, 0)
    assert epoch_order(100, -3, 0) == epoch_order(100, 3, 0)
    assert epoch_order(100, 42, 0) != epoch_order(100, 42, 1)


@pytest.mark.parametrize("num_rows", [1000, shuffle._BLOCKS_FROM_ROWS])
def test_global_generators_are_untouched(num_rows):
    random.seed(7)
    np.random.seed(7)
    before, numpy_before = random.getstate(), np.random.get_state()
    epoch_order(num_rows, 42, 0)
    assert random.getstate() == before
    for part, part_before in zip(np.random.get_state(), numpy_before, strict=True):
        assert np.array_equal(part, part_before)


def test_global_generator_does_not_change_the_order():
    random.seed(7)
    order = epoch_order(1000, 42, 0)
    random.seed(8)
    assert epoch_order(1000, 42, 0) == order


def test_threads_do_not_disturb_each_other():
    sizes = [3000, 20_000, shuffle._BLOCKS_FROM_ROWS] * 4
    alone = [epoch_order(size, size, 0) for size in sizes]
    with ThreadPoolExecutor(max_workers=4) as pool:
        together = list(pool.map(lambda size: epoch_order(size, size, 0), sizes))
    assert together == alone


def test_few_rows_need_no_numpy():
    code = (
        "import sys; from rolloutds.shuffle import epoch_order; "
        "epoch_order(100_000, 42, 0); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_many_rows_take_a_fifth_of_the_memory_of_a_list():
    num_rows = 1_000_000
    epoch_order(num_rows, 42, 0)  # numpy allocates some things on first use
    tracemalloc.start()
    try:
        epoch_order(num_rows, 42, 0)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    list_bytes = num_rows * (8 + sys.getsizeof(num_rows))
    assert 4 * num_rows <= peak_bytes < list_bytes / 5
