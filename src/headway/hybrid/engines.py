"""The engines a plan can be made for, behind one pair of questions: which dtypes, which pools."""

from typing import assert_never

from headway.errors import ConfigError
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.sglang import Sglang
from headway.hybrid.vllm import Vllm

Engine = Vllm | Sglang | LlamaCpp


def engine_of_kind(kind: str) -> Engine:
    """An engine of that kind with its own defaults."""
    match kind:
        case "vllm":
            return Vllm()
        case "sglang":
            return Sglang()
        case "llamacpp":
            return LlamaCpp()
        case _:
            raise ConfigError(
                f"{kind!r} lays out no cache we know", where="--engine-kind", hint="use vllm, sglang or llamacpp"
            )


def kind_of(engine: Engine) -> str:
    """The engine's kind, as ``--engine-kind`` takes it."""
    match engine:
        case Vllm():
            return "vllm"
        case Sglang():
            return "sglang"
        case LlamaCpp():
            return "llamacpp"
        case _:
            assert_never(engine)
