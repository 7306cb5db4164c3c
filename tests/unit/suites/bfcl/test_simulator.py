import pytest

from headway.suites.bfcl.distribution import official
from headway.suites.bfcl.simulator import Simulator, call_line, parse_call, refusal


def test_calls_are_executed_and_state_is_kept(tasks):
    task, simulator = tasks["multi_turn_base_0"], Simulator()
    first = simulator.execute(task, ["cd(folder='document')", "ls()"])
    assert first.results == (
        '{"current_working_directory": "document"}',
        '{"current_directory_content": ["final_report.pdf", "previous_report.pdf"]}',
    )
    assert first.executed == ("cd(folder='document')", "ls()")
    assert simulator.execute(task, ["pwd()"]).results[0].endswith('/document"}')
    assert "Error" in simulator.execute(task, ["cd(nothing=1)"]).results[0]


def test_trajectories_of_one_task_do_not_share_state(tasks):
    task, one, other = tasks["multi_turn_base_0"], Simulator(), Simulator()
    one.execute(task, ["cd(folder='document')", "rm(file_name='final_report.pdf')"])
    assert "final_report.pdf" in other.execute(task, ["cd(folder='document')", "ls()"]).results[1]
    executor = official("eval_checker.multi_turn_eval.multi_turn_utils")
    assert not [name for name in vars(executor) if name.startswith("headway")]


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "cd(folder=__import__('os').getcwd())",
        "cd(folder='a'), cd(folder='b')",
        "cd(**{'folder': 'a'})",
        "cd(*['a'])",
        "(lambda: 1)()",
        "cd",
        "cd(",
        "cd(folder='a'\0)",
        "_load_scenario(scenario={})",
        "logarithm(value=2,base=10,precision=100000000)",
        "cd(" + "[" * 5000 + "]" * 5000 + ")",
    ],
)
def test_what_must_not_be_evaluated_is_refused_with_a_reason(tasks, line):
    task, simulator = tasks["multi_turn_base_0"], Simulator()
    outcome = simulator.execute(task, ["pwd()", line, "ls()"])
    assert outcome.executed == ("pwd()", "ls()")
    assert outcome.results[1].startswith("Error during execution: ")
    assert len(outcome.results) == 3


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("power(base=2,exponent=1000)", False),
        ("power(base=2,exponent=1001)", True),
        ("power(2, 10000000000)", True),
        ("power(2, 10)", False),
        ("logarithm(1000000, 10, 5)", False),
        ("logarithm(value=10,base=2,precision=1e9)", True),
        ("square_root(number=2,precision='many')", True),
        ("round_number(number=5,decimal_places=-1000000000)", True),
        ("round_number(number=5.5)", False),
        ("add(a=10000000,b=1)", False),
    ],
)
def test_sums_that_would_take_hours_are_refused(tasks, line, refused):
    task = next(task for task in tasks.values() if "MathAPI" in task.classes)
    assert (refusal(task, line) is not None) is refused


def test_no_official_call_is_refused(tasks):
    for task in tasks.values():
        for turn in task.turns:
            assert [refusal(task, line) for line in turn.official] == [None] * len(turn.official)


def test_call_lines_can_be_read_back():
    arguments = {"text": "it's \"odd\" __import__('os')\n", "list": [1, 2.5, None, True], "deep": {"a": {"b": "c"}}}
    assert parse_call(call_line("f", arguments)) == ("f", [], arguments)
    assert parse_call(call_line("f", {"a=1),g(b": 2})) is None
