import pytest

from headway.errors import ConfigError
from headway.suites.bfcl import BfclResult, judge, score


def official_calls(task):
    return tuple(tuple((line,) for line in turn.official) for turn in task.turns)


def result(task, points):
    return BfclResult(
        task=task.id,
        category=task.category,
        agent="x",
        calls=(),
        outputs=(),
        turns=0,
        actions=0,
        ended="finished",
        score=points,
    )


def test_every_official_answer_is_right(tasks):
    wrong = {name: judge(task, official_calls(task)).error for name, task in tasks.items()}
    assert {name: error for name, error in wrong.items() if error} == {}


def test_judging_twice_gives_the_same(tasks):
    task = tasks["multi_turn_base_0"]
    assert judge(task, official_calls(task)) == judge(task, official_calls(task))


def test_a_wrong_call_a_missing_turn_and_silence_are_wrong(tasks):
    task = tasks["multi_turn_base_0"]
    right = official_calls(task)
    wrong = (*right[:-1], (("touch(file_name='odd')",), *right[-1]))
    assert judge(task, wrong).error == "multi_turn:instance_state_mismatch"
    assert judge(task, right[:-1]).error == "multi_turn:force_terminated"
    assert judge(task, ((), *right[1:])).error == "multi_turn:empty_turn_model_response"
    assert judge(task, (((),), *right[1:])).error == "multi_turn:empty_turn_model_response"


def test_scores_are_shares_and_what_has_no_result_is_wrong(tasks):
    batch = [tasks["multi_turn_base_0"], tasks["multi_turn_base_1"], tasks["multi_turn_miss_func_0"]]
    scores = score([result(batch[0], 1.0), result(batch[2], 1.0)], tasks=batch)
    assert (scores.total, scores.categories, scores.tasks) == (2 / 3, {"base": 0.5, "miss_func": 1.0}, 3)
    assert score([], tasks=[]).total == 0.0


def test_results_that_do_not_belong_are_refused(tasks):
    one, other = tasks["multi_turn_base_0"], tasks["multi_turn_base_1"]
    with pytest.raises(ConfigError, match="multi_turn_base_1' is of no task of this batch"):
        score([result(other, 1.0)], tasks=[one])
    with pytest.raises(ConfigError, match="multi_turn_base_0' is there twice"):
        score([result(one, 1.0), result(one, 0.0)], tasks=[one])
