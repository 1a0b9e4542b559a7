"""prime-rl: one episode a line in ``rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolloutds.errors import DataError
from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.place_names import has_folder, number_in_folder
from rolloutds.rollouts.record import Record, message_text, status_of
from rolloutds.sample import Sample, Status


class PrimeRlReader(GroupReader[LinesFile]):
    """Groups are episodes of equal `group.id`.

    A trace is a tree of messages; each way from its root to a leaf is a sample. An episode of
    one sample is that sample; where an episode has several, they stay together as one rollout.
    """

    name = "prime-rl"
    file_type = LinesFile
    looks_for = "lines with `traces` (lists of `nodes`) and `task`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("traces", "task")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; a group's lines need not lie together."""
        del n_samples_per_prompt
        step = number_in_folder(file.path, r"step_(\d+)")
        is_eval = has_folder(file.path, "eval")
        for position, lines in enumerate(file.grouped(_group_key)):
            place = GroupPlace(file.path, position, lines[0].number)
            episodes = [_episode(Record.of_line(line, file.path)) for line in lines]
            members: Any = episodes
            if all(len(samples) == 1 for samples in episodes):
                members = [samples[0] for samples in episodes]
            yield ReadGroup(members, place, rollout_id=step, is_eval=is_eval)


def _group_key(line: Line) -> str:
    group = line.value.get("group") if isinstance(line.value, dict) else None
    known = group.get("id") if isinstance(group, dict) else None
    return f"line {line.number}" if known is None else f"group {known!r}"


def _episode(record: Record) -> list[Sample]:
    traces = record.take_list("traces")
    if not traces:
        raise DataError("no traces", where=record.where, expected="at least one")
    task = record.peek("task")
    data = task.get("data") if isinstance(task, dict) else None
    label = data.get("answer") if isinstance(data, dict) else None
    failed = record.peek("ok") is False or bool(record.peek("errors"))
    samples: list[Sample] = []
    for number, value in enumerate(traces):
        trace = Record(value, f"{record.where}, trace {number}")
        samples += _trace(trace, record.rest(), label, failed=failed)
    return samples


def _trace(trace: Record, episode: dict[str, Any], label: Any, *, failed: bool) -> list[Sample]:
    ways = list(_ways(trace.take_list("nodes") or [], trace.where))
    status = Status.FAILED if failed else _status(trace.peek("stop_condition"))
    reward = _reward(trace)
    samples = []
    for way in ways:
        sample = _sample(way)
        sample.label, sample.reward, sample.status = label, reward, status
        sample.metadata = {**episode, **trace.rest()}
        samples.append(sample)
    return samples


def _status(stop_condition: Any) -> Status:
    """Stop conditions have any name; those that mean a limit are known, the rest are an end."""
    found = status_of(stop_condition)
    return found if isinstance(found, Status) else Status.COMPLETED


def _ways(nodes: list[Any], where: str) -> Iterator[list[Record]]:
    """The nodes from the root to each leaf.

    Raises:
        DataError: a parent is no earlier node.
    """
    records = [Record(node, f"{where}, node {i}") for i, node in enumerate(nodes)]
    if not records:
        raise DataError("no nodes", where=where, expected="at least one")
    parents = [record.take_count("parent") for record in records]
    for i, parent in enumerate(parents):
        if parent is not None and parent >= i:
            raise records[i].wrong("parent", parent, "the number of an earlier node")
    for leaf in (i for i in range(len(records)) if i not in parents):
        way: list[Record] = []
        at: int | None = leaf
        while at is not None:
            way.append(records[at])
            at = parents[at]
        yield way[::-1]


def _sample(way: list[Record]) -> Sample:
    """A way as one sample: the prompt ends where the first sampled message begins."""
    start = next((i for i, node in enumerate(way) if node.peek("sampled")), len(way))
    tokens: list[Any] = []
    mask: list[Any] = []
    log_probs: list[Any] = []
    for node in way[start:]:
        ids = _numbers(node, "token_ids")
        tokens += ids
        mask += _filled(_numbers(node, "mask"), len(ids), 0)
        log_probs += _filled(_numbers(node, "logprobs"), len(ids), 0.0)
    before = [token for node in way[:start] for token in _numbers(node, "token_ids")]
    return Sample(
        prompt=[
            message for node in way[:start] if isinstance(message := node.peek("message"), dict)
        ],
        response=message_text(
            [node.peek("message") for node in way[start:] if node.peek("sampled")]
        ),
        tokens=before + tokens,
        response_length=len(tokens),
        loss_mask=[int(bool(flag)) for flag in mask] if mask else None,
        rollout_log_probs=log_probs or None,
    )


def _numbers(node: Record, name: str) -> list[Any]:
    value = node.peek(name)
    if value is not None and not isinstance(value, list):
        raise node.wrong(name, value, "a list")
    return value or []


def _filled(values: list[Any], length: int, filler: float) -> list[Any]:
    """As many as there are tokens; nodes that were not sampled may have none."""
    return (values + [filler] * (length - len(values)))[:length]


def _reward(trace: Record) -> float | None:
    """The weighted sum of the rewards, which stay in the metadata by name."""
    rewards = trace.peek("rewards")
    if not isinstance(rewards, dict) or not rewards:
        return None
    total = 0.0
    for name, reward in rewards.items():
        score = reward.get("score") if isinstance(reward, dict) else reward
        weight = reward.get("weight", 1.0) if isinstance(reward, dict) else 1.0
        if not isinstance(score, int | float) or not isinstance(weight, int | float):
            raise trace.wrong(f"rewards.{name}", reward, "a score and a weight")
        total += score * weight
    return total
