from __future__ import annotations

import pytest

from rolloutds import key_guess


@pytest.mark.parametrize(
    ("row", "guess"),
    [
        ({"input": "a", "prompt": "b"}, None),
        ({"prompt": "a", "label": "b"}, ("prompt", "label")),
        ({"question": "a", "answer": "b"}, ("question", "answer")),
        ({"prompt": [], "messages": [{"role": "user", "content": "a"}]}, ("messages", None)),
        (
            {"prompt": "a", "reward_model": {"ground_truth": 1}},
            ("prompt", "reward_model.ground_truth"),
        ),
        ({"prompt": 3, "text": "a", "label": None}, ("text", "label")),
        ({"foo": "a"}, None),
    ],
)
def test_keys_are_guessed_from_a_row(row, guess):
    guessed = key_guess.guess_keys(row, configured="input", has_label=False)
    assert guess == (guessed and (guessed.input_key, guessed.label_key))


def test_a_configured_label_is_not_guessed():
    guessed = key_guess.guess_keys({"prompt": "a", "label": 1}, configured="input", has_label=True)
    assert guessed == key_guess.GuessedKeys("prompt", None)
