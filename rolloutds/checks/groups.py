"""Groups as wholes: their size, their numbers, and what their samples share."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Final

from rolloutds.checks.base import Explanation, GroupCheck, Severity
from rolloutds.checks.settings import CheckSettings
from rolloutds.rollouts.base import ReadGroup
from rolloutds.sample import Sample
from rolloutds.torch_file.scalars import PlainScalar

_KEPT_SIZES: Final = 1_000


def number(value: Any) -> int | None:
    """`value` where it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def status_text(sample: Sample) -> str:
    """A status as files spell it."""
    return str(getattr(sample.status, "value", sample.status))


class UnreadableGroups(GroupCheck):
    """A file of groups that cannot be read; found while it is opened."""

    code = "GROUP001"
    name = "unreadable-groups"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A buffer file or dump is damaged, malformed, or of no known format.",
        why="Nothing can be loaded from it from that place on.",
        example="a .pt file whose copy stopped early",
        fix="Copy the file again, or take an earlier one.",
    )


class WrongGroupSize(GroupCheck):
    """A group of another size."""

    code = "GROUP002"
    name = "wrong-group-size"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A group has more or fewer rollouts than n_samples_per_prompt. Samples of one "
        "compact rollout count once. With n set nowhere, the file's commonest size is taken.",
        why="Advantages are computed over the group: a reward is held against the wrong mean. "
        "Code that reshapes by n mixes groups, and does so silently when the total fits.",
        example="groups of 4, 3 and 4 samples with n_samples_per_prompt 4",
        fix="Find out what lost or added the samples; leave such groups out of the batch.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self._start()
        self.assumed: dict[str, int] = {}

    def _start(self) -> None:
        self.sizes: Counter[int] = Counter()
        self.places: dict[int, list[tuple[ReadGroup, str]]] = {}

    def feed(self, group: ReadGroup) -> None:
        """Keeps the place of the first groups of each size."""
        size = group.num_rollouts
        self.sizes[size] += 1
        kept = self.places.setdefault(size, [])
        if len(kept) < min(self.settings.max_kept, _KEPT_SIZES) and len(self.places) < _KEPT_SIZES:
            slim = ReadGroup([], group.place, group.group_index)  # place and number, no samples
            kept.append((slim, _statuses(group)))

    def end_file(self, file: str) -> None:
        """Holds each size against the one that is expected."""
        expected = self.settings.n_samples_per_prompt
        if expected is None and self.sizes:
            expected = min(self.sizes, key=lambda size: (-self.sizes[size], -size))
            self.assumed[file] = expected
        total, count = sum(n * c for n, c in self.sizes.items()), sum(self.sizes.values())
        fits = len(self.sizes) > 1 and expected is not None and total == expected * count
        ordered = sorted(
            ((slim, size, said) for size, kept in self.places.items() for slim, said in kept),
            key=lambda item: item[0].place.position,
        )
        for slim, size, said in ordered:
            if size != expected:
                more = f"; the total of {total:,} samples fits all the same" if fits else ""
                rollouts = "rollout" if size == 1 else "rollouts"
                what = (
                    f"group {slim.number} has {size} {rollouts}, expected {expected} ({said}){more}"
                )
                self.add_group(slim, what, identity="size")
        listed = sum(1 for _, size, _ in ordered if size != expected)
        self.num_found += sum(c for n, c in self.sizes.items() if n != expected) - listed
        self._start()


def _statuses(group: ReadGroup) -> str:
    counts = Counter(status_text(sample)[:20] for sample in group.samples)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


class GroupSplit(GroupCheck):
    """One group in several places."""

    code = "GROUP003"
    name = "group-split"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="Two groups of a file have the same group_index.",
        why="One group was cut in two, or one was written twice: each part is held against its "
        "own mean, or the prompt is trained on twice.",
        example='two lines with "group_index": 7',
        fix="Join the parts, or leave the second one out.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.seen: dict[int, int] = {}

    def feed(self, group: ReadGroup) -> None:
        """Looks the number up."""
        index = number(group.group_index)
        if index is None:
            return
        first = self.seen.setdefault(index, group.place.position)
        if first != group.place.position:
            what = f"group {index} is also group number {first} of the file"
            self.add_group(group, what, identity="split")

    def end_file(self, file: str) -> None:
        """The next file has its own groups."""
        del file
        self.seen.clear()


class GroupGaps(GroupCheck):
    """Numbers between the groups that are not there."""

    code = "GROUP004"
    name = "group-index-gaps"
    severity: ClassVar[Severity] = "note"
    explanation = Explanation(
        what="Some group_index between the lowest and the highest of a file are not there.",
        why="With over-sampling or dynamic filtering that is as it should be. Without, groups "
        "were lost.",
        example="groups 0, 1, 2, 4",
        fix="Nothing with over-sampling; else look at what dropped them.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.seen: set[int] = set()

    def feed(self, group: ReadGroup) -> None:
        """Notes the number."""
        index = number(group.group_index)
        if index is not None:
            self.seen.add(index)

    def end_file(self, file: str) -> None:
        """Counts what is not there."""
        missing = max(self.seen) - min(self.seen) + 1 - len(self.seen) if self.seen else 0
        if missing:
            low = min(self.seen)
            ordered = sorted(self.seen)
            first = next(low + i for i, index in enumerate(ordered) if index != low + i)
            noun = "group is" if missing == 1 else "groups are"
            what = f"{missing:,} {noun} missing between {low} and {max(self.seen)}, first {first}"
            self.add_file(file, what, "gaps")
        self.seen.clear()


class DuplicateIndex(GroupCheck):
    """Two samples with one number."""

    code = "GROUP005"
    name = "duplicate-sample-index"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="Two samples of a file have the same index, or two files give one index to "
        "different prompts. Evaluation dumps are left out.",
        why="An index counts samples over the whole run: a run was resumed from the wrong place, "
        "samples were written twice, or the files are of different runs.",
        example="two dumps that both start at index 0",
        fix="Check where the run was resumed (`rolloutds ckpt list`); do not mix runs.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.in_file: dict[int, int] = {}
        self.prompts: dict[int, tuple[int, str]] = {}

    def feed(self, group: ReadGroup) -> None:
        """Looks every number up."""
        if group.is_eval:
            return
        # Samples of one compact rollout may share its number.
        members = group.members
        leaves = [member[0] if isinstance(member, list) else member for member in members]
        for position, sample in enumerate(leaves):
            index = number(sample.index)
            if index is not None:
                self._look(group, position, index, sample)

    def _look(self, group: ReadGroup, position: int, index: int, sample: Sample) -> None:
        first = self.in_file.setdefault(index, group.number)
        prompt = hash(repr(sample.prompt))
        known, file = self.prompts.setdefault(index, (prompt, group.place.file))
        if (first, known) != (group.number, prompt) and file == group.place.file:
            what = f"index {index} is also the index of a sample in group {first}"
        elif known != prompt:
            what = f"index {index} belongs to another prompt in {file}"
        elif self._is_repeated(index, position, group):
            what = f"index {index} comes twice in the group"
        else:
            return
        self.add_group(group, what, sample=position, identity="index")

    def _is_repeated(self, index: int, position: int, group: ReadGroup) -> bool:
        before = group.members[:position]
        return any(number(getattr(m, "index", None)) == index for m in before)

    def end_file(self, file: str) -> None:
        """Within a file an index comes once."""
        del file
        self.in_file.clear()


class _SharedCheck(GroupCheck):
    """A field that all samples of a group share."""

    severity: ClassVar[Severity] = "error"
    field: ClassVar[str]

    def feed(self, group: ReadGroup) -> None:
        """Compares each sample with the first."""
        samples = group.samples
        first = getattr(samples[0], self.field)
        for position, sample in enumerate(samples):
            value = getattr(sample, self.field)
            if value is not first and not _is_same(value, first):
                what = f"the {self.field} of sample {position} differs from that of sample 0"
                self.add_group(group, what, sample=position, identity=self.field)


def _is_same(one: Any, other: Any) -> bool:
    one, other = _plain(one), _plain(other)
    try:
        return type(one) is type(other) and bool(one == other)
    except (ValueError, TypeError, RecursionError):  # arrays do not compare to one truth
        return repr(one) == repr(other)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, PlainScalar) else value


class PromptDiffers(_SharedCheck):
    """A prompt that differs inside a group."""

    code = "GROUP006"
    name = "prompt-differs-in-group"
    field = "prompt"
    explanation = Explanation(
        what="The samples of a group do not have one and the same prompt.",
        why="Rewards are compared inside the group as answers to one question; here they are not.",
        example="a group whose third sample answers another row",
        fix="Look at what put the group together: a filter, a generate function, a merge of dumps.",
    )


class LabelDiffers(_SharedCheck):
    """A label that differs inside a group."""

    code = "GROUP007"
    name = "label-differs-in-group"
    field = "label"
    explanation = Explanation(
        what="The samples of a group do not have one and the same label.",
        why="Some of the rewards were computed against another answer.",
        example="labels 4, 4, 5, 4 in one group",
        fix="Look at what changes labels while samples are generated or graded.",
    )


CHECKS = (
    UnreadableGroups,
    WrongGroupSize,
    GroupSplit,
    GroupGaps,
    DuplicateIndex,
    PromptDiffers,
    LabelDiffers,
)
