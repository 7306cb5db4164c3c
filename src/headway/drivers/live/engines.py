"""Watching engines: what each says of itself, that it is gone, and that it is back."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from headway.core.facts import EngineLost, Fact
from headway.core.units import SECOND, EngineId, Nanos, seconds
from headway.core.world import World
from headway.errors import BoundaryError, ConfigError, EngineError
from headway.ports import Clock, Engine


@dataclass(frozen=True, slots=True)
class Watch:
    """How engines are watched: look every ``interval``; with none alive for ``patience``, the batch stops.

    An engine that doesn't answer ``deaf`` looks in a row, and yet isn't plainly gone, is taken to be lost too.
    """

    interval: Nanos = Nanos(2 * SECOND)
    patience: Nanos = Nanos(60 * SECOND)
    deaf: int = 5


class NoEngineError(BoundaryError):
    """No engine has been alive for longer than the patience; the batch stopped and can be resumed."""


class Watcher:
    """Looks at every engine now and then, and at once at one that is suspected. Reports facts, decides nothing."""

    def __init__(
        self,
        watch: Watch,
        clock: Clock,
        world: World,
        report: Callable[[Fact], None],
    ) -> None:
        """``world`` is read only: which engines are taken to be alive."""
        self._watch, self._clock, self._world, self._report = watch, clock, world, report
        self._suspicions: dict[EngineId, anyio.Event] = {}
        self._alive_at = clock.now()

    def suspect(self, engine: EngineId) -> None:
        """A turn says that this engine is gone: look at it now."""
        if engine in self._suspicions:
            self._suspicions[engine].set()

    async def follow(self, engine: Engine) -> None:
        """Watch one engine for ever. Raises: ``NoEngineError``."""
        deaf = 0
        self._suspicions[engine.id] = anyio.Event()
        while True:
            with anyio.move_on_after(self._watch.interval / SECOND):
                await self._suspicions[engine.id].wait()
            self._suspicions[engine.id] = anyio.Event()
            known = engine.id in self._world.engines
            cause, slow = await self._look(engine, known=known)
            deaf = deaf + 1 if slow else 0
            if cause is None or (slow and deaf < self._watch.deaf):
                self._alive_at = self._clock.now()
            elif known:
                self._report(EngineLost(self._clock.now(), engine.id, cause))
            else:
                self._give_up_in_time(engine, cause)

    def _give_up_in_time(self, engine: Engine, cause: str) -> None:
        if not self._world.engines and self._clock.now() - self._alive_at > self._watch.patience:
            waited = seconds(self._watch.patience)
            raise NoEngineError(f"no engine has been alive for {waited:g} s; the last to fail, {engine.id}: {cause}")

    async def _look(self, engine: Engine, *, known: bool) -> tuple[str | None, bool]:
        """Look at an engine and report what it says. Returns what is wrong, if something is; and if it may be slow."""
        try:
            said = await (engine.sample if known else engine.join)(self._clock.now())
        except (EngineError, ConfigError) as error:
            return str(error), known and isinstance(error, EngineError) and error.kind != "lost"
        if said is not None:
            self._report(said)
        return None, False
