"""What `plan` says: the sizes, then where epochs wrap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rolloutds.plan import Plan, Wrap
from rolloutds.readers.base import Place
from rolloutds.reports.model import Border, Cells, Column, Facts, Report, Table

_FIRST_WRAPS = 8
_LAST_WRAPS = 3
_LEFTOVERS_NAMED = 5


def plan_report(
    plan: Plan,
    *,
    data: dict[str, Any],
    facts: Sequence[tuple[str, str]],
    leftovers: Sequence[Place],
) -> Report:
    """The plan of a run.

    Args:
        plan: the plan.
        data: facts on the rows, for programs.
        facts: facts on the rows, for people.
        leftovers: the rows that the first epoch's whole rollouts leave over.
    """
    return Report(
        kind="plan",
        data={**data, **_data(plan), "leftover_rows": [_place_record(p) for p in leftovers]},
        records_name="wraps",
        records=(_wrap_record(plan, wrap) for wrap in plan.wraps()),
        sections=_sections(plan, facts, leftovers),
    )


def _data(plan: Plan) -> dict[str, Any]:
    end = plan.end
    return {
        "num_rows": plan.num_rows,
        "rollout_batch_size": plan.rollout_batch_size,
        "n_samples_per_prompt": plan.n_samples_per_prompt,
        "samples_per_rollout": plan.samples_per_rollout,
        "rollouts_per_epoch": plan.rollouts_per_epoch,
        "num_leftover_rows": plan.num_leftover_rows,
        "num_rollout": plan.num_rollout,
        "num_groups": plan.num_groups,
        "rollouts_until_repeat": plan.rollouts_until_repeat,
        "epochs_until_repeat": plan.epochs_until_repeat,
        "num_mixed_rollouts": plan.num_mixed_rollouts,
        "end": end.state_dict() if end is not None else None,
    }


def _place_record(place: Place) -> dict[str, Any]:
    return {"file": place.file, "row_id": place.row_id, "line": place.line}


def _wrap_record(plan: Plan, wrap: Wrap) -> dict[str, Any]:
    return {
        "epoch_id": wrap.epoch_id,
        "rollout_id": wrap.rollout_id,
        "num_groups_before": wrap.num_groups_before,
        "num_groups_after": wrap.num_groups_after,
        "is_inside_rollout": wrap.is_inside,
        "spans": [span._asdict() for span in plan.spans(wrap.rollout_id)] if wrap.is_inside else [],
    }


def _sections(
    plan: Plan, facts: Sequence[tuple[str, str]], leftovers: Sequence[Place]
) -> Iterator[Facts | Table]:
    yield Facts([*facts, *_facts(plan, leftovers)])
    if plan.num_wraps:
        columns = [
            Column("epoch", justify="right"),
            Column("begins in"),
            Column("groups before it", justify="right"),
            Column("groups after", justify="right"),
        ]
        yield Table(columns, _wrap_rows(plan))


def _facts(plan: Plan, leftovers: Sequence[Place]) -> list[tuple[str, str]]:
    rollout = (
        f"{plan.rollout_batch_size:,} groups of {plan.n_samples_per_prompt:,}: "
        f"{plan.samples_per_rollout:,} samples"
    )
    return [
        ("a rollout", rollout),
        ("an epoch", _epoch_text(plan)),
        *([("carried over", _carried(plan, leftovers))] if leftovers else []),
        ("the run", _run_text(plan)),
        *([("it ends", _end_text(plan))] if plan.end is not None else []),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _epoch_text(plan: Plan) -> str:
    if not plan.rollouts_per_epoch:
        return "less than one rollout: a batch is longer than an epoch"
    return f"{_count(plan.rollouts_per_epoch, 'rollout')}, {_left_over(plan)}"


def _left_over(plan: Plan) -> str:
    if not plan.num_leftover_rows:
        return "no rows carried over"
    return f"{_count(plan.num_leftover_rows, 'row')} carried over into the next"


def _carried(plan: Plan, leftovers: Sequence[Place]) -> str:
    named = leftovers[:_LEFTOVERS_NAMED]
    noun = "rows" if named[0].line is None else "lines"
    numbers = [str(p.row_id if p.line is None else p.line) for p in named]
    more = len(leftovers) - len(named)
    rest = f" and {more:,} more" if more else ""
    return (
        f"from epoch 0 to rollout {plan.rollouts_per_epoch:,}: "
        f"{noun if len(leftovers) > 1 else noun[:-1]} {', '.join(numbers)}{rest}"
    )


def _run_text(plan: Plan) -> str:
    if plan.num_rollout is None:
        return (
            "its length is not set (--num-epoch or --num-rollout); wraps repeat every "
            f"{_count(plan.rollouts_until_repeat, 'rollout')} "
            f"({_count(plan.epochs_until_repeat, 'epoch')})"
        )
    return f"{_count(plan.num_rollout, 'rollout')}, {plan.num_groups or 0:,} groups"


def _end_text(plan: Plan) -> str:
    end = plan.end
    if end is None or not plan.num_rollout:
        return "before it begins"
    unused = plan.num_rows - end.sample_offset
    rest = f", {_count(unused, 'row')} of it not reached" if unused else ", all of it trained"
    return f"in epoch {end.epoch_id}, offset {end.sample_offset:,} of {plan.num_rows:,}{rest}"


def _wrap_rows(plan: Plan) -> Iterator[Cells | Border]:
    """The first and last borders; JSON holds them all."""
    total = plan.num_wraps
    first = total if total <= _FIRST_WRAPS + _LAST_WRAPS else _FIRST_WRAPS
    yield from (_wrap_cells(plan.wrap(number)) for number in range(first))
    if first < total:
        yield Border(f"{total - first - _LAST_WRAPS:,} more, all in --format json")
        yield from (_wrap_cells(plan.wrap(n)) for n in range(total - _LAST_WRAPS, total))


def _wrap_cells(wrap: Wrap) -> Cells:
    before, after = wrap.num_groups_before, wrap.num_groups_after
    return Cells([str(wrap.epoch_id), f"rollout {wrap.rollout_id}", str(before), str(after)])
