"""The outside world of a coordinator: asked at the start, let go of at the end."""

from collections.abc import Collection

import anyio

from headway.core.facts import EngineJoined
from headway.core.units import Nanos
from headway.errors import ConfigError, EngineError
from headway.ports import Engine, Environment, Journal


async def joined_all(engines: Collection[Engine]) -> list[EngineJoined]:
    """Ask all engines at once what they can hold. Raises: ``ConfigError`` when one of them can't be used."""
    joined: dict[str, EngineJoined] = {}
    wrong: list[ConfigError] = []

    async def ask(engine: Engine) -> None:
        try:
            joined[engine.id] = await engine.join(Nanos(0))
        except ConfigError as error:
            wrong.append(error)
        except EngineError as error:
            wrong.append(ConfigError(str(error), where=str(engine.id)))

    async with anyio.create_task_group() as tasks:
        for engine in engines:
            tasks.start_soon(ask, engine)
    if wrong:
        raise wrong[0]
    return [joined[engine.id] for engine in engines]


async def closed(port: Engine | Environment | Journal) -> None:
    """Let go of a port, also when cancelled."""
    with anyio.CancelScope(shield=True):
        await port.close()
