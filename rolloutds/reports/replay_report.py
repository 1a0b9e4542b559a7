"""What ``buffer replay`` says: round by round what a filter took, then what is odd about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rolloutds.replay import GroupNumber, Replay, ReplayRound, Taken
from rolloutds.replay_codes import ReplayFinding
from rolloutds.reports.model import (
    Block,
    Border,
    Cells,
    Column,
    Facts,
    Heading,
    Report,
    Section,
    Table,
)
from rolloutds.reward_numbers import as_number, mean

_FIRST_ROUNDS = 8
_LAST_ROUNDS = 3
_NAMED = 40
_LIST_LINES = 2
_MESSAGE_LINES = 8

_ENDED = {
    "empty": "the buffer was empty",
    "rounds": "all the rounds asked for were made",
    "nothing new": "a round took nothing",
    "a group again": "a round returned a group that was served before",
    "error": "a run would stop here, or go wrong",
}


def replay_report(
    replays: Sequence[Replay],
    *,
    files: Sequence[str],
    num_samples: int,
    reward_key: str | None,
) -> Report:
    """The replays of one or several filters on the same buffer.

    Args:
        replays: one for each filter.
        files: the files the buffer was read from.
        num_samples: groups asked for in each round.
        reward_key: picks the number shown from rewards that are objects.
    """
    return Report(
        kind="buffer_replay",
        data={
            "files": list(files),
            "num_samples": num_samples,
            "num_groups": replays[0].num_groups,
            "n_samples_per_prompt": replays[0].n_samples_per_prompt,
            "filters": [_record(replay, replays) for replay in replays],
        },
        records_name="rounds",
        records=(_round_record(replay, done) for replay in replays for done in replay.rounds),
        sections=_sections(replays, reward_key),
    )


def _record(replay: Replay, replays: Sequence[Replay]) -> dict[str, Any]:
    return {
        "filter": replay.filter_name,
        "num_rounds": len(replay.rounds),
        "ended": replay.ended,
        "num_refilled": replay.num_refilled,
        "num_served": replay.num_served,
        "num_removed": sum(done.num_removed for done in replay.rounds),
        "num_left": replay.num_left,
        "never_served": replay.never_served,
        "seconds": sum(done.seconds for done in replay.rounds),
        "only_this_takes": only_taken_by(replay, replays),
        "only_this_takes_in_round_1": only_taken_by(replay, replays, num_rounds=1),
        "findings": [_finding_record(finding) for finding in replay.findings],
    }


def _finding_record(finding: ReplayFinding) -> dict[str, Any]:
    return {
        **dataclasses.asdict(finding),
        "name": finding.name,
        "severity": finding.severity,
    }


def _round_record(replay: Replay, done: ReplayRound) -> dict[str, Any]:
    return {
        "filter": replay.filter_name,
        "round": done.number,
        "rollout_id": done.rollout_id,
        "num_asked": done.num_asked,
        "num_refilled": done.num_refilled,
        "num_before": done.num_before,
        "num_returned": done.num_returned,
        "num_new": done.num_new,
        "num_taken": done.num_taken,
        "num_left": done.num_left,
        "num_removed": done.num_removed,
        "num_still_in": done.num_still_in,
        "returned": [{"group": t.number, "rewards": t.rewards} for t in done.returned],
        "removed": done.removed,
        "seconds": done.seconds,
    }


def only_taken_by(
    replay: Replay, replays: Sequence[Replay], *, num_rounds: int | None = None
) -> list[GroupNumber]:
    """Groups that this replay returned and no other did, in the first rounds or in all."""
    others = {
        taken.position
        for other in replays
        if other is not replay
        for taken in _returned(other, num_rounds)
    }
    own = {taken.position: taken.number for taken in _returned(replay, num_rounds)}
    return [] if len(replays) < 2 else [n for at, n in own.items() if at not in others]


def _returned(replay: Replay, num_rounds: int | None) -> Iterator[Taken]:
    for done in replay.rounds[:num_rounds]:
        yield from done.returned


# --- for people ---------------------------------------------------------------------------


def _sections(replays: Sequence[Replay], reward_key: str | None) -> Iterator[Section]:
    for replay in replays:
        yield Heading(f"filter {replay.filter_name}")
        if replay.rounds:
            yield Table(_ROUND_COLUMNS, _round_rows(replay, reward_key))
        yield Facts(_facts(replay))
        yield from _findings(replay)
    if len(replays) > 1:
        yield Heading("side by side")
        yield Table(_SIDE_COLUMNS, (_side_row(replay, replays) for replay in replays))


def _findings(replay: Replay) -> Iterator[Section]:
    if not replay.findings:
        return
    yield Table(_FINDING_COLUMNS, (_finding_row(finding) for finding in replay.findings))
    for finding in replay.findings:
        if finding.frames:
            yield Block("\n".join(finding.frames), title=f"{finding.code}, in the filter")


def _right(name: str, *, is_optional: bool = False, is_extra: bool = False) -> Column:
    return Column(name, justify="right", is_optional=is_optional, is_extra=is_extra)


def _list(name: str) -> Column:
    return Column(name, is_list=True, is_optional=True, num_below=_LIST_LINES)


_ROUND_COLUMNS = (
    _right("round"),
    _right("rollout", is_optional=True),
    _right("refilled", is_optional=True),
    _right("before", is_extra=True),
    _right("asked"),
    _right("returned"),
    _right("new"),
    _right("still in", is_optional=True),
    _right("removed"),
    _right("left"),
    _right("ms"),
    _list("groups"),
    _list("mean rewards"),
)
_FINDING_COLUMNS = (
    Column("code"),
    Column("severity"),
    _right("round", is_optional=True),
    _right("groups", is_optional=True),
    Column("seen first", num_below=_MESSAGE_LINES),
    _list("which groups"),
)
_SIDE_COLUMNS = (
    Column("filter", keeps_end=True),
    _right("rounds"),
    _right("served"),
    _right("left"),
    Column("findings", is_list=True),
    _list("only here, round 1"),
    _list("only here"),
)


def _round_rows(replay: Replay, reward_key: str | None) -> Iterator[Cells | Border]:
    """The first and last rounds; JSON holds them all."""
    rounds = replay.rounds
    first = len(rounds) if len(rounds) <= _FIRST_ROUNDS + _LAST_ROUNDS else _FIRST_ROUNDS
    yield from (_round_row(done, reward_key) for done in rounds[:first])
    if first < len(rounds):
        yield Border(f"{len(rounds) - first - _LAST_ROUNDS:,} more, all in --format json")
        yield from (_round_row(done, reward_key) for done in rounds[-_LAST_ROUNDS:])


def _round_row(done: ReplayRound, reward_key: str | None) -> Cells:
    return Cells(
        [
            str(done.number),
            "" if done.rollout_id is None else str(done.rollout_id),
            str(done.num_refilled) if done.num_refilled else "",
            f"{done.num_before:,}",
            f"{done.num_asked:,}",
            f"{done.num_returned:,}",
            f"{done.num_new:,}",
            f"{done.num_still_in:,}" if done.num_still_in else "",
            f"{done.num_removed:,}",
            f"{done.num_left:,}",
            f"{1000 * done.seconds:.1f}",
            " ".join(str(taken.number) for taken in done.returned),
            " ".join(_mean_text(taken, reward_key) for taken in done.returned),
        ]
    )


def _mean_text(taken: Taken, reward_key: str | None) -> str:
    numbers = [
        as_number(reward.get(reward_key) if isinstance(reward, dict) else reward)
        for reward in taken.rewards
    ]
    found = mean(numbers)
    return "-" if found is None else f"{found:.3g}"


def _listed(numbers: Sequence[GroupNumber], num_all: int | None = None) -> str:
    named = numbers[:_NAMED]
    more = (len(numbers) if num_all is None else num_all) - len(named)
    text = " ".join(map(str, named))
    return f"{text} +{more:,}" if more > 0 else text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _facts(replay: Replay) -> list[tuple[str, str]]:
    num_removed = sum(done.num_removed for done in replay.rounds)
    num_groups = replay.num_groups + replay.num_refilled
    came_back = f" ({replay.num_refilled:,} of them came back)" if replay.num_refilled else ""
    pairs = [
        (
            "served",
            f"{replay.num_served:,} of {num_groups:,} groups{came_back}, "
            f"in {_count(len(replay.rounds), 'round')}",
        ),
        ("left", f"{replay.num_left:,} in the buffer, {num_removed:,} removed and not returned"),
        ("ended", _ENDED[replay.ended]),
    ]
    if replay.never_served:
        count = len(replay.never_served)
        pairs.append(("never served", f"{count:,}: {_listed(replay.never_served)}"))
    pairs.append(("findings", _count_text(replay.findings)))
    return pairs


def _count_text(findings: Sequence[ReplayFinding]) -> str:
    if not findings:
        return "none"
    num_errors = sum(finding.severity == "error" for finding in findings)
    num_warnings = len(findings) - num_errors
    first = findings[0].code
    return f"{_count(num_errors, 'error')}, {_count(num_warnings, 'warning')} (`rolloutds explain {first}` says more)"


def _finding_row(finding: ReplayFinding) -> Cells:
    return Cells(
        [
            f"{finding.code} {finding.name}",
            finding.severity,
            "end" if finding.round_number is None else str(finding.round_number),
            f"{finding.num_groups:,}" if finding.groups else "",
            finding.message,
            _which_text(finding),
        ]
    )


def _which_text(finding: ReplayFinding) -> str:
    if finding.num_groups < 2:
        return ""
    if not finding.groups:
        return f"in {finding.num_groups:,} calls"
    return _listed(finding.groups, finding.num_groups)


def _side_row(replay: Replay, replays: Sequence[Replay]) -> Cells:
    return Cells(
        [
            replay.filter_name,
            f"{len(replay.rounds):,}",
            f"{replay.num_served:,}",
            f"{replay.num_left:,}",
            " ".join(dict.fromkeys(finding.code for finding in replay.findings)) or "none",
            _only_text(only_taken_by(replay, replays, num_rounds=1)),
            _only_text(only_taken_by(replay, replays)),
        ]
    )


def _only_text(numbers: Sequence[GroupNumber]) -> str:
    return f"{len(numbers):,}: {_listed(numbers)}" if numbers else "none"
