"""What is said of rows: a finding about one, a notice about many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One thing wrong, or worth knowing, in one row.

    Attributes:
        code: short stable name, ``port_*`` where another data source would read otherwise.
        is_error: whether it stops the load.
        what: what was found and what was expected, in one sentence.
    """

    code: str
    is_error: bool
    what: str


class Notice(NamedTuple):
    """One sentence about a dataset that does not stop the load: a count and a first place.

    Attributes:
        code: short stable name.
        text: the sentence, for a log or for stderr.
    """

    code: str
    text: str


Inspect = Callable[[dict[str, Any]], list[Finding]]
"""Looks at one row and returns its findings, without editing it."""
