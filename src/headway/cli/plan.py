"""``headway plan``: how to split memory, how many trajectories to keep live, which flags to pass."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli import planning
from headway.cli.output import Json, emit_json, note, say

Mean = Annotated[str | None, typer.Option(metavar="MEAN[~SD]")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(plan)


def plan(
    config: Annotated[str, typer.Argument(help="A config.json, its folder, an override file, or a known model.")],
    *,
    engine_kind: Annotated[str | None, typer.Option(help="vllm, sglang or llamacpp.")] = None,
    engine_url: Annotated[str | None, typer.Option(help="A live engine to check the plan against.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1,
    memory: Annotated[str | None, typer.Option(help="Bytes for the cache per rank, as 80GiB.")] = None,
    device_memory: Annotated[str | None, typer.Option(help="A device's memory, to derive --memory from.")] = None,
    weights: Annotated[str | None, typer.Option(help="Bytes of weights per rank; else estimated.")] = None,
    utilization: Annotated[float, typer.Option(help="Share of the device that the engine takes.")] = 0.9,
    overhead: Annotated[str, typer.Option(help="Bytes for activations, graphs, the runtime.")] = "3GiB",
    workload: Annotated[Path | None, typer.Option(help="A run (.headway) or a trace (JSONL).")] = None,
    turns: Mean = None,
    first_prompt: Mean = None,
    growth: Mean = None,
    output: Mean = None,
    action: Mean = None,
    shared_prefix: Annotated[int, typer.Option(help="Tokens that all first prompts have in common.")] = 0,
    fit: Annotated[Path | None, typer.Option(help="A run (.headway) to fit the time model from.")] = None,
    device: Annotated[str | None, typer.Option(help="Assume a device's time model: H100, H200 ...")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="Type of the KV cache, as fp8.")] = None,
    state_dtype: Annotated[str | None, typer.Option(help="Type of recurrent states, as bfloat16.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another engine setting; `--set ?` lists.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output-file", help="Write the plan as JSON too.")] = None,
    as_json: Json = False,
) -> int:
    """Plan one engine replica for a model and a workload.

    Without a workload, or without a time model (--fit, --device), it gives bytes and limits only.
    """
    question = planning.Question(
        config=config,
        kind=engine_kind,
        url=engine_url,
        tp=tp,
        memory=memory,
        device_memory=device_memory,
        weights=weights,
        utilization=utilization,
        overhead=overhead,
        workload=workload,
        by_hand={
            "turns": turns,
            "first_prompt": first_prompt,
            "growth": growth,
            "output": output,
            "action": action,
        },
        shared_prefix=shared_prefix,
        fit=fit,
        device=device,
        kv_dtype=kv_dtype,
        state_dtype=state_dtype,
        options=tuple(option or ()),
    )
    answer = planning.answer(question)
    if out is not None:
        planning.write(answer, out)
        note(f"written: {out}")
    emit_json(planning.merged(answer)) if as_json else say(planning.text(answer))
    return 1 if any(check.agrees is False for check in answer.checks) else 0
