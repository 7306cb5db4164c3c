"""Tool documents of the benchmark as OpenAI tools."""

from collections.abc import Mapping
from typing import Any

Tool = Mapping[str, Any]
"""A tool as it goes into a request body."""

_TYPES = {"dict": "object", "float": "number", "integer": "integer", "string": "string", "boolean": "boolean"}
_TYPES["array"] = "array"

_SHORT_TEXT = "^[A-Za-z0-9_. -]{1,16}$"
_FEW_ITEMS = 3
_LARGEST = 9999


def openai_tool(name: str, description: str, parameters: Mapping[str, Any]) -> Tool:
    """Translate a document: its types become those of JSON Schema. What it returns is not told, as upstream."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": _schema(parameters)},
    }


def bounded_arguments(tool: Tool) -> dict[str, Any]:
    """A schema for a tool's arguments that any model can fill in within a hundred tokens.

    All are required, texts are short and plain, numbers are whole and small. Without bounds a model with random
    weights, held to the schema, writes one endless text or number.
    """
    return _bounds(tool["function"]["parameters"])


def strict(tool: Tool) -> Tool:
    """The tool with bounded arguments, and the engine held to them."""
    return {
        "type": "function",
        "function": {**tool["function"], "strict": True, "parameters": bounded_arguments(tool)},
    }


def tool_name(tool: Tool) -> str:
    """The function's name."""
    return str(tool["function"]["name"])


def _schema(document: Mapping[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in document.items() if key not in ("type", "properties", "items")}
    schema["type"] = _TYPES.get(document.get("type", "string"), "string")
    if "properties" in document:
        schema["properties"] = {name: _schema(inner) for name, inner in document["properties"].items()}
    if "items" in document:
        schema["items"] = _schema(document["items"])
    return schema


def _bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    match schema["type"]:
        case "object":
            inner = {name: _bounds(value) for name, value in schema.get("properties", {}).items()}
            bounds = {"properties": inner, "required": list(inner), "additionalProperties": False}
        case "array":
            bounds = {"maxItems": _FEW_ITEMS, "items": _bounds(schema.get("items", {"type": "string"}))}
        case "string" if "enum" not in schema:
            bounds = {"pattern": _SHORT_TEXT}
        case "integer" | "number":
            bounds = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
        case _:
            pass
    return {**schema, **bounds}
