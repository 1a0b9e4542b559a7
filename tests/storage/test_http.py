from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from rolloutds.cache import Cache
from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.readers import open_rows
from rolloutds.readers.base import RowKeys
from rolloutds.storage import open_stored

pytest.importorskip("aiohttp", reason="fsspec needs it for http")
KEYS = RowKeys("input")


class RangeHandler(SimpleHTTPRequestHandler):
    """Serves files, with ranges unless the name has `whole` in it."""

    asked: ClassVar[list] = []

    def do_GET(self):
        if "secret" in self.path:
            self.send_error(403)
            return
        path = self.translate_path(self.path)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if span is None or "whole" in self.path:
            super().do_GET()
            return
        start, last = map(int, span.groups())
        self.asked.append((start, last + 1))
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            self.send_error(404)
            return
        data = content[start : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(data) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """The address of a server of tmp_path."""
    RangeHandler.asked.clear()
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, directory=str(tmp_path)))
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


def test_rows_come_by_ranges(server, tmp_path):
    lines = [f'{{"input": "{i}{"x" * 30_000}"}}\n' for i in range(50)]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    cache = Cache(tmp_path / "cache")
    url = f"{server}/x.jsonl?token=hidden"
    local = open_rows(str(tmp_path / "x.jsonl"), KEYS, cache=Cache(None))
    assert open_rows(url, KEYS, cache=cache).digest == local.digest
    RangeHandler.asked.clear()
    rows = open_rows(f"{url}@[-9:]", KEYS, cache=cache)
    assert rows.read([2])[0].value == local.read([43])[0].value
    start = sum(map(len, lines[:43]))
    assert RangeHandler.asked == [(start, start + len(lines[43]))]
    assert rows.place(0).file == f"{server}/x.jsonl?***"


def test_a_folder_is_what_its_page_links_to(server, tmp_path):
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).write_text(f'{{"input": "{name}"}}\n')
    rows = open_rows(f"{server}/*.jsonl", KEYS, cache=Cache(None))
    assert [row.value["input"] for row in rows.read([0, 1])] == ["a.jsonl", "b.jsonl"]


def test_what_a_server_refuses(server, tmp_path):
    (tmp_path / "whole.jsonl").write_text('{"input": 1}\n' * 9)
    with pytest.raises(DataNotFoundError, match="no such file or folder"):
        open_stored(f"{server}/no.jsonl")
    with pytest.raises(DataError, match="access is refused"):
        open_stored(f"{server}/secret.jsonl").pread(1, 0)
    with pytest.raises(DataError, match="does not read by ranges"):
        open_stored(f"{server}/whole.jsonl").pread(5, 3)
