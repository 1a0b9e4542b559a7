"""Our state file: what is in it, and that a wrong one is refused by name, whole."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds import RolloutDataSourceWithBuffer, Sample
from rolloutds.checkpoints import native
from rolloutds.errors import CheckpointError, ConfigError, StateMismatchError

NUM_ROWS = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    rows = [json.dumps({"input": f"row {i}", "metadata": {"i": i}}) + "\n" for i in range(NUM_ROWS)]
    (folder / "p.jsonl").write_text("".join(rows))
    return folder


def make_source(folder: Path, **more: Any) -> RolloutDataSourceWithBuffer:
    given = {
        "prompt_data": str(folder / "p.jsonl"),
        "rollout_global_dataset": True,
        "rollout_shuffle": True,
        "n_samples_per_prompt": 2,
        "track_in_flight": True,
    }
    return RolloutDataSourceWithBuffer(SimpleNamespace(**(given | more)))


def rich_state(folder: Path) -> dict[str, Any]:
    """A state with a bit of everything: rows by name, whole groups, a compact one."""
    source = make_source(folder)
    groups = source.get_samples(9)
    groups[0][0].response, groups[0][0].status = "half", Sample.Status.ABORTED
    compact: list[Any] = groups[2]
    compact[:] = [[groups[2][0], copy.deepcopy(groups[2][0])], [groups[2][1]]]
    source.add_samples(groups[:3])
    source.get_samples(1)
    source.complete(groups[3:4])
    source.discard(groups[4:5], "zero spread")
    source.update_metadata({"a": [1, {"b": None}]})
    return source.state_dict()


def test_the_form_of_a_state(folder: Path) -> None:
    state = rich_state(folder)
    assert list(state) == [
        "sample_offset",
        "epoch_id",
        "sample_group_index",
        "sample_index",
        "metadata",
        "rolloutds",
    ]
    ours = state["rolloutds"]
    assert ours["format_version"] == native.FORMAT_VERSION
    untouched, compact = ours["buffer"]
    assert untouched.keys() == {"group_index", "first_index", "row_position", "row_id"}
    assert [len(rollout) for rollout in compact] == [2, 1]
    assert [list(group) for group in ours["in_flight"]["groups"]][:1] == [
        ["group_index", "first_index", "row_position", "row_id"]
    ]
    whole = ours["in_flight"]["groups"][-1]["samples"][0]
    assert whole["response"] == "half"
    assert whole["status"] == "aborted"
    assert "loss_mask" not in whole  # what has its default is left out
    assert ours["in_flight"]["num_completed"] == 1
    assert ours["in_flight"]["num_discarded"] == {"zero spread": 1}


def test_a_state_loads_back_to_the_same(folder: Path) -> None:
    state = rich_state(folder)
    before = copy.deepcopy(state)
    source = make_source(folder)
    source.load_state_dict(state)
    assert source.state_dict() == before
    source.buffer[0][0].metadata["i"] = "edited"
    source.get_metadata()["a"].append("edited")
    assert state == before


# --- wrong states -------------------------------------------------------------------------

WRONG = {
    "no object": (lambda s: [], r"state: of type list, expected the state"),
    "no metadata": (lambda s: s.pop("metadata"), "lacks metadata"),
    "metadata": (lambda s: s.update(metadata=[1]), "metadata is of type list"),
    "a huge count": (lambda s: s.update(epoch_id=10**5000), "epoch_id is an integer of 16610 bits"),
    "our part": (lambda s: s.update(rolloutds=None), "rolloutds is None, expected an object"),
    "keys": (lambda s: s["rolloutds"].update({3: 4}), "an object whose keys are text"),
    "no version": (lambda s: s["rolloutds"].pop("format_version"), "lacks format_version"),
    "a newer version": (
        lambda s: s["rolloutds"].update(format_version=2),
        "version 2, expected version 1\n.*newer",
    ),
    "true": (lambda s: s["rolloutds"].update(format_version=True), "version True"),
    "no fingerprint": (lambda s: s["rolloutds"].pop("fingerprint"), "lacks fingerprint"),
    "a field": (
        lambda s: s["rolloutds"]["fingerprint"].pop("slice"),
        r'"fingerprint"\] lacks slice',
    ),
    "a nested field": (
        lambda s: s["rolloutds"]["fingerprint"].update(rollout_seed=[1]),
        r'"rollout_seed"\] is of type list',
    ),
    "the buffer": (lambda s: s["rolloutds"].update(buffer={}), r'rolloutds\["buffer"\] is of type'),
    "a group": (lambda s: s["rolloutds"]["buffer"].append(3), r'"buffer"\]\[2\] is 3'),
    "an empty group": (lambda s: s["rolloutds"]["buffer"].append([]), r'"buffer"\]\[2\]'),
    "a sample": (lambda s: s["rolloutds"]["buffer"].append(["x", {}]), r"\[2\]\[0\] is 'x'"),
    "a method's name": (
        lambda s: s["rolloutds"]["buffer"][1][1][0].update(to_dict=1),
        r'\[1\]\[1\]\[0\]\["to_dict"\] is 1, expected no value',
    ),
    "an index": (
        lambda s: s["rolloutds"]["buffer"][1][1][0].update(group_index="x"),
        r'\["group_index"\] is \'x\'',
    ),
    "counters": (
        lambda s: s["rolloutds"]["buffer"][1][1][0].update(spec_info=[1]),
        r'\["spec_info"\] is of type list',
    ),
    "a group twice": (
        lambda s: s["rolloutds"]["buffer"].append(s["rolloutds"]["buffer"][1]),
        "expected each group and each sample once",
    ),
    "no row": (
        lambda s: s["rolloutds"]["in_flight"]["groups"][0].pop("row_position"),
        r'"groups"\]\[0\] lacks row_position',
    ),
    "a row beyond": (
        lambda s: s["rolloutds"]["in_flight"]["groups"][0].update(row_position=NUM_ROWS),
        "1 groups under in_flight name rows beyond the 7",
    ),
    "a count": (
        lambda s: s["rolloutds"]["in_flight"].update(num_completed=-1),
        r'"num_completed"\] is -1, expected a count',
    ),
    "a reason": (
        lambda s: s["rolloutds"]["in_flight"].update(num_discarded={"x": 1.5}),
        r'"num_discarded"\]\["x"\] is 1.5',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_state_is_refused_by_name_and_changes_nothing(folder: Path, name: str) -> None:
    change, says = WRONG[name]
    state = rich_state(folder)
    changed = change(state)
    source = make_source(folder)
    source.add_samples(source.get_samples(3)[:1])
    before = source.state_dict()
    with pytest.raises(CheckpointError, match=says):
        source.load_state_dict(changed if name == "no object" else state)
    assert source.state_dict() == before


def test_unknown_keys_are_passed_over(folder: Path) -> None:
    state = rich_state(folder)
    expected = copy.deepcopy(state)
    state["later"] = state["rolloutds"]["later"] = {"x": 1}
    state["rolloutds"]["in_flight"]["later"] = 1
    state["rolloutds"]["in_flight"]["groups"][0]["later"] = 1
    source = make_source(folder)
    source.load_state_dict(state)
    assert source.state_dict() == expected


def test_a_dataset_on_one_side_only_is_a_difference(folder: Path) -> None:
    with_dataset = make_source(folder).state_dict()
    without = make_source(folder, rollout_global_dataset=False)
    with pytest.raises(StateMismatchError, match="dataset: saved '7 rows', now 'none'"):
        without.load_state_dict(with_dataset)
    with pytest.raises(StateMismatchError, match="dataset: saved 'none', now '7 rows'"):
        make_source(folder).load_state_dict(without.state_dict())


def test_a_bomb_of_shared_lists_is_refused_or_loaded_at_once(folder: Path) -> None:
    bomb: Any = []
    for _ in range(60):
        bomb = [bomb, bomb]
    source = make_source(folder)
    source.load_state_dict(rich_state(folder) | {"metadata": {"bomb": bomb}})
    state = rich_state(folder)
    state["rolloutds"]["fingerprint"]["slice"] = bomb
    with pytest.raises(CheckpointError, match="slice"):
        source.load_state_dict(state)
    state = rich_state(folder)
    state["rolloutds"]["buffer"][1] = bomb
    with pytest.raises(CheckpointError, match="buffer"):
        source.load_state_dict(state)


def test_nesting_without_an_end_is_refused(folder: Path) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    source = make_source(folder)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        source.load_state_dict(rich_state(folder) | {"metadata": {"deep": deep}})


# --- any mutation -------------------------------------------------------------------------

VALUES = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2, 3.5, float("nan"), 10**30, "", "x", b"", [], {}, ()]),
    st.builds(
        dict, st.dictionaries(st.sampled_from(["group_index", "samples", "x", 3]), st.none())
    ),
    st.lists(st.sampled_from([None, 0, [], {}, {"index": 1}, [{}]]), max_size=3),
)


def ways(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a value."""
    found = [way] if way else []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += ways(item, (*way, key))
    return found


def mutate(state: Any, way: tuple[Any, ...], action: str, value: Any) -> None:
    parent = state
    for key in way[:-1]:
        parent = parent[key]
    if action == "replace":
        parent[way[-1]] = copy.deepcopy(value)
    elif action == "delete":
        del parent[way[-1]]
    elif isinstance(parent, dict):
        parent["another"] = copy.deepcopy(value)
    else:
        parent.append(copy.deepcopy(value))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), policy=st.sampled_from(["error", "ignore"]))
def test_any_mutated_state_is_refused_as_a_checkpoint_or_works(
    folder: Path, data: st.DataObject, policy: str
) -> None:
    state = rich_state(folder)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(ways(state)))
        action = data.draw(st.sampled_from(["replace", "delete", "add"]))
        mutate(state, way, action, data.draw(VALUES))
    source = make_source(folder, on_state_mismatch=policy)
    before = source.state_dict()
    try:
        source.load_state_dict(state)
    except CheckpointError as error:
        refusal = error
    else:
        refusal = None
    if refusal:
        assert str(refusal).startswith("state: ")
        assert source.state_dict() == before
        return
    again = make_source(folder, on_state_mismatch=policy)
    again.load_state_dict(source.state_dict())
    assert json.dumps(again.state_dict(), default=repr) == json.dumps(
        source.state_dict(), default=repr
    )
    num_groups = len(source.in_flight.waiting) + len(source.buffer) + 3
    assert len(source.get_samples(num_groups)) == num_groups


# --- files --------------------------------------------------------------------------------


def test_only_state_files_are_listed(tmp_path: Path) -> None:
    rollout = tmp_path / "rollout"
    rollout.mkdir()
    for name in (
        "global_dataset_state_dict_3.pt",
        "global_dataset_state_dict_12.pt",
        "global_dataset_state_dict_007.pt",
        "global_dataset_state_dict_-1.pt",
        "global_dataset_state_dict_٣.pt",
        ".global_dataset_state_dict_5.pt.rolloutds-0123456789abcdef.tmp",
        "global_dataset_state_dict_6.pt.tmp",
        "notes.txt",
    ):
        (rollout / name).touch()
    (rollout / "global_dataset_state_dict_9.pt").mkdir()
    (rollout / "global_dataset_state_dict_8.pt").symlink_to("nowhere")
    assert native.saved_ids(tmp_path) == [3, 12]
    assert native.saved_ids(tmp_path / "nowhere") == []


@pytest.mark.parametrize("rollout_id", ["3", 1.5, [1]])
def test_an_id_is_a_whole_number(rollout_id: Any) -> None:
    with pytest.raises(ConfigError, match="expected a whole number"):
        native.checked_id(rollout_id)


def test_an_old_file_that_cannot_be_removed_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rollout").mkdir()
    for i in range(3):
        native.state_path(tmp_path, i).touch()

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    native.prune(tmp_path, 2, keep_last=1)
    assert native.saved_ids(tmp_path) == [0, 1, 2]
    assert "cannot be removed (Permission denied)" in caplog.text
