"""Images, videos and audio: as many items as marks, and files that are there."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from rolloutds.checks.base import Explanation, RowCheck, Severity
from rolloutds.checks.batch import MARKS, RowBatch
from rolloutds.checks.columns import Missing

_REMOTE = ("http://", "https://", "data:", "s3://", "gs://", "hf://")


class MediaMiscounted(RowCheck):
    """Marks and items that do not match."""

    code = "MEDIA001"
    name = "media-miscounted"
    severity: ClassVar[Severity] = "error"
    needs = ("media",)
    explanation = Explanation(
        what="A prompt has more <image>, <video> or <audio> marks than the row has items, or "
        "fewer; or the media column is no list.",
        why="The run stops at this row: it cannot be known which item belongs where.",
        example='{"prompt": "<image> a", "images": ["1.png", "2.png"]}',
        fix="Write as many marks as items. Marks are written in lower case.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Takes what placing the media said."""
        for i, what in batch.findings("media"):
            self.add_row(batch, i, what)


class MarksWithoutItems(RowCheck):
    """Marks in a row whose media column is null or absent."""

    code = "MEDIA002"
    name = "marks-without-media"
    severity: ClassVar[Severity] = "warning"
    needs = ("media",)
    explanation = Explanation(
        what="A prompt has marks, and the row's column for that kind is null or absent.",
        why='The mark stays in the text as it is: the model reads "<image>" and sees none.',
        example='{"prompt": "<image> What is this?", "images": null}',
        fix="Add the media, or take the mark out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks for marks where there is no item."""
        for kind, column in (batch.keys.multimodal_keys or {}).items():
            for i in sorted([*batch.missing(column), *batch.null(column)]):
                if f"<{kind}>" in MARKS.findall(_text(batch.prompts[i])):
                    what = f"the prompt has a <{kind}> mark and {column!r} is {_state(batch, column, i)}"
                    self.add_row(batch, i, what)


def _state(batch: RowBatch, column: str, i: int) -> str:
    return "absent" if batch.types(column)[i] is Missing else "null"


def _text(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    contents = (
        [m.get("content") for m in prompt if isinstance(m, dict)]
        if isinstance(prompt, list)
        else []
    )
    return "\n".join(content for content in contents if isinstance(content, str))


class MediaNotFound(RowCheck):
    """A media file that is not there."""

    code = "MEDIA003"
    name = "media-file-missing"
    severity: ClassVar[Severity] = "error"
    needs = ("media", "check_media")
    explanation = Explanation(
        what="A row names a local media file that is not there.",
        why="The run fails when it comes to this row.",
        example='{"prompt": "<image> a", "images": ["moved/1.png"]}',
        fix="Put the files where the rows say; paths are relative to the folder the run starts in.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Asks the file system for each path."""
        for column in batch.keys.media_keys:
            for i, items in enumerate(batch.column(column)):
                for item in items if isinstance(items, list) else ():
                    path = _local_path(item)
                    if path is not None and not _exists(path):
                        self.add_row(batch, i, f"no such file: {path!r:.200} (in {column!r})")


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)  # noqa: PTH110 - a path from the data, as it is
    except (OSError, ValueError):
        return False


def _local_path(item: Any) -> str | None:
    if isinstance(item, dict):
        item = next(
            (item[key] for key in ("path", "image", "video", "audio", "url") if key in item), None
        )
    if not isinstance(item, str) or not item or item.startswith(_REMOTE):
        return None
    return item.removeprefix("file://")


CHECKS = (MediaMiscounted, MarksWithoutItems, MediaNotFound)
