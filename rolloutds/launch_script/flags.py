"""The flags of a launch command, as slime's parser takes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rolloutds.config import SETTINGS
from rolloutds.errors import ConfigError
from rolloutds.launch_script.shell_script import Script
from rolloutds.launch_script.shell_values import NOT_RUN, Piece, Value

RUN_SETTINGS: Final = tuple(s.name for s in SETTINGS if not s.is_ours)
"""The settings that slime's parser knows; the others are ours, and no launch script sets them."""

_NOT_A_FLAG: Final = "rollout_global_dataset"
SWITCHES: Final = (
    *(s.name for s in SETTINGS if s.name in RUN_SETTINGS and s.kind == "bool"),
    "disable_rollout_global_dataset",
)
LISTS: Final = ("eval_prompt_data",)
FLAGS: Final = frozenset(
    {
        *(name for name in RUN_SETTINGS if name != _NOT_A_FLAG),
        "disable_rollout_global_dataset",
        "rollout_max_context_len",
        "custom_config_path",
        "chat_template_path",
        "eval_prompt_data",
        "eval_config",
        "eval_input_key",
        "eval_label_key",
        "eval_tool_key",
        "eval_max_prompt_len",
        "n_samples_per_eval_prompt",
    }
)
"""Every flag that is read, by the name of its value."""

_SAYS_IT_IS_A_RUN: Final = ("prompt_data", "rollout_batch_size", "disable_rollout_global_dataset")
_ONLY_SAY: Final = frozenset({"echo", "printf", "cat", "log"})
_NEARLY: Final = 0.92


@dataclass(frozen=True)
class Flag:
    """One flag with its values.

    Attributes:
        name: as in `FLAGS`.
        values: what it is given; none for a switch.
        place: ``file:line``.
        remarks: what makes it uncertain.
    """

    name: str
    values: tuple[Value, ...]
    place: str
    remarks: tuple[str, ...]

    def texts(self) -> list[str]:
        """The values as text.

        Raises:
            ConfigError: a value is not known without running the script.
        """
        for value in self.values:
            if value.unknown is not None:
                self._refuse(value, value.unknown)
        return [value.text for value in self.values]

    def _refuse(self, value: Value, piece: Piece) -> None:
        spelled = "--" + self.name.replace("_", "-")
        hint = "set the variable in the environment, or give the setting itself as a flag"
        if piece.unknown == NOT_RUN:
            hint = "scripts are read, not run: give the setting itself as a flag"
        raise ConfigError(
            f"{spelled} is {value.text}, and {piece.text} {piece.unknown}",
            where=self.place,
            hint=hint,
        )


class Launch(NamedTuple):
    """The words that hold a run's flags.

    Attributes:
        words: the words.
        folder: the folder the command runs in, where it is known.
        remarks: how they were found.
    """

    words: list[Value]
    folder: str | None
    remarks: list[str]


def find_launch(script: Script, name: str) -> Launch:
    """The words that hold the run's flags.

    They are those of the last command that is given a run's flags. Without such a command, all
    flags in the script's arrays and texts count, in the order of the file.
    """
    runs = [c for c in script.commands if _is_run(c.words)]
    if not runs:
        words = [value for values in script.arrays.values() for value in values]
        words += script.texts
        words += [word for command in script.commands for word in command.words]
        remark = f"{name}: no command is given a run's flags, so all flags in its arrays count"
        return Launch(words, None, [remark] if any(_name_of(w) in FLAGS for w in words) else [])
    remarks = [
        f"{name}: the array {array} is not passed to the command as a whole, so its flags do not "
        "count"
        for array in sorted(script.unpassed)
        if any(_name_of(value) in FLAGS for value in script.arrays[array])
    ]
    unlike = [run for run in runs[:-1] if _said(run.words) != _said(runs[-1].words)]
    if unlike:
        others = ", ".join(run.place for run in unlike)
        remarks.append(f"{runs[-1].place}: this command counts, the one before does not ({others})")
    return Launch(list(runs[-1].words), runs[-1].folder, remarks)


def _is_run(words: Sequence[Value]) -> bool:
    if words[0].text in _ONLY_SAY:
        return False
    return any(_name_of(word) in _SAYS_IT_IS_A_RUN for word in words)


def _said(words: Sequence[Value]) -> dict[str, list[str]]:
    flags, _ = parse(words)
    return {name: [value.text for value in flag.values] for name, flag in flags.items()}


def parse(words: Sequence[Value]) -> tuple[dict[str, Flag], list[str]]:
    """The flags that are read, the last of each name, and remarks on the others.

    Raises:
        ConfigError: a flag lacks its value.
    """
    flags: dict[str, Flag] = {}
    remarks: list[str] = []
    remaining = _Remaining(words)
    before: Value | None = None
    for word in remaining:
        name = _name_of(word)
        if name in FLAGS and _is_spelled_so(word):
            flags[name] = _take(name, word, remaining)
        elif name is not None:
            remarks += _nearly(word, name)
        elif _may_hold_flags(word, before):
            remarks.append(f"{word.place}: what {word.text} adds to the command is not known")
        before = word
    return flags, remarks


class _Remaining(Iterator[Value]):
    """The words that are left."""

    def __init__(self, words: Sequence[Value]) -> None:
        self._words = words
        self._at = 0

    def __next__(self) -> Value:
        if self._at == len(self._words):
            raise StopIteration
        self._at += 1
        return self._words[self._at - 1]

    def values(self) -> Iterator[Value]:
        """The words up to the next flag."""
        while self._at < len(self._words) and not self._words[self._at].text.startswith("--"):
            yield next(self)


def _may_hold_flags(word: Value, before: Value | None) -> bool:
    """Whether a word that is not known may be flags, not the value of the one before it."""
    only = word.pieces[0] if len(word.pieces) == 1 else None
    if only is None or only.unknown != NOT_RUN or only.text.startswith("$(("):
        return False
    name = None if before is None or "=" in before.text else _name_of(before)
    is_value = name is not None and name not in SWITCHES
    return only.text in ("$@", "$*", "${@}", "${*}") or not is_value


def _take(name: str, word: Value, remaining: _Remaining) -> Flag:
    own = _after_equals(word)
    if name in SWITCHES:
        values: list[Value] = []
    elif own is not None:
        values = [own]
    elif name in LISTS:
        values = list(remaining.values())
    else:
        values = [value for value in [next(remaining.values(), None)] if value is not None]
    if not values and name not in SWITCHES:
        raise ConfigError(f"{word.text} has no value", where=word.place, expected="one after it")
    remarks = dict.fromkeys(remark for value in [word, *values] for remark in value.remarks)
    return Flag(name, tuple(values), word.place, tuple(remarks))


def _name_of(word: Value) -> str | None:
    first = word.pieces[0] if word.pieces else None
    if first is None or first.unknown or not first.text.startswith("--") or len(first.text) < 3:
        return None
    return first.text[2:].partition("=")[0].replace("-", "_")


def _is_spelled_so(word: Value) -> bool:
    return "_" not in word.text.partition("=")[0]


def _after_equals(word: Value) -> Value | None:
    first = word.pieces[0]
    _, equals, text = first.text.partition("=")
    if not equals:
        return None
    return Value((Piece(text), *word.pieces[1:]), word.place, word.remarks)


def _nearly(word: Value, name: str) -> list[str]:
    spelled = word.text.partition("=")[0]
    longer = [f for f in sorted(FLAGS, key=len) if f.startswith(name) and len(name) > 6]
    near = [name] if name in FLAGS else longer[:1]
    near = near or difflib.get_close_matches(name, sorted(FLAGS), n=1, cutoff=_NEARLY)
    if not near:
        return []
    flag = "--" + near[0].replace("_", "-")
    return [f"{word.place}: {spelled} is not read; a flag of nearly that name is {flag}"]
