"""What holds for every reader, on the example files of every format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rolloutds import torch_file
from rolloutds.errors import RolloutDSError
from rolloutds.rollouts import READERS, GroupReader, ReadGroup, open_groups
from rolloutds.rollouts.dump_file import LinesFile, ParquetFile, TorchFile, open_dump
from rolloutds.sample import Sample

FILES = Path(__file__).resolve().parent / "files"
EXAMPLES = [
    (folder.name, path)
    for folder in sorted(FILES.iterdir())
    for path in sorted(folder.rglob("*"))
    if path.is_file()
]
every_example = pytest.mark.parametrize(
    ("name", "path"), EXAMPLES, ids=[str(path.relative_to(FILES)) for _, path in EXAMPLES]
)
every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


@every_reader
def test_a_reader_says_what_it_is(reader: GroupReader) -> None:
    assert READERS[reader.name] is reader
    assert reader.looks_for
    assert type(reader).__doc__
    assert reader.file_type in (LinesFile, TorchFile, ParquetFile)


def test_every_reader_has_examples() -> None:
    assert {name for name, _ in EXAMPLES} == set(READERS)


@every_example
def test_an_example_is_recognised_by_its_own_reader_only(name: str, path: Path) -> None:
    file = open_dump(str(path))
    takers = [
        r.name for r in READERS.values() if isinstance(file, r.file_type) and r.recognises(file)
    ]
    assert takers == [name]


@every_example
def test_groups_are_samples_with_places(name: str, path: Path) -> None:
    groups = open_groups(str(path))
    read = list(groups)
    assert read
    assert groups.files[0].format_name == name
    assert groups.files[0].num_groups == len(read)
    assert groups.files[0].num_samples == sum(len(group.samples) for group in read)
    for position, group in enumerate(read):
        assert group.place.file == str(path)
        assert group.place.position == position
        assert str(path) in str(group.place)
        assert group.samples
        assert all(isinstance(sample, Sample) for sample in group.samples)
        assert group.num_rollouts <= len(group.samples)


@every_example
def test_reading_again_gives_the_same(name: str, path: Path, comparable) -> None:
    pytest.importorskip("torch", reason="tensors are compared as torch makes them")
    groups = open_groups(str(path), format_name=name)
    once, again = (
        [comparable([Sample.to_dict(s) for s in group.samples]) for group in groups]
        for _ in range(2)
    )
    assert once == again


def find_extra(sample: Sample) -> Any:
    return getattr(sample, "zzz_extra", None) or (sample.metadata or {}).get("zzz_extra")


def with_extra(value: Any) -> Any:
    """The value with a key nobody knows in every record that stands for a sample."""
    if isinstance(value, list):
        return [with_extra(item) for item in value]
    for name in ("samples", "traces"):
        if isinstance(value.get(name), list):
            return value | {name: with_extra(value[name])}
    if isinstance(value.get("responses"), list):
        return value | {"zzz_extra": [["kept"]] * len(value["responses"])}
    if isinstance(value.get("token_loss_mask"), list):
        return value | {"zzz_extra": [["kept"]]}
    return value | {"zzz_extra": ["kept"]}


LINES = [(name, path) for name, path in EXAMPLES if path.suffix == ".jsonl"]


@pytest.mark.parametrize(("name", "path"), LINES, ids=[str(p.relative_to(FILES)) for _, p in LINES])
def test_keys_nobody_knows_survive(name: str, path: Path, tmp_path: Path) -> None:
    values = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    changed = tmp_path / path.relative_to(FILES)
    changed.parent.mkdir(parents=True)
    changed.write_text("".join(json.dumps(with_extra(value)) + "\n" for value in values))
    samples = [sample for group in open_groups(str(changed)) for sample in group.samples]
    assert [find_extra(sample) for sample in samples] == [["kept"]] * len(samples)


@pytest.mark.parametrize("name", ["slime", "group-lists"])
def test_keys_nobody_knows_survive_in_torch_files(name: str, write_torch) -> None:
    sample = {"prompt": "a", "response": "b", "group_index": 0, "zzz_extra": ["kept"]}
    value = {"samples": [sample]} if name == "slime" else [[sample]]
    (group,) = open_groups(write_torch(value))
    assert group.samples[0].__dict__["zzz_extra"] == ["kept"]


def num_samples(groups: list[ReadGroup]) -> int:
    return sum(len(group.samples) for group in groups)


def outcome(groups: Iterable[ReadGroup]) -> tuple[list[ReadGroup], RolloutDSError | None]:
    """The groups that could be read, and the error of ours that ended it."""
    read: list[ReadGroup] = []
    try:
        read.extend(groups)
    except RolloutDSError as error:
        return read, error
    return read, None


@every_example
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_file_cut_short_is_an_error_of_ours_or_has_fewer_samples(
    name: str, path: Path, share: float, tmp_path: Path
) -> None:
    data = path.read_bytes()
    cut = tmp_path / path.name
    cut.write_bytes(data[: int(share * len(data))])
    read, error = outcome(open_groups(str(cut), format_name=name))
    if error is None:
        assert num_samples(read) < num_samples(list(open_groups(str(path))))
    else:
        assert str(cut) in str(error)


@every_example
def test_a_garbled_file_is_an_error_of_ours(name: str, path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    garbled = tmp_path / path.name
    for start in range(0, len(data), max(1, len(data) // 25)):
        changed = data.copy()
        changed[start : start + 3] = b"\xff\x00}"
        garbled.write_bytes(changed)
        read, error = outcome(open_groups(str(garbled), format_name=name))
        assert read or error is not None


WRONG: list[Any] = [None, 7, "text", [], {}, [1], {"a": 1}, [[]], [{}], True, float("nan")]


@pytest.mark.parametrize(("name", "path"), LINES, ids=[str(p.relative_to(FILES)) for _, p in LINES])
def test_a_field_of_the_wrong_form_is_read_or_an_error_of_ours(
    name: str, path: Path, tmp_path: Path
) -> None:
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    broken = tmp_path / "broken.jsonl"
    for value in [*WRONG, *variants(first)]:
        broken.write_text(json.dumps(value) + "\n")
        groups = open_groups(str(broken), format_name=name, n_samples_per_prompt=1)
        read, error = outcome(groups)
        assert read or str(broken) in str(error)


def variants(value: Any) -> list[Any]:
    """The value with each of its parts, at any depth, replaced by something of another form."""
    if isinstance(value, list):
        inner = variants(value[0]) if value else []
        return [[one, *value[1:]] for one in [*WRONG, *inner]]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        found.append({k: v for k, v in value.items() if k != key})
        found += [value | {key: wrong} for wrong in [*WRONG, *variants(item)]]
    return found


@pytest.mark.parametrize(
    "path",
    [path for _, path in EXAMPLES if path.suffix == ".pt"],
    ids=lambda path: str(path.relative_to(FILES)),
)
def test_a_torch_file_with_a_part_of_the_wrong_form(path: Path, tmp_path: Path) -> None:
    from rolloutds.torch_file import read

    value = read(path)
    for variant in variants(shortened(value)):
        file = TorchFile("made.pt")
        file.__dict__["value"] = variant
        for reader in READERS.values():
            if reader.file_type is TorchFile and reader.recognises(file):
                file.__dict__["value"] = variant
                _, error = outcome(reader.read(file, n_samples_per_prompt=1))
                assert error is None or "made.pt" in str(error)
                break


def shortened(value: Any) -> Any:
    """The value with one element of each list, and few keys of each sample."""
    if isinstance(value, list):
        return [shortened(item) for item in value[:1]]
    if isinstance(value, dict) and "prompt" in value:
        kept = ("prompt", "group_index", "status", "spec_info", "metadata")
        return {key: value[key] for key in kept}
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return value


def test_the_examples_are_what_the_maker_writes(tmp_path: Path, comparable) -> None:
    pytest.importorskip("torch")
    maker = FILES.parent / "make_examples.py"
    subprocess.run([sys.executable, str(maker), str(tmp_path)], check=True)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {path.relative_to(FILES) for _, path in EXAMPLES}
    for _, path in EXAMPLES:
        other = tmp_path / path.relative_to(FILES)
        if path.suffix == ".jsonl":
            assert other.read_bytes() == path.read_bytes()
        elif path.suffix == ".pt":
            assert comparable(torch_file.read(other)) == comparable(torch_file.read(path))
