"""Whatever a file holds, it is shown or refused; nothing else happens."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds import checkpoints
from rolloutds.checkpoints.diff import changes
from rolloutds.checkpoints.move import moved_state, target_of
from rolloutds.checkpoints.verify import Against, examine
from rolloutds.errors import CheckpointError, ConfigError, StateMismatchError
from rolloutds.reports import render
from rolloutds.reports.ckpt_change_report import diff_report
from rolloutds.reports.ckpt_report import raw_report, show_report, verify_report
from rolloutds.sample_files import sample_data_folder
from rolloutds.torch_file import ForeignObject

FILES = Path(__file__).resolve().parent / "files"
PATHS = [
    *sorted(path for path in FILES.rglob("*") if path.suffix in (".pt", ".pkl")),
    sample_data_folder() / "run/rollout/global_dataset_state_dict_19.pt",
]
STATES = [checkpoints.read_value(path) for path in PATHS if "trainer" not in path.name]
DIGEST = STATES[-1]["rolloutds"]["fingerprint"]
AGAINST = Against(212, 212, DIGEST, 8)

_foreign = ForeignObject("os.system", ("ls",))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**5_000, -(10**5_000), 1 << 62, 1 << 63]),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just(_foreign),
    st.builds(list),
    st.builds(dict),
    st.lists(st.integers(0, 3) | st.text(max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), st.integers(), max_size=3),
)


@st.composite
def damaged_states(draw):
    """A good state of some dialect with a few parts replaced by anything."""
    state = copy.deepcopy(draw(st.sampled_from(STATES)))
    for _ in range(draw(st.integers(1, 3))):
        holder = state
        for _ in range(draw(st.integers(0, 6))):
            inner = [v for v in _items(holder).values() if isinstance(v, dict | list) and v]
            if not inner:
                break
            holder = draw(st.sampled_from(inner))
        if isinstance(holder, dict | list) and holder:
            holder[draw(st.sampled_from(list(_items(holder))))] = draw(VALUES)
    return state


def _items(holder):
    return holder if isinstance(holder, dict) else dict(enumerate(holder))


def read_as(value, path, name):
    try:
        return checkpoints.as_cursor_file(path, value, dialect_name=name)
    except CheckpointError:
        return None


@given(damaged_states() | VALUES, st.sampled_from([None, *checkpoints.DIALECTS]))
def test_any_value_is_shown_or_refused(value, name):
    path = FILES / "slime/rollout/global_dataset_state_dict_9.pt"
    for format_name in ("text", "json", "markdown"):
        assert list(render(raw_report(path, value), format_name))
    file = read_as(value, path, name)
    if file is None:
        return
    good = checkpoints.open_file(path)
    for report in (
        show_report(file, None, raw=True),
        show_report(file, AGAINST),
        verify_report(file, AGAINST, examine(file, AGAINST)),
        diff_report(file, good, changes(file, good), None),
        diff_report(good, file, changes(good, file), None),
    ):
        text = "".join(render(report, "text"))
        assert "\x1b" not in text
        assert isinstance(json.loads("".join(render(report, "json"))), dict)
    with_waiting = {"buffer": "keep", "in_flight": "drop"}
    try:
        state = moved_state(file, target_of(file, 9, 9, AGAINST), **with_waiting)
    except (CheckpointError, ConfigError, StateMismatchError):
        return
    assert state["sample_group_index"] == 9 * 212 + 9


@pytest.mark.parametrize("state", STATES, ids=[str(n) for n in range(len(STATES))])
def test_good_states_are_recognised(state):
    assert checkpoints.recognise(state, Path("x.pt"))
