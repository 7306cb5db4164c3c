"""``headway engine up|down|list`` and ``headway doctor``."""

import functools
from pathlib import Path
from typing import Annotated

import anyio
import typer

from headway.cli.output import Json, emit_json, note, say
from headway.errors import ConfigError

_engine = typer.Typer(help="Real engines on this machine, for trying things out.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(_engine, name="engine")
    app.command()(doctor)


@_engine.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def up(
    context: typer.Context,
    *,
    replicas: Annotated[int, typer.Option(help="How many, each on a core of its own.")] = 2,
    model: Annotated[
        str | None, typer.Option(help="A built-in tiny model, or a directory with a model; else tiny-qwen3-next.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Start with the flags of a plan: headway plan ... -o FILE.")] = None,
    as_json: Json = False,
) -> int:
    """Start local CPU replicas of vLLM with a tiny hybrid model; wait until they answer; print their URLs.

    What follows ``--`` goes to vLLM as it is: ``headway engine up -- --max-model-len 32768``.
    """
    from headway.adapters import replicas as local

    if plan is not None:
        return _up_as_planned(replicas, model, plan, tuple(context.args), as_json=as_json)
    started = local.up(replicas, model or local.DEFAULT, tuple(context.args), announce=note)
    if as_json:
        emit_json(started)
    else:
        say("\n".join(replica.url for replica in started))
    return 0


def _up_as_planned(replicas: int, model: str | None, file: Path, extra: tuple[str, ...], *, as_json: bool) -> int:
    """Start with a plan's flags, ask each engine what it holds, and print it beside the plan."""
    from headway.adapters import replicas as local
    from headway.cli.planning import measure, read_plan
    from headway.hybrid.measured import compare, render_checks

    planned = read_plan(file)
    if planned.engine != "vllm" or planned.tp != 1:
        what = f"this plan is for {planned.engine} on {planned.tp} device(s); local replicas are vLLM on one"
        raise ConfigError(what, where=str(file), hint=f"start it yourself: {planned.command}")
    started = local.up(replicas, model or planned.model, (*planned.flags, *extra), announce=note)
    found = [anyio.run(measure, replica.url) for replica in started]
    checks = [compare(planned, one) for one in found]
    if as_json:
        emit_json([{"replica": r, "measured": m, "checks": c} for r, m, c in zip(started, found, checks, strict=True)])
    else:
        say("\n".join(replica.url for replica in started))
        say("\n".join(render_checks(c, m) for c, m in zip(checks, found, strict=True)))
    return 1 if any(check.agrees is False for one in checks for check in one) else 0


@_engine.command()
def down(
    urls: Annotated[list[str] | None, typer.Argument(metavar="[URL]...", help="Only these; else all of them.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Stop replicas that ``up`` started: all of yours, or those named."""
    from headway.adapters import replicas as local

    which = None
    if urls:
        running = {replica.url: replica for replica in local.listed()}
        strangers = [url for url in urls if url.rstrip("/") not in running]
        if strangers:
            has = ", ".join(running) or "none"
            raise ConfigError(f"no replica of yours runs at {strangers[0]}", hint=f"running: {has}")
        which = [running[url.rstrip("/")] for url in urls]
    stopped = local.down(which)
    emit_json({"stopped": stopped}) if as_json else say(f"stopped {stopped} replica(s)")


@_engine.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the replicas that run."""
    from headway.adapters import replicas as local

    running = local.listed()
    if as_json:
        emit_json(running)
    else:
        say("\n".join(f"{replica.url}  {replica.model}  core {replica.core}" for replica in running) or "none")


def doctor(
    url: Annotated[str, typer.Argument(help="Where the engine listens.")],
    *,
    kind: Annotated[str | None, typer.Option("--engine-kind", help="vllm, sglang, llamacpp, openai.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask for.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the API key.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Certificates to trust.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Don't check certificates.")] = False,
    as_json: Json = False,
) -> int:
    """Say whether an engine is fit: its API, its cache reporting, priority, geometry, cancellation."""
    from headway.adapters.engines.doctor import examine
    from headway.cli.compose import api_key

    look = functools.partial(
        examine, url, kind=kind, model=model, api_key=api_key(api_key_env), ca_file=ca_file, insecure=insecure
    )
    findings = anyio.run(look)
    if as_json:
        emit_json(findings)
    else:
        for check in findings.checks:
            hint = f"  ({check.hint})" if check.hint else ""
            say(f"{check.verdict:>4}  {check.name}: {check.line}{hint}")
    return 1 if any(check.verdict == "fail" for check in findings.checks) else 0
