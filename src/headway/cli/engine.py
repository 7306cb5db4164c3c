"""``headway engine up|down|list`` and ``headway doctor``."""

import functools
from typing import Annotated

import anyio
import typer

from headway.cli.output import Json, emit_json, note, say

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
    model: Annotated[str, typer.Option(help="A built-in tiny model, or a directory with a model.")] = "tiny-qwen3-next",
    as_json: Json = False,
) -> None:
    """Start local CPU replicas of vLLM with a tiny hybrid model; wait until they answer; print their URLs.

    What follows ``--`` goes to vLLM as it is: ``headway engine up -- --max-model-len 32768``.
    """
    from headway.adapters import replicas as local

    started = local.up(replicas, model, tuple(context.args), announce=note)
    if as_json:
        emit_json(started)
    else:
        say("\n".join(replica.url for replica in started))


@_engine.command()
def down(*, as_json: Json = False) -> None:
    """Stop every replica that ``up`` started."""
    from headway.adapters import replicas as local

    stopped = local.down()
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
