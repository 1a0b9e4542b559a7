"""Makes the sample data beside this script: prompts of our own, each with its right answer.

    python sample_data/make_sample_data.py [FOLDER]

The same files come out every time and on every Python: the only randomness is a seeded generator's
``random()``, whose sequence Python promises to keep. An answer is never typed in; it is computed
from the numbers that went into the question, or by running the program that the question shows.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

SEED = 20_260_101
ROUNDS = 4
"""How often each kind of task is asked, with other numbers, people and things."""

T = TypeVar("T")
Message = dict[str, str]
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One question and its right answer; difficulty from 1 (at sight) to 5 (takes a plan)."""

    question: str
    answer: str
    difficulty: int
    system: str | None = None
    earlier: tuple[str, str] | None = None

    @property
    def messages(self) -> list[Message]:
        """The conversation up to the turn that is to be generated."""
        turns: list[Message] = []
        if self.system:
            turns.append({"role": "system", "content": self.system})
        if self.earlier:
            asked, answered = self.earlier
            turns.append({"role": "user", "content": asked})
            turns.append({"role": "assistant", "content": answered})
        return [*turns, {"role": "user", "content": self.question}]


class Draw:
    """Draws built on ``random()`` alone, so that they are the same on every Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def one(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.integer(0, len(items) - 1)]

    def several(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different ones of `items`, in drawn order."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]


Maker = Callable[[Draw], Task]
KINDS: list[tuple[str, Maker]] = []
"""Every kind of task with its source, in the order they are written below."""


def kind(source: str) -> Callable[[Maker], Maker]:
    """Enters the function below it as a kind of task of that source."""

    def enter(maker: Maker) -> Maker:
        KINDS.append((source, maker))
        return maker

    return enter


NAMES = (
    "Amara", "Bruno", "Chen", "Dalia", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Kavya", "Lars", "Mei", "Noor", "Oskar", "Priya", "Quentin", "Rosa", "Samir", "Tove",
)  # fmt: skip
WORDS = (
    "amber", "basket", "candle", "desert", "engine", "feather", "garden", "harbour", "island",
    "jacket", "kettle", "lantern", "meadow", "needle", "orchard", "pepper", "quarry", "ribbon",
    "saddle", "thunder", "umbrella", "velvet", "window", "yellow", "zipper",
)  # fmt: skip
SENTENCES = (
    "The ferry leaves before the fog has lifted",
    "Every second bench in the park was freshly painted",
    "Our neighbour keeps three geese behind the bakery",
    "This letter came without any stamp and still found us",
    "The old clock strikes seven whenever it rains",
    "Nobody expected the lighthouse to be painted green",
    "Fresh bread and strong coffee were waiting downstairs",
    "The river bends twice between the mill and the bridge",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
INTERPRETER = "You are a Python 3 interpreter. Reply with what the program prints, nothing else."
ANSWER_ONLY = "Reply with the answer only, without an explanation."


def plain(value: int | Fraction) -> str:
    """A number as people write it: ``12``, ``3.25``; only finite decimals are ever asked for."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    places = next(n for n in range(1, 12) if (value * 10**n).denominator == 1)
    whole, part = divmod(abs(value.numerator) * 10**places // value.denominator, 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{part:0{places}d}"


def money(cents: int) -> str:
    """An amount with its two decimals, ``4.50``."""
    return f"{cents // 100}.{cents % 100:02d}"


def clock(minutes: int) -> str:
    """A time of day, ``07:05``, `minutes` after midnight."""
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th`` and so on."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else ending}"


def listed(items: Sequence[str]) -> str:
    """``a, b and c``."""
    return f"{', '.join(items[:-1])} and {items[-1]}"


# --- arithmetic: sums from daily life -------------------------------------------------------


@kind("arithmetic")
def change(draw: Draw) -> Task:
    thing, cents = draw.one(
        [("notebooks", 285), ("bus tickets", 340), ("bread rolls", 65), ("postcards", 120)]
    )
    count, note, name = draw.integer(3, 9), draw.one([40, 50, 100]), draw.one(NAMES)
    return Task(
        f"{name} buys {count} {thing} at ${money(cents)} each and pays with ${note}. How much "
        f"change does {name} get? Give the amount in dollars with two decimals.",
        money(note * 100 - count * cents),
        2,
    )


@kind("arithmetic")
def left_over(draw: Draw) -> Task:
    thing, box = draw.one(
        [("eggs", "cartons"), ("candles", "boxes"), ("tiles", "crates"), ("tulip bulbs", "bags")]
    )
    total, size = draw.integer(130, 900), draw.one([6, 8, 12, 14, 18])
    return Task(
        f"A shop packs {total} {thing} into {box} of {size}. Once as many {box} as possible are "
        f"full, how many {thing} are left over?",
        plain(total % size),
        2,
    )


@kind("arithmetic")
def steady_speed(draw: Draw) -> Task:
    vehicle, speed = draw.one([("cyclist", 24), ("coach", 88), ("barge", 12), ("night train", 116)])
    quarters = draw.one([5, 6, 7, 9, 10, 11, 13])
    hours, minutes = divmod(quarters * 15, 60)
    duration = f"{hours} hour{'s' if hours > 1 else ''} and {minutes} minutes"
    return Task(
        f"A {vehicle} moving at a steady speed covers {plain(Fraction(speed * quarters, 4))} km in "
        f"{duration}. What is its speed in km/h?",
        plain(speed),
        3,
    )


@kind("arithmetic")
def meeting_point(draw: Draw) -> Task:
    first, second = draw.one([(4, 6), (5, 7), (12, 18), (15, 21)])
    hours = draw.integer(2, 5)
    left, right = draw.several(NAMES, 2)
    return Task(
        f"{left} and {right} set out towards each other at the same moment from places "
        f"{(first + second) * hours} km apart. {left} moves at {first} km/h and {right} at "
        f"{second} km/h. How many kilometres has {left} covered when they meet?",
        plain(first * hours),
        3,
    )


@kind("arithmetic")
def price_after_changes(draw: Draw) -> Task:
    thing = draw.one(["raincoat", "desk lamp", "pair of boots", "suitcase", "garden table"])
    price, cut, rise = draw.one([60, 80, 120, 140]), draw.one([10, 20, 25]), draw.one([5, 10, 20])
    result = Fraction(price) * (100 - cut) / 100 * (100 + rise) / 100
    return Task(
        f"A {thing} costs {price} euros. Its price is first lowered by {cut}%, and the new price "
        f"is later raised by {rise}%. What does the {thing} cost in the end, in euros?",
        plain(result),
        3,
    )


@kind("arithmetic")
def working_together(draw: Draw) -> Task:
    one, two = draw.one([(2, 3), (3, 6), (4, 6), (2, 6), (4, 12), (3, 5), (6, 10)])
    job = draw.one(["paint the fence", "clear the attic", "fold the leaflets", "weed the field"])
    left, right = draw.several(NAMES, 2)
    return Task(
        f"Alone, {left} would need {one} hours to {job}, and {right} would need {two} hours. "
        f"Working together at those rates, how many minutes do they need?",
        plain(Fraction(60 * one * two, one + two)),
        4,
    )


@kind("arithmetic")
def ages(draw: Draw) -> Task:
    younger, times, years = draw.integer(4, 14), draw.integer(2, 4), draw.integer(3, 12)
    child, adult = draw.several(NAMES, 2)
    often = "twice" if times == 2 else f"{times} times"
    return Task(
        f"{adult} is {often} as old as {child}. In {years} years their ages will add up to "
        f"{younger * (times + 1) + 2 * years}. How old is {child} now?",
        plain(younger),
        4,
    )


@kind("arithmetic")
def mixture(draw: Draw) -> Task:
    drink = draw.one(["apple juice", "syrup", "vinegar", "lemon concentrate"])
    weak, strong = draw.one([(10, 40), (5, 30), (20, 60), (12, 48)])
    litres, more = draw.one([(4, 1), (3, 2), (2, 3), (6, 4)])
    percent = Fraction(litres * weak + more * strong, litres + more)
    return Task(
        f"{litres} litres of a drink with {weak}% {drink} are mixed with {more} "
        f"litre{'s' if more > 1 else ''} of one with {strong}% {drink}. What percentage of the "
        f"mixture is {drink}?",
        plain(percent),
        4,
    )


@kind("arithmetic")
def path_around(draw: Draw) -> Task:
    place = draw.one(["pond", "flower bed", "swimming pool", "chicken run"])
    long, wide, path = draw.integer(9, 20), draw.integer(4, 8), draw.integer(1, 3)
    area = (long + 2 * path) * (wide + 2 * path) - long * wide
    return Task(
        f"A rectangular {place} measures {long} m by {wide} m. A path {path} m wide runs all the "
        f"way around it, with square corners. What is the area of the path in square metres?",
        plain(area),
        4,
    )


@kind("arithmetic")
def growing_savings(draw: Draw) -> Task:
    start, step, weeks = draw.integer(3, 12), draw.integer(1, 5), draw.integer(6, 20)
    name, goal = draw.one(NAMES), draw.one(["a drum kit", "a telescope", "a tent", "a camera"])
    return Task(
        f"{name} saves for {goal}: ${start} in the first week, and every following week "
        f"${step} more than in the week before. How many dollars are saved after {weeks} weeks?",
        plain(sum(start + step * week for week in range(weeks))),
        3,
    )


@kind("arithmetic")
def larger_recipe(draw: Draw) -> Task:
    dish, thing, grams = draw.one(
        [("pancakes", "flour", 240), ("lentil soup", "lentils", 320), ("rice pudding", "rice", 180)]
    )
    people, guests = draw.one([(4, 10), (4, 14), (6, 9), (6, 15), (8, 18)])
    return Task(
        f"A recipe for {dish} for {people} people takes {grams} g of {thing}. How many grams of "
        f"{thing} are needed for {guests} people?",
        plain(Fraction(grams * guests, people)),
        2,
    )


@kind("arithmetic")
def expression(draw: Draw) -> Task:
    a, b, c = draw.integer(12, 48), draw.integer(11, 29), draw.integer(3, 9)
    d, e = c * draw.integer(12, 60), draw.integer(2, 99)
    return Task(f"Compute {a} × {b} - {d} ÷ {c} + {e}.", plain(a * b - d // c + e), 2)


@kind("arithmetic")
def two_prices(draw: Draw) -> Task:
    event, full, half = draw.one(
        [("concert", 18, 7), ("puppet show", 9, 4), ("boat trip", 15, 8), ("museum tour", 12, 5)]
    )
    adults, children = draw.integer(14, 60), draw.integer(9, 50)
    return Task(
        f"Tickets for a {event} cost ${full} for adults and ${half} for children. "
        f"{adults + children} tickets were sold for ${adults * full + children * half} in all. "
        f"How many of them were for children?",
        plain(children),
        4,
    )


# --- units: from one measure into another ---------------------------------------------------


@kind("units")
def metric(draw: Draw) -> Task:
    big, small, factor = draw.one(
        [
            ("metres", "centimetres", 100),
            ("kilometres", "metres", 1000),
            ("kilograms", "grams", 1000),
            ("litres", "millilitres", 1000),
            ("hectares", "square metres", 10_000),
        ]
    )
    whole, amount = draw.integer(2, 9), Fraction(draw.integer(11, 97), 10)
    return Task(
        f"And {plain(amount)} {big}?",
        plain(amount * factor),
        1,
        earlier=(
            f"How many {small} are {whole} {big}?",
            f"{whole} {big} are {whole * factor} {small}.",
        ),
    )


@kind("units")
def imperial(draw: Draw) -> Task:
    big, small, factor = draw.one(
        [("feet", "inches", 12), ("yards", "feet", 3), ("pounds", "ounces", 16)]
    )
    whole, rest = draw.integer(4, 30), draw.integer(1, factor - 1)
    return Task(
        f"Express {whole} {big} and {rest} {small if rest > 1 else _singular(small)} in {small}. "
        f"(1 {_singular(big)} = {factor} {small})",
        plain(whole * factor + rest),
        1,
    )


def _singular(unit: str) -> str:
    return {"feet": "foot", "inches": "inch"}.get(unit, unit.removesuffix("s"))


@kind("units")
def seconds(draw: Draw) -> Task:
    hours, minutes, rest = draw.integer(1, 9), draw.integer(2, 59), draw.integer(2, 59)
    return Task(
        f"A marathon runner's time is shown as {hours}:{minutes:02d}:{rest:02d} (hours, minutes, "
        f"seconds). How many seconds is that?",
        plain(hours * 3600 + minutes * 60 + rest),
        2,
    )


@kind("units")
def temperature(draw: Draw) -> Task:
    celsius = 5 * draw.integer(-8, 40)
    fahrenheit = celsius * 9 // 5 + 32
    if draw.integer(0, 1):
        return Task(f"Convert {celsius} °C to degrees Fahrenheit.", plain(fahrenheit), 2)
    return Task(f"Convert {fahrenheit} °F to degrees Celsius.", plain(celsius), 3)


@kind("units")
def metres_a_second(draw: Draw) -> Task:
    mover = draw.one(["falcon", "lift", "hailstone", "skater", "racing dog"])
    speed = Fraction(5 * draw.integer(2, 16), 2)
    return Task(
        f"A {mover} moves at {plain(speed)} metres a second. How many kilometres an hour is that?",
        plain(speed * Fraction(36, 10)),
        2,
    )


@kind("units")
def files_that_fit(draw: Draw) -> Task:
    thing, size = draw.one([("photos", 768), ("song files", 640), ("scans", 384), ("maps", 960)])
    space = draw.integer(2, 12)
    return Task(
        f"How many {thing} of {size} KiB each fit into {space} GiB of free space? "
        f"(1 GiB = 1024 MiB, 1 MiB = 1024 KiB; only whole {thing} count.)",
        plain(space * 1024 * 1024 // size),
        3,
    )


@kind("units")
def old_measures(draw: Draw) -> Task:
    text, unit, factor, today = draw.one(
        [
            ("A travel diary gives a distance", "leagues", 4828, "metres"),
            ("A ship's log gives a depth", "fathoms", 6, "feet"),
            ("A racing paper gives a distance", "furlongs", 220, "yards"),
            ("A jeweller's book gives a weight", "carats", 200, "milligrams"),
            ("A Japanese floor plan gives a room's size", "tsubo", 33, "tenths of a square metre"),
        ]
    )
    amount = draw.integer(7, 48)
    return Task(
        f"{text} as {amount} {unit}. Taking one {unit.removesuffix('s')} as {factor} {today}, how "
        f"many {today} is that?",
        plain(amount * factor),
        2,
    )


# --- calendar: dates and clocks -------------------------------------------------------------


def _date(draw: Draw, first_year: int, last_year: int) -> datetime.date:
    start = datetime.date(first_year, 1, 1).toordinal()
    return datetime.date.fromordinal(
        draw.integer(start, datetime.date(last_year, 12, 31).toordinal())
    )


def _written(day: datetime.date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@kind("calendar")
def weekday_later(draw: Draw) -> Task:
    today, days = draw.integer(0, 6), draw.integer(25, 400)
    return Task(
        f"Today is {WEEKDAYS[today]}. Which day of the week will it be {days} days from now?",
        WEEKDAYS[(today + days) % 7],
        2,
    )


@kind("calendar")
def days_between(draw: Draw) -> Task:
    start = _date(draw, 2019, 2029)
    end = start + datetime.timedelta(days=draw.integer(30, 500))
    return Task(
        f"How many days pass from {_written(start)} to {_written(end)}? Count the last day but "
        f"not the first.",
        plain((end - start).days),
        3,
    )


@kind("calendar")
def weekday_of(draw: Draw) -> Task:
    known = _date(draw, 2020, 2030)
    asked = known + datetime.timedelta(days=draw.integer(40, 300))
    return Task(
        f"If {_written(known)} is a {WEEKDAYS[known.weekday()]}, which day of the week is "
        f"{_written(asked)}?",
        WEEKDAYS[asked.weekday()],
        4,
    )


@kind("calendar")
def end_of(draw: Draw) -> Task:
    event = draw.one(["film", "rehearsal", "night shift", "chess match", "charity run"])
    start, lasts = 60 * draw.integer(16, 23) + 5 * draw.integer(0, 11), draw.integer(75, 460)
    return Task(
        f"A {event} starts at {clock(start)} and lasts {lasts} minutes. At what time does it end? "
        f"Use the 24-hour form HH:MM.",
        clock(start + lasts),
        2,
    )


@kind("calendar")
def arrival(draw: Draw) -> Task:
    here, there, ahead = draw.one(
        [("Lima", "Madrid", 6), ("Lagos", "Hanoi", 6), ("Oslo", "Perth", 7), ("Quito", "Accra", 5)]
    )
    start, hours, minutes = 5 * draw.integer(0, 287), draw.integer(8, 15), 5 * draw.integer(1, 11)
    return Task(
        f"A flight leaves {here} at {clock(start)} local time and takes {hours} hours and "
        f"{minutes} minutes. Clocks in {there} are {ahead} hours ahead of those in {here}. At what "
        f"local time does it land in {there}? Use the 24-hour form HH:MM.",
        clock(start + hours * 60 + minutes + ahead * 60),
        4,
    )


@kind("calendar")
def leap_years(draw: Draw) -> Task:
    first = draw.integer(1870, 1990)
    last = first + draw.integer(35, 150)
    years = range(first, last + 1)
    return Task(
        f"How many leap years of the Gregorian calendar are there from {first} to {last}, both "
        f"years included?",
        plain(sum(y % 4 == 0 and (y % 100 != 0 or y % 400 == 0) for y in years)),
        4,
    )


# --- text: letters and words ----------------------------------------------------------------


@kind("text")
def reversed_word(draw: Draw) -> Task:
    word = draw.one(WORDS)
    return Task(f'Write the word "{word}" backwards.', word[::-1], 1, system=ANSWER_ONLY)


@kind("text")
def letter_count(draw: Draw) -> Task:
    sentence, letter = draw.one(SENTENCES), draw.one("aehirst")
    return Task(
        f'How many times does the letter "{letter}", small or capital, occur in this sentence?\n\n'
        f"{sentence}.",
        plain(sentence.lower().count(letter)),
        2,
    )


@kind("text")
def alphabetical(draw: Draw) -> Task:
    words = draw.several(WORDS, 6)
    return Task(
        f"Put these words in alphabetical order, separated by single spaces: {', '.join(words)}",
        " ".join(sorted(words)),
        2,
        system=ANSWER_ONLY,
    )


@kind("text")
def last_letters(draw: Draw) -> Task:
    words = draw.several(WORDS, draw.integer(5, 7))
    return Task(
        f"Take the last letter of each of these words, in order, and join them without spaces: "
        f"{' '.join(words)}",
        "".join(word[-1] for word in words),
        2,
        system=ANSWER_ONLY,
    )


@kind("text")
def shifted(draw: Draw) -> Task:
    word, shift = draw.one(WORDS), draw.integer(2, 9)
    moved = "".join(chr((ord(letter) - 97 + shift) % 26 + 97) for letter in word)
    return Task(
        f'Every letter of a word was moved {shift} places forward in the alphabet, with "a" '
        f'following "z". The result is "{moved}". What was the word?',
        word,
        4,
    )


@kind("text")
def without_vowels(draw: Draw) -> Task:
    sentence = draw.one(SENTENCES)
    return Task(
        f"Remove every vowel (a, e, i, o, u, small or capital) from this text and keep all else, "
        f'spaces included: "{sentence}"',
        "".join(letter for letter in sentence if letter.lower() not in "aeiou"),
        3,
        system=ANSWER_ONLY,
    )


@kind("text")
def word_from_the_end(draw: Draw) -> Task:
    sentence, place = draw.one(SENTENCES), draw.integer(2, 6)
    return Task(
        f'Which word is the {ordinal(place)} from the end in "{sentence}"?',
        sentence.split()[-place],
        1,
    )


@kind("text")
def distinct_letters(draw: Draw) -> Task:
    first, second = draw.several(WORDS, 2)
    return Task(
        f'How many different letters occur in both "{first}" and "{second}"?',
        plain(len(set(first) & set(second))),
        2,
    )


# --- reasoning: sequences and logic ---------------------------------------------------------


@kind("reasoning")
def next_number(draw: Draw) -> Task:
    start, step, factor = draw.integer(2, 9), draw.integer(2, 7), draw.integer(2, 3)
    rules: list[tuple[Callable[[int, int], int], int]] = [
        (lambda value, _: value * factor + step, 3),
        (lambda value, place: value + step * (place + 1), 3),
        (lambda value, place: value + (step if place % 2 else step * factor), 2),
        (lambda value, place: value + (place + 1) ** 2, 4),
    ]
    rule, difficulty = draw.one(rules)
    numbers = [start]
    for place in range(6):
        numbers.append(rule(numbers[-1], place))
    shown = ", ".join(map(str, numbers[:-1]))
    return Task(f"Which number continues the sequence {shown}, …?", plain(numbers[-1]), difficulty)


@kind("reasoning")
def ranking(draw: Draw) -> Task:
    people = draw.several(NAMES, 5)
    more, most = draw.one([("taller", "tallest"), ("older", "oldest"), ("faster", "fastest")])
    facts = [f"{a} is {more} than {b}." for a, b in itertools.pairwise(people)]
    place, word = draw.one([(1, "second "), (2, "third "), (3, "fourth ")])
    return Task(
        f"{' '.join(draw.several(facts, 4))} Who is the {word}{most} of the five?",
        people[place],
        3,
    )


@kind("reasoning")
def knights(draw: Draw) -> Task:
    first, second = draw.several(NAMES, 2)
    statements: list[tuple[str, Callable[[bool, bool], bool]]] = [
        ("We are both liars", lambda a, b: not a and not b),
        ("At least one of us is a liar", lambda a, b: not (a and b)),
        (f"I am a liar or {second} is honest", lambda a, b: not a or b),
        (f"I am a liar and {second} is honest", lambda a, b: not a and b),
    ]
    said, holds = draw.one(statements)
    fitting = [(a, b) for a in (True, False) for b in (True, False) if holds(a, b) == a]
    ((_, honest),) = fitting
    return Task(
        f"In a village everyone is either honest and says only true things, or a liar and says "
        f"only false things. {first}, standing beside {second}, says: “{said}.” Is {second} honest or "
        f"a liar? Answer with one word.",
        "honest" if honest else "liar",
        5,
    )


@kind("reasoning")
def syllogism(draw: Draw) -> Task:
    a, b, c = draw.several(["blims", "torvs", "wugs", "dreks", "molps", "snivs", "quons"], 3)
    premises, question, answer = draw.one(
        [
            (f"All {a} are {b}. All {b} are {c}.", f"all {a} are {c}", "yes"),
            (f"All {a} are {b}. No {b} are {c}.", f"some {a} are {c}", "no"),
            (f"All {a} are {b}. All {c} are {b}.", f"all {a} are {c}", "unknown"),
            (f"All {a} are {b}. All {a} are {c}.", f"some {b} are {c}", "yes"),
            (f"Some {a} are {b}. Some {b} are {c}.", f"some {a} are {c}", "unknown"),
        ]
    )
    return Task(
        f"{premises} There is at least one of each. Does it follow that {question}? Answer yes if "
        f"it must be so, no if it cannot be so, and unknown otherwise.",
        answer,
        3,
    )


@kind("reasoning")
def neither(draw: Draw) -> Task:
    group, left, right = draw.one(
        [
            ("pupils", "play chess", "sing in the choir"),
            ("households", "keep a cat", "keep a dog"),
            ("travellers", "speak French", "speak Arabic"),
            ("gardeners", "grow beans", "grow roses"),
        ]
    )
    both, only_left, only_right = draw.integer(3, 15), draw.integer(5, 25), draw.integer(5, 25)
    none = draw.integer(2, 20)
    return Task(
        f"Of {both + only_left + only_right + none} {group}, {both + only_left} {left}, "
        f"{both + only_right} {right}, and {both} do both. How many do neither?",
        plain(none),
        3,
    )


@kind("reasoning")
def odd_one_out(draw: Draw) -> Task:
    factor = draw.one([6, 7, 8, 9, 11, 13])
    numbers = [factor * n for n in draw.several(range(3, 20), 5)]
    odd = factor * draw.integer(4, 18) + draw.integer(1, factor - 1)
    numbers.insert(draw.integer(0, 5), odd)
    return Task(
        f"All but one of these numbers are multiples of {factor}. Which one is not? "
        f"{', '.join(map(str, numbers))}",
        plain(odd),
        2,
    )


@kind("reasoning")
def fewest_coins(draw: Draw) -> Task:
    coins = draw.one([(1, 5, 12), (1, 4, 9), (1, 7, 10), (1, 6, 15)])
    amount = draw.integer(18, 60)
    fewest = [0]
    for value in range(1, amount + 1):
        fewest.append(1 + min(fewest[value - coin] for coin in coins if coin <= value))
    return Task(
        f"A country has coins worth {listed([str(coin) for coin in coins])} pennies only. What is "
        f"the smallest number of coins that make exactly {amount} pennies?",
        plain(fewest[amount]),
        5,
    )


# --- chance: counting and probability -------------------------------------------------------


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}" if value.denominator > 1 else plain(value)


@kind("chance")
def dice_sum(draw: Draw) -> Task:
    sides, total = draw.one([4, 6, 8]), draw.integer(4, 8)
    rolls = itertools.product(range(1, sides + 1), repeat=2)
    favourable = sum(a + b == total for a, b in rolls)
    return Task(
        f"Two fair {sides}-sided dice, numbered from 1 to {sides}, are rolled. What is the "
        f"probability that the sum is {total}? Give a fraction in lowest terms.",
        _ratio(Fraction(favourable, sides * sides)),
        3,
    )


@kind("chance")
def same_colour(draw: Draw) -> Task:
    thing = draw.one(["marbles", "socks", "beads", "counters"])
    red, blue = draw.integer(2, 7), draw.integer(2, 7)
    pairs = math.comb(red, 2) + math.comb(blue, 2)
    return Task(
        f"A bag holds {red} red and {blue} blue {thing}. Two are drawn at random without looking "
        f"and without putting the first one back. What is the probability that both have the same "
        f"colour? Give a fraction in lowest terms.",
        _ratio(Fraction(pairs, math.comb(red + blue, 2))),
        4,
    )


@kind("chance")
def committee(draw: Draw) -> Task:
    club = draw.one(["rowing", "drama", "stargazing", "baking", "hiking"])
    members, seats = draw.integer(6, 14), draw.integer(2, 4)
    return Task(
        f"In how many ways can a {club} club of {members} members choose a committee of {seats} "
        f"in which all seats are equal?",
        plain(math.comb(members, seats)),
        3,
    )


@kind("chance")
def arrangements(draw: Draw) -> Task:
    word = draw.one([word for word in WORDS if len(word) <= 6])
    count = math.factorial(len(word))
    for repeats in Counter(word).values():
        count //= math.factorial(repeats)
    return Task(
        f'In how many different orders can the letters of "{word}" be written? Equal letters are '
        f"not told apart.",
        plain(count),
        4,
    )


@kind("chance")
def round_robin(draw: Draw) -> Task:
    game = draw.one(["chess", "table tennis", "volleyball", "draughts", "curling"])
    players, rounds = draw.integer(5, 18), draw.integer(1, 2)
    often = "once" if rounds == 1 else "twice"
    return Task(
        f"In a {game} league of {players} teams every team meets every other {often}. How many "
        f"games are played?",
        plain(math.comb(players, 2) * rounds),
        2,
    )


@kind("chance")
def heads(draw: Draw) -> Task:
    coins = draw.integer(3, 6)
    least = draw.integer(2, coins - 1)
    ways = sum(math.comb(coins, count) for count in range(least, coins + 1))
    return Task(
        f"A fair coin is tossed {coins} times. What is the probability of at least {least} heads? "
        f"Give a fraction in lowest terms.",
        _ratio(Fraction(ways, 2**coins)),
        4,
    )


# --- code: what a short program prints ------------------------------------------------------


def _program(source: str, difficulty: int) -> Task:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source, {})
    question = f"What does this program print?\n\n```python\n{source}```"
    return Task(question, printed.getvalue().rstrip("\n"), difficulty, system=INTERPRETER)


@kind("code")
def summing_loop(draw: Draw) -> Task:
    stop, divisor, other = draw.integer(12, 40), draw.integer(3, 5), draw.integer(6, 9)
    return _program(
        f"total = 0\n"
        f"for number in range(1, {stop}):\n"
        f"    if number % {divisor} == 0 or number % {other} == 0:\n"
        f"        total += number\n"
        f"print(total)\n",
        3,
    )


@kind("code")
def slicing(draw: Draw) -> Task:
    numbers = draw.several(range(10, 99), 8)
    start, step = draw.integer(0, 2), draw.integer(2, 3)
    return _program(
        f"numbers = {numbers}\nprint(numbers[{start}::{step}], numbers[-{start + 2}])\n", 2
    )


@kind("code")
def counting(draw: Draw) -> Task:
    words = draw.several(WORDS, 5)
    return _program(
        f"lengths = {{}}\n"
        f"for word in {words}:\n"
        f"    lengths[len(word)] = lengths.get(len(word), 0) + 1\n"
        f"print(sorted(lengths.items()))\n",
        3,
    )


@kind("code")
def halving(draw: Draw) -> Task:
    return _program(
        f"number = {draw.integer(9, 40)}\n"
        f"steps = 0\n"
        f"while number != 1:\n"
        f"    number = number // 2 if number % 2 == 0 else 3 * number + 1\n"
        f"    steps += 1\n"
        f"print(steps)\n",
        5,
    )


@kind("code")
def recursion(draw: Draw) -> Task:
    first, second, depth = draw.integer(1, 3), draw.integer(2, 5), draw.integer(5, 8)
    return _program(
        f"def step(n):\n"
        f"    if n < 2:\n"
        f"        return [{first}, {second}][n]\n"
        f"    return step(n - 1) + 2 * step(n - 2)\n"
        f"\n"
        f"print(step({depth}))\n",
        4,
    )


@kind("code")
def string_methods(draw: Draw) -> Task:
    word, other = draw.several(WORDS, 2)
    old, new = word[draw.integer(1, 3)], draw.one("xqz")
    return _program(
        f'text = "{word}-{other}"\n'
        f'parts = text.replace("{old}", "{new}").split("-")\n'
        f'print("+".join(part.upper()[:4] for part in reversed(parts)))\n',
        2,
    )


# --- the files ------------------------------------------------------------------------------


def prompt_rows(seed: int = SEED) -> list[Row]:
    """Every prompt, each kind of task once a round, in an order drawn anew each round."""
    draw = Draw(seed)
    asked: set[str] = set()
    rows = []
    for _ in range(ROUNDS):
        for source, maker in draw.several(KINDS, len(KINDS)):
            task = next(t for t in _tasks(maker, draw) if t.question not in asked)
            asked.add(task.question)
            metadata = {"source": source, "difficulty": task.difficulty}
            rows.append({"prompt": task.messages, "label": task.answer, "metadata": metadata})
    return rows


def _tasks(maker: Maker, draw: Draw) -> Iterator[Task]:
    while True:
        yield maker(draw)


def _tool(name: str, description: str, required: Sequence[str], **parameters: Any) -> Row:
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


CALCULATOR = _tool(
    "calculate",
    "Evaluates an arithmetic expression exactly.",
    ["expression"],
    expression={"type": "string", "description": "For example (17 + 4) * 3"},
)
WEATHER = _tool(
    "weather",
    "The forecast for a town on a day.",
    ["town", "day"],
    town={"type": "string"},
    day={"type": "string", "description": "A date, YYYY-MM-DD"},
    unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
)
TIMETABLE = _tool(
    "next_trains",
    "The next trains from one station to another.",
    ["start", "destination"],
    start={"type": "string"},
    destination={"type": "string"},
    after={"type": "string", "description": "Earliest departure, HH:MM"},
    limit={"type": "integer", "minimum": 1, "maximum": 10},
)
LIBRARY = _tool(
    "search_library",
    "Finds books in the town library by title, author or subject.",
    ["query"],
    query={"type": "string"},
    only_available={"type": "boolean"},
)


def tool_rows() -> list[Row]:
    """Prompts with tools: as a list, as the JSON text of one, and once without any."""
    system = {"role": "system", "content": "Use the tools where they help, and name your source."}
    return [
        _tool_row("What is 48,917 times 6,203?", [CALCULATOR], "calculate"),
        _tool_row("Will I need an umbrella in Bergen on 14 May 2026?", [WEATHER], "weather"),
        _tool_row(
            "Which train gets me from Lyon to Turin soonest after nine in the morning?",
            json.dumps([TIMETABLE]),
            "next_trains",
        ),
        _tool_row(
            "Is there a book about lichens that I could borrow today?",
            [LIBRARY, CALCULATOR],
            "search_library",
            system,
        ),
        _tool_row(
            "Last week the forecast for Seville on 2 June 2026 was 31 degrees Celsius. By how many "
            "degrees has it changed since?",
            json.dumps([WEATHER, CALCULATOR]),
            "weather",
            system,
        ),
        _tool_row(
            "Show me at most three trains from Graz to Vienna this evening, from 18:30 on.",
            [TIMETABLE, WEATHER],
            "next_trains",
        ),
        _tool_row(
            "A loan of 12,500 at 3.5% a year is paid back in one sum after three years, with "
            "compound interest. How much is that?",
            json.dumps([CALCULATOR]),
            "calculate",
        ),
        _tool_row("What is the opposite of “shallow”?", None, None),
    ]


def _tool_row(question: str, tools: Any, expected: str | None, *before: Message) -> Row:
    row: Row = {
        "prompt": [*before, {"role": "user", "content": question}],
        "label": expected or "deep",
        "metadata": {"source": "tools", "expects_call": expected is not None},
    }
    return row if tools is None else {**row, "tools": tools}


def image_rows() -> list[Row]:
    """Prompts with a mark for each file of their `images` column; the last one has neither."""
    return [
        _image_row("<image>\nHow many boats are tied to the pier?", ["harbour.png"], "4"),
        _image_row("What time does the clock show?<image>", ["station_clock.png"], "10:25"),
        _image_row(
            "The left picture: <image>\nThe right picture: <image>\nWhich object is only in the "
            "left one?",
            ["desk_before.png", "desk_after.png"],
            "stapler",
        ),
        _image_row("<image>\nRead the total at the foot of the receipt.", ["receipt.jpg"], "27.40"),
        _image_row(
            "<image><image><image>\nPut the three frames in the order in which they were taken. "
            "Answer with their numbers.",
            ["pour_2.png", "pour_0.png", "pour_1.png"],
            "2 3 1",
        ),
        _image_row("<image>\nIn which month was the least rain?", ["rain_chart.png"], "July"),
        _image_row(
            "This floor plan <image> uses a scale of 1:50. How long is the hall in metres?",
            ["floor_plan.png"],
            "6.5",
        ),
        _image_row("Name the largest planet of the solar system.", None, "Jupiter"),
    ]


def _image_row(question: str, images: list[str] | None, answer: str) -> Row:
    return {
        "prompt": [{"role": "user", "content": question}],
        "images": images,
        "label": answer,
        "metadata": {"source": "images", "num_images": len(images or [])},
    }


def json_lines(rows: Sequence[Row]) -> str:
    """One row a line, letters beyond ASCII as themselves."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """The same rows as columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows)), path, compression="zstd")


def main(arguments: Sequence[str]) -> None:
    """Writes the files into the folder named, or beside this script."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    rows = prompt_rows()
    for name, content in [
        ("prompts.jsonl", rows),
        ("tools.jsonl", tool_rows()),
        ("images.jsonl", image_rows()),
    ]:
        (folder / name).write_text(json_lines(content), encoding="utf-8")
        print(f"{name}: {len(content)} rows")
    write_parquet(rows, folder / "prompts.parquet")
    print(f"prompts.parquet: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
