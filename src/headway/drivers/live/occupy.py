"""Holding a granted slot: the place is entered, worked in, left, and only then is the slot free again."""

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import anyio

from headway.core.commands import GrantAction
from headway.core.units import Nanos, TrajectoryId
from headway.drivers.live.coordinator import Coordinator
from headway.errors import FailureKind, SandboxError
from headway.ports import Clock, Environment

LETTING_GO = 60.0
"""Seconds that an environment may take to let go of an action or of a trajectory; a batch must not hang on one."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def occupy(
    coordinator: Coordinator, environment: Environment, grant: GrantAction, clock: Clock, limit: float | None = None
) -> AsyncIterator[object]:
    """Hold a granted slot while the block runs; yields the place.

    ``limit``: seconds for entering and the block together. The slot is freed when the environment has let go.
    Raises: ``TimeoutError``, and whatever the environment and the block raise.
    """
    began = clock.now()
    failure: str | None = None
    kind: FailureKind = "error"
    try:
        with anyio.move_on_after(limit) as scope:
            yield await environment.enter(grant)
        _in_time(scope, limit)
    except BaseException as error:
        kind, failure = _why(error)
        raise
    finally:
        await let_go(environment, environment.leave(grant), grant.trajectory)
        coordinator.free(grant, Nanos(clock.now() - began), failure, kind)


def _in_time(scope: anyio.CancelScope, limit: float | None) -> None:
    if scope.cancelled_caught:
        raise TimeoutError(f"the action took longer than its {limit:g} s")


def _why(error: BaseException) -> tuple[FailureKind, str]:
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return "error", "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout", str(error) or "timed out"
    return "error", str(error) if isinstance(error, SandboxError) else f"{type(error).__name__}: {error}"


async def let_go(environment: Environment, work: Awaitable[None], trajectory: TrajectoryId) -> None:
    """Await an environment's ``leave`` or ``release``: shielded, within bounds; its faults are logged, not raised."""
    with anyio.move_on_after(LETTING_GO, shield=True) as scope:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - an environment may be the caller's code; its fault costs no result
            _log.warning("environment %s, letting go of %s: %s", environment.id, trajectory, error)
    if scope.cancelled_caught:
        _log.warning("environment %s did not let go of %s within %g s", environment.id, trajectory, LETTING_GO)
