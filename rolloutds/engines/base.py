"""What an engine is: a function on each of many items, results in the order of the items."""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

TRIES_AGAIN: Final = 3
"""How often a task is tried again whose process died."""

_HELD: Final = 4  # results a lane may be ahead of one that is waited for

Function = Callable[[Any, Any], Any]
"""``function(common, item)``, at the top level of a module, so that other processes find it."""

Done = Callable[[str], None]
"""Is told the name of each item that is done, in the order of the items."""


class Outcome(NamedTuple):
    """What a task gave, or the error that ended it."""

    value: Any
    error: BaseException | None = None

    def unwrap(self) -> Any:
        """The value; raises the error in its place."""
        if self.error is not None:
            raise self.error
        return self.value


def attempt(function: Function, common: Any, item: Any) -> Outcome:
    """Calls a function in a task; its error becomes one that travels, with its traceback noted."""
    try:
        return Outcome(function(common, item))
    except Exception as error:
        error.add_note(f"in a task:\n{traceback.format_exc().rstrip()}")
        return Outcome(None, _portable(error))


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its constructor does
        return RuntimeError(f"{type(error).__name__}: {error}\n{error.__notes__[-1]}")
    return error


class Engine(ABC):
    """Runs tasks.

    Attributes:
        num_tasks: tasks at a time.
        is_in_process: whether they run in the caller's own process, one by one.
        is_local: whether they run on the caller's own machine, with its files.
    """

    num_tasks: int = 1
    is_in_process: bool = False
    is_local: bool = False

    @abstractmethod
    def map(
        self,
        function: Function,
        items: Iterable[Any],
        *,
        common: Any = None,
        names: Iterable[str] | None = None,
        on_done: Done | None = None,
    ) -> Iterator[Any]:
        """Calls a function with each item.

        A bounded number of results is held for those that are not done yet.

        Args:
            function: what to do; at the top level of a module.
            items: what to do it with, each small: it travels.
            common: the first argument of every call; it travels once a process.
            names: what to call each item in messages, one an item; None: its text.
            on_done: is told the names.

        Raises:
            EngineError: the processes that worked on one item died each time.
            Exception: what the function raised for the first item (in order) it failed on.
        """

    @abstractmethod
    def partitions(self, num_buckets: int) -> Partitions:
        """A place for what tasks split into buckets; closed as a context manager is."""

    @abstractmethod
    def close(self) -> None:
        """Ends every process it started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Partitions(ABC):
    """Buckets of what tasks made, kept where they made it: this process never holds them.

    Args:
        num_buckets: buckets every task splits what it made into.
    """

    def __init__(self, num_buckets: int) -> None:
        self.num_buckets = num_buckets

    @abstractmethod
    def map(
        self,
        function: Function,
        items: Iterable[Any],
        *,
        common: Any = None,
        names: Iterable[str] | None = None,
        on_done: Done | None = None,
    ) -> Iterator[Any]:
        """As `Engine.map`; the function returns a result and a sequence of buckets.

        A bucket is an object with the buffer interface; the results alone come here.
        """

    @abstractmethod
    def reduce(self, function: Function, *, common: Any = None, name: str) -> Iterator[Any]:
        """Calls a function with each bucket: the list of its pieces, in the order of the items.

        Args:
            function: what to do; at the top level of a module.
            common: the first argument of every call.
            name: what is done, for messages.
        """

    def bucket_names(self, name: str) -> Iterator[str]:
        """What to call each bucket in messages."""
        return (f"{name}, bucket {i + 1} of {self.num_buckets}" for i in range(self.num_buckets))

    @abstractmethod
    def close(self) -> None:
        """Lets go of the buckets."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Lanes(ABC):
    """Where tasks of one `map` run: some at a time, done in any order."""

    @abstractmethod
    def start(self, number: int, name: str, item: Any) -> None:
        """Begins a task."""

    @abstractmethod
    def wait(self) -> Sequence[tuple[int, Any]]:
        """Waits until a task is done; gives the number of each that is, and what `take` takes."""

    @abstractmethod
    def take(self, number: int, handle: Any) -> Outcome:
        """What a task gave."""

    @abstractmethod
    def close(self) -> None:
        """Ends what still runs."""


def in_order(
    lanes: Lanes,
    num_tasks: int,
    items: Iterable[Any],
    names: Iterable[str] | None,
    on_done: Done | None,
) -> Iterator[Any]:
    """The results of tasks in the order of their items, whatever is done first."""
    waiting = enumerate(named(items, names))
    running: dict[int, str] = {}
    done: dict[int, tuple[str, Any]] = {}
    following = 0
    try:
        while True:
            while len(running) < num_tasks and len(running) + len(done) < _HELD * num_tasks:
                number, (item, name) = next(waiting, (-1, (None, "")))
                if number < 0:
                    break
                lanes.start(number, name, item)
                running[number] = name
            if following in done:
                name, handle = done.pop(following)
                result = lanes.take(following, handle).unwrap()
                del handle
                following += 1
                if on_done is not None:
                    on_done(name)
                yield result
                del result  # or it would live on while the next one is waited for
            elif not running:
                return
            else:
                for number, handle in lanes.wait():
                    done[number] = running.pop(number), handle
    finally:
        lanes.close()


def named(items: Iterable[Any], names: Iterable[str] | None) -> Iterator[tuple[Any, str]]:
    """Each item with its name."""
    if names is None:
        return ((item, str(item)) for item in items)
    return zip(items, names, strict=True)
