import pytest

from headway.errors import BoundaryError, ConfigError
from headway.suites.bfcl import CATEGORIES, load_tasks, samples
from headway.suites.bfcl.tasks import _Answer, _read
from headway.suites.bfcl.tools import openai_tool, strict, tool_name


def test_all_four_categories_in_turn(tasks):
    assert len(tasks) == 800
    assert [task.category for task in list(tasks.values())[:5]] == [*CATEGORIES, "base"]
    assert list(tasks)[:2] == ["multi_turn_base_0", "multi_turn_miss_func_0"]


def test_a_task_is_its_turns_tools_and_state(tasks):
    task = tasks["multi_turn_base_0"]
    assert task.turns[0].text.startswith("Move 'final_report.pdf'")
    assert task.turns[0].official == (
        "cd(folder='document')",
        "mkdir(dir_name='temp')",
        "mv(source='final_report.pdf', destination='temp')",
    )
    assert task.official_actions == sum(len(turn.official) for turn in task.turns)
    assert task.classes == ("TwitterAPI", "GorillaFileSystem")
    assert "GorillaFileSystem" in task.config
    assert not task.long_context
    assert tasks["multi_turn_long_context_0"].long_context


def test_held_out_functions_come_with_their_turn(tasks):
    task = tasks["multi_turn_miss_func_0"]
    assert "sort" not in {tool_name(tool) for tool in task.tools}
    assert [[tool_name(tool) for tool in turn.added] for turn in task.turns] == [[], [], [], ["sort"], []]
    assert task.turns[3].text == "I have updated some more functions you can choose from. What about now?"


def test_ids_and_categories_choose():
    assert {task.category for task in load_tasks(["miss_param"])} == {"miss_param"}
    wanted = ["multi_turn_base_7", "multi_turn_long_context_3", "multi_turn_base_1"]
    assert [task.id for task in load_tasks(ids=wanted)] == wanted


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"categories": ["bas"]}, "unknown category 'bas' .*base, miss_func, miss_param, long_context"),
        ({"ids": ["multi_turn_base_200"]}, "there is no task 'multi_turn_base_200'"),
        ({"ids": ["nonsense"]}, "unknown category ''"),
    ],
)
def test_what_does_not_exist_is_one_line(arguments, line):
    with pytest.raises(ConfigError, match=f"suite bfcl: {line}"):
        load_tasks(**arguments)


def test_damaged_data_is_one_line(tmp_path):
    (tmp_path / "data.json").write_text('{"id": "a", "ground_truth": [["f()"]]}\n{"id": 3}\n')
    with pytest.raises(BoundaryError, match=r"data.json is damaged"):
        _read(tmp_path / "data.json", _Answer)
    with pytest.raises(BoundaryError, match=r"none.json is damaged"):
        _read(tmp_path / "none.json", _Answer)


def test_samples_carry_the_task_and_only_an_oracle_its_length(tasks):
    [sample] = samples([tasks["multi_turn_base_0"]])
    assert (sample.id, sample.data, sample.environments) == (
        "multi_turn_base_0",
        tasks["multi_turn_base_0"],
        ("bfcl",),
    )
    assert sample.hint is None
    [told] = samples([tasks["multi_turn_base_0"]], oracle=True)
    assert told.hint == tasks["multi_turn_base_0"].official_actions


def test_tools_are_json_schema(tasks):
    kinds = {"object", "array", "string", "integer", "number", "boolean"}

    def check(schema):
        assert schema["type"] in kinds
        for inner in schema.get("properties", {}).values():
            check(inner)
        if "items" in schema:
            check(schema["items"])

    for task in tasks.values():
        for tool in task.tools:
            assert set(tool["function"]) == {"name", "description", "parameters"}
            check(tool["function"]["parameters"])


def test_bounds_make_every_argument_short_and_required():
    tool = openai_tool(
        "f",
        "does it",
        {
            "type": "dict",
            "properties": {
                "text": {"type": "string"},
                "choice": {"type": "string", "enum": ["a", "b"]},
                "number": {"type": "float", "default": 1.0},
                "list": {"type": "array", "items": {"type": "integer"}},
                "flag": {"type": "boolean"},
                "odd": {},
                "bare": {"type": "array"},
            },
            "required": ["text"],
        },
    )
    short = strict(tool)["function"]
    assert short["strict"] is True
    assert short["parameters"]["required"] == ["text", "choice", "number", "list", "flag", "odd", "bare"]
    assert short["parameters"]["additionalProperties"] is False
    assert short["parameters"]["properties"] == {
        "text": {"type": "string", "pattern": "^[A-Za-z0-9_. -]{1,16}$"},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "number": {"type": "integer", "default": 1.0, "minimum": 0, "maximum": 9999},
        "list": {"type": "array", "maxItems": 3, "items": {"type": "integer", "minimum": 0, "maximum": 9999}},
        "flag": {"type": "boolean"},
        "odd": {"type": "string", "pattern": "^[A-Za-z0-9_. -]{1,16}$"},
        "bare": {"type": "array", "maxItems": 3, "items": {"type": "string", "pattern": "^[A-Za-z0-9_. -]{1,16}$"}},
    }
    assert tool["function"]["parameters"]["required"] == ["text"], "the original stays as it was"
