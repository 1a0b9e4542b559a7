from __future__ import annotations

from pathlib import Path

import pytest

from rolloutds import checkpoints
from rolloutds.checkpoints.verify import CODES, Against, examine, has_errors, severity

FINGERPRINT = {
    "content_digest": "d",
    "num_rows_in_files": 10,
    "slice": None,
    "num_rows": 10,
    "rollout_shuffle": True,
    "rollout_seed": 42,
    "rollout_max_prompt_len": None,
    "tokenizer_digest": None,
    "template_digest": None,
    "n_samples_per_prompt": 2,
    "keys": {"input_key": "input"},
}
AGAINST = Against(10, 10, FINGERPRINT, 2)


def state(*, ours=None, **numbers):
    value = {
        "sample_offset": 5,
        "epoch_id": 1,
        "sample_group_index": 15,
        "sample_index": 30,
        "metadata": {},
    }
    return value | numbers | ({} if ours is None else {"rolloutds": ours})


def our_part(**changes):
    part = {
        "format_version": 1,
        "fingerprint": FINGERPRINT,
        "n_samples_per_prompt": 2,
        "buffer": [],
        "in_flight": {"groups": [], "num_completed": 0, "num_discarded": {}},
    }
    return part | changes


def found(value, tmp_path: Path, against=AGAINST) -> dict[str, str]:
    path = tmp_path / "state.pt"
    path.touch()
    findings = examine(checkpoints.as_cursor_file(path, value), against)
    return {finding.code: finding.what for finding in findings}


def group(index, size=2):
    return [{"group_index": index, "index": 2 * index + i} for i in range(size)]


def in_flight(*groups):
    return our_part(in_flight={"groups": list(groups), "num_completed": 0, "num_discarded": {}})


def test_a_state_that_fits_has_no_finding(tmp_path):
    assert found(state(ours=our_part()), tmp_path) == {}
    assert found(state(ours=our_part()), tmp_path, None) == {}
    # The wrap is lazy: the end of an epoch is legal.
    at_end = state(sample_offset=10, epoch_id=0, sample_group_index=10, sample_index=20)
    assert found(at_end | {"rolloutds": our_part()}, tmp_path) == {}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sample_offset": 11, "sample_group_index": 21, "sample_index": 42}, "CKPT020"),
        ({"sample_group_index": 16, "sample_index": 32}, "CKPT013"),
        ({"sample_index": 31}, "CKPT022"),
        ({"sample_index": 60}, "CKPT022"),
        ({"sample_index": 0}, "CKPT022"),
        ({"epoch_id": -1}, "CKPT004"),
        ({"metadata": None}, "CKPT004"),
        ({"sample_index": True}, "CKPT004"),
        ({"sample_index": 1 << 63}, "CKPT004"),
        ({"sample_index": 10**5_000}, "CKPT004"),
        ({"sample_index": 30.0}, "CKPT004"),
    ],
    ids=[*"abcdefghijk"],
)
def test_numbers_of_a_slime_state(tmp_path, changes, code):
    codes = found(state(**changes), tmp_path)
    assert set(codes) == {code, "CKPT012"}


@pytest.mark.parametrize(
    ("key", "code"),
    [("sample_offset", None), ("metadata", "CKPT002"), ("sample_group_index", "CKPT003")],
)
def test_missing_keys(tmp_path, key, code):
    value = state()
    del value[key]
    if code is None:
        assert checkpoints.recognise(value, Path("s.pt")) == []
    else:
        assert code in found(value, tmp_path)


def test_with_a_fingerprint_a_broken_identity_is_a_warning(tmp_path):
    codes = found(state(ours=our_part(), sample_group_index=16, sample_index=32), tmp_path)
    assert set(codes) == {"CKPT021"}
    assert "15 groups lie before epoch 1, offset 5 of 10 rows" in codes["CKPT021"]


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (our_part(format_version=2), "CKPT005"),
        (our_part(buffer=None), "CKPT004"),
        (our_part(buffer=[group(3, size=3)]), "CKPT023"),
        (our_part(buffer=[group(3), group(3)]), "CKPT025"),
        (our_part(buffer=[group(15)]), "CKPT026"),
        (in_flight({"group_index": 3, "first_index": 6, "samples": group(3, size=1)}), "CKPT023"),
        (in_flight({"group_index": 3, "first_index": 6, "row_position": 10}), "CKPT024"),
        (our_part(moved={"from": {}}), "CKPT030"),
    ],
    ids=[*"abcdefgh"],
)
def test_what_waits(tmp_path, part, code):
    assert set(found(state(ours=part), tmp_path)) == {code}


def test_a_group_in_the_buffer_and_in_flight(tmp_path):
    part = in_flight({"group_index": 3, "first_index": 6, "row_position": 1})
    codes = found(state(ours=part | {"buffer": [group(3)]}), tmp_path)
    assert set(codes) == {"CKPT025"}


def test_other_data_is_said_field_by_field_and_that_the_place_in_it_is_gone(tmp_path):
    other = FINGERPRINT | {"num_rows": 3, "num_rows_in_files": 3, "rollout_seed": 1}
    path = tmp_path / "state.pt"
    path.touch()
    file = checkpoints.as_cursor_file(path, state(ours=our_part()))
    findings = examine(file, Against(3, 3, other, 2))
    assert [(f.code, f.field) for f in findings] == [
        ("CKPT010", "fingerprint.num_rows_in_files"),
        ("CKPT010", "fingerprint.num_rows"),
        ("CKPT010", "fingerprint.rollout_seed"),
        ("CKPT020", "sample_offset"),
    ]
    assert findings[-1].what == "is 5, and an epoch of this data has 3 rows"
    assert has_errors(findings)
    # The numbers themselves fit the rows they were made on, which is all that is said of them.
    findings = examine(file, Against(7, 7, other | {"num_rows": 7}, 2))
    assert {f.code for f in findings} == {"CKPT010"}


def test_other_keys_and_sizes_are_warnings(tmp_path):
    other = FINGERPRINT | {"keys": {"input_key": "text"}, "n_samples_per_prompt": 4}
    codes = found(state(ours=our_part()), tmp_path, Against(10, 10, other, None))
    assert set(codes) == {"CKPT011"}
    codes = found(state(ours=our_part()), tmp_path, Against(10, 10, other, 4))
    assert set(codes) == {"CKPT011", "CKPT022"}


def test_a_loader_beyond_the_rows(files):
    file = checkpoints.open_file(files / "verl/global_step_5/data.pt")
    assert examine(file, Against(20, 20, {}, None)) == []
    assert [f.code for f in examine(file, Against(19, 19, {}, None))] == ["CKPT020"]


def test_errors_come_first(tmp_path):
    path = tmp_path / "state.pt"
    path.touch()
    value = state(sample_group_index=16, sample_index=31)
    findings = examine(checkpoints.as_cursor_file(path, value), AGAINST)
    assert [severity(finding) for finding in findings] == ["error", "warning", "note"]
    assert all(finding.code in CODES for finding in findings)
