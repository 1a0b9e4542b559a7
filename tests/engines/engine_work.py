"""What tasks do in these tests: in a module of its own, which other processes import by its name."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from rolloutds.errors import DataError


def double(common, item):
    return (common or 0) + 2 * item


def slow_first(common, item):
    time.sleep(0.2 if item == 0 else 0)
    return item


def note_process(common, item):
    return os.getpid()


def folder(common, item):
    return os.getcwd()


def identity_of_common(common, item):
    return os.getpid(), id(common)


def refuse(common, item):
    if item == common:
        raise DataError("a bad row", where=f"shard-{item}", hint="look at it")
    return item


class OddError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def raise_odd(common, item):
    raise OddError("does not", "travel")


def return_odd(common, item):
    return lambda: item


def die_once(folder, item):
    mark = Path(folder, f"died-{item}")
    if item == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die_always(folder, item):
    if item == 1:
        with Path(folder, "tries").open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def leave(common, item):
    os._exit(5)


def say(common, item):
    sys.stdout.write("a task's own words\n")
    return item


def split(common, item):
    buckets = [bytearray(), bytearray(), bytearray()]
    for number in item:
        buckets[number % 3].append(number)
    return len(item), buckets


def split_or_refuse(common, item):
    if item == common:
        raise DataError("a bad row", where=f"shard-{item}")
    return item, [bytes(1)] * 3


def split_and_die_once(folder, item):
    return die_once(folder, item), [bytes([item])] * 3


def gather(common, pieces):
    return common, [list(bytes(piece)) for piece in pieces]


def gather_and_die(common, pieces):
    os.kill(os.getpid(), signal.SIGKILL)
