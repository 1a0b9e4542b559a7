"""The order rebuilt from a file is the one torchdata serves after a resume."""

from __future__ import annotations

import itertools

import pytest

from rolloutds.checkpoints import read_value
from rolloutds.checkpoints.stateful_dataloader import read_loader_state
from rolloutds.checkpoints.upcoming import upcoming_rows
from rolloutds.errors import CheckpointError

pytestmark = [
    # torchdata asks torch for what newer versions of it will drop.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def resumed_rows(maker, state, count, **settings):
    """What torchdata itself serves after loading the state, over as many epochs as it takes."""
    loader = maker.make_loader(**settings)
    loader.load_state_dict(state)
    rows: list[int] = []
    while len(rows) < count:
        rows += itertools.chain.from_iterable(batch.tolist() for batch in loader)
    return rows[:count]


def saved(maker, tmp_path, num_batches, *, whole_epoch=False, **settings):
    import torch

    loader = maker.make_loader(**settings)
    if whole_epoch:
        list(loader)
        state = loader.state_dict()
    else:
        state = maker.state_after(loader, num_batches)
    path = tmp_path / "data.pt"
    torch.save(state, path)
    return state, read_loader_state(read_value(path))


@pytest.mark.parametrize("num_batches", range(6))
def test_next_rows_at_every_batch_of_an_epoch(maker, tmp_path, num_batches):
    state, read = saved(maker, tmp_path, num_batches)
    expected = resumed_rows(maker, state, 50)
    assert upcoming_rows(read, maker.NUM_ROWS, 50) == expected


@pytest.mark.parametrize("num_batches", [1, 3, 5])
def test_next_rows_with_workers(maker, tmp_path, num_batches):
    state, read = saved(maker, tmp_path, num_batches, num_workers=2)
    assert read.num_workers == 2
    expected = resumed_rows(maker, state, 30, num_workers=2)
    assert upcoming_rows(read, maker.NUM_ROWS, 30) == expected


def test_next_rows_after_batches_beyond_the_workers_snapshot(maker, tmp_path):
    settings = {"num_workers": 2, "snapshot_every": 3}
    state, read = saved(maker, tmp_path, 4, **settings)
    assert (read.steps_since_snapshot, read.num_batches, read.num_samples) == (1, 4, 16)
    expected = resumed_rows(maker, state, 20, **settings)
    assert upcoming_rows(read, maker.NUM_ROWS, 20) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
def test_next_rows_after_an_epoch_that_was_read_to_its_end(maker, tmp_path, num_workers):
    # 22 rows in batches of 4: two rows of each epoch make no batch and are dropped.
    settings = {"num_rows": 22, "num_workers": num_workers}
    state, read = saved(maker, tmp_path, 0, whole_epoch=True, **settings)
    assert read.is_finished
    expected = resumed_rows(maker, state, 20, **settings)
    assert upcoming_rows(read, 22, 20) == expected


def test_the_order_of_torch_s_own_sampler_is_not_in_the_file(maker, tmp_path):
    _, read = saved(maker, tmp_path, 2, sampler="torch")
    assert not read.has_order
    assert read.num_samples == 8
    with pytest.raises(CheckpointError, match="order is not in the file"):
        upcoming_rows(read, maker.NUM_ROWS, 4)


def test_a_size_that_cannot_be_is_refused(maker, tmp_path):
    _, read = saved(maker, tmp_path, 3)
    with pytest.raises(
        CheckpointError, match=r"12 rows of the epoch were served.* has 10"
    ) as caught:
        upcoming_rows(read, 10, 4)
    assert "--num-rows" in caught.value.hint


def test_batches_of_unknown_size_are_said(maker, tmp_path):
    _, read = saved(maker, tmp_path, 2, num_workers=2, snapshot_every=3)
    assert (read.num_samples, read.num_batches) == (None, 2)
    with pytest.raises(CheckpointError, match="their size is not in the file"):
        upcoming_rows(read, maker.NUM_ROWS, 4)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_that_makes_no_batches(tmp_path, num_workers):
    pytest.importorskip("torchdata")
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import RandomSampler

    def make_loader():
        generator = torch.Generator().manual_seed(5)
        sampler = RandomSampler(range(11), generator=generator)
        return StatefulDataLoader(
            range(11), batch_size=None, sampler=sampler, num_workers=num_workers
        )

    loader = make_loader()
    rows = iter(loader)
    served = [next(rows) for _ in range(3)]
    torch.save(loader.state_dict(), tmp_path / "data.pt")
    read = read_loader_state(read_value(tmp_path / "data.pt"))
    assert (read.num_samples, read.num_batches, read.has_order) == (len(served), 3, True)
    resumed = make_loader()
    resumed.load_state_dict(loader.state_dict())
    assert upcoming_rows(read, 11, 8) == [int(row) for row in resumed]
