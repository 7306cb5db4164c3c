"""What an entry of the built-in table of models is. The entries are in `hybrid_models` and `attention_models`."""

from collections.abc import Mapping
from typing import NamedTuple

_HUB = "config.json of huggingface.co/{}"


class Entry(NamedTuple):
    """One model: its config's fields, where they come from, and what is not certain about them."""

    name: str
    config: Mapping[str, object]
    source: str
    note: str = ""


def hub(name: str, /, **config: object) -> Entry:
    """An entry whose fields are those of the model's config on the hub."""
    return Entry(name, config, _HUB.format(name))


def experts(count: int, per_token: int, width: int, /, **rest: object) -> dict[str, object]:
    """The fields of a mixture of ``count`` experts."""
    return {"num_experts": count, "num_experts_per_tok": per_token, "moe_intermediate_size": width, **rest}
