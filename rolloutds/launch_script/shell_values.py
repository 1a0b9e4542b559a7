"""What the variables of a script hold, as far as that is known without running it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rolloutds.launch_script.shell_words import Part, Scanner, Text, Variable, Word

NOT_SET: Final = "is set neither in the script nor in the environment"
NOT_RUN: Final = "is known only when the script runs"
_SPACE: Final = re.compile(r"[ \t\n]+")


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
        for piece in pieces:
            if merged and not piece.unknown and not merged[-1].unknown:
                merged[-1] = Piece(merged[-1].text + piece.text)
            elif piece.text or not merged:
                merged.append(piece)
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
        values: the variables; a list is an array.
        passed: arrays that were expanded as a whole somewhere.
    """

    environment: Mapping[str, str]
    script: str
    file: str = ""
    name: str = ""
    folder: str | None = field(default_factory=os.getcwd)
    values: dict[str, Value | list[Value]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    # --- words ----------------------------------------------------------------------------

    def expand(self, word: Word) -> list[Value]:
        """The values a word becomes: one, or more where an array or unquoted text is split."""
        return list(_Fields(self, word).all())

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
        return self._with_home(word, value).with_remarks(remarks)

    def part_values(self, part: Part, line: int) -> list[Value]:
        """What a part of a word holds: one value, or all of an array."""
        if isinstance(part, Text):
            return [self._value(part.text, line)]
        if isinstance(part, Variable):
            return self._variable(part, line)
        text = None if part.command is None else _PathCommand(self, part.command, line).result()
        if text is not None:
            return [self._value(text, line)]
        return [Value((Piece(part.source, NOT_RUN),), self._place(line))]

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
        if part.operand is None or kind == "?":
            return None
        found = self._look_up(part, line)
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
        found = self._look_up(part, line)
        if found is None:
            return [Value((Piece(part.source, _why_unset(part.name)),), self._place(line))]
        if part.subscript == "*" and part.is_quoted:
            spaced = [p for value in found for p in (Piece(" "), *value.pieces)]
            return [Value.joined(spaced[1:], self._place(line))]
        return found

    def _look_up(self, part: Variable, line: int) -> list[Value] | None:
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
        if not isinstance(value, list):
            return [value]
        if part.subscript in ("@", "*"):
            self.passed.add(part.name)
            return value
        subscript = part.subscript or ""
        index = int(subscript) if subscript.isdigit() else 0
        return value[index : index + 1] or None

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

    def forget(self, name: str) -> None:
        """Notes that a variable holds what only a run can know."""
        self.values[name] = Value((Piece(f"${name}", NOT_RUN),), "")


def _why_unset(name: str) -> str:
    return NOT_SET if re.match(r"[A-Za-z_]", name) else NOT_RUN


class _Fields:
    """Splits a word into values as a shell does: quoted text never, arrays between elements."""

    def __init__(self, variables: Variables, word: Word) -> None:
        self._variables = variables
        self._word = word
        self._open: Value | None = None

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
        if self._open is None:
            # An element of an array keeps its own line: that is where the user looks.
            self._open = Value.joined(pieces, value.place, value.remarks)
        else:
            place = self._open.place if is_text else value.place
            pieces = [*self._open.pieces, *pieces]
            self._open = Value.joined(pieces, place, self._open.remarks).with_remarks(value.remarks)
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
        if self._open is not None:
            yield self._variables._with_home(self._word, self._open)
        self._open = None


class _PathCommand:
    """Works out the few commands that only take paths apart, by which scripts find themselves.

    ``dirname``, ``realpath``, ``readlink -f`` and ``cd … && pwd`` are computed here, never run;
    of every other command nothing is known.
    """

    def __init__(self, variables: Variables, command: str, line: int) -> None:
        self._variables = variables
        self._tokens = Scanner(command, variables.name, line).tokens()

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
        case [["realpath", path]] | [["readlink", path]]:
            return os.path.realpath(path)
        case [["cd", path], ["pwd"]] if path:
            return os.path.realpath(path)
    return None
