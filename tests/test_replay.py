"""Replaying a filter: what it takes, and every mistake by its code."""

from __future__ import annotations

import copy
import random
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import ConfigError
from rolloutds.filters import FILTERS, pop_first
from rolloutds.replay import ReplaySettings, ReplayWatch, replay, size_of
from rolloutds.replay_call import Limit, call
from rolloutds.replay_codes import REPLAY_CODES
from rolloutds.replay_copies import copy_group, edits
from rolloutds.sample import Sample
from rolloutds.testing import make_group

ARGS = SimpleNamespace(rollout_seed=42, reward_key=None)


def groups_of(count, size=2, **fields):
    return [
        make_group(i, size, rewards=[(i * 7 + j) % 5 / 4 for j in range(size)], **fields)
        for i in range(count)
    ]


def tried(function, groups=None, *, args=ARGS, refill=(), **settings):
    settings = {"num_samples": 2, **settings}
    found = groups_of(6) if groups is None else groups
    return replay(function, found, args=args, settings=ReplaySettings(**settings), refill=refill)


def codes(result):
    return [finding.code for finding in result.findings]


def finding(result, code):
    return next(found for found in result.findings if found.code == code)


# --- filters that are fine ----------------------------------------------------------------


def test_pop_first_serves_everything_once_and_has_no_findings():
    result = tried(pop_first, groups_of(5))
    assert [[t.number for t in done.returned] for done in result.rounds] == [[0, 1], [2, 3], [4]]
    assert [(d.num_before, d.num_taken, d.num_left) for d in result.rounds] == [
        (5, 2, 3),
        (3, 2, 1),
        (1, 1, 0),
    ]
    assert (result.ended, result.never_served, result.findings) == ("empty", [], [])
    assert result.rounds[0].returned[0].rewards == [0.0, 0.25]


@pytest.mark.parametrize("name", FILTERS)
def test_built_in_filters_have_no_findings(name):
    groups = groups_of(12)
    groups[3][0].reward = None
    groups[4] = make_group(4, 2, status="aborted")
    for number, group in enumerate(groups):
        for sample in group:
            sample.weight_versions = [str(number // 3)]
    before = copy.deepcopy(groups)
    result = tried(FILTERS[name].function, groups, num_samples=5)
    assert (result.ended, codes(result)) == ("empty", [])
    assert result.num_served == 12
    assert groups == before


def test_the_groups_themselves_are_not_changed():
    def edit(args, rollout_id, buffer, num_samples):
        buffer[0][0].metadata["seen"] = buffer[0][0].tokens.append(1)
        return [buffer.pop(0)]

    groups = groups_of(3, tokens=[1], metadata={"a": [1]})
    before = copy.deepcopy(groups)
    tried(edit, groups)
    assert groups == before


def test_the_rollout_id_is_none_or_counted_on():
    seen = []

    def note(args, rollout_id, buffer, num_samples):
        seen.append(rollout_id)
        return pop_first(args, rollout_id, buffer, num_samples)

    tried(note, num_compared=0)
    tried(note, num_compared=0, rollout_id=7)
    assert seen == [None, None, None, 7, 8, 9]


def test_groups_come_back_between_rounds():
    result = tried(pop_first, groups_of(2), refill=groups_of(3), num_compared=0)
    assert [done.num_refilled for done in result.rounds] == [0, 2, 1]
    assert (result.num_refilled, result.num_served, result.ended) == (3, 5, "empty")


# --- mistakes -----------------------------------------------------------------------------


def first_reward_best(args, rollout_id, buffer, num_samples):
    """The idea of the reference's documentation: sorted by reward, and nothing removed."""
    best = sorted(buffer, key=lambda group: group[0].reward, reverse=True)
    return best[:num_samples]


def test_the_example_of_the_reference_s_documentation_is_flagged():
    result = tried(first_reward_best)
    assert codes(result) == ["RPL008", "RPL008"]
    first, again = result.findings
    assert "still in the buffer" in first.message
    assert (first.round_number, first.num_groups) == (1, 2)
    assert (again.round_number, again.groups) == (2, first.groups)
    assert result.ended == "a group again"
    assert [d.num_still_in for d in result.rounds] == [2, 2]
    assert result.num_left == 6
    assert len(result.never_served) == 4


def too_many(args, rollout_id, buffer, num_samples):
    taken, buffer[:] = list(buffer), []
    return taken


def twice(args, rollout_id, buffer, num_samples):
    group = buffer.pop(0)
    return [group, group]


def sharing(args, rollout_id, buffer, num_samples):
    one, other = buffer.pop(0), buffer.pop(0)
    other[0] = one[0]
    return [one, other]


def nothing(args, rollout_id, buffer, num_samples):
    return None


def samples(args, rollout_id, buffer, num_samples):
    return buffer.pop(0)


def copies(args, rollout_id, buffer, num_samples):
    return [copy.deepcopy(buffer.pop(0))]


def raises(args, rollout_id, buffer, num_samples):
    for group in buffer:
        if group[0].group_index == 3:
            raise ValueError("three is too many")
    return []


def exits(args, rollout_id, buffer, num_samples):
    sys.exit(3)


def grows(args, rollout_id, buffer, num_samples):
    group = buffer.pop(0)
    group.append(buffer[0][0])
    return [group]


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        (too_many, "RPL003", "returned 6 groups, expected at most 2; the first beyond is group 2"),
        (twice, "RPL004", "group 0 was returned twice"),
        (sharing, "RPL004", "group 1 was returned twice"),
        (nothing, "RPL001", "returned NoneType"),
        (samples, "RPL001", "returned Sample at position 0"),
        (copies, "RPL005", "group 0 was returned and is not one of the buffer's"),
        (raises, "RPL006", "raised ValueError: three is too many, at group 3"),
        (exits, "RPL006", "raised SystemExit: 3"),
        (grows, "RPL002", "group 0 has 3 samples; it had 2, expected 2"),
    ],
)
def test_errors_end_the_replay_and_name_the_group(function, code, says):
    result = tried(function)
    assert finding(result, code).message == says or says in finding(result, code).message
    assert result.has_errors
    assert (result.ended, len(result.rounds)) == ("error", 1)


def test_an_exception_shows_the_filter_s_own_frames():
    found = finding(tried(raises), "RPL006")
    assert len(found.frames) == 1
    assert 'in raises: raise ValueError("three is too many")' in found.frames[0]
    assert __file__ in found.frames[0]


def test_a_size_that_the_file_has_is_an_error_too():
    groups = [*groups_of(2), make_group(9, 3)]
    result = tried(pop_first, groups, num_samples=4)
    assert finding(result, "RPL002").message == (
        "group 9 has 3 samples, in the file too, n_samples_per_prompt is 2"
    )


def drops(args, rollout_id, buffer, num_samples):
    kept = [group for group in buffer if group[0].group_index % 2]
    buffer[:] = kept
    return pop_first(args, rollout_id, buffer, num_samples)


def edits_reward(args, rollout_id, buffer, num_samples):
    buffer[0][1].reward = 9.0
    return pop_first(args, rollout_id, buffer, num_samples)


def reorders(args, rollout_id, buffer, num_samples):
    buffer.reverse()
    return pop_first(args, rollout_id, buffer, num_samples)


def reseeds(args, rollout_id, buffer, num_samples):
    random.seed(3)
    return pop_first(args, rollout_id, buffer, num_samples)


def puts_in(args, rollout_id, buffer, num_samples):
    taken = pop_first(args, rollout_id, buffer, num_samples)
    if taken[0][0].group_index == 0:
        buffer.append(taken[1])
    return taken


def puts_in_twice(args, rollout_id, buffer, num_samples):
    taken = pop_first(args, rollout_id, buffer, num_samples)
    if taken[0][0].group_index == 0:
        buffer.append(buffer[0])
    return taken


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        (drops, "RPL009", "group 0 was removed from the buffer and not returned"),
        (edits_reward, "RPL010", "group 0, sample 1: reward was 0.25 and is 9.0"),
        (reorders, "RPL011", "the 4 groups left are in another order than before"),
        (reseeds, "RPL013", "the global state of random was set"),
        (puts_in_twice, "RPL014", "group 2 was put into the buffer a second time"),
    ],
)
def test_warnings_name_group_and_field(function, code, says):
    state = random.getstate()
    result = tried(function)
    random.setstate(state)
    assert finding(result, code).message == says
    assert not result.has_errors


def test_returning_a_group_that_was_moved_to_the_end_is_still_in_the_buffer():
    result = tried(puts_in)
    assert "RPL008" in codes(result)
    assert result.rounds[0].num_still_in == 1


def test_edits_of_groups_left_behind_show_at_the_end():
    def edit_last(args, rollout_id, buffer, num_samples):
        buffer[-1][0].label = "x"
        return [buffer.pop(0)]

    result = tried(edit_last, num_rounds=1)
    found = finding(result, "RPL010")
    assert (found.round_number, found.field, found.groups) == (None, "label", [5])


def test_another_result_on_a_second_run():
    calls = []

    def changes_its_mind(args, rollout_id, buffer, num_samples):
        calls.append(1)
        return [buffer.pop(0 if len(calls) == 1 else 1)]

    result = tried(changes_its_mind, num_rounds=1)
    assert codes(result) == ["RPL012"]
    assert "group 0 was returned at position 0, and group 1 there" in result.findings[0].message


def test_drawing_from_the_global_generator_is_not_reseeding():
    def draws(args, rollout_id, buffer, num_samples):
        for _ in range(5_000):
            random.random()
        return pop_first(args, rollout_id, buffer, num_samples)

    assert codes(tried(draws)) == []


def test_numpy_reseeding_is_seen():
    numpy = pytest.importorskip("numpy")

    def reseed(args, rollout_id, buffer, num_samples):
        numpy.random.seed(5)
        return pop_first(args, rollout_id, buffer, num_samples)

    state = numpy.random.get_state()
    result = tried(reseed)
    numpy.random.set_state(state)
    assert "numpy.random" in finding(result, "RPL013").message


@pytest.mark.parametrize("catches", [False, True])
def test_a_call_that_does_not_end_is_stopped(catches):
    def for_ever(args, rollout_id, buffer, num_samples):
        for group in buffer:  # noqa: B007 - the frame's variable is what is looked at
            while True:
                try:
                    time.sleep(10)
                except Exception:
                    if not catches:
                        raise
        return [group]

    result = tried(for_ever, time_limit=0.05)
    found = finding(result, "RPL007")
    assert found.message == "stopped after 0.05 s, at group 0"
    assert "for_ever" in found.frames[0]


class _Left:
    """What a filter may leave in a sample: it never answers one question."""

    method = "nothing"

    def __init__(self, method):
        self.method = method

    def hang(self, method):
        if self.method == method:
            while True:
                pass

    def __eq__(self, other):
        self.hang("__eq__")
        return False

    def __repr__(self):
        self.hang("__repr__")
        return "left"

    @property
    def __dict__(self):  # type: ignore[override]
        self.hang("__dict__")
        return {}

    __hash__ = None


@pytest.mark.parametrize("method", ["__eq__", "__repr__", "__dict__"])
@pytest.mark.parametrize("is_returned", [True, False])
def test_what_a_filter_leaves_in_a_sample_cannot_hang_the_replay(method, is_returned):
    def leave(args, rollout_id, buffer, num_samples):
        buffer[1 if is_returned else 4][1].label = _Left(method)
        return [buffer.pop(0), buffer.pop(0)]

    groups = groups_of(6)
    if method == "__dict__":  # is looked at where both are of one class
        for group in groups:
            group[1].label = _Left("nothing")
    result = tried(leave, groups, time_limit=0.05, num_rounds=1)
    found = finding(result, "RPL007")
    group = 1 if is_returned else 4
    assert found.message.startswith("hang, run by comparing samples after the call, group ")
    assert found.message.endswith(": stopped after 0.05 s")
    assert (found.groups, found.round_number) == ([group], 1 if is_returned else None)
    assert "in hang: " in found.frames[-1]
    assert result.ended == "error"
    done = result.rounds[0]
    assert (done.num_returned, done.num_new, done.num_left) == (2, 2, 4)
    assert done.num_taken + done.num_left + done.num_removed == done.num_before


@pytest.mark.parametrize("name", ["rollout_id", "__len__"])
def test_a_class_of_the_filter_s_own_cannot_hang_the_replay(name):
    def hang(self):
        while True:
            pass

    kind = type("Odd", (Sample,), {} if name == "__len__" else {name: property(hang)})
    lists = type("Group", (list,), {"__len__": hang} if name == "__len__" else {})

    def make(args, rollout_id, buffer, num_samples):
        taken = buffer.pop(0)
        odd: Any = object.__new__(kind)
        return [lists([odd, taken[1]])]

    result = tried(make, time_limit=0.05)
    assert finding(result, "RPL007").message.startswith("hang, run by comparing")


def test_a_slow_comparison_has_the_limit_for_each_group():
    class Slow:
        def __eq__(self, other):
            time.sleep(0.06)
            return True

        __hash__ = None

    def leave(args, rollout_id, buffer, num_samples):
        for group in buffer:
            group[0].label = group[0].label or Slow()
        return pop_first(args, rollout_id, buffer, num_samples)

    result = tried(leave, groups_of(6, label=None), time_limit=0.1, num_samples=6, num_compared=0)
    assert (codes(result), result.num_served) == ([], 6)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit("own"), RuntimeError("odd")])
def test_what_comparing_raises_is_the_filter_s(error):
    class Raises:
        def __eq__(self, other):
            raise error

        __hash__ = None

    def leave(args, rollout_id, buffer, num_samples):
        buffer[0][0].label = Raises()
        return [buffer.pop(0)]

    result = tried(leave, num_rounds=1, num_compared=0)
    if isinstance(error, Exception):
        assert codes(result) == ["RPL010"]
        return
    assert finding(result, "RPL006").message == (
        "__eq__, run by comparing samples after the call, group 0, sample 0: label: "
        f"raised {type(error).__name__}: {error}"
    )


def test_returned_and_new_are_told_apart_from_taken():
    result = tried(first_reward_best, num_rounds=3)
    assert [(d.num_returned, d.num_new, d.num_taken, d.num_left) for d in result.rounds] == [
        (2, 2, 0, 6),
        (2, 0, 0, 6),
        (2, 0, 0, 6),
    ]


def test_no_limit_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(tried(pop_first)))
    thread.start()
    thread.join()
    assert codes(results[0]) == []


def test_taking_nothing_ends_until_empty_and_not_a_number_of_rounds():
    def takes_nothing(args, rollout_id, buffer, num_samples):
        return []

    assert (tried(takes_nothing).ended, len(tried(takes_nothing).rounds)) == ("nothing new", 1)
    assert (tried(takes_nothing, num_rounds=3).ended) == "rounds"
    assert len(tried(takes_nothing, num_rounds=3).rounds) == 3


# --- accounting ---------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "drop", "leave", "reverse", "again"]), st.integers(0, 7)),
    max_size=12,
)


@given(STEPS, st.integers(1, 4), st.integers(0, 9))
def test_taken_and_left_and_removed_are_what_was_before(steps, num_samples, num_groups):
    script = iter(steps)

    def follow(args, rollout_id, buffer, count):
        returned: list[list[Sample]] = []
        for _ in range(3):
            step, at = next(script, ("take", 0))
            if not buffer:
                break
            at %= len(buffer)
            if step == "take" and len(returned) < count:
                returned.append(buffer.pop(at))
            elif step == "drop":
                del buffer[at]
            elif step == "reverse":
                buffer.reverse()
            elif step == "again" and len(returned) < count and buffer[at] not in returned:
                returned.append(buffer[at])
        return returned

    result = tried(follow, groups_of(num_groups), num_samples=num_samples, num_compared=0)
    left = num_groups
    for done in result.rounds:
        assert done.num_before == left
        assert done.num_taken + done.num_left + done.num_removed == done.num_before
        left = done.num_left
    assert result.num_left == left
    taken = sum(done.num_taken for done in result.rounds)
    removed = sum(done.num_removed for done in result.rounds)
    assert taken + removed + left == num_groups


def test_the_work_is_linear_in_the_groups():
    """Counted, not timed: each group is copied twice (the second run) and compared once a run."""
    counts = []
    for num_groups in (200, 400):
        seen: list[int] = []
        groups = groups_of(num_groups)

        def note(done, findings, seen=seen):
            seen.append(done.number)

        watch = ReplayWatch(on_round=note)
        events = 0

        def count(frame, event, arg):
            nonlocal events
            events += event == "call"

        sys.setprofile(count)
        try:
            replay(
                pop_first, groups, args=ARGS, settings=ReplaySettings(num_samples=4), watch=watch
            )
        finally:
            sys.setprofile(None)
        assert len(seen) == num_groups // 4
        counts.append(events)
    assert counts[1] < 2.2 * counts[0]


# --- parts --------------------------------------------------------------------------------


def test_nested_groups_count_rollouts():
    first, second, third = make_group(0, 3)
    assert size_of([[first, second], [third]]) == 2
    first.rollout_id = second.rollout_id = 8
    assert size_of([first, second, third]) == 2


def test_copies_share_nothing_and_differ_where_edited():
    class Odd:
        def __init__(self):
            self.values = [1]

    group = make_group(0, 2, tokens=[1, 2], metadata={"a": {"b": 1}}, reward=float("nan"))
    group[0].extra = Odd()
    copied = copy_group(group)
    assert list(edits(group, copied)) == []
    copied[0].metadata["a"]["b"] = 2
    copied[0].extra.values.append(2)
    copied[1].spec_info.completion_token_num = 5
    del copied[1].label
    assert [(edit.sample, edit.field) for edit in edits(group, copied)] == [
        (0, "metadata"),
        (0, "extra"),
        (1, "label"),
        (1, "metadata"),  # make_group gave both samples the same object
        (1, "spec_info"),
    ]


def test_arrays_are_compared_by_their_numbers():
    numpy = pytest.importorskip("numpy")
    group = make_group(0, 1, rollout_log_probs=numpy.zeros(3))
    copied = copy_group(group)
    assert list(edits(group, copied)) == []
    copied[0].rollout_log_probs[1] = 1
    assert [edit.field for edit in edits(group, copied)] == ["rollout_log_probs"]


def test_a_call_lets_the_frames_go():
    outcome = call(lambda: 1 / 0, Limit(None))
    assert isinstance(outcome.error, ZeroDivisionError)
    assert outcome.error.__traceback__ is None


@pytest.mark.parametrize("name", ["num_samples", "num_rounds", "time_limit"])
def test_settings_are_checked(name):
    with pytest.raises(ConfigError, match=name):
        ReplaySettings(**{name: 0})


def test_every_code_is_explained():
    assert list(REPLAY_CODES) == sorted(REPLAY_CODES)
    for code in REPLAY_CODES.values():
        assert all(code)
    errors = {code.name for code in REPLAY_CODES.values() if code.severity == "error"}
    assert errors == {
        *("wrong-type", "wrong-size", "too-many", "returned-twice", "not-from-buffer"),
        *("exception", "time-limit"),
    }


def test_args_that_a_filter_edits_are_its_own():
    args = SimpleNamespace(num_calls=0)

    def take(args, rollout_id, buffer, num_samples):
        args.num_calls += 1
        return [buffer.pop(args.num_calls % len(buffer))]

    groups = [make_group(number, 1) for number in range(5)]
    result = replay(take, groups, args=args, settings=ReplaySettings(num_samples=1))
    assert args.num_calls == 0
    assert [finding.code for finding in result.findings if finding.code == "RPL012"] == []


def test_a_field_that_is_gone_is_called_not_set():
    group = make_group(0, 1)
    copied = copy_group(group)
    del copied[0].__dict__["label"]
    copied[0].extra = None
    assert [(edit.field, repr(edit.was), repr(edit.now)) for edit in edits(group, copied)] == [
        ("label", repr(group[0].label), "not set"),
        ("extra", "not set", "None"),
    ]
