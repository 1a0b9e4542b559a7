"""Names the kind of a file that is not a `torch.save` archive."""

from __future__ import annotations

import re

from rolloutds.torch_file.archive import OpenFile

_SAVE_AGAIN = "load it where it was written, and write it again with torch.save(value, path)"
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_STARTS = (
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "unpack it first"),
    (b"PAR1", "a Parquet file", "name it where prompt data or rollouts are expected"),
    (b"\x93NUMPY", "a NumPy file", _SAVE_AGAIN),
    (b"\x89HDF", "an HDF5 file", _SAVE_AGAIN),
    (b"PK\x05\x06", "an empty ZIP archive", "use an earlier file"),
    (b"\x00" * 16, "filled with zeros", "the disk may have been full; use an earlier file"),
)


def is_archive(start: bytes) -> bool:
    """Whether a file that begins so is a ZIP archive."""
    return start.startswith(b"PK\x03\x04")


def other_form(file: OpenFile, start: bytes) -> tuple[str, str]:
    """What the file is instead, and what to do; `start` is its first 512 bytes.

    Raises:
        TorchFileError: it cannot be read.
    """
    if not start:
        return "is empty", "the writer may have been stopped; use an earlier file"
    for magic, name, hint in _STARTS:
        if start.startswith(magic):
            return f"is {name}", hint
    if start.startswith(_LEGACY):
        return "is in torch's form before 1.6 (a bare pickle)", _SAVE_AGAIN
    if start[257:262] == b"ustar":
        return "is a tar archive (torch's form before 0.2)", _SAVE_AGAIN
    if _is_safetensors(file, start):
        return "is a safetensors file", "it holds tensors only; read it with safetensors"
    if re.match(rb"\x80[\x01-\x05]", start):
        return "is a plain pickle", _SAVE_AGAIN
    if _is_text(start):
        return "is a text file", "name a .pt file"
    return "is not a ZIP archive", "name a file written by torch.save"


def _is_safetensors(file: OpenFile, start: bytes) -> bool:
    length = int.from_bytes(start[:8], "little")
    return start[8:9] == b"{" and 2 <= length <= file.num_bytes - 8


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character may be cut.
        text = start[: error.start].decode("utf-8") if error.start > len(start) - 4 else "\0"
    return not any(ord(c) < 32 and c not in "\t\n\r\f\x1b" for c in text)
