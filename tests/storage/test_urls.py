from __future__ import annotations

import pytest

from rolloutds.storage import is_remote, local_path, masked
from rolloutds.storage.urls import scheme_of, without_query


@pytest.mark.parametrize(
    ("path", "is_url"),
    [
        ("s3://bucket/x.jsonl", True),
        ("memory://x", True),
        ("simplecache::s3://bucket/x", True),
        ("hdfs+ssl://host/x", True),
        ("file:///data/x.jsonl", False),
        ("C://data/x.jsonl", False),
        ("C:\\data\\x.jsonl", False),
        ("/data/x.jsonl", False),
        ("data/s3:/x.jsonl", False),
        ("x.jsonl@[1:2]", False),
        ("", False),
    ],
)
def test_what_is_behind_a_url(path, is_url):
    assert is_remote(path) is is_url


def test_a_file_url_is_a_local_path():
    assert local_path("file:///data/x.jsonl") == "/data/x.jsonl"
    assert local_path("file://data/x.jsonl") == "data/x.jsonl"
    assert local_path("data/file:///x") == "data/file:///x"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/x.jsonl", "s3://bucket/x.jsonl"),
        ("s3://bucket/x-?.jsonl", "s3://bucket/x-?.jsonl"),
        ("memory://a@[0:3]", "memory://a@[0:3]"),
        ("abfs://container@account.host/x", "abfs://container@account.host/x"),
        ("sftp://me:secret@host/x", "sftp://me:***@host/x"),
        ("https://token@host/x", "https://***@host/x"),
        ("hf://token@org/x", "hf://***@org/x"),
        ("https://me:secret@host/x?sig=a&b=c", "https://me:***@host/x?***"),
        ("https://host/x.jsonl?token=abc@[0:3]", "https://host/x.jsonl?***"),
        ("no URL at all: user:pass@host", "no URL at all: user:pass@host"),
        ("403 for https://h/x?sig=abc, try later", "403 for https://h/x?*** try later"),
    ],
)
def test_what_may_be_secret_is_not_shown(url, shown):
    assert masked(url) == shown


def test_parts_of_a_url():
    assert scheme_of("S3://bucket/x") == "s3"
    assert scheme_of("simplecache::s3://bucket/x") == "simplecache"
    assert without_query("https://h/x.jsonl?sig=1") == "https://h/x.jsonl"
    assert without_query("s3://b/x-?.jsonl") == "s3://b/x-?.jsonl"
