"""A script's assignments and commands in the order of the file, read and never run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from rolloutds.errors import ConfigError
from rolloutds.launch_script.path_map import PathMap
from rolloutds.launch_script.shell_arithmetic import assigned_names
from rolloutds.launch_script.shell_values import Piece, Value, Variables
from rolloutds.launch_script.shell_words import (
    Array,
    Operator,
    Part,
    Scanner,
    Text,
    Token,
    Variable,
    Word,
)

_ASSIGNMENT: Final = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=(?P<rest>.*)", re.ASCII | re.DOTALL
)
_ELEMENT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)\[(?P<rest>.*)", re.ASCII | re.DOTALL)
_END_OF_SUBSCRIPT: Final = re.compile(r"(?P<key>[^\]]*)\](?P<plus>\+?)=(?P<rest>.*)", re.DOTALL)
_KEYED: Final = re.compile(r"\[([^\]]*)\]=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OPENS: Final = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSES: Final = frozenset({"fi", "done", "esac"})
_BEFORE_COMMANDS: Final = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "exec", "command"}
)
_DECLARES: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_CONDITIONS: Final = frozenset({"[", "[[", "test"})
_MOST_BYTES: Final = 1 << 20
_MOST_FILES: Final = 100
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_READS: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let"})
_MOST_TEXTS: Final = 100
_DEEPEST_TEXT: Final = 4
_DEEPEST_BLOCK: Final = 500


@dataclass(frozen=True)
class Command:
    """A command that is given flags.

    Attributes:
        words: its words, variables looked up.
        place: ``file:line`` where it starts.
        folder: the folder it runs in; None when the script went where nobody knows.
    """

    words: tuple[Value, ...]
    place: str
    folder: str | None


@dataclass(frozen=True)
class Script:
    """What a script says.

    Attributes:
        commands: the commands that have a flag, in order.
        arrays: what each array holds at the end.
        unpassed: names of arrays that no command was given as a whole.
        texts: the variables that are text and start with a flag, split into words.
        notices: what was not read, and why.
    """

    commands: list[Command]
    arrays: dict[str, list[Value]]
    unpassed: set[str]
    texts: list[Value]
    notices: list[str]


def read(path: Path, environment: Mapping[str, str], path_map: PathMap) -> Script:
    """Reads a script and the files it sources.

    Raises:
        ConfigError: the script cannot be read, or its quotes do not match.
    """
    reader = _Reader(path, environment, path_map)
    try:
        reader.read_file(path)
    except RecursionError as error:
        raise ConfigError("nested too deeply", where=str(path)) from error
    return reader.script()


class _Reader:
    def __init__(self, path: Path, environment: Mapping[str, str], path_map: PathMap) -> None:
        self._folder = path.absolute().parent
        self._variables = Variables(environment, script=str(path.absolute()))
        self._path_map = path_map
        self._reading: list[Path] = []
        self._num_files = 0
        self._num_texts = 0
        self._text_depth = 0
        self._left_folders: list[str | None] = []
        self.function_folders: dict[str, str | None] = {}
        self._commands: list[Command] = []
        self._notices: list[str] = []

    def script(self) -> Script:
        values = self._variables.values
        held = {n: list(v.values()) if isinstance(v, dict) else v for n, v in values.items()}
        arrays = {name: v for name, v in held.items() if isinstance(v, list)}
        unpassed = arrays.keys() - self._variables.passed
        texts = [
            word
            for name, value in values.items()
            if isinstance(value, Value) and value.text.startswith("--")
            for word in self._variables.expand(_unquoted(name))
        ]
        return Script(self._commands, arrays, unpassed, texts, self._notices)

    def read_file(self, path: Path) -> None:
        text = _read_text(path)
        scanner = Scanner(text, str(path))
        before = (self._variables.file, self._variables.name)
        self._variables.file, self._variables.name = str(path.absolute()), str(path)
        self._reading.append(path.resolve())
        self._num_files += 1
        try:
            tokens = scanner.tokens()
            _Walk(self, scanner.cut_off_lines).over(tokens)
        finally:
            self._reading.pop()
            self._variables.file, self._variables.name = before

    # --- what commands do -----------------------------------------------------------------

    def run(self, words: Sequence[Word | Array], line: int, remarks: Sequence[str]) -> None:
        """Takes in one command: its assignments, then what it is given."""
        rest = list(words)
        assigned: list[Word | Array] = []
        while rest and (isinstance(rest[0], Array) or _assignment(rest[0])):
            assigned.append(rest.pop(0))
        name = rest[0].plain if rest and isinstance(rest[0], Word) else None
        if name in _DECLARES:
            self._declare(rest[1:], remarks)
            return
        if not rest or name in ("source", ".", "eval"):
            self._assign_all(assigned, remarks)
        if name in ("source", "."):
            self._source(rest[1:], line)
        elif name == "unset":
            self._unset(rest[1:])
        elif name in _READS:
            self._forget_all(name, rest[1:])
        elif name in ("cd", "pushd", "popd"):
            self._change_folder(name, rest[1:])
        elif rest:
            self._note(rest, line)

    def _declare(self, words: Sequence[Word | Array], remarks: Sequence[str]) -> None:
        plain = [w.plain or "" for w in words if isinstance(w, Word)]
        options = "".join(text for text in plain if text.startswith("-"))
        if "A" in options:
            names = [w.name for w in words if isinstance(w, Array)]
            for name in [*names, *(text for text in plain if _NAME.fullmatch(text))]:
                if not isinstance(self._variables.values.get(name), dict):
                    self._variables.values[name] = {}
        self._assign_all(words, remarks)
        for word in words if "i" in options else ():
            if assignment := _assignment(word):
                self._make_number(assignment.name, assignment.value.line)

    def _make_number(self, name: str, line: int) -> None:
        held = self._variables.values.get(name)
        if not isinstance(held, Value):
            return
        number = None if held.unknown else self._variables.calculate(held.text, line)
        if number is None:
            self._variables.forget(name, line)
        else:
            self._variables.values[name] = replace(held, pieces=(Piece(str(number)),))

    def forget(self, word: Word | Array) -> None:
        """Notes that a loop gives a variable its values."""
        if isinstance(word, Word) and word.plain and _NAME.fullmatch(word.plain):
            self._variables.forget(word.plain, word.line)

    def cut_off(self, line: int) -> None:
        """Notes flags that follow a comment in the middle of a command."""
        self._notices.append(
            f"{self._variables.name}:{line}: these flags come after a comment line that ends the "
            "command, so the command is not given them"
        )

    def _note(self, words: Sequence[Word | Array], line: int) -> None:
        # Every command is expanded, also one without flags: `: ${A:=b}` sets A.
        values = [v for w in words if isinstance(w, Word) for v in self._variables.expand(w)]
        if values and values[0].text in self.function_folders:
            self.folder = self.function_folders[values[0].text]
        if any(value.text.startswith("--") for value in values):
            place = f"{self._variables.name}:{line}"
            self._commands.append(Command(tuple(values), place, self._variables.folder))
        text = _given_text([value.text for value in values])
        if text is not None:
            self._read_given(text, line, is_child=values[0].text != "eval")

    def _read_given(self, text: str, line: int, *, is_child: bool) -> None:
        """Reads the text that ``eval`` or ``bash -c`` is given."""
        if self._text_depth == _DEEPEST_TEXT or self._num_texts == _MOST_TEXTS:
            return
        folder = self.folder
        self._num_texts += 1
        self._text_depth += 1
        try:
            scanner = Scanner(text, self._variables.name, line)
            _Walk(self, scanner.cut_off_lines).over(scanner.tokens())
        except ConfigError as error:
            self._notices.append(f"{error.headline}, in the text of a command")
        finally:
            self._text_depth -= 1
        if is_child:
            self.folder = folder

    def _assign_all(self, words: Sequence[Word | Array], remarks: Sequence[str]) -> None:
        for word in words:
            if isinstance(word, Array):
                self._assign_array(word, remarks)
            elif assignment := _assignment(word):
                self._assign_element(assignment, remarks)

    def _assign_element(self, assignment: _Assignment, remarks: Sequence[str]) -> None:
        name, subscript, word, is_appended = assignment
        held = self._variables.values.get(name)
        if subscript is None and isinstance(held, Value | None):
            self._assign(name, word, remarks, is_appended=is_appended)
            return
        # NAME=x and NAME+=x of an array are about its first element.
        subscript = subscript or "0"
        place = f"{self._variables.name}:{word.line}"
        value = self._variables.join(word).with_remarks(_remarks(name, place, remarks))
        if is_appended:
            part = Variable(name, subscript, "", None, f"${{{name}[{subscript}]}}", is_quoted=True)
            before = [] if held is None else self._variables.look_up(part, word.line) or []
            pieces = [piece for v in (*before, value) for piece in v.pieces]
            value = Value.joined(pieces, place, value.remarks)
        self._variables.set_element(name, subscript, value, word.line)

    def _assign(self, name: str, word: Word, remarks: Sequence[str], *, is_appended: bool) -> None:
        place = f"{self._variables.name}:{word.line}"
        value = self._variables.join(word).with_remarks(_remarks(name, place, remarks))
        before = self._variables.values.get(name)
        if remarks and value.unknown and self._variables.is_known(name):
            # `--data) DATA=$2 ;;` where a script reads its own arguments: what it had still holds.
            unless = f"{place}: what the script does to {name} {remarks[0]}"
            self._variables.remark(name, unless)
            return
        if is_appended and isinstance(before, Value):
            pieces = [*before.pieces, *value.pieces]
            value = Value.joined(pieces, value.place, value.remarks).with_remarks(before.remarks)
        self._variables.values[name] = value

    def _assign_array(self, array: Array, remarks: Sequence[str]) -> None:
        place = f"{self._variables.name}:{array.line}"
        said = _remarks(array.name, place, remarks)
        values = [v.with_remarks(said) for w in array.words for v in self._variables.expand(w)]
        before = self._variables.values.get(array.name, [])
        keyed = [_KEYED.match(v.pieces[0].text) for v in values if v.pieces]
        if isinstance(before, dict) or (keyed and all(keyed)):
            self._assign_keyed(array, values, is_text=isinstance(before, dict))
            return
        if array.is_appended:
            values = [*(before if isinstance(before, list) else [before]), *values]
        self._variables.values[array.name] = values

    def _assign_keyed(self, array: Array, values: Sequence[Value], *, is_text: bool) -> None:
        """``NAME=([key]=value …)``."""
        name = array.name
        if not array.is_appended:
            self._variables.values[name] = {} if is_text else []
        for value in values:
            found = _KEYED.match(value.pieces[0].text) if value.pieces else None
            if found is None:
                self._variables.forget(name, array.line)
                return
            rest = Value.joined([Piece(found[2]), *value.pieces[1:]], value.place, value.remarks)
            self._variables.set_element(name, found[1], rest, array.line)

    def _go(self, words: Sequence[Word | Array]) -> None:
        to = [self._variables.join(word) for word in words if isinstance(word, Word)]
        to = [value for value in to if value.text not in ("--", "-P", "-L")]
        folder = self.folder
        if len(to) != 1 or to[0].unknown or to[0].text == "-" or folder is None:
            self.folder = None
        else:
            self.folder = os.path.normpath(Path(folder) / self._path_map.apply(to[0].text))

    @property
    def name(self) -> str:
        """How messages call the file being read."""
        return self._variables.name

    @property
    def folder(self) -> str | None:
        """The folder the script is in."""
        return self._variables.folder

    @folder.setter
    def folder(self, folder: str | None) -> None:
        self._variables.folder = folder

    def _change_folder(self, name: str, words: Sequence[Word | Array]) -> None:
        if name == "popd":
            self.folder = self._left_folders.pop() if self._left_folders else None
            return
        if name == "pushd":
            self._left_folders.append(self.folder)
        self._go(words)

    def _unset(self, words: Sequence[Word | Array]) -> None:
        for word in words:
            if isinstance(word, Word) and word.plain:
                name, bracket, _ = word.plain.partition("[")
                if bracket and name in self._variables.values:
                    self._variables.forget(name, word.line)
                elif name:
                    self._variables.values.pop(name, None)

    def _forget_all(self, command: str, words: Sequence[Word | Array]) -> None:
        """Forgets the variables to which a command gives values."""
        texts = [self._variables.join(word).text for word in words if isinstance(word, Word)]
        if command == "let":
            names = [name for text in texts for name in assigned_names(text)]
        elif command == "getopts":
            names = texts[1:2]
        elif command == "printf":
            names = texts[1:2] if texts[:1] == ["-v"] else []
        else:
            names = texts
        for name in names:
            if _NAME.fullmatch(name):
                self._variables.forget(name, words[0].line)

    def _source(self, words: Sequence[Word | Array], line: int) -> None:
        word = words[0] if words else None
        if not isinstance(word, Word):
            return
        place, value = f"{self._variables.name}:{line}", self._variables.join(word)
        if value.unknown:
            piece = value.unknown
            self._notices.append(
                f"{place}: {value.text} is not read, because {piece.text} {piece.unknown}; "
                "what it sets is not known"
            )
            return
        path = self._find(value.text)
        if path is None:
            self._notices.append(
                f"{place}: {value.text} is not here, so what it sets is not known; "
                "--path-map /old=/new rewrites paths of another machine"
            )
        elif path.resolve() not in self._reading and self._num_files < _MOST_FILES:
            self._read_sourced(path, place)

    def _read_sourced(self, path: Path, place: str) -> None:
        try:
            self.read_file(path)
        except ConfigError as error:
            self._notices.append(f"{place}: {path} is not read to its end: {error.headline}")

    def _find(self, text: str) -> Path | None:
        named = Path(self._path_map.apply(text))
        beside = Path(self._variables.file).parent
        for folder in (beside, self._folder, Path()):
            if (folder / named).is_file():
                return folder / named
        return None


class _Walk:
    """Goes through the commands of one file, and knows which of them depend on a condition."""

    def __init__(self, reader: _Reader, cut_off_lines: Sequence[int]) -> None:
        self._reader = reader
        self._cut_off_lines = cut_off_lines
        self._blocks: list[str] = []
        self._outer_folders: list[str | None] = []
        self._last_line = 0
        self._follows_condition = False
        self._function: str | None = None
        self._functions: list[tuple[str, str | None]] = []

    def over(self, tokens: Sequence[Token]) -> None:
        words: list[Word | Array] = []
        for token in tokens:
            if not isinstance(token, Operator):
                words.append(token)
            elif token.text == "(" and len(words) == 1 and _is_name(words[0]):
                self._function, words = _text_of(words[0]), []  # name ( ) { … }
                self._outer_folders.append(self._reader.folder)
            elif token.text == ")" and self._is_in("case"):
                words = []  # a pattern
            else:
                self._command(words)
                self._enter_or_leave_subshell(token.text)
                self._look_ahead(words, token.text)
                words = []
        self._command(words)

    def _enter_or_leave_subshell(self, operator: str) -> None:
        if operator == "(":
            self._outer_folders.append(self._reader.folder)
        elif operator == ")" and self._outer_folders:
            self._reader.folder = self._outer_folders.pop()

    def _is_in(self, kind: str) -> bool:
        return bool(self._blocks) and self._blocks[-1] == kind

    def _look_ahead(self, words: Sequence[Word | Array], operator: str) -> None:
        first = words[0] if words else None
        is_condition = isinstance(first, Word) and first.plain in _CONDITIONS
        if operator not in ("&&", "||"):
            self._follows_condition = False
        elif is_condition:
            self._follows_condition = True

    def _command(self, words: Sequence[Word | Array]) -> None:
        rest = list(words)
        while rest and isinstance(rest[0], Word) and rest[0].plain is not None:
            name = rest[0].plain
            if name == "function" and len(rest) > 1:
                self._function = _text_of(rest[1])
                del rest[:2]
                continue
            self._enter_or_leave(name)
            if name in ("for", "select") and len(rest) > 1:
                if _text_of(rest[1]) == "let":  # for (( … ))
                    self._run(rest[1:], rest[1].line)
                else:
                    self._reader.forget(rest[1])
                return
            if name == "case":
                return
            if name not in _BEFORE_COMMANDS and name not in _CLOSES and name != "}":
                break
            rest.pop(0)
        if rest:
            self._run(rest, rest[0].line)

    def _enter_or_leave(self, name: str) -> None:
        if len(self._blocks) > _DEEPEST_BLOCK:
            raise ConfigError("nested too deeply", where=f"{self._reader.name}:{self._last_line}")
        if name in _OPENS:
            self._blocks.append("case" if name == "case" else "condition")
        elif name == "{":
            self._blocks.append("group" if self._function is None else "function")
            if self._function is not None:
                self._functions.append((self._function, self._reader.folder))
            self._function = None
        elif (name in _CLOSES or name == "}") and self._blocks and self._blocks.pop() == "function":
            self._leave_function()

    def _leave_function(self) -> None:
        """A function goes somewhere when it is called, not where it is written."""
        name, folder = self._functions.pop()
        if self._reader.folder != folder:
            self._reader.function_folders[name] = self._reader.folder
            self._reader.folder = folder

    def _run(self, words: Sequence[Word | Array], line: int) -> None:
        first = words[0]
        if isinstance(first, Word) and (first.plain or "").startswith("--"):
            if any(self._last_line <= cut <= line for cut in self._cut_off_lines):
                self._reader.cut_off(line)
            return
        self._last_line = line
        self._reader.run(words, line, self._remarks())

    def _remarks(self) -> list[str]:
        if self._follows_condition or {"condition", "case"} & set(self._blocks):
            return ["depends on a condition, which is not evaluated"]
        return ["is inside a function"] if "function" in self._blocks else []


def _unquoted(name: str) -> Word:
    return Word((Variable(name, None, "", None, f"${name}", is_quoted=False),), 0)


def _is_name(word: Word | Array) -> bool:
    return isinstance(word, Word) and bool(re.fullmatch(r"[\w.:-]+", word.plain or ""))


def _remarks(name: str, place: str, why: Sequence[str]) -> list[str]:
    return [f"{place}: the assignment of {name} {reason}" for reason in why]


class _Assignment(NamedTuple):
    """``name=value``, ``name[subscript]+=value``."""

    name: str
    subscript: str | None
    value: Word
    is_appended: bool


def _assignment(word: Word | Array) -> _Assignment | None:
    """What a word like ``A=b`` assigns; None of other words."""
    first = word.parts[0] if isinstance(word, Word) and word.parts else None
    if not isinstance(word, Word) or not isinstance(first, Text) or first.is_quoted:
        return None
    found = _ASSIGNMENT.fullmatch(first.text)
    if found is not None:
        value = _with_start(found["rest"], word.parts[1:], word.line)
        return _Assignment(found["name"], None, value, bool(found["plus"]))
    found = _ELEMENT.fullmatch(first.text)
    if found is None:
        return None
    return _to_element(found["name"], _with_start(found["rest"], word.parts[1:], word.line))


def _to_element(name: str, word: Word) -> _Assignment | None:
    """The assignment of which a word is what follows ``NAME[``."""
    subscript = ""
    for position, part in enumerate(word.parts):
        if isinstance(part, Text) and not part.is_quoted and "]" in part.text:
            found = _END_OF_SUBSCRIPT.fullmatch(part.text)
            if found is None:
                return None
            value = _with_start(found["rest"], word.parts[position + 1 :], word.line)
            return _Assignment(name, subscript + found["key"], value, bool(found["plus"]))
        subscript += part.text if isinstance(part, Text) else part.source
    return None


def _with_start(text: str, parts: Sequence[Part], line: int) -> Word:
    start = [Text(text, is_quoted=False)] if text else []
    return Word((*start, *parts), line)


def _text_of(word: Word | Array) -> str:
    return (word.plain or "") if isinstance(word, Word) else ""


def _given_text(words: Sequence[str]) -> str | None:
    """The commands that ``eval …`` or ``… bash -c text`` is given as text."""
    if words[:1] == ["eval"]:
        return " ".join(words[1:])
    for position, word in enumerate(words[:-2]):
        is_shell = word.rpartition("/")[2] in _SHELLS
        if is_shell and re.fullmatch(r"-[a-z]*c", words[position + 1]):
            return words[position + 2]
    return None


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError("too big for a script", where=str(path), expected="at most 1 MiB")
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=str(path), expected="a launch script"
        ) from error
    return text.replace("\r\n", "\n")
