"""Errors cross processes: a worker of a pool, or of Ray, raises what the caller then sees."""

from __future__ import annotations

import inspect
import pickle

import pytest

from rolloutds import errors
from rolloutds.errors import BadRowsError, MissingExtraError, RolloutDSError, StateMismatchError
from rolloutds.integrations.ray import CapacityError, SharedSourceError

OTHERS = {
    BadRowsError: BadRowsError(["p.jsonl:3: not JSON"], 7, hint="skip them"),
    MissingExtraError: MissingExtraError("torch", extra="torch", needed_for="saving"),
    StateMismatchError: StateMismatchError(["seed: saved 1, now 2"], where="file"),
}
KINDS = [
    kind
    for kind in (*vars(errors).values(), SharedSourceError, CapacityError)
    if inspect.isclass(kind) and issubclass(kind, RolloutDSError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_the_same_after_the_way(kind: type[RolloutDSError]) -> None:
    error = OTHERS.get(kind) or kind("found", where="here", expected="that", hint="do this")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    with pytest.raises(kind):
        raise again
