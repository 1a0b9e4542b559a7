"""What the variables of a script hold, as far as that is known without running it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from rolloutds.errors import ConfigError
from rolloutds.launch_script.shell_arithmetic import evaluate
from rolloutds.launch_script.shell_patterns import without_ends
from rolloutds.launch_script.shell_words import Computed, Part, Scanner, Text, Variable, Word

NOT_SET: Final = "is set neither in the script nor in the environment"
NOT_RUN: Final = "is known only when the script runs"
_SPACE: Final = re.compile(r"[ \t\n]+")
_LENGTH: Final = re.compile(r"\$\{#([A-Za-z_]\w*)(\[[@*]\])?\}", re.ASCII)
_MOST_TEXT: Final = 16 << 20
_VALUE_SIZE: Final = 64
"""Characters that a value counts for beside its own."""
_CUTS: Final = frozenset({"%", "%%", "#", "##"})


@dataclass(frozen=True)
class Piece:
    """A part of a value: known text, or the expression that stands for it.

    Attributes:
        text: the text, or the expression.
        unknown: why the text is not known; "" when it is.
    """

    text: str
    unknown: str = ""


@dataclass(frozen=True)
class Value:
    """One word of the script, its variables looked up.

    Attributes:
        pieces: what it is put together from.
        place: ``file:line`` where the script says it.
        remarks: what makes it uncertain: assignments that depend on a condition.
    """

    pieces: tuple[Piece, ...]
    place: str
    remarks: tuple[str, ...] = ()

    @classmethod
    def joined(cls, pieces: Iterable[Piece], place: str, remarks: tuple[str, ...] = ()) -> Value:
        """A value of these pieces, known neighbours as one."""
        merged: list[Piece] = []
        for is_known, some in groupby(pieces, lambda piece: not piece.unknown):
            run = list(some)
            merged += [Piece("".join(piece.text for piece in run))] if is_known else run
        merged = [piece for piece in merged if piece.text] or merged[:1]
        return cls(tuple(merged), place, remarks)

    @property
    def text(self) -> str:
        """The text, with expressions in place of what is not known."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def unknown(self) -> Piece | None:
        """The first piece that is not known."""
        return next((piece for piece in self.pieces if piece.unknown), None)

    def with_remarks(self, remarks: Sequence[str]) -> Value:
        """The same value, and what else makes it uncertain."""
        new = [remark for remark in remarks if remark not in self.remarks]
        return replace(self, remarks=(*self.remarks, *new)) if new else self


@dataclass
class Variables:
    """The variables set so far.

    Args:
        environment: fills in what the script does not set.
        script: path of the script, ``$0``.

    Attributes:
        file: path of the file being read, ``${BASH_SOURCE[0]}``.
        name: how messages call that file.
        folder: the current folder, ``$PWD``; None once the script went where nobody knows.
        values: the variables; a list is an array, a dict one whose subscripts are text.
        passed: arrays that were expanded as a whole somewhere.
    """

    environment: Mapping[str, str]
    script: str
    file: str = ""
    name: str = ""
    folder: str | None = field(default_factory=os.getcwd)
    values: dict[str, Value | list[Value] | dict[str, Value]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    _num_characters: int = 0

    # --- words ----------------------------------------------------------------------------

    def expand(self, word: Word) -> list[Value]:
        """The values a word becomes: one, or more where an array or unquoted text is split."""
        values = []
        for value in _Fields(self, word).all():
            self._count(value)
            values.append(value)
        return values

    def _count(self, value: Value) -> None:
        """Refuses a script that doubles a variable again and again."""
        self._spend(_VALUE_SIZE + sum(len(p.text) for p in value.pieces), value.place)

    def _spend(self, num_characters: int, place: str) -> None:
        self._num_characters += num_characters
        if self._num_characters > _MOST_TEXT:
            raise ConfigError("its variables hold too much", where=place, expected="16 MiB")

    def join(self, word: Word) -> Value:
        """The one value a word becomes where nothing is split, as in an assignment."""
        pieces: list[Piece] = []
        remarks: list[str] = []
        for part in self.chosen_parts(word):
            for position, value in enumerate(self.part_values(part, word.line)):
                pieces += [Piece(" ")] if position else []
                pieces += value.pieces
                remarks += value.remarks
        value = Value.joined(pieces, self._place(word.line))
        self._count(value)
        return self._with_home(word, value).with_remarks(remarks)

    def part_values(self, part: Part, line: int) -> list[Value]:
        """What a part of a word holds: one value, or all of an array."""
        if isinstance(part, Text):
            return [self._value(part.text, line)]
        if isinstance(part, Variable):
            return self._variable(part, line)
        text = self._computed(part, line)
        if text is not None:
            return [self._value(text, line)]
        return [self._not_run(part.source, line)]

    def _computed(self, part: Computed, line: int) -> str | None:
        if part.command is not None:
            return _PathCommand(self, part.command, line).result()
        if part.arithmetic is not None:
            value = self.calculate(part.arithmetic, line)
            return None if value is None else str(value)
        length = _LENGTH.fullmatch(part.source)
        held = self.values.get(length[1]) if length else None
        if length is None or held is None:
            return None
        if length[2]:
            return str(1 if isinstance(held, Value) else len(held))
        return str(len(held.text)) if isinstance(held, Value) and not held.unknown else None

    def calculate(self, expression: str, line: int) -> int | None:
        """The value of arithmetic; None where a part of it is not known."""
        text = self._text_of(expression, line, is_quoted=True)
        return None if text is None else evaluate(text, self._number_text)

    def _text_of(self, source: str, line: int, *, is_quoted: bool) -> str | None:
        """What a piece of the script comes to; None where a part of it is not known."""
        try:
            word = Scanner(source, self.name, line).operand(is_quoted=is_quoted)
        except ConfigError:
            return None
        value = self.join(word)
        return None if value.unknown else value.text

    def _number_text(self, name: str) -> str | None:
        if not self.is_known(name):
            # A variable without a value is 0 to a shell, and seldom meant: it is not known here.
            return None
        held = self.values.get(name)
        return held.text if isinstance(held, Value) else self.environment[name]

    def _not_run(self, source: str, line: int) -> Value:
        return Value((Piece(source, NOT_RUN),), self._place(line))

    def _place(self, line: int) -> str:
        return f"{self.name}:{line}"

    def _value(self, text: str, line: int) -> Value:
        return Value((Piece(text),), self._place(line))

    def _with_home(self, word: Word, value: Value) -> Value:
        first = word.parts[0] if word.parts else None
        home = self.environment.get("HOME")
        if not home or not isinstance(first, Text) or first.is_quoted:
            return value
        if first.text != "~" and not first.text.startswith("~/"):
            return value
        return replace(value, pieces=(Piece(home + value.pieces[0].text[1:]), *value.pieces[1:]))

    # --- variables ------------------------------------------------------------------------

    def chosen_parts(self, word: Word) -> Iterator[Part]:
        """The parts of a word, with the default in place of a variable that has one and needs it.

        A default that is assigned (``:=``) is so now.
        """
        for part in word.parts:
            operand = self._operand(part, word.line) if isinstance(part, Variable) else None
            if operand is None:
                yield part
            else:
                yield from self.chosen_parts(operand)

    def _operand(self, part: Variable, line: int) -> Word | None:
        """The word that stands for a variable; None: the variable itself does."""
        kind = part.operator.removeprefix(":")
        if part.operand is None or kind == "?" or kind in _CUTS:
            return None
        found = self.look_up(part, line)
        is_set = found is not None
        if part.operator.startswith(":") and found is not None:
            is_set = any(value.text for value in found)
        if kind == "+":
            return part.operand if is_set else Word((Text("", part.is_quoted),), line)
        if is_set or kind == "-":
            return None if is_set else part.operand
        self.values[part.name] = self.join(part.operand)
        return None

    def _variable(self, part: Variable, line: int) -> list[Value]:
        found = self.look_up(part, line)
        if found is None:
            return [Value((Piece(part.source, _why_unset(part.name)),), self._place(line))]
        if part.operator in _CUTS and part.operand is not None:
            found = [self._cut(value, part, part.operand) for value in found]
        if part.subscript == "*" and part.is_quoted:
            spaced = [p for value in found for p in (Piece(" "), *value.pieces)]
            return [Value.joined(spaced[1:], self._place(line))]
        return found

    def _cut(self, value: Value, part: Variable, operand: Word) -> Value:
        """The value without what fits a pattern at one of its ends."""
        parts = list(self.chosen_parts(operand))
        pattern = [(p.is_quoted, v) for p in parts for v in self.part_values(p, operand.line)]
        if value.unknown or any(v.unknown for _, v in pattern):
            return self._not_run(part.source, operand.line)
        spelled = [(v.text, is_quoted) for is_quoted, v in pattern]
        num_steps = len(value.text) * sum(len(text) for text, _ in spelled)
        self._spend(num_steps // 4, self._place(operand.line))
        text = without_ends(value.text, part.operator, spelled)
        if text is None:
            return self._not_run(part.source, operand.line)
        return replace(value, pieces=(Piece(text),))

    def look_up(self, part: Variable, line: int) -> list[Value] | None:
        """What a variable holds; None: it is not set."""
        if part.name == "BASH_SOURCE":
            return [self._value(self.file, line)]
        if part.name == "0":
            return [self._value(self.script, line)]
        value = self.values.get(part.name)
        if value is None and part.name == "PWD":
            known = Piece(self.folder) if self.folder else Piece(part.source, NOT_RUN)
            return [Value((known,), self._place(line))]
        if value is None:
            text = self.environment.get(part.name)
            return None if text is None else [self._value(text, line)]
        if isinstance(value, Value):
            return [value]
        if part.subscript in ("@", "*"):
            self.passed.add(part.name)
            return list(value.values()) if isinstance(value, dict) else value
        return self._element(value, part, line)

    def _element(
        self, held: list[Value] | dict[str, Value], part: Variable, line: int
    ) -> list[Value] | None:
        if isinstance(held, dict):
            key = self._text_of(part.subscript or "0", line, is_quoted=False)
            if key is None:
                return [self._not_run(part.source, line)]
            return [held[key]] if key in held else None
        index = self.calculate(part.subscript or "0", line)
        if index is None:
            return [self._not_run(part.source, line)]
        return [held[index]] if -len(held) <= index < len(held) else None

    def set_element(self, name: str, subscript: str, value: Value, line: int) -> None:
        """``NAME[subscript]=value``; nothing is known of an array whose subscript is not."""
        held = self.values.get(name, [])
        if isinstance(held, Value):
            held = [held]
        if isinstance(held, dict):
            key = self._text_of(subscript, line, is_quoted=False)
            if key is None:
                self.forget(name, line)
            else:
                self.values[name] = {**held, key: value}
            return
        index = self.calculate(subscript, line)
        if index is None or not -len(held) <= index <= len(held):
            self.forget(name, line)  # an array with gaps, too
        elif index == len(held):
            self.values[name] = [*held, value]
        else:
            index %= len(held)
            self.values[name] = [*held[:index], value, *held[index + 1 :]]

    def is_known(self, name: str) -> bool:
        """Whether a variable holds one known text."""
        value = self.values.get(name)
        if value is None:
            return name in self.environment
        return isinstance(value, Value) and value.unknown is None

    def remark(self, name: str, remark: str) -> None:
        """Notes what makes the text of a known variable uncertain."""
        value = self.values.get(name) or self._value(self.environment[name], 0)
        if isinstance(value, Value):
            self.values[name] = value.with_remarks([remark])

    def forget(self, name: str, line: int = 0) -> None:
        """Notes that a variable holds what only a run can know."""
        self.values[name] = self._not_run(f"${name}", line)


def _why_unset(name: str) -> str:
    return NOT_SET if re.match(r"[A-Za-z_]", name) else NOT_RUN


class _Fields:
    """Splits a word into values as a shell does: quoted text never, arrays between elements."""

    def __init__(self, variables: Variables, word: Word) -> None:
        self._variables = variables
        self._word = word
        self._pieces: list[Piece] | None = None  # None: between values
        self._place = ""
        self._remarks: dict[str, None] = {}

    def all(self) -> Iterator[Value]:
        for part in self._variables.chosen_parts(self._word):
            values = self._variables.part_values(part, self._word.line)
            for position, value in enumerate(values):
                if position:
                    yield from self._close()
                yield from self._add(value, value.pieces) if part.is_quoted else self._split(value)
        yield from self._close()

    def _add(self, value: Value, pieces: Sequence[Piece]) -> Iterator[Value]:
        is_text = value.place == self._variables._place(self._word.line)
        if self._pieces is None:
            self._pieces, self._remarks = [], {}
            self._place = value.place
        elif not is_text:
            # An element of an array keeps its own line: that is where the user looks.
            self._place = value.place
        self._pieces += pieces
        self._remarks.update(dict.fromkeys(value.remarks))
        return iter(())

    def _split(self, value: Value) -> Iterator[Value]:
        for piece in value.pieces:
            if piece.unknown:
                self._add(value, [piece])
                continue
            for position, text in enumerate(_SPACE.split(piece.text)):
                if position:
                    yield from self._close()
                if text:
                    self._add(value, [Piece(text)])

    def _close(self) -> Iterator[Value]:
        if self._pieces is not None:
            value = Value.joined(self._pieces, self._place, tuple(self._remarks))
            yield self._variables._with_home(self._word, value)
        self._pieces = None


class _PathCommand:
    """Works out the few commands that only take paths apart, by which scripts find themselves.

    ``dirname``, ``basename``, ``realpath``, ``readlink -f`` and ``cd … && pwd`` are computed here, never run;
    of every other command nothing is known.
    """

    def __init__(self, variables: Variables, command: str, line: int) -> None:
        self._variables = variables
        try:
            self._tokens = Scanner(command, variables.name, line).tokens()
        except ConfigError:
            self._tokens = []

    def result(self) -> str | None:
        """The output, None when it is not one of these commands or a path is not known."""
        commands: list[list[str]] = [[]]
        for token in self._tokens:
            if not isinstance(token, Word):
                if getattr(token, "text", "") not in ("&&", ";", "\n"):
                    return None
                commands.append([])
                continue
            value = self._variables.join(token)
            if value.unknown:
                return None
            commands[-1].append(value.text)
        commands = [_without_options(command) for command in commands if command]
        return self._variables.folder if commands == [["pwd"]] else _path_output(commands)


def _without_options(command: list[str]) -> list[str]:
    return [command[0], *(word for word in command[1:] if not re.fullmatch(r"--?\w*", word))]


def _path_output(commands: list[list[str]]) -> str | None:
    match commands:
        case [["dirname", path]]:
            return os.path.dirname(path) or "."  # noqa: PTH120 - a shell's dirname is on text
        case [["basename", path]]:
            return _base_name(path)
        case [["basename", path, ending]]:
            name = _base_name(path)
            return name if name == ending else name.removesuffix(ending)
        case [["realpath", path]] | [["readlink", path]]:
            return os.path.realpath(path)
        case [["cd", path], ["pwd"]] if path:
            return os.path.realpath(path)
    return None


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path[:1]
