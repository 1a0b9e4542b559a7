"""Objects of classes that stand inside other classes: every protocol spells those another way."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

from rolloutds.rollouts.pickled_samples import plain_group
from rolloutds.torch_file import ForeignClass, ForeignObject, read
from rolloutds.torch_file.dump_reader import read_dump
from rolloutds.torch_file.packed_reader import unpacked


@dataclass
class Sample:
    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"

    @dataclass
    class SpecInfo:
        @dataclass
        class Counts:
            accepted: int = 0

        num_drafts: int = 0
        counts: Counts = field(default_factory=Counts)

    prompt: str = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    status: Status = Status.PENDING
    spec_info: SpecInfo = field(default_factory=SpecInfo)


def groups() -> list[list[Sample]]:
    done, info = Sample.Status.COMPLETED, Sample.SpecInfo(3, Sample.SpecInfo.Counts(2))
    return [[Sample(f"p{g}", [7] * 40, "r", done, info), Sample(f"p{g}")] for g in range(3)]


def check(found: list[list[ForeignObject]]) -> None:
    first, second = found[0]
    assert first.class_name == f"{__name__}.Sample"
    info = first.fields["spec_info"]
    assert info.class_name == f"{__name__}.Sample.SpecInfo"
    assert info.fields["num_drafts"] == 3
    assert info.fields["counts"].class_name == f"{__name__}.Sample.SpecInfo.Counts"
    assert info.fields["counts"].fields == {"accepted": 2}
    plain = plain_group(found)
    assert [[sample["prompt"] for sample in group] for group in plain] == [
        [f"p{g}"] * 2 for g in range(3)
    ]
    assert [sample["status"] for sample in plain[2]] == ["completed", "pending"]
    assert unpacked(plain[2][0]["tokens"]) == [7] * 40
    assert plain[0][0]["spec_info"]["num_drafts"] == 3
    assert second.fields["response"] == ""


@pytest.mark.parametrize("protocol", range(6))
def test_objects_of_nested_classes_are_read(make_archive, protocol: int):
    path = make_archive(pickle.dumps(groups(), protocol))
    check(read(path))
    check(read_dump(path))


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_full_dump_by_torch_is_read(tmp_path: Path, protocol: int):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save({"buffer": groups(), "t": torch.ones(2)}, path, pickle_protocol=protocol)
    found = read(path)
    check(found["buffer"])
    assert found["t"].tolist() == [1.0, 1.0]


def test_one_nested_class_is_one_stand_in(make_archive):
    first, second, status = read(
        make_archive(pickle.dumps([Sample.SpecInfo, Sample.SpecInfo, Sample.Status], 2))
    )
    assert isinstance(first, ForeignClass)
    assert first is second
    assert repr(status) == f"<{__name__}.Sample.Status>"


def test_a_member_pickled_by_name_has_its_status(make_archive, text):
    getattr_ = b"cbuiltins\ngetattr\n"
    status = getattr_ + b"cslime.types\nSample\n" + text("Status") + b"\x86R"
    member = getattr_ + status + text("TRUNCATED") + b"\x86R"
    sample = b"cslime.types\nSample\n)\x81}" + text("status") + member + b"sb"
    (plain,) = plain_group([read(make_archive(b"\x80\x02" + sample + b"."))])
    assert plain["status"] == "truncated"


def test_members_by_the_million_are_bounded(make_archive, small_budget, text):
    from rolloutds.errors import TorchFileError

    names = b"".join(b"h\x00h\x01" + text(f"{i}") + b"\x86R0" for i in range(200_000))
    start = b"\x80\x02cbuiltins\ngetattr\nq\x00ca\nB\nq\x01"
    with pytest.raises(TorchFileError):
        read(make_archive(start + names + b"."), budget=small_budget)
