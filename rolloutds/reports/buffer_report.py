"""What ``buffer show``, ``stats`` and ``filters`` say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rolloutds.filters import BuiltInFilter
from rolloutds.reports.bars import bar
from rolloutds.reports.json_text import as_json, value_text
from rolloutds.reports.model import (
    Block,
    Cells,
    Column,
    Facts,
    Heading,
    Report,
    Section,
    Table,
)
from rolloutds.reports.plain_scalars import PlainScalars
from rolloutds.reward_numbers import as_number, mean, spread
from rolloutds.rollouts import ReadGroup
from rolloutds.rollouts.group_facts import STATUSES, GroupFacts, status_name
from rolloutds.rollouts.stats import DumpStats, Numbers, Stats, Tally
from rolloutds.rollouts.token_differences import first_difference
from rolloutds.sample import Sample

_PROMPT_LIMIT = 60
_NAME_LIMIT = 40
_SHARES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}


def _right(name: str, *, is_optional: bool = False, short: str | None = None) -> Column:
    return Column(name, justify="right", is_optional=is_optional, short=short)


def figure(number: float | None) -> str:
    """A number in three digits; empty where there is none."""
    if number is None:
        return ""
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}" if abs(number) < 1e15 else f"{number:.3g}"
    return f"{number:,.1f}" if abs(number) >= 1_000 else f"{number:.3g}"


# --- show: one row a group ------------------------------------------------------------------


def show_report(shown: Sequence[GroupFacts], *, num_groups: int, newest: int | None) -> Report:
    """Groups, one a row.

    Args:
        shown: those that are shown, in order.
        num_groups: how many there are in all.
        newest: the newest weight version of all.
    """
    return Report(
        kind="buffer_show",
        data={"num_groups": num_groups, "num_shown": len(shown), "newest_version": newest},
        records_name="groups",
        records=(_facts_record(facts, newest) for facts in shown),
        sections=_show_sections(shown, num_groups, newest),
    )


def _facts_record(facts: GroupFacts, newest: int | None) -> dict[str, Any]:
    return {
        **facts.columns(newest),
        "statuses": dict(facts.statuses),
        "rewards": facts.rewards if facts.reward_keys else facts.plain_rewards,
        "response_lengths": facts.lengths,
        "versions": facts.versions,
    }


def _show_sections(
    shown: Sequence[GroupFacts], num_groups: int, newest: int | None
) -> Iterator[Section]:
    rollouts = {facts.rollout_id for facts in shown}
    rows = (_show_row(facts, newest, names_rollout=len(rollouts) > 1) for facts in shown)
    yield Table(_SHOW_COLUMNS, rows)
    noun = "group" if num_groups == 1 else "groups"
    pairs = [("shown", f"{len(shown):,} of {num_groups:,} {noun}")]
    if len(rollouts) == 1 and None not in rollouts:
        pairs.append(("rollout", f"{rollouts.pop()}"))
    keys = dict.fromkeys(key for facts in shown for key in facts.reward_keys)
    if keys:
        pairs.append(("reward keys", f"{', '.join(keys)} (--reward-key picks one)"))
    yield Facts(pairs)


_SHOW_COLUMNS = (
    _right("group"),
    _right("rollout", is_optional=True),
    _right("size"),
    Column("by status", is_flexible=True),
    Column("rewards", is_optional=True, is_list=True, is_extra=True),
    _right("mean", is_optional=True),
    _right("std", is_optional=True),
    _right("tokens", is_optional=True),
    _right("versions", is_optional=True, short="vers"),
    _right("age", is_optional=True),
    Column("prompt", limit=_PROMPT_LIMIT, is_flexible=True),
)


def _show_row(facts: GroupFacts, newest: int | None, *, names_rollout: bool) -> Cells:
    numbers = facts.plain_rewards
    return Cells(
        [
            str(facts.group),
            str(facts.rollout_id) if names_rollout and facts.rollout_id is not None else "",
            str(facts.size),
            statuses_text(facts.statuses),
            _rewards_text(facts),
            figure(mean(numbers)),
            figure(spread(numbers)),
            _range_text(facts.known_lengths),
            _range_text(facts.versions),
            figure(facts.age(newest)),
            facts.prompt,
        ]
    )


def statuses_text(statuses: Mapping[str, int]) -> str:
    """``completed``, or ``completed 5, aborted 3``."""
    if len(statuses) == 1:
        return next(iter(statuses))
    return ", ".join(f"{name} {count}" for name, count in Counter(statuses).most_common())


def _rewards_text(facts: GroupFacts) -> str:
    if facts.reward_keys:
        means = ((key, mean(facts.rewards[key])) for key in facts.reward_keys)
        return ", ".join(f"{key} {figure(number) or '-'}" for key, number in means)
    numbers = facts.plain_rewards
    if all(number is None for number in numbers):
        return ""
    return " ".join(figure(number) or "-" for number in numbers)


def _range_text(numbers: Sequence[int]) -> str:
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


# --- show: one group in full ----------------------------------------------------------------


def group_report(group: ReadGroup, facts: GroupFacts, newest: int | None) -> Report:
    """A group in full.

    Args:
        group: the group.
        facts: its figures.
        newest: the newest weight version of its file; None when that is not known.
    """
    samples = [PlainScalars().turn(Sample.to_dict(sample)) for sample in group.samples]
    return Report(
        kind="buffer_group",
        data={**_facts_record(facts, newest), "place": str(group.place)},
        records_name="samples",
        records=samples,
        sections=_group_sections(
            group, [Sample.from_dict(data) for data in samples], facts, newest
        ),
    )


def _group_sections(
    group: ReadGroup, samples: Sequence[Sample], facts: GroupFacts, newest: int | None
) -> Iterator[Section]:
    yield Heading(f"group {facts.group}")
    yield Facts(_group_facts(group, samples, facts, newest))
    yield from _prompt_blocks(samples)
    for number, sample in enumerate(samples):
        yield Heading(f"sample {number}")
        yield Facts(_sample_facts(sample))
        yield Block(value_text(sample.response))


def _group_facts(
    group: ReadGroup, samples: Sequence[Sample], facts: GroupFacts, newest: int | None
) -> list[tuple[str, str]]:
    sample = samples[0]
    pairs = [
        ("where", str(group.place)),
        ("size", f"{facts.size}" + (", compact rollouts" if group.is_nested else "")),
        ("statuses", statuses_text(facts.statuses)),
        ("rewards", _rewards_text(facts) or "none"),
        (
            "mean, std",
            f"{figure(mean(facts.plain_rewards))}, {figure(spread(facts.plain_rewards))}",
        ),
        ("response tokens", " ".join("?" if n is None else str(n) for n in facts.lengths)),
        ("versions", _range_text(facts.versions)),
        ("age", figure(facts.age(newest))),
        ("label", "" if sample.label is None else value_text(sample.label)),
        ("metadata", as_json(sample.metadata or {}).removeprefix("{}")),
        ("tokens differ", first_difference(samples) or ""),
    ]
    if facts.rollout_id is not None:
        pairs.insert(1, ("rollout", str(facts.rollout_id)))
    return [(name, text) for name, text in pairs if text.strip(", ")]


def _prompt_blocks(samples: Sequence[Sample]) -> Iterator[Block]:
    prompt: Any = samples[0].prompt
    others = sum(sample.prompt != prompt for sample in samples)
    title = f"prompt (of {others} samples it differs)" if others else "prompt"
    for part in prompt if isinstance(prompt, list) else [prompt]:
        if isinstance(part, Mapping):
            content = part.get("content")
            text = content if isinstance(content, str) else as_json(content, indent=2)
            yield Block(text, title=f"{title}, {part.get('role', 'message')}")
        else:
            yield Block(part if isinstance(part, str) else as_json(part), title=title)


def _sample_facts(sample: Any) -> list[tuple[str, str]]:
    reward = sample.reward
    number = as_number(reward)
    pairs = [
        ("index", "" if sample.index is None else str(sample.index)),
        ("status", status_name(sample)),
        ("reward", figure(number) if number is not None else value_text(reward)),
        ("response tokens", str(sample.response_length)),
        ("versions", _own_versions(sample)),
        ("remove_sample", "true" if sample.remove_sample else ""),
    ]
    return [(name, text) for name, text in pairs if text]


def _own_versions(sample: Any) -> str:
    versions = sample.weight_versions
    if isinstance(versions, list | tuple):
        return " ".join(map(str, versions))
    return "" if versions is None else value_text(versions)


# --- stats ----------------------------------------------------------------------------------


def stats_report(stats: Stats, *, by: str | None) -> Report:
    """The figures of files: together, and, of several, one row each.

    Args:
        stats: the figures.
        by: the field that splits them.
    """
    total = stats.total
    data: dict[str, Any] = {"num_files": len(stats.dumps), **_tally_record(total)}
    if by is not None:
        data["by"] = by
        data["parts"] = {name: _tally_record(tally) for name, tally in stats.parts.items()}
    return Report(
        kind="buffer_stats",
        data=data,
        records_name="files",
        records=(_dump_record(dump) for dump in stats.dumps),
        sections=_stats_sections(stats, total, by),
    )


def _dump_record(dump: DumpStats) -> dict[str, Any]:
    return {
        "file": dump.file,
        "rollout_id": dump.rollout_id,
        "is_eval": dump.is_eval,
        **_tally_record(dump.tally),
    }


def _tally_record(tally: Tally) -> dict[str, Any]:
    rewards = tally.plain_rewards
    low, high = _ends(rewards)
    return {
        "num_groups": tally.num_groups,
        "num_samples": tally.num_samples,
        "group_sizes": {str(size): tally.sizes[size] for size in sorted(tally.sizes)},
        "statuses": dict(tally.statuses),
        "rewards": _numbers_record(rewards),
        "rewards_by_key": {key: _numbers_record(tally.rewards[key]) for key in tally.reward_keys},
        "num_odd_rewards": tally.num_odd_rewards,
        "num_rewarded_groups": tally.num_rewarded,
        "num_zero_spread": tally.num_zero_spread,
        "num_all_lowest": tally.num_all(low),
        "num_all_highest": tally.num_all(high),
        "num_aborted_groups": tally.num_aborted_groups,
        "num_removed": tally.num_removed,
        "response_lengths": _numbers_record(tally.lengths),
        "response_characters": _numbers_record(tally.characters),
        "versions": {str(version): tally.versions[version] for version in sorted(tally.versions)},
        "version_spreads": {
            str(s): tally.version_spreads[s] for s in sorted(tally.version_spreads)
        },
    }


def _numbers_record(numbers: Numbers) -> dict[str, Any]:
    return {
        "count": len(numbers),
        "num_missing": numbers.num_missing,
        "mean": numbers.mean,
        "std": numbers.std,
        **dict(zip(_SHARES, numbers.percentiles(*_SHARES.values()), strict=False)),
        "histogram": [part._asdict() for part in numbers.histogram()],
    }


def _ends(numbers: Numbers) -> tuple[float | None, float | None]:
    """The lowest and highest; of numbers that are all one, what they are is not known."""
    found = numbers.percentiles(0.0, 1.0)
    return (found[0], found[1]) if found and found[0] < found[1] else _known_ends(found)


def _known_ends(found: Sequence[float]) -> tuple[float | None, float | None]:
    # All samples right, or all wrong: the sign says which.
    if not found:
        return None, None
    return (None, found[0]) if found[0] > 0 else (found[0], None)


def _stats_sections(stats: Stats, total: Tally, by: str | None) -> Iterator[Section]:
    yield Facts(_stats_facts(total))
    yield from _histogram("rewards", total.plain_rewards)
    for key in total.reward_keys:
        yield from _histogram(f"rewards, {key}", total.rewards[key])
    if len(total.lengths):
        yield from _histogram("response tokens", total.lengths)
    else:
        yield from _histogram("response characters", total.characters)
    if len(stats.dumps) > 1:
        name = "file" if any(dump.rollout_id is None for dump in stats.dumps) else "rollout"
        yield Heading(f"by {name}")
        rows = (_trend_row(_dump_name(dump), dump.tally) for dump in stats.dumps)
        yield Table(_trend_columns(name), rows)
    if by is not None:
        yield Heading(f"by {by}")
        yield Table(_trend_columns("part"), _part_rows(stats.parts))


def _part_rows(parts: Mapping[str, Tally]) -> Iterator[Cells]:
    for name, tally in sorted(parts.items(), key=lambda part: -part[1].num_groups):
        yield _trend_row(name, tally)


def _dump_name(dump: DumpStats) -> str:
    name = dump.file if dump.rollout_id is None else str(dump.rollout_id)
    return f"eval {name}" if dump.is_eval else name


def _stats_facts(tally: Tally) -> list[tuple[str, str]]:
    low, high = _ends(tally.plain_rewards)
    sizes = ", ".join(f"{size} ({tally.sizes[size]:,})" for size in sorted(tally.sizes))
    pairs = [
        ("groups", f"{tally.num_groups:,}, {tally.num_samples:,} samples"),
        ("group sizes", sizes if len(tally.sizes) > 1 else sizes.partition(" ")[0]),
        ("statuses", _status_shares(tally)),
        ("rewards", _rewards_summary(tally)),
    ]
    if tally.num_rewarded:
        pairs += [
            ("zero spread", _of_groups(tally.num_zero_spread, tally.num_rewarded)),
            ("all right", _at(tally, high)),
            ("all wrong", _at(tally, low)),
        ]
    pairs += [
        ("aborted", _of_groups(tally.num_aborted_groups, tally.num_groups) + " in part or whole"),
        ("versions", _versions_text(tally)),
        ("left out", f"{tally.num_removed:,} samples (remove_sample)" if tally.num_removed else ""),
    ]
    return [(name, text) for name, text in pairs if text]


def _at(tally: Tally, reward: float | None) -> str:
    text = _of_groups(tally.num_all(reward), tally.num_rewarded)
    return text if reward is None else f"{text}, every reward {figure(reward) or '0'}"


def _of_groups(count: int, num_groups: int) -> str:
    share = f" ({count / num_groups:.1%})" if num_groups else ""
    return f"{count:,} of {num_groups:,} groups{share}"


def _status_shares(tally: Tally) -> str:
    names = [name for name in STATUSES if tally.statuses[name]]
    names += [name for name in tally.statuses if name not in STATUSES]
    return ", ".join(f"{n} {tally.statuses[n]:,} ({tally.share(n):.1%})" for n in names)


def _rewards_summary(tally: Tally) -> str:
    numbers = tally.plain_rewards
    parts = []
    if len(numbers):
        parts.append(f"mean {figure(numbers.mean)}, std {figure(numbers.std)}")
    if tally.reward_keys:
        keys = ", ".join(tally.reward_keys)
        parts.append(f"objects with the keys {keys} (--reward-key picks one)")
    if numbers.num_missing:
        parts.append(f"{numbers.num_missing:,} samples without one")
    if tally.num_odd_rewards:
        parts.append(f"{tally.num_odd_rewards:,} that are no numbers")
    return "; ".join(parts) or "none"


def _versions_text(tally: Tally) -> str:
    if not tally.versions:
        return ""
    widest = max(tally.version_spreads)
    mixed = sum(count for width, count in tally.version_spreads.items() if width)
    low, high = min(tally.versions), max(tally.versions)
    text = str(low) if low == high else f"{low} to {high}"
    return f"{text}; {mixed:,} groups mix versions, at most {widest} apart" if mixed else text


_BIN_COLUMNS = (_right("from"), _right("to", is_optional=True), _right("samples"), Column(""))


def _histogram(title: str, numbers: Numbers) -> Iterator[Section]:
    if not len(numbers):
        return
    bins = numbers.histogram()
    most = max(part.num for part in bins)
    yield Heading(f"{title}: {_percentile_text(numbers)}")
    yield Table(
        _BIN_COLUMNS,
        [
            Cells(
                [
                    figure(part.low),
                    figure(part.high) if part.high != part.low else "",
                    f"{part.num:,}",
                    bar(part.num, most),
                ]
            )
            for part in bins
        ],
    )


def _percentile_text(numbers: Numbers) -> str:
    pairs = zip(_SHARES, numbers.percentiles(*_SHARES.values()), strict=True)
    return f"mean {figure(numbers.mean)}, " + ", ".join(f"{n} {figure(v)}" for n, v in pairs)


def _trend_columns(name: str) -> tuple[Column, ...]:
    return (
        Column(name, limit=_NAME_LIMIT, keeps_end=True),
        _right("groups"),
        _right("samples"),
        _right("reward", is_optional=True),
        _right("std", is_optional=True),
        _right("zero spread", is_optional=True, short="std 0"),
        _right("tokens", is_optional=True),
        _right("truncated", short="trunc"),
        _right("aborted", short="abort"),
        _right("versions", is_optional=True, short="vers"),
        # The reward again, as a bar: nothing is lost without it.
        Column("mean reward", short="", is_optional=True, is_extra=True),
    )


def _trend_row(name: str, tally: Tally) -> Cells:
    rewards = tally.plain_rewards
    average = rewards.mean
    is_share = average is not None and 0 <= average <= 1
    zero = tally.num_zero_spread / tally.num_rewarded if tally.num_rewarded else None
    return Cells(
        [
            name,
            f"{tally.num_groups:,}",
            f"{tally.num_samples:,}",
            figure(average),
            figure(rewards.std),
            "" if zero is None else f"{zero:.1%}",
            figure(None if tally.lengths.mean is None else round(tally.lengths.mean)),
            f"{tally.share('truncated') or 0:.1%}",
            f"{tally.share('aborted') or 0:.1%}",
            _range_text(list(tally.versions)),
            bar(round(1_000 * average), 1_000) if is_share and average is not None else "",
        ]
    )


# --- filters --------------------------------------------------------------------------------


def filters_report(filters: Mapping[str, BuiltInFilter]) -> Report:
    """The built-in filters."""
    return Report(
        kind="buffer_filters",
        data={"num_filters": len(filters)},
        records_name="filters",
        records=_filter_records(filters),
        sections=[
            Table(
                [Column("filter"), Column("what it does"), Column("reads from args")],
                [
                    Cells([name, entry.summary, ", ".join(entry.reads) or "nothing"])
                    for name, entry in filters.items()
                ],
            ),
            Facts([("in a run", f"--buffer-filter-path {_path_of('NAME')}")]),
        ],
    )


def _filter_records(filters: Mapping[str, BuiltInFilter]) -> Iterable[dict[str, Any]]:
    return [
        {"name": name, "path": _path_of(name), "summary": f.summary, "reads": list(f.reads)}
        for name, f in filters.items()
    ]


def _path_of(name: str) -> str:
    return f"rolloutds.filters.{name}"
