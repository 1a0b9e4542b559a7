"""Shell text to words: quotes, comments, continuations, arrays and expansions, none of them run.

A word keeps its parts apart, because what a variable holds is known only when the script has been
read up to there.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rolloutds.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ARRAY_START: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_PARAMETER: Final = re.compile(
    r"(?P<name>[A-Za-z_]\w*|\d+|[@*])(?:\[(?P<subscript>[^\]]*)\])?"
    r"(?:(?P<operator>:?[-=+?]|%%?|\#\#?)(?P<operand>.*))?",
    re.ASCII | re.DOTALL,
)
_OPERATORS: Final = (
    *("<<<", "<<-", "&>>", ";;&"),
    *("<<", "&>", "&&", "||", "|&", ";;", ";&", ">>", ">&", "<&", ">|", "<>"),
    *("|", "&", ";", "<", ">", "(", ")"),
)
_HEREDOC_START: Final = re.compile(r"(?<!<)<<(-?)(?!<)[ \t]*(['\"\\]?)([\w.-]+)\2?")
_HEREDOCS: Final = ("<<", "<<-")
_REDIRECTIONS: Final = frozenset({*_HEREDOCS, "<<<", "&>>", "&>", ">>", ">&", "<&", ">|", "<>"})
_ENDS_WORD: Final = frozenset(" \t\n;&|<>()")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
    **{character: character for character in "\\'\"?"},
}


@dataclass(frozen=True)
class Text:
    """Text that stands for itself."""

    text: str
    is_quoted: bool


@dataclass(frozen=True)
class Variable:
    """A variable: ``$NAME``, ``${NAME[0]}``, ``${NAME:-default}``.

    Attributes:
        name: its name, a position (``1``), ``@`` or ``*``.
        subscript: what is in brackets after it; None without brackets.
        operator: ``:-``, ``-``, ``:=``, ``%``, ``##`` and so on; "" without one.
        operand: the word after the operator.
        source: the expansion as the script spells it.
        is_quoted: whether it stands in double quotes, and so is never split.
    """

    name: str
    subscript: str | None
    operator: str
    operand: Word | None
    source: str
    is_quoted: bool


@dataclass(frozen=True)
class Computed:
    """What only a shell can compute: ``$(…)``, backticks, arithmetic, rarer expansions.

    Attributes:
        source: as the script spells it.
        command: the command of ``$(…)`` and of backticks; None for the others.
        is_quoted: whether it stands in double quotes.
    """

    source: str
    command: str | None
    is_quoted: bool

    @property
    def arithmetic(self) -> str | None:
        """The expression of ``$(( … ))``; None for the others."""
        is_one = self.source.startswith("$((") and self.source.endswith("))")
        return self.source[3:-2] if is_one and self.command is None else None


Part = Text | Variable | Computed


@dataclass(frozen=True)
class Word:
    """One word, before its variables are looked up."""

    parts: tuple[Part, ...]
    line: int

    @property
    def plain(self) -> str | None:
        """The word, when it is nothing but unquoted text; None otherwise."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Text):
            return None if self.parts[0].is_quoted else self.parts[0].text
        return None


@dataclass(frozen=True)
class Array:
    """``NAME=( … )`` or ``NAME+=( … )``."""

    name: str
    is_appended: bool
    words: tuple[Word, ...]
    line: int


@dataclass(frozen=True)
class Operator:
    """What ends a command: ``;``, ``&&``, a line's end, a parenthesis."""

    text: str
    line: int


Token = Word | Array | Operator


class Scanner:
    """Cuts shell text into words and operators; redirections and here-documents are left out.

    Args:
        text: the script.
        where: its name, for messages.
        first_line: number of its first line.

    Attributes:
        cut_off_lines: lines of comments that follow a continued line: a shell ends the command
            there, whatever comes on the next line.
    """

    def __init__(self, text: str, where: str, first_line: int = 1) -> None:
        self._text = text
        self._where = where
        self._first_line = first_line
        self._at = 0
        self._line_starts = [m.end() for m in re.finditer("\n", text)]
        self._heredocs: list[tuple[str, bool]] = []
        self._inner_heredocs: list[tuple[str, bool]] = []
        self._is_continued = False
        self._escapable = '$`"\\\n'
        self.cut_off_lines: list[int] = []

    def tokens(self) -> list[Token]:
        """All of the text.

        Raises:
            ConfigError: a quote, a parenthesis or a brace is never closed.
        """
        found: list[Token] = []
        while self._skip_blanks():
            if self._skip_comment():
                continue
            if arithmetic := self._arithmetic():
                found += arithmetic
                continue
            operator = self._operator()
            if operator is None:
                found.append(self._word_or_array())
            elif operator in _REDIRECTIONS or operator in "<>":
                self._redirection(operator, found)
            else:
                found.append(Operator(operator, self._line_of(self._at - 1)))
        return found

    def operand(self, *, is_quoted: bool) -> Word:
        """All of the text as one word, as what follows ``:-`` is."""
        self._escapable += "}"
        parts: list[Part] = []
        while self._at < len(self._text):
            if is_quoted and self._text[self._at] == '"':
                self._at += 1  # in "${A:-"b"}" the inner quotes say nothing new
            elif is_quoted:
                self._quoted_step(parts)
            elif not self._word_step(parts):
                parts.append(Text(self._text[self._at], is_quoted=False))
                self._at += 1
        return Word(_joined(parts), self._first_line)

    # --- between words --------------------------------------------------------------------

    def _line_of(self, at: int) -> int:
        return self._first_line + bisect_right(self._line_starts, at)

    def _skip_blanks(self) -> bool:
        """Goes to the next thing that counts; whether there is one."""
        while self._at < len(self._text):
            if self._text[self._at] in " \t":
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
                self._is_continued = True
            elif self._text.endswith("\\") and self._at + 1 == len(self._text):
                self._at += 1  # continued into the end of the file
            else:
                return True
        return False

    def _skip_comment(self) -> bool:
        if self._text[self._at] != "#":
            self._is_continued = False
            return False
        if self._is_continued:
            self.cut_off_lines.append(self._line_of(self._at))
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end
        return True

    def _arithmetic(self) -> list[Token]:
        """``(( … ))`` as the command ``let`` that it is."""
        if not self._text.startswith("((", self._at):
            return []
        start, line = self._at, self._line_of(self._at)
        self._at = self._end(start, "(", ")")
        body = Text(self._text[start + 2 : self._at - 2], is_quoted=True)
        return [Word((Text("let", is_quoted=False),), line), Word((body,), line)]

    def _operator(self) -> str | None:
        if self._text[self._at] == "\n":
            self._at += 1
            self._skip_heredocs()
            return "\n"
        if self._text.startswith(("<(", ">("), self._at):
            return None
        found = next((o for o in _OPERATORS if self._text.startswith(o, self._at)), None)
        self._at += len(found or "")
        return found

    def _redirection(self, operator: str, found: list[Token]) -> None:
        last = found[-1] if found else None
        before = self._at - len(operator) - 1
        if isinstance(last, Word) and (last.plain or "").isdigit() and self._text[before].isdigit():
            found.pop()  # the number of a stream, as in 2>&1
        if not self._skip_blanks() or self._text[self._at] == "\n":
            return
        target = self._word_or_array()
        if operator in _HEREDOCS and isinstance(target, Word):
            end = "".join(part.text for part in target.parts if isinstance(part, Text))
            self._heredocs.append((end, operator == "<<-"))

    def _skip_heredocs(self) -> None:
        for end, strips_tabs in self._heredocs:
            while self._at < len(self._text):
                start, newline = self._at, self._text.find("\n", self._at)
                stop = len(self._text) if newline < 0 else newline
                line, self._at = self._text[start:stop], min(stop + 1, len(self._text))
                if (line.lstrip("\t") if strips_tabs else line) == end:
                    break
        self._heredocs = []

    # --- words ----------------------------------------------------------------------------

    def _word_or_array(self) -> Word | Array:
        line, parts = self._line_of(self._at), list[Part]()
        if self._text.startswith(("<(", ">("), self._at):
            start = self._at
            self._at = self._end_of_parentheses(start + 1)
            parts.append(Computed(self._text[start : self._at], None, is_quoted=False))
        while self._at < len(self._text):
            if self._text[self._at] == "(":
                array = _ARRAY_START.fullmatch(Word(_joined(parts), line).plain or "")
                if array:
                    return self._array(array[1], line, is_appended=bool(array[2]))
            if not self._word_step(parts):
                break
        if not parts:  # a stray character that starts no word
            parts.append(Text(self._text[self._at : self._at + 1], is_quoted=True))
            self._at += 1
        return Word(_joined(parts), line)

    def _array(self, name: str, line: int, *, is_appended: bool) -> Array:
        self._at += 1
        words: list[Word] = []
        while self._skip_blanks() or self._never_closed("(", line):
            if self._text[self._at] == ")":
                self._at += 1
                break
            if self._text[self._at] == "\n":
                self._at += 1
            elif not self._skip_comment():
                word = self._word_or_array()
                words += [word] if isinstance(word, Word) else word.words
        self._is_continued = False
        return Array(name, is_appended, tuple(words), line)

    def _word_step(self, parts: list[Part]) -> bool:
        """Reads one piece of an unquoted word; False where the word ends."""
        character = self._text[self._at]
        if character in _ENDS_WORD:
            return False
        if character == "\\":
            self._escape(parts)
        elif character == "'":
            parts.append(Text(self._single_quoted(), is_quoted=True))
        elif character == '"':
            self._double_quoted(parts)
        elif character == "$":
            self._dollar(parts, is_quoted=False)
        elif character == "`":
            self._backticks(parts, is_quoted=False)
        else:
            parts.append(Text(character, is_quoted=False))
            self._at += 1
        return True

    def _escape(self, parts: list[Part]) -> None:
        is_last = self._at + 1 == len(self._text)
        if not is_last and not self._text.startswith("\\\n", self._at):
            parts.append(Text(self._text[self._at + 1 : self._at + 2], is_quoted=True))
        self._at += 2

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            self._never_closed("'", self._line_of(self._at))
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self, parts: list[Part]) -> None:
        line = self._line_of(self._at)
        self._at += 1
        if self._text.startswith('"', self._at):
            parts.append(Text("", is_quoted=True))  # "" is a word of its own
        while self._at < len(self._text) or self._never_closed('"', line):
            if self._text[self._at] == '"':
                self._at += 1
                return
            self._quoted_step(parts)

    def _quoted_step(self, parts: list[Part]) -> None:
        character = self._text[self._at]
        if character == "$":
            self._dollar(parts, is_quoted=True)
        elif character == "`":
            self._backticks(parts, is_quoted=True)
        elif character == "\\" and self._text[self._at + 1 : self._at + 2] in self._escapable:
            self._escape(parts)
        else:
            parts.append(Text(character, is_quoted=True))
            self._at += 1

    def _backticks(self, parts: list[Part], *, is_quoted: bool) -> None:
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self._text, self._at)
        if found is None:
            self._never_closed("`", self._line_of(self._at))
            return
        self._at = found.end()
        command = re.sub(r"\\([`$\\])", r"\1", found[1])
        parts.append(Computed(found[0], command, is_quoted))

    # --- expansions -----------------------------------------------------------------------

    def _dollar(self, parts: list[Part], *, is_quoted: bool) -> None:
        start = self._at
        after = self._text[start + 1 : start + 2]
        name = _NAME.match(self._text, start + 1)
        if after == "(":
            self._at = self._end_of_parentheses(start + 1)
            source = self._text[start : self._at]
            command = None if source.startswith("$((") else source[2:-1]
            parts.append(Computed(source, command, is_quoted))
        elif after == "{":
            parts.append(self._braces(is_quoted=is_quoted))
        elif name:
            self._at = name.end()
            parts.append(Variable(name[0], None, "", None, "$" + name[0], is_quoted))
        elif after and after in "0123456789@*#?$!-":
            self._at += 2
            parts.append(Variable(after, None, "", None, "$" + after, is_quoted))
        elif after == "'" and not is_quoted:
            parts.append(Text(self._ansi_quoted(), is_quoted=True))
        else:
            self._at += 1
            if after != '"' or is_quoted:
                parts.append(Text("$", is_quoted=True))

    def _ansi_quoted(self) -> str:
        found = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self._text, self._at + 1)
        if found is None:
            self._never_closed("$'", self._line_of(self._at))
            return ""
        self._at = found.end()
        return _ESCAPE.sub(_unescaped, found[1])

    def _braces(self, *, is_quoted: bool) -> Part:
        start = self._at
        self._at = self._end_of_braces(start + 1, is_quoted=is_quoted)
        source = self._text[start : self._at]
        found = _PARAMETER.fullmatch(source[2:-1])
        if found is None:
            return Computed(source, None, is_quoted)
        operand = None
        if found["operator"]:
            scanner = Scanner(found["operand"], self._where, self._line_of(start))
            is_pattern = found["operator"][0] in "%#"  # one keeps its own quotes
            operand = scanner.operand(is_quoted=is_quoted and not is_pattern)
        return Variable(
            found["name"], found["subscript"], found["operator"] or "", operand, source, is_quoted
        )

    # --- closing marks --------------------------------------------------------------------

    def _end_of_parentheses(self, start: int) -> int:
        is_command = not self._text.startswith("((", start)
        return self._end(start, "(", ")", is_command=is_command)

    def _end_of_braces(self, start: int, *, is_quoted: bool) -> int:
        # A brace in braces says nothing to a shell: ${A:-{b}} ends at the first closing one.
        return self._end(start, "", "}", has_quotes=not is_quoted)

    def _end(
        self,
        start: int,
        opening: str,
        closing: str,
        *,
        has_quotes: bool = True,
        is_command: bool = False,
    ) -> int:
        """The place after the mark that closes the one at `start`.

        Args:
            start: place of the opening mark.
            opening: a mark that nests; "" when none does.
            closing: the mark.
            has_quotes: whether a single quote starts quoted text.
            is_command: whether there may be comments and here-documents.
        """
        depth, at, in_quotes = 1, start + 1, False
        while at < len(self._text):
            if is_command and not in_quotes:
                at = self._after_asides(at)
            character = self._text[at : at + 1]
            if character == "\\" or (character == "'" and has_quotes and not in_quotes):
                at = self._end_of_quoted(at)
            elif character == '"':
                in_quotes = not in_quotes
            elif character == "$" and self._text[at + 1 : at + 2] in ("(", "{"):
                at = self._nested(at + 1, is_quoted=in_quotes or not has_quotes) - 1
            elif character == opening and not in_quotes:
                depth += 1
            elif character == closing and not in_quotes:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        self._never_closed(self._text[start], self._line_of(start))
        return at

    def _end_of_quoted(self, at: int) -> int:
        """The place of the last character that a backslash or a single quote at `at` quotes."""
        if self._text[at] == "\\":
            return at + 1
        end = self._text.find("'", at + 1)
        return len(self._text) if end < 0 else end

    def _after_asides(self, at: int) -> int:
        """The place after comments and the texts of here-documents at `at`."""
        while at < len(self._text) and (after := self._after_aside(at)) != at:
            at = after
        return at

    def _after_aside(self, at: int) -> int:
        if self._text[at] == "#" and self._text[at - 1] in " \t\n(;":
            end = self._text.find("\n", at)
            return len(self._text) if end < 0 else end
        found = _HEREDOC_START.match(self._text, at)
        if found is not None:
            self._inner_heredocs.append((found[3], bool(found[1])))
            return found.end()
        if self._text[at] == "\n" and self._inner_heredocs:
            outer = self._at, self._heredocs
            self._at, self._heredocs, self._inner_heredocs = at + 1, self._inner_heredocs, []
            self._skip_heredocs()
            at = self._at
            self._at, self._heredocs = outer
        return at

    def _nested(self, start: int, *, is_quoted: bool) -> int:
        if self._text[start] == "(":
            return self._end_of_parentheses(start)
        return self._end_of_braces(start, is_quoted=is_quoted)

    def _never_closed(self, mark: str, line: int) -> bool:
        raise ConfigError(f"{mark} is never closed", where=f"{self._where}:{line}")


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """Neighbouring text of one kind as one part."""
    joined: list[Part] = []
    for is_quoted, some in groupby(parts, lambda p: p.is_quoted if isinstance(p, Text) else None):
        if is_quoted is None:
            joined += some
        else:
            joined.append(Text("".join(p.text for p in some if isinstance(p, Text)), is_quoted))
    return tuple(joined)


def _unescaped(found: re.Match[str]) -> str:
    byte, short, long, octal, character = found.groups()
    if character is not None:
        return _ESCAPES.get(character, found[0])
    code = int(octal, 8) & 0xFF if octal else int(byte or short or long, 16)
    return chr(code) if code <= sys.maxunicode else found[0]
