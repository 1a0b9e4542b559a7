from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

from rolloutds.cache import Cache
from rolloutds.token_bounds import TokenBounds
from rolloutds.tokenizer_facts import FactsMemory, TokenizerFacts

FACTS = TokenizerFacts("abc", TokenBounds(1.0, 128), "{{ messages }}")


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("transformers", reason="its version is part of what is compared")
    pytest.importorskip("tokenizers", reason="its version is part of what is compared")
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    time.sleep(0.15)  # a file younger than that may change without a new time
    return folder


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_what_was_kept_comes_back(cache, folder):
    assert FactsMemory(cache, folder, None).recall() is None
    FactsMemory(cache, folder, None).keep(FACTS)
    assert FactsMemory(cache, folder, None).recall() == FACTS


def test_another_template_is_another_entry(cache, folder):
    FactsMemory(cache, folder, None).keep(FACTS)
    assert FactsMemory(cache, folder, "{{ 1 }}").recall() is None


@pytest.mark.parametrize("change", ["edit", "same size and time", "new file", "template folder"])
def test_a_changed_folder_is_not_recalled(cache, folder, change):
    FactsMemory(cache, folder, None).keep(FACTS)
    file = folder / "tokenizer.json"
    before = file.stat()
    if change == "edit":
        file.write_text("{ }")
    elif change == "same size and time":
        file.write_text("[]")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "new file":
        (folder / "chat_template.jinja").write_text("{{ 1 }}")
    else:
        (folder / "additional_chat_templates").mkdir()
        (folder / "additional_chat_templates" / "tools.jinja").write_text("{{ 1 }}")
    time.sleep(0.15)
    assert FactsMemory(cache, folder, None).recall() is None


def test_files_that_changed_while_it_was_loaded_are_not_kept(cache, folder):
    memory = FactsMemory(cache, folder, None)
    (folder / "tokenizer.json").write_text("[ ]")
    time.sleep(0.15)
    memory.keep(FACTS)
    assert FactsMemory(cache, folder, None).recall() is None


def test_files_just_written_are_not_kept(cache, folder):
    (folder / "tokenizer.json").write_text("[]")
    FactsMemory(cache, folder, None).keep(FACTS)
    time.sleep(0.15)
    assert FactsMemory(cache, folder, None).recall() is None


_OPEN = """
import sys
from pathlib import Path
from types import SimpleNamespace
from rolloutds.cache import Cache
from rolloutds.dataset import Dataset

data, tokenizer, cache, limit = sys.argv[1:]
dataset = Dataset(
    SimpleNamespace(
        prompt_data=data,
        hf_checkpoint=tokenizer,
        apply_chat_template=True,
        chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}",
        rollout_max_prompt_len=int(limit),
    ),
    cache=Cache(Path(cache)),
)
found = dataset.fingerprint
print(len(dataset), found["tokenizer_digest"], found["template_digest"])
print("transformers" in sys.modules)
"""


def open_with_limit(data, tokenizer, cache, limit: int) -> list[str]:
    command = [sys.executable, "-c", textwrap.dedent(_OPEN), data, tokenizer, cache, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_cached_counts_need_no_transformers_and_give_the_same_fingerprint(folder, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(f'{{"input": "{"a " * count}"}}\n' for count in (1, 2, 3, 4)))
    time.sleep(0.15)
    cache = tmp_path / "cache"
    cold, cold_loads = open_with_limit(data, folder, cache, 2)
    warm, warm_loads = open_with_limit(data, folder, cache, 2)
    other, other_loads = open_with_limit(data, folder, cache, 3)
    assert cold.startswith("2 ")
    assert (cold, cold_loads, warm_loads) == (warm, "True", "False")
    assert other == f"3 {cold[2:]}"
    assert other_loads == "False"
