"""Every error raised on purpose.

::

    RolloutDSError                 anything this package refuses, with a next step
    ├── ConfigError                a setting or its value is wrong           (also a ValueError)
    ├── MissingExtraError          an optional package is not installed      (also an ImportError)
    ├── DataError                  prompt data that cannot be used           (also a ValueError)
    │   ├── DataNotFoundError      no such file, glob or folder              (also a FileNotFoundError)
    │   ├── SliceError             `path@[start:end]` is malformed or selects nothing
    │   ├── BadRowsError           rows that stop the load: first places and the count
    │   ├── PromptError            one row whose prompt, tools, metadata or media are wrong
    │   └── EmptyDatasetError      no rows, or none left after the length filter
    ├── TokenizerError             a tokenizer or chat template cannot be loaded or used
    ├── TorchFileError             a `.pt` file that is damaged, foreign or unsafe
    ├── CheckpointError            a saved state that cannot be written or used
    │   ├── MissingStateError      no state file for that rollout id         (also a FileNotFoundError)
    │   ├── StateMismatchError     the state belongs to other data or settings
    │   └── UnsavableValueError    a value that is not plain data, with its key
    ├── GroupError                 groups of the wrong type or size          (also a ValueError)
    ├── FilterError                a buffer filter broke its contract
    ├── EngineError                a task that failed for good: its process died again and again
    └── ReadOnlyError              groups given to a source without a buffer (also a RuntimeError)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RolloutDSError(Exception):
    """Base of every error of this package.

    The text is one line ``where: what, expected …`` and, when there is something to do, a
    second line that says it.

    Args:
        what: what was found.
        where: file, line, key or object it was found in.
        expected: what would have been right.
        hint: what to do next.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.hint = hint
        super().__init__(what)

    @property
    def headline(self) -> str:
        """The first line: where, what, expected."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}, expected {self.expected}" if self.expected else text

    def __str__(self) -> str:
        return f"{self.headline}\n{self.hint}" if self.hint else self.headline

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle through their positional arguments only; ours are named.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[RolloutDSError], attributes: dict[str, Any]) -> RolloutDSError:
    # By the base that lays the object out, which need not be the first of two.
    make = OSError.__new__ if issubclass(cls, OSError) else Exception.__new__
    error: RolloutDSError = make(cls)
    Exception.__init__(error, attributes["what"])
    error.__dict__.update(attributes)
    return error


class ConfigError(RolloutDSError, ValueError):
    """A setting is unknown, has the wrong type, or contradicts another."""


class MissingExtraError(RolloutDSError, ImportError):
    """An optional package is needed and not installed; the hint is the pip command."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed",
            hint=f"pip install 'rolloutds[{extra}]'",
        )
        self.package = package
        self.extra = extra


class DataError(RolloutDSError, ValueError):
    """Prompt data that cannot be used as it is."""


class DataNotFoundError(DataError, FileNotFoundError):
    """No file, glob match or folder of that name."""

    def __str__(self) -> str:
        return DataError.__str__(self)


class SliceError(DataError):
    """``path@[start:end]`` is malformed, or selects no row."""


class BadRowsError(DataError):
    """Rows that stop the load.

    Attributes:
        problems: one line a bad row, ``file:line: what``, the first few in file order.
        num_bad: how many there are in all.
    """

    def __init__(self, problems: Sequence[str], num_bad: int, *, hint: str | None = None) -> None:
        noun = "row" if num_bad == 1 else "rows"
        shown = [f"  {problem}" for problem in problems]
        if num_bad > len(problems):
            shown.append(f"  … and {num_bad - len(problems)} more")
        super().__init__("\n".join([f"{num_bad} bad {noun}", *shown]), hint=hint)
        self.problems = list(problems)
        self.num_bad = num_bad


class PromptError(DataError):
    """One row whose prompt, tools, metadata or media cannot be used."""


class EmptyDatasetError(DataError):
    """There is no row to serve."""


class TokenizerError(RolloutDSError):
    """A tokenizer or chat template cannot be loaded, or failed on a row."""


class TorchFileError(RolloutDSError):
    """A ``.pt`` file is damaged, truncated, of a refused form, or beyond a budget."""


class CheckpointError(RolloutDSError):
    """A saved state cannot be written, or cannot be used."""


class MissingStateError(CheckpointError, FileNotFoundError):
    """There is no state file for the rollout id asked for."""

    def __str__(self) -> str:
        return CheckpointError.__str__(self)


class StateMismatchError(CheckpointError):
    """A saved state was made with other data or settings.

    Attributes:
        differences: one line for each field: name, saved value, current value.
    """

    def __init__(self, differences: Sequence[str], *, where: str, hint: str | None = None) -> None:
        lines = "\n".join(f"  {difference}" for difference in differences)
        super().__init__(f"the saved state does not fit this run:\n{lines}", where=where, hint=hint)
        self.differences = list(differences)


class UnsavableValueError(CheckpointError):
    """A value in the state is not plain data; the message names its key."""


class GroupError(RolloutDSError, ValueError):
    """Groups are not lists of samples, or have the wrong size."""


class FilterError(RolloutDSError):
    """A buffer filter could not be loaded, raised, or returned what it must not."""


class EngineError(RolloutDSError):
    """The processes that worked on one item died, each time it was tried; it is named."""


class ReadOnlyError(RolloutDSError, RuntimeError):
    """Groups were given to a data source that has no buffer."""
