"""The order in which an epoch visits its rows: a pure function of row count, seed and epoch.

The order is the one ``random.Random(seed + epoch_id).shuffle`` gives to ``0 … num_rows-1``.
Python promises the generator's numbers, not what ``shuffle`` makes of them, so the algorithm
is written out here and pinned by golden orders in the tests.

It is a Fisher-Yates shuffle. Step by step, for ``place = num_rows-1 … 1``: draw a ``target`` in
``0 … place``, then exchange what stands at ``place`` and at ``target``. A target is drawn by
taking as many top bits of the generator's next 32-bit word as ``place + 1`` has, again and again
until the number is not above ``place``.

`_shuffle_plainly` is just that. `_shuffle_in_blocks` does the same steps with numpy, some
thousands at a time, in about a tenth of the time and a seventh of the memory.
"""

from __future__ import annotations

import random
from array import array
from typing import TYPE_CHECKING, Any, TypeAlias

from rolloutds.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.signedinteger[Any]]

# The plain steps of somewhat more rows than this take as long as importing numpy.
_BLOCKS_FROM_ROWS = 200_000
# Steps a block: its working arrays (about 80 bytes a step) should stay in the processor's cache.
_MAX_STEPS = 1 << 14
# A shorter run of steps is done faster one by one than through numpy's calls.
_MIN_STEPS = 256
# The last rows, where targets collide often, likewise.
_PLAIN_BELOW_ROWS = 2048
_MAX_INT32 = 2**31 - 1


def epoch_order(num_rows: int, seed: int, epoch_id: int) -> memoryview:
    """Returns the order in which an epoch visits its rows.

    Equal to ``random.Random(seed + epoch_id).shuffle(list(range(num_rows)))``. The global
    generators of `random` and numpy are neither read nor changed.

    Args:
        num_rows: rows in the dataset, 0 or more.
        seed: the run's ``rollout_seed``; any integer. As in Python, only the absolute value of
            ``seed + epoch_id`` counts.
        epoch_id: the epoch, counted from 0.

    Returns:
        A read-only view of ``num_rows`` row positions, of format ``"i"`` (32 bits), or ``"q"``
        (64 bits) when there are more rows than 32 bits can count.

    Raises:
        ConfigError: when `num_rows` is negative.
    """
    if num_rows < 0:
        raise ConfigError(f"num_rows is {num_rows}", expected="0 or more")
    rng = random.Random(seed + epoch_id)
    if num_rows > _MAX_INT32:
        wide = array("q", range(num_rows))
        _shuffle_plainly(wide, num_rows - 1, 1, rng)
        return memoryview(wide).toreadonly()
    if num_rows >= _BLOCKS_FROM_ROWS:
        return _shuffle_in_blocks(num_rows, rng)
    order = list(range(num_rows))
    _shuffle_plainly(order, num_rows - 1, 1, rng)
    return memoryview(array("i", order)).toreadonly()


def _shuffle_plainly(
    order: list[int] | array[int] | memoryview[int], first: int, last: int, rng: random.Random
) -> None:
    """Does the steps for places `first` down to `last`, in place, one by one."""
    draw_bits = rng.getrandbits
    for place in range(first, last - 1, -1):
        num_bits = (place + 1).bit_length()
        target = draw_bits(num_bits)
        while target > place:
            target = draw_bits(num_bits)
        order[place], order[target] = order[target], order[place]


def _shuffle_in_blocks(num_rows: int, rng: random.Random) -> memoryview:
    """Does all steps, in blocks with numpy where that pays.

    All steps of a block draw equally many bits: a block ends where ``place + 1`` falls to a
    shorter number. It draws no more words than it has steps left, and a word gives at most one
    step, so no word is ever drawn too many and the generator needs no rewinding.
    """
    import numpy as np

    order = np.arange(num_rows, dtype=np.intc)
    items = order.data
    place = num_rows - 1
    while place >= _PLAIN_BELOW_ROWS:
        shortest = 1 << ((place + 1).bit_length() - 1)
        num_steps = place + 2 - shortest
        if num_steps < _MIN_STEPS:
            _shuffle_plainly(items, place, place - num_steps + 1, rng)
            place -= num_steps
        else:
            targets = _draw_targets(place, min(num_steps, _MAX_STEPS), rng)
            _exchange(order, place, targets)
            place -= len(targets)
    _shuffle_plainly(items, place, 1, rng)
    return items.toreadonly()


def _draw_targets(first: int, num_words: int, rng: random.Random) -> Integers:
    """Draws `num_words` words and returns the targets of `first` and the places below it.

    Whether a word is taken depends on how many were taken before it, since each lowers the
    place by one. So guess which are taken, count, decide again by those counts, and repeat
    until nothing changes. What stands then is the only answer: the first word's decision
    depends on no other, and each further one only on decisions before it. For the same reason
    every round makes at least one more word final, and the rounds end; a handful do.

    Returns:
        int32 targets, as many as words were taken.
    """
    import numpy as np

    num_bits = (first + 1).bit_length()
    # randbytes gives the words that getrandbits would have taken, in the same order.
    words = np.frombuffer(rng.randbytes(4 * num_words), dtype="<u4")
    numbers = (words >> np.uint32(32 - num_bits)).astype(np.int32)
    taken = numbers <= first
    while True:
        places = first - (np.cumsum(taken, dtype=np.int32) - taken)
        taken_now = numbers <= places
        if np.array_equal(taken_now, taken):
            return numbers[taken]
        taken = taken_now


def _exchange(order: Integers, first: int, targets: Integers) -> None:
    """Exchanges ``first - step`` with ``targets[step]`` for each step, in place, all at once.

    Step `s` has the place ``first - s``, which no later step touches. Call ``held[s]`` the item
    that stands at its place just before the step. The step moves ``held[s]`` to its target, and
    brings what stood there to its place for good. So with the items as they were at the start:

    - ``held[s]`` is ``held[e]``, where `e` is the last earlier step with the place of `s` as its
      target; where there is none, it is the item that was at the place.
    - what comes to the place of `s` is ``held[e]``, where `e` is the last earlier step with the
      same target as `s`; where there is none, it is the item that was at the target.
    - a target below the block is left with ``held[s]`` of the last step that has this target.

    Sorting the steps by target, then by step, puts each next to the `e` of the second rule and
    shows the last of each target. The first rule is a pointer from each step to an earlier one
    or to itself; following all pointers at once, twice as far each round, finds their ends.
    (A step that has its own place as target points to itself, whatever came before. Its item
    goes nowhere else, so only the second rule counts for it.)
    """
    import numpy as np

    num_steps = len(targets)
    ordered_steps = _steps_by_target(targets)
    ordered_targets = targets[ordered_steps]
    repeats = ordered_targets[1:] == ordered_targets[:-1]
    earlier = ordered_steps[:-1][repeats]
    later = ordered_steps[1:][repeats]
    is_last = np.ones(num_steps, dtype=bool)
    is_last[:-1] = ~repeats
    last_targets = ordered_targets[is_last]
    last_steps = ordered_steps[is_last]

    in_block = np.searchsorted(last_targets, first - num_steps + 1)
    holder = np.arange(num_steps)
    holder[first - last_targets[in_block:]] = last_steps[in_block:]
    while True:
        further = holder[holder]
        if np.array_equal(further, holder):
            break
        holder = further

    places = order[first - num_steps + 1 : first + 1][::-1]
    held = places[holder]
    brought = order[targets]
    brought[later] = held[earlier]
    order[last_targets] = held[last_steps]
    places[:] = brought


def _steps_by_target(targets: Integers) -> Integers:
    """Returns the steps sorted by target, equal targets by step.

    By the low half of the target first, then, keeping that order, by the high half: for 16-bit
    keys numpy's stable sort counts instead of comparing, which is three times as fast here.
    """
    import numpy as np

    by_low_half = np.argsort((targets & 0xFFFF).astype(np.uint16), kind="stable")
    high_halves = (targets >> 16).astype(np.uint16)
    return by_low_half[np.argsort(high_halves[by_low_half], kind="stable")]
