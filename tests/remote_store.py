"""A store behind URLs ``counting://…`` that lies in memory, counts requests and can fail."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import pytest

pytest.importorskip("fsspec", reason="needs the remote extra")

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class CountingStore(MemoryFileSystem):  # type: ignore[misc]
    """Files with an ETag of their content.

    Attributes:
        ranges: (name, start, stop) of every read, in order.
        calls: names of the other requests, in order.
        failures: what to raise, by the name of a request (``info``, ``cat_file``, ``ls``).
        cut: bytes that every answer lacks at its end.
    """

    protocol = "counting"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    ranges: ClassVar[list] = []
    calls: ClassVar[list] = []
    failures: ClassVar[dict] = {}
    cut = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("counting://"))

    @classmethod
    def reset(cls):
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]
        cls.ranges.clear()
        cls.calls.clear()
        cls.failures.clear()

    def _request(self, name):
        if name in self.failures:
            raise self.failures[name]

    def info(self, path, **kwargs):
        self.calls.append("info")
        self._request("info")
        return self._with_etag(super().info(path, **kwargs))

    def ls(self, path, detail=True, **kwargs):
        self.calls.append("ls")
        self._request("ls")
        found = super().ls(path, detail=True, **kwargs)
        return [self._with_etag(info) for info in found] if detail else [i["name"] for i in found]

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        found = super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        found = {name: self._with_etag(info) for name, info in found.items()}
        return found if detail else list(found)

    def _with_etag(self, info):
        if info["type"] == "directory":
            return info
        content = self.store[self._strip_protocol(info["name"])].getvalue()
        return {**info, "ETag": hashlib.md5(content, usedforsecurity=False).hexdigest()}

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._request("cat_file")
        self.ranges.append((path, start, end))
        data = super().cat_file(path, start=start, end=end, **kwargs)
        return data[: len(data) - self.cut] if self.cut else data

    @property
    def num_bytes(self):
        """Bytes asked for so far."""
        return sum(stop - start for _, start, stop in self.ranges)


@pytest.fixture
def remote():
    """The store, empty."""
    fsspec.register_implementation("counting", CountingStore, clobber=True)
    CountingStore.reset()
    store = CountingStore()  # the same object each time: fsspec keeps it
    store.cut = 0
    yield store
    CountingStore.reset()
