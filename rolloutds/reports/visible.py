"""The one place where text from data is made safe to show.

A prompt may hold escape sequences that move the cursor, marks that reverse the direction of
text, or lines that a CI system takes for commands. Each such character is shown as what it is.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls, with ESC, CR and the one-byte forms of C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction
    "\u2028\u2029\ufeff"  # line and paragraph separators, byte order mark
    "\ud800-\udfff]"  # lone surrogates, which no encoding takes
    "|(?<![^\\s\u200d])\u200d"  # joiners with nothing before them to join: Rich stumbles over two
)
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_COMMAND = re.compile(r"^(\s*)::|##\[")


def visible(text: str) -> str:
    r"""`text` on one line, with what would act on a terminal or a CI log escaped (``\x1b``).

    A second pass changes nothing.
    """
    shown = _HIDDEN.sub(_escaped, text)
    return _COMMAND.sub(_broken_command, shown)


def visible_lines(text: str) -> list[str]:
    r"""The lines of `text` (ended by ``\n`` or ``\r\n``), each made visible."""
    return [visible(line.removesuffix("\r")) for line in text.split("\n")]


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _broken_command(match: re.Match[str]) -> str:
    return r"#\#[" if match[0] == "##[" else rf"{match[1]}:\:"


def shortened(text: str, limit: int | None) -> str:
    """The visible head of `text`, at most `limit` columns wide, with an ellipsis where cut."""
    if limit is None:
        return visible(text)
    # The cut comes first: a text may be megabytes long, and its head is all that is shown.
    head = visible(text[: limit + 1])
    if len(text) <= limit and width(head) <= limit:
        return head
    if width(head) >= limit:
        from rich.cells import set_cell_size

        head = set_cell_size(head, limit - 1)
    return head + "…"


def width(text: str) -> int:
    """Columns a visible text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # two milliseconds, for data that needs them

    return cell_len(text)
