"""Which tests hold each row of CASES C."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
_SOURCE = "test_source.py"
_COMMAND = "cli/test_ckpt_command.py"

HELD_BY = {
    "C1": [f"{_SOURCE}::test_c1_a_save_names_the_state_as_of_its_rollout"],
    "C2": [f"{_SOURCE}::test_c2_a_buffered_group_comes_first_with_its_old_index"],
    "C3": [
        f"{_SOURCE}::test_c3_a_missing_state_lists_what_there_is",
        f"{_SOURCE}::test_c3_a_fresh_start_can_be_asked_for",
        f"{_COMMAND}::test_ids_that_are_missing_are_listed_with_those_that_exist",
    ],
    "C4": [
        f"{_SOURCE}::test_c4_a_state_of_other_data_or_settings_is_refused",
        f"{_SOURCE}::test_c4_another_limit_or_tokenizer_is_refused",
        f"{_COMMAND}::test_verify_names_what_differs",
    ],
    "C5": [
        f"{_SOURCE}::test_c5_a_value_that_is_not_plain_is_refused_at_the_save_by_its_key",
        f"{_SOURCE}::test_c5_what_a_load_would_refuse_is_refused_at_the_save",
        f"{_SOURCE}::test_c5_metadata_that_is_no_object_is_refused_at_the_save",
        "torch_file/test_write.py::test_numpy_numbers_are_written_as_the_plain_ones",
        "torch_file/test_write.py::test_a_tensor_that_the_reader_would_refuse_is_refused_by_its_key",
    ],
    "C6": [
        f"{_SOURCE}::test_c6_a_damaged_state_names_the_last_good_one",
        f"{_COMMAND}::test_a_damaged_newest_file_is_said_and_the_last_good_one_shown",
        "cli/test_ckpt_screens.py::test_on_a_terminal",
    ],
    "C7": [f"{_COMMAND}::test_nothing_in_a_file_runs_and_its_class_is_shown_by_name"],
    "C8": ["test_kills.py::test_c8_after_every_kill_there_is_a_good_state"],
    "C9": [
        f"{_SOURCE}::test_c9_every_state_read_while_another_thread_draws_is_consistent",
        f"{_SOURCE}::test_c9_a_thousand_saves_while_another_thread_draws",
    ],
}
"""Each case, and the tests that would fail if it went wrong."""


@cache
def _names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_case_is_held():
    assert list(HELD_BY) == [f"C{n}" for n in range(1, 10)]
    missing = [
        f"{case}: {test}"
        for case, tests in HELD_BY.items()
        for test in tests
        if test.partition("::")[2] not in _names_in(test.partition("::")[0])
    ]
    assert missing == []
    assert all(HELD_BY.values())
