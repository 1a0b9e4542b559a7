from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rolloutds.errors import DataError
from rolloutds.rollouts.atomic_output import refuse_existing, whole_file


def write(path: Path | str, data: bytes) -> None:
    with whole_file(str(path)) as handle:
        handle.write(data)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    number = target.stat().st_ino
    with whole_file(str(target)) as handle:
        handle.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert target.stat().st_ino != number
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.fixture
def redirected(tmp_path):
    """An open descriptor on a regular file that has something in it, and the file."""
    path = tmp_path / "redirected"
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(number, b"before ")
    yield number, path
    os.close(number)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link", "link to link"])
def test_an_open_descriptor_is_written_where_it_is(tmp_path, redirected, name):
    number, path = redirected
    if name.startswith("/proc") and not Path("/proc/self/fd").exists():
        pytest.skip("no /proc here")
    target = name.format(number)
    if name.startswith("link"):
        (tmp_path / "link").symlink_to(f"/dev/fd/{number}")
        (tmp_path / "link to link").symlink_to("link")
        target = str(tmp_path / name)
    before = path.stat().st_ino
    write(target, b"new ")
    os.write(number, b"after")
    assert path.read_bytes() == b"before new after"
    assert path.stat().st_ino == before
    with pytest.raises(DataError, match="is a stream that is open already") as caught:
        refuse_existing(target, force=True)
    assert "stdout has the report" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/dev/fd/1"])
def test_standard_streams_are_no_files(name):
    with pytest.raises(DataError, match="open already"):
        refuse_existing(name, force=True)


def test_a_device_is_written_straight(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    write(tmp_path / "link", b"gone")
    assert Path("/dev/null").is_char_device()
    assert os.listdir(tmp_path) == ["link"]
    with pytest.raises(DataError, match="a device or pipe"):
        refuse_existing(str(tmp_path / "link"), force=True)


def test_a_pipe_is_written_straight(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write(pipe, b"through")
    reader.join()
    assert found == [b"through"]
    assert pipe.is_fifo()


def test_a_descriptor_that_is_not_open_is_an_error_of_ours():
    with pytest.raises(DataError, match="cannot be written"):
        write("/dev/fd/987654", b"x")


def test_links_in_a_circle_are_an_error_of_ours(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(DataError, match="exists already"):
        refuse_existing(str(tmp_path / "a"), force=False)


def test_convert_leaves_the_file_alone_that_stdout_goes_to(tmp_path, files):
    out = tmp_path / "out.jsonl"
    with out.open("wb") as stdout:
        source = str(files / "verl" / "40.jsonl")
        arguments = ["buffer", "convert", source, "/dev/stdout", "--to=rolloutds", "--force"]
        done = subprocess.run(
            [sys.executable, "-m", "rolloutds", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert "/dev/stdout: is a stream that is open already, expected a file" in done.stderr
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert out.read_bytes() == b""
