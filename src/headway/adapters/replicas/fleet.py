"""Replicas up and down: what `headway engine up` and `headway engine down` do."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from headway.adapters.replicas import models, process, record, server, venv
from headway.adapters.replicas.places import Announce, locked, state
from headway.adapters.replicas.record import Replica
from headway.errors import BoundaryError, ConfigError

BASE_PORT = 18400
GRACE = 5.0
"""Seconds between asking a server to end and ending it."""

_PATIENCE = 300.0
_LOOK = 0.2
_SAY = 10.0


def _silent(_line: str) -> None:
    """Say nothing."""


def up(
    replicas: int,
    model: str = models.DEFAULT,
    extra_args: Sequence[str] = (),
    *,
    base_port: int = BASE_PORT,
    announce: Announce = _silent,
) -> list[Replica]:
    """Have ``replicas`` equal vLLM servers running here, each on a core of its own; returns when all answer.

    Makes the engine's environment and the model where they are missing. Replicas already up with the same
    settings are taken, only missing ones are started; others are left alone.

    Args:
        replicas: how many.
        model: one of ``models.MODELS``, or a directory with a model.
        extra_args: for vLLM, after Headway's own, so they win (``["--max-model-len", "32768"]``).
        base_port: first port to try.
        announce: takes lines on how it goes.

    Raises: ``ConfigError``, ``BoundaryError`` (with the end of the log); nothing that it started is left then.
    """
    if replicas < 1:
        raise ConfigError("at least one replica is needed", where="--replicas")
    root = venv.ensure(announce)
    directory = models.ensure(model, root, announce)
    args = tuple(extra_args)
    with locked(state() / "replicas.lock"):
        running = record.load()
        same = [r for r in running if r.like(directory, args)][:replicas]
        if same:
            announce(f"already up: {', '.join(r.url for r in same)}")
        if others := len(running) - len(same):
            announce(f"note: {others} other replica(s) run here; `headway engine down` stops them all")
        fresh: list[server.Starting] = []
        try:
            for place in range(len(same), replicas):
                known = [*running, *(s.replica for s in fresh)]
                fresh.append(_start(root, model, directory, args, base_port, place, known))
                announce(f"starting {fresh[-1].replica.url} on core {fresh[-1].replica.core}")
                record.save([*running, *(s.replica for s in fresh)])
            _wait(fresh, announce)
        except BaseException:
            _stop([s.replica for s in fresh], grace=0.5)
            record.save(running)
            raise
        return [*same, *(s.replica for s in fresh)]


def down(which: Sequence[Replica] | None = None) -> int:
    """Stop ``which`` replicas, None: all that Headway started here. Returns how many it stopped."""
    with locked(state() / "replicas.lock"):
        running = record.load()
        doomed = running if which is None else [r for r in running if r in which]
        stopped = _stop(doomed, GRACE)
        record.save([r for r in running if r not in doomed])
    return stopped


def listed() -> list[Replica]:
    """Return the replicas that Headway started here and that still run."""
    return record.load()


def _start(
    root: Path,
    model: str,
    directory: Path,
    args: tuple[str, ...],
    base_port: int,
    place: int,
    known: Sequence[Replica],
) -> server.Starting:
    cores = sorted(os.sched_getaffinity(0))
    port = server.free_port(base_port, {int(r.url.rpartition(":")[2]) for r in known})
    log = state() / "logs" / f"replica-{port}.log"
    return server.start(root, model, directory, port, cores[place % len(cores)], args, log)


def _wait(starting: Sequence[server.Starting], announce: Announce) -> None:
    began = said = time.monotonic()
    waiting = list(starting)
    while waiting:
        waiting = [s for s in waiting if not _up(s, time.monotonic() - began, announce)]
        now = time.monotonic()
        if waiting and now - began > _PATIENCE:
            raise BoundaryError(
                f"{waiting[0].replica.url} is not ready after {_PATIENCE:g} s:\n{waiting[0].last_words()}"
            )
        if waiting and now - said >= _SAY:
            said = now
            announce(f"still starting after {now - began:.0f} s: {', '.join(s.replica.url for s in waiting)}")


def _up(starting: server.Starting, seconds: float, announce: Announce) -> bool:
    if not starting.ready(_LOOK):
        return False
    announce(f"ready after {seconds:.0f} s: {starting.replica.url}")
    return True


def _stop(doomed: Sequence[Replica], grace: float) -> int:
    return sum(process.stop(r.pid, r.start, grace) for r in doomed)
