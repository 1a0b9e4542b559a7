"""What a replay can find, each with a code: errors stop or spoil a run, warnings cost it data."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Literal, NamedTuple

ReplaySeverity = Literal["error", "warning"]

KEPT_GROUPS = 8
"""Groups that a finding names; further ones are counted."""


class ReplayCode(NamedTuple):
    """One kind of finding.

    Attributes:
        name: in words, for people and for lists of codes.
        severity: whether a run would stop or go wrong.
        what: what was found.
        why: why it hurts a run.
        example: a filter that does it.
        fix: what to do.
    """

    name: str
    severity: ReplaySeverity
    what: str
    why: str
    example: str
    fix: str


REPLAY_CODES: dict[str, ReplayCode] = {
    "RPL001": ReplayCode(
        "wrong-type",
        "error",
        "The filter returned something that is not a list of groups.",
        "The data source cannot serve it: our source refuses it, the reference fails later, far "
        "from the cause.",
        "def take(args, rollout_id, buffer, num_samples):\n    buffer.pop(0)  # and no return",
        "Return a list of groups, each a list of samples; return [] when nothing fits.",
    ),
    "RPL002": ReplayCode(
        "wrong-size",
        "error",
        "A group has another number of samples than n_samples_per_prompt, or the filter changed it.",
        "Advantages are computed over groups of one size; a shorter or longer one stops the run or "
        "shifts every group after it.",
        "buffer[0].append(buffer[1][0])",
        "Take or leave whole groups; to leave samples out of the loss, set remove_sample where "
        "they are generated.",
    ),
    "RPL003": ReplayCode(
        "too-many",
        "error",
        "The filter returned more groups than it was asked for.",
        "The rest of the batch is drawn from the dataset: with too many groups that number is "
        "negative, and the cursor moves backwards.",
        "def take(args, rollout_id, buffer, num_samples):\n"
        "    taken, buffer[:] = buffer[:], []\n    return taken",
        "Cut what is returned to num_samples, and leave the others in the buffer.",
    ),
    "RPL004": ReplayCode(
        "returned-twice",
        "error",
        "One group is in the returned list twice, or two returned groups share a sample.",
        "It would be generated and trained on twice, and both copies write into the same samples.",
        "return [buffer[0], buffer[0]]",
        "Pop each group that is returned.",
    ),
    "RPL005": ReplayCode(
        "not-from-buffer",
        "error",
        "The filter returned a group that was not in the buffer.",
        "The run trains on samples that its data source does not know: a copy, a group served "
        "before, or one that was made up; the original may be served as well.",
        "return [copy.deepcopy(group) for group in buffer[:num_samples]]",
        "Return the buffer's own groups, and remove them from it.",
    ),
    "RPL006": ReplayCode(
        "exception",
        "error",
        "The filter raised, ended its process, or closed or wrote to files that are not its own; "
        "or what it left in samples did so when they were compared.",
        "The run stops at this rollout, or loses its files.",
        "buffer.sort(key=lambda group: group[0].reward)  # a reward is None",
        "Read the frames and the group that are named; expect samples without a reward, and "
        "groups that were aborted.",
    ),
    "RPL007": ReplayCode(
        "time-limit",
        "error",
        "A call took longer than the time limit, and was stopped; or comparing a group after it "
        "did, because of an object that the filter put into a sample.",
        "Generation waits while the filter runs; one that never returns holds the run for ever.",
        "while len(taken) < num_samples:\n    taken += [g for g in buffer if is_good(g)]",
        "End every loop when the buffer is used up; --time-limit sets another limit.",
    ),
    "RPL008": ReplayCode(
        "still-in-buffer",
        "warning",
        "Returned groups are still in the buffer.",
        "The next call can return them again: the run trains on the same groups for ever, and "
        "fewer new prompts are drawn.",
        "return sorted(buffer, key=first_reward)[:num_samples]",
        "Remove what is returned, in place: del buffer[:n], buffer.remove, or buffer[:] = rest.",
    ),
    "RPL009": ReplayCode(
        "removed-not-returned",
        "warning",
        "Groups were removed from the buffer and not returned.",
        "They are lost: their prompts are not seen again in this epoch, nor what was generated "
        "for them.",
        "buffer[:] = [group for group in buffer if is_good(group)]",
        "If they are meant to be dropped, this is fine; else leave them in the buffer.",
    ),
    "RPL010": ReplayCode(
        "sample-edited",
        "warning",
        "The filter changed fields of samples.",
        "A filter may run again after a resume, and edits made by it are then made twice; a "
        "changed reward or status hides what was generated.",
        "group[0].metadata['seen'] = True",
        "Edit samples where they are generated or rewarded, not where they are picked.",
    ),
    "RPL011": ReplayCode(
        "reordered",
        "warning",
        "The groups left in the buffer are in another order than before.",
        "The buffer is no longer in the order of waiting: groups at its end may never be served, "
        "and filters that count on the order pick others.",
        "buffer.sort(key=first_reward)",
        "Sort a copy (sorted), and delete what is returned from the buffer.",
    ),
    "RPL012": ReplayCode(
        "differs-on-second-run",
        "warning",
        "A second run on the same buffer took other groups.",
        "A resumed run does not train on what the first one did, and a bad batch cannot be "
        "made again.",
        "random.shuffle(buffer)",
        "Use a generator of your own, seeded from args.rollout_seed and rollout_id; keep no "
        "state outside the arguments.",
    ),
    "RPL013": ReplayCode(
        "reseeded",
        "warning",
        "The filter set the global random state of random or numpy.random.",
        "All other code of the process draws from there: after each rollout it sees the same "
        "numbers again.",
        "random.seed(args.rollout_seed)",
        "Use random.Random(seed) or numpy.random.default_rng(seed), which are your own.",
    ),
    "RPL014": ReplayCode(
        "added-to-buffer",
        "warning",
        "The filter put something into the buffer that was not there before.",
        "It is served in a later round, without the checks that add_samples makes.",
        "buffer.append(copy.deepcopy(buffer[0]))",
        "A filter takes out; groups go in through add_samples.",
    ),
}
"""Every kind of finding by code."""


@dataclass
class ReplayFinding:
    """One thing that a filter does, where it was seen first and how often.

    Attributes:
        code: key of `REPLAY_CODES`.
        message: what was seen first.
        round_number: round it was seen first in; None for what shows at the end only.
        field: field of a sample it is about.
        groups: numbers of the first groups it is about.
        num_groups: how many groups it is about in all; for what is about none, how many calls.
        frames: lines of the filter's own code, for an exception; innermost last.
    """

    code: str
    message: str
    round_number: int | None = None
    field: str | None = None
    groups: list[int | str] = dataclass_field(default_factory=list)
    num_groups: int = 0
    frames: list[str] = dataclass_field(default_factory=list)

    @property
    def name(self) -> str:
        """The kind of finding in words."""
        return REPLAY_CODES[self.code].name

    @property
    def severity(self) -> ReplaySeverity:
        """How bad it is."""
        return REPLAY_CODES[self.code].severity


class ReplayFindings:
    """Findings of one replay, those of one kind about one thing counted together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], ReplayFinding] = {}
        self._groups: set[tuple[str, str, int | str]] = set()

    def add(
        self,
        code: str,
        message: str,
        *,
        round_number: int | None,
        group: int | str | None = None,
        about: str = "",
        field: str | None = None,
        frames: list[str] | None = None,
    ) -> None:
        """Takes one down.

        Args:
            code: key of `REPLAY_CODES`.
            message: what was found; kept of the first one only.
            round_number: the round.
            group: number of the group it is about.
            about: tells findings of one code apart.
            field: the sample's field it is about; tells them apart as well.
            frames: lines of the filter's code.
        """
        key = (code, field or about)
        finding = self._found.get(key)
        if finding is None:
            finding = ReplayFinding(code, message, round_number, field, frames=frames or [])
            self._found[key] = finding
        if group is not None:
            if (*key, group) in self._groups:
                return
            self._groups.add((*key, group))
            if len(finding.groups) < KEPT_GROUPS:
                finding.groups.append(group)
        finding.num_groups += 1

    @property
    def has_errors(self) -> bool:
        """Whether one of them is an error."""
        return any(finding.severity == "error" for finding in self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    @property
    def all(self) -> list[ReplayFinding]:
        """Errors first, then warnings, each in the order they were seen."""
        return sorted(self._found.values(), key=lambda finding: finding.severity != "error")
