from headway.core.units import Tokens
from headway.suites.bfcl import fit
from headway.suites.bfcl.conversation import official_call
from headway.suites.bfcl.fit import estimated_tokens


def test_tasks_that_do_not_fit_are_told_apart_in_one_line(tasks):
    short, long = tasks["multi_turn_base_0"], tasks["multi_turn_long_context_113"]
    told = fit([short, long], Tokens(8192))
    assert (told.fitting, told.too_long) == ((short,), (long,))
    assert told.line.startswith("1 of 2 tasks left out: they need more than the engine's context of 8192 tokens")
    assert "multi_turn_long_context_113" in told.line
    assert "\n" not in told.line


def test_all_fit_where_the_context_is_long_or_unknown(tasks):
    long = tasks["multi_turn_long_context_113"]
    assert fit([long], None).too_long == ()
    assert fit([long], Tokens(131072)).line == ""


def test_an_estimate_grows_with_the_conversation(tasks):
    base = tasks["multi_turn_base_0"]
    assert estimated_tokens(base, strict=True) > estimated_tokens(base), "strict tools are longer"
    assert estimated_tokens(tasks["multi_turn_long_context_0"]) > estimated_tokens(tasks["multi_turn_base_0"]) > 1000


def test_values_by_place_take_their_names_from_the_tool(tasks):
    task = tasks["multi_turn_miss_func_0"]
    tools = [*task.tools, *task.turns[3].added]
    assert official_call("sort('final_report.pdf')", tools) == ("sort", '{"file_name": "final_report.pdf"}')
    assert official_call("cd(folder='a')", tools) == ("cd", '{"folder": "a"}')
    assert official_call("no call", tools) == ("no call", "{}")
