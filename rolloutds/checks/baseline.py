"""Findings that are known already: only new ones count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from rolloutds.checks.findings import Result
from rolloutds.errors import ConfigError
from rolloutds.rollouts.atomic_output import whole_file

_KIND: Final = "validate-baseline"
_VERSION: Final = 1


def read_baseline(path: str) -> frozenset[str]:
    """The fingerprints of the findings in a baseline.

    Raises:
        ConfigError: it cannot be read, or is no baseline.
    """
    hint = "`rolloutds validate … --baseline FILE --write-baseline` writes one"
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        what = f"the baseline cannot be read ({error.strerror})"
        raise ConfigError(what, where=path, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not a baseline ({error})", where=path, hint=hint) from error
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise ConfigError("not a baseline", where=path, expected=f"kind {_KIND!r}", hint=hint)
    findings = document.get("findings")
    if not isinstance(findings, list) or not all(map(_is_known, findings)):
        raise ConfigError("a damaged baseline", where=path, hint=hint)
    return frozenset(finding["fingerprint"] for finding in findings)


def _is_known(finding: Any) -> bool:
    return isinstance(finding, dict) and isinstance(finding.get("fingerprint"), str)


def write_baseline(path: str, result: Result) -> int:
    """Writes all findings of a result as known; returns how many.

    Raises:
        DataError: the file cannot be written.
    """
    findings = [
        {"fingerprint": f.fingerprint, "code": f.code, "place": f.place, "message": f.message}
        for f in result.findings
    ]
    document = {"kind": _KIND, "schema_version": _VERSION, "findings": findings}
    # One finding a line, so that a review of the baseline reads as a diff.
    lines = ",\n".join(json.dumps(finding, sort_keys=True) for finding in findings)
    head = json.dumps({**document, "findings": []}).removesuffix("]}")
    with whole_file(path) as handle:
        handle.write(f"{head}\n{lines}\n]}}\n".encode())
    return len(findings)


def without_known(result: Result, known: frozenset[str]) -> None:
    """Takes the findings that are known out of a result."""
    new = [finding for finding in result.findings if finding.fingerprint not in known]
    gone = Counter(f.code for f in result.findings) - Counter(f.code for f in new)
    result.num_known += len(result.findings) - len(new)
    result.findings = new
    result.counts = result.counts - gone
