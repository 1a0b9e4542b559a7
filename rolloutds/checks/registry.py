"""Every check by code. A family lists its own checks; a new family is one name here."""

from __future__ import annotations

from rolloutds.checks import (
    checkpoints,
    contamination,
    duplicates,
    groups,
    keys,
    lengths,
    media,
    port,
    prompts,
    rows,
    samples,
    tools,
)
from rolloutds.checks.base import Check, GroupCheck, RowCheck

ROW_CHECKS: dict[str, type[RowCheck]] = {
    check.code: check
    for family in (rows, keys, prompts, tools, media, lengths, duplicates, contamination, port)
    for check in family.CHECKS
}
"""Every check on rows of prompt data, by code."""

GROUP_CHECKS: dict[str, type[GroupCheck]] = {
    check.code: check for family in (groups, samples) for check in family.CHECKS
}
"""Every check on groups of samples, by code."""

CHECKPOINT_CHECKS = {check.code: check for check in checkpoints.CHECKS}
"""Every check on saved states, by code."""

CHECKS: dict[str, type[Check]] = {**ROW_CHECKS, **GROUP_CHECKS, **CHECKPOINT_CHECKS}
"""Every check, by code."""
