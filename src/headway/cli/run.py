"""``headway run`` and ``headway resume``."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli import compose
from headway.cli.output import Json, emit_json, note, say

Engines = Annotated[list[str] | None, typer.Option("--engine", help="URL of an engine; once for each.")]
Environments = Annotated[list[str] | None, typer.Option("--env", help="NAME=SLOTS; once for each environment.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(run)
    app.command()(resume)


def run(
    what: Annotated[str, typer.Argument(help="A suite (bfcl), or a task file (TASKS.jsonl).")],
    *,
    engine: Engines = None,
    engine_kind: Annotated[str | None, typer.Option(help="vllm, sglang, llamacpp or openai; else it is asked.")] = None,
    env: Environments = None,
    slots: Annotated[int | None, typer.Option(help="Slots of the sole environment.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="A preset: default, coupled-fifo, fifo, caas, static-N ...")
    ] = None,
    concurrency: Annotated[str | None, typer.Option(help="Live trajectories at most, or auto.")] = None,
    plan: Annotated[
        str | None, typer.Option(help="What the engines were planned to hold (headway plan -o FILE); auto goes by it.")
    ] = None,
    journal: Annotated[Path | None, typer.Option(help="File that remembers the run; made anew.")] = None,
    seed: Annotated[int | None, typer.Option(help="For what is drawn by lot.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask for; else the one that is served.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the API key.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Certificates to trust.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Don't check certificates.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file; flags win over it.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many samples.")] = None,
    ids: Annotated[str | None, typer.Option(help="Only these samples, comma separated.")] = None,
    repeats: Annotated[int, typer.Option(help="Run each sample so often, as a group.")] = 1,
    agent: Annotated[str, typer.Option(help="bfcl: scripted or model. Task files have one agent.")] = "",
    inject_latency: Annotated[bool, typer.Option("--inject-latency", help="bfcl: a seeded delay on actions.")] = False,
    cache_salt: Annotated[str | None, typer.Option(help="Keep this run apart in vLLM's prefix cache.")] = None,
    error_budget: Annotated[
        str | None, typer.Option(help="Failures before it stops: a number, or a share like 5%.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a batch of agent tasks on your engines and environments."""
    flags = {
        "engines": engine,
        "engine_kind": engine_kind,
        "environments": env,
        "slots": slots,
        "policy": policy,
        "concurrency": concurrency,
        "plan": plan,
        "seed": seed,
        "model": model,
        "api_key_env": api_key_env,
        "ca_file": ca_file,
        "insecure": insecure or None,
        "error_budget": error_budget,
    }
    work = compose.Work(
        what=what,
        limit=limit,
        ids=ids,
        repeats=repeats,
        agent=agent,
        inject_latency=inject_latency,
        salt=cache_salt,
    )
    settings = compose.settings(config, flags)
    outcome = compose.execute(work, settings, journal, resume=False, say=note, quiet=as_json)
    return _finish(outcome, as_json=as_json)


def resume(
    journal: Annotated[Path, typer.Argument(help="The journal of the run to go on with.")],
    *,
    engine: Engines = None,
    env: Environments = None,
    as_json: Json = False,
) -> int:
    """Go on with a run that was interrupted. What is finished is not run again; what failed is tried anew."""
    work, settings = compose.recalled(journal, {"engines": engine, "environments": env})
    outcome = compose.execute(work, settings, journal, resume=True, say=note, quiet=as_json)
    return _finish(outcome, as_json=as_json)


def _finish(outcome: compose.Outcome, *, as_json: bool) -> int:
    if as_json:
        emit_json(outcome)
    else:
        from headway.views import summary, text

        say(text.report(summary.load(outcome.journal)))
        say(f"\n{outcome.finished} of {outcome.samples} finished, {outcome.failed} failed; {_scored(outcome)}")
        if outcome.label:
            say(f"all times rest on: {outcome.label}")
    return 1 if outcome.failed else 0


def _scored(outcome: compose.Outcome) -> str:
    if outcome.score is None:
        return f"see `headway report {outcome.journal}`"
    return f"mean score {outcome.score['mean']:.3f}"
