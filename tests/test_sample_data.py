"""The sample data: what the maker writes is what is shipped, and its answers are right."""

from __future__ import annotations

import calendar
import json
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from rolloutds.config import resolve
from rolloutds.sample_files import sample_data_folder

FOLDER = sample_data_folder()
MADE = ("prompts.jsonl", "tools.jsonl", "images.jsonl", "prompts.parquet")


def read_rows(name: str, folder: Path = FOLDER) -> list[dict]:
    if name.endswith(".parquet"):
        import pyarrow.parquet as pq

        return pq.read_table(folder / name).to_pylist()
    return [
        json.loads(line) for line in (folder / name).read_text(encoding="utf-8").split("\n")[:-1]
    ]


def question(row: dict) -> str:
    return row["prompt"][-1]["content"]


def answers(pattern: str) -> list[tuple[re.Match[str], str]]:
    """The questions that a pattern fits, with their answers; there is one a round at least."""
    found = [
        (match, row["label"])
        for row in read_rows("prompts.jsonl")
        if (match := re.search(pattern, question(row), re.DOTALL))
    ]
    assert len(found) >= 2
    return found


@pytest.fixture(scope="module")
def made_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample_data")
    maker = FOLDER / "make_sample_data.py"
    subprocess.run([sys.executable, str(maker), str(folder)], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", MADE)
def test_the_maker_writes_what_is_shipped(made_again: Path, name: str) -> None:
    assert read_rows(name, made_again) == read_rows(name)
    if name.endswith(".jsonl"):
        assert (made_again / name).read_bytes() == (FOLDER / name).read_bytes()


def test_parquet_holds_the_same_rows() -> None:
    assert read_rows("prompts.parquet") == read_rows("prompts.jsonl")


def test_no_prompt_occurs_twice_and_every_row_is_complete() -> None:
    rows = read_rows("prompts.jsonl")
    assert len(rows) == len({question(row) for row in rows}) > 200
    for row in rows:
        assert list(row) == ["prompt", "label", "metadata"]
        assert row["prompt"][-1]["role"] == "user"
        assert isinstance(row["label"], str)
        assert row["label"].strip() == row["label"] != ""
        assert row["metadata"]["difficulty"] in range(1, 6)


def test_sources_and_difficulties_vary() -> None:
    rows = read_rows("prompts.jsonl")
    sources = Counter(row["metadata"]["source"] for row in rows)
    assert set(sources) == {
        "arithmetic", "units", "calendar", "text", "reasoning", "chance", "code",
    }  # fmt: skip
    assert min(sources.values()) >= 20
    assert {row["metadata"]["difficulty"] for row in rows} == {1, 2, 3, 4, 5}
    roles = {tuple(message["role"] for message in row["prompt"]) for row in rows}
    assert roles == {("user",), ("system", "user"), ("user", "assistant", "user")}


# Answers found a second way, or read off the question without the maker's arithmetic.


def test_expressions() -> None:
    for match, answer in answers(r"^Compute (\d+) × (\d+) - (\d+) ÷ (\d+) \+ (\d+)\.$"):
        a, b, c, d, e = map(Fraction, match.groups())
        assert Fraction(answer) == a * b - c / d + e


def test_change() -> None:
    for match, answer in answers(r"buys (\d+) .* at \$([\d.]+) each and pays with \$(\d+)"):
        count, price, note = map(Fraction, match.groups())
        assert Fraction(answer) == note - count * price > 0


def test_tickets() -> None:
    for match, answer in answers(r"cost \$(\d+) .* \$(\d+) .* (\d+) tickets were sold for \$(\d+)"):
        adult, child, count, total = map(int, match.groups())
        children = int(answer)
        assert adult * (count - children) + child * children == total


def test_leap_years() -> None:
    for match, answer in answers(r"leap years .* from (\d+) to (\d+)"):
        first, last = map(int, match.groups())
        assert int(answer) == calendar.leapdays(first, last + 1)


def test_weekdays_are_those_of_the_calendar() -> None:
    dated = r"If (\d+) (\w+) (\d+) is a (\w+), which day of the week is (\d+) (\w+) (\d+)"
    months = {name: number for number, name in enumerate(calendar.month_name)}
    for match, answer in answers(dated):
        day, month, year, known, day2, month2, year2 = match.groups()
        assert calendar.day_name[calendar.weekday(int(year), months[month], int(day))] == known
        assert calendar.day_name[calendar.weekday(int(year2), months[month2], int(day2))] == answer


def test_shifted_words_are_shifted_back() -> None:
    for match, answer in answers(r"moved (\d+) places forward .* result is \"(\w+)\""):
        shift, moved = int(match[1]), match[2]
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        assert (
            moved.translate(str.maketrans(alphabet[shift:] + alphabet[:shift], alphabet)) == answer
        )


def test_rankings_follow_from_their_facts() -> None:
    for match, answer in answers(r"^(.* than .*) Who is the (second|third|fourth) \w+ of the five"):
        pairs = re.findall(r"(\w+) is \w+ than (\w+)\.", match[1])
        above = Counter({low: 0 for pair in pairs for low in pair})
        for _ in pairs:
            for high, low in pairs:
                above[low] = max(above[low], above[high] + 1)
        assert above[answer] == {"second": 1, "third": 2, "fourth": 3}[match[2]]
        assert sorted(above.values()) == [0, 1, 2, 3, 4]


def test_fewest_coins() -> None:
    for match, answer in answers(r"worth (.*) pennies only.* exactly (\d+) pennies"):
        coins, amount = [int(coin) for coin in re.findall(r"\d+", match[1])], int(match[2])
        reachable, count = {0}, 0
        while amount not in reachable:
            reachable, count = {value + coin for value in reachable for coin in coins}, count + 1
        assert int(answer) == count


def test_programs_print_their_answers() -> None:
    programs = answers(r"^What does this program print\?\n\n```python\n(.*)```$")
    source = "\nprint('--')\n".join(match[1] for match, _ in programs)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip("\n").split("\n--\n") == [answer for _, answer in programs]


def test_tools_come_as_lists_and_as_text() -> None:
    rows = read_rows("tools.jsonl")
    kinds = [type(row.get("tools")) for row in rows]
    assert set(kinds) == {list, str, type(None)}
    for row in rows:
        tools = row.get("tools") or []
        for tool in json.loads(tools) if isinstance(tools, str) else tools:
            assert tool["type"] == "function"
            assert set(tool["function"]["parameters"]["required"]) <= set(
                tool["function"]["parameters"]["properties"]
            )


def test_every_image_has_its_mark() -> None:
    rows = read_rows("images.jsonl")
    assert [row for row in rows if row["images"] is None]
    for row in rows:
        assert question(row).count("<image>") == len(row["images"] or [])


def test_the_chat_template_renders_roles_and_tools() -> None:
    jinja2 = pytest.importorskip("jinja2")
    source = (FOLDER / "chat_template.jinja").read_text(encoding="utf-8")
    row = read_rows("tools.jsonl")[3]
    template = jinja2.Environment().from_string(source)
    text = template.render(messages=row["prompt"], tools=row["tools"], add_generation_prompt=True)
    assert text.startswith("<|tools|>\n{")
    assert '"search_library"' in text
    assert "<|system|>\nUse the tools" in text
    assert text.endswith("borrow today?\n<|end|>\n<|assistant|>\n")


def test_the_config_names_the_prompts_beside_it(tmp_path: Path) -> None:
    resolved = resolve(
        {}, environment={}, config_file=FOLDER / "rolloutds.toml", start_folder=tmp_path
    )
    config = resolved.config
    assert config.prompt_data == str(FOLDER / "prompts.jsonl")
    assert (config.input_key, config.label_key) == ("prompt", "label")
    assert (config.rollout_shuffle, config.rollout_seed, config.rollout_batch_size) == (
        True,
        42,
        32,
    )
    assert config.rollout_global_dataset is True
