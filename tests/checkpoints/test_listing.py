from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from rolloutds import checkpoints
from rolloutds.checkpoints.base import CursorFile, FoundFile, Position
from rolloutds.checkpoints.listing import DAMAGED, OK, Entry, make_listing

LAYOUT = "rollout/global_dataset_state_dict_{id}.pt"


def entry(rollout_id, num_groups=None, **position) -> Entry:
    path = Path(f"s_{rollout_id}.pt")
    found = FoundFile(path, rollout_id, LAYOUT)
    if num_groups is None and not position:
        return Entry(found, DAMAGED)
    dialect = checkpoints.DIALECTS["slime"]
    where = Position(num_groups=num_groups, **position)
    return Entry(found, OK, CursorFile(path, rollout_id, {}, dialect, [dialect], where, 0.0, 1))


def marks(entries) -> dict[int, tuple[str, ...]]:
    listing = make_listing(Path(), entries)
    return {e.found.rollout_id: e.marks for e in listing.entries if e.marks}


def test_a_constant_batch_leaves_no_mark():
    listing = make_listing(Path(), [entry(i, 32 * (i + 1)) for i in range(6)])
    assert [e.marks for e in listing.entries] == [()] * 6
    assert [e.num_groups for e in listing.entries] == [None, 32, 32, 32, 32, 32]
    assert listing.groups_per_rollout == Fraction(32)
    assert listing.newest_good.found.rollout_id == 5


def test_a_cursor_that_ran_ahead_is_a_jump():
    groups = [32, 64, 96, 96 + 675, 96 + 675 + 32]
    assert marks([entry(i, n) for i, n in enumerate(groups)]) == {
        3: ("jump: 675 groups, a rollout of 32 make 32",)
    }


def test_a_batch_that_fell_short_and_one_that_goes_back():
    groups = [32, 64, 80, 112, 100, 132]
    assert marks([entry(i, n) for i, n in enumerate(groups)]) == {
        2: ("short: 16 groups, a rollout of 32 make 32",),
        4: ("goes back 12 groups",),
    }


def test_missing_files_are_a_gap_and_no_jump():
    entries = [entry(i, 32 * (i + 1)) for i in (3, 7, 11, 19, 23)]
    assert marks(entries) == {19: ("gap: 15 is missing",)}
    many = [entry(i, 32 * (i + 1)) for i in (*range(4), 20, 21)]
    assert marks(many) == {20: ("gap: 4 to 19 are missing (16 files)",)}


def test_groups_that_wait_or_were_rejected_do_not_count_as_trained():
    """Over-sampling: 40 drawn, 32 trained; the rest is in the buffer, in flight or discarded."""
    entries = [
        entry(0, 40, num_buffered=8, num_in_flight=0, num_discarded=0),
        entry(1, 70, num_buffered=2, num_in_flight=3, num_discarded=1),
        entry(2, 106, num_buffered=4, num_in_flight=4, num_discarded=2),
    ]
    listing = make_listing(Path(), entries)
    assert listing.groups_per_rollout == Fraction(32)
    assert [e.marks for e in listing.entries] == [(), (), ()]


def test_where_every_step_differs_nothing_is_marked_and_that_is_said():
    listing = make_listing(Path(), [entry(i, n) for i, n in enumerate([5, 20, 60, 61, 90])])
    assert all(not e.marks for e in listing.entries)
    assert "vary from 1 to 40" in listing.notes[0]
    assert listing.groups_per_rollout is None


def test_two_steps_of_which_one_is_larger_mark_the_larger():
    assert marks([entry(i, n) for i, n in enumerate([32, 64, 739])]) == {
        2: ("jump: 675 groups, a rollout of 32 make 32",)
    }


def test_damaged_files_are_passed_over():
    entries = [entry(0, 32), entry(1, 64), entry(2), entry(3, 128), entry(4)]
    listing = make_listing(Path(), entries)
    assert [e.num_groups for e in listing.entries] == [None, 32, None, 64, None]
    assert all(not e.marks for e in listing.entries)
    assert listing.newest_good.found.rollout_id == 3
    assert [e.found.rollout_id for e in listing.newer_bad] == [4]


def test_an_epoch_of_another_length_is_said():
    entries = [entry(i, 32 * (i + 1), num_rows=n) for i, n in enumerate([10, 10, 12, 12])]
    assert marks(entries) == {2: ("epochs of 12 rows, 10 before",)}


def test_loaders_are_counted_within_an_epoch():
    entries = [
        entry(1, None, offset=4, order_key=b"a"),
        entry(2, None, offset=8, order_key=b"a"),
        entry(3, None, offset=4, order_key=b"b"),
    ]
    assert [e.num_groups for e in make_listing(Path(), entries).entries] == [None, 4, None]


@pytest.mark.parametrize("ids", [[], [5], [1, 2], [2**62, 2**62 + 1]])
def test_short_lists(ids):
    assert len(make_listing(Path(), [entry(i, i) for i in ids]).entries) == len(ids)
