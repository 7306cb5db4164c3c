"""Orders from another process (``headway control``), carried out on a running batch."""

from typing import Protocol

from headway.adapters.control import Order
from headway.errors import ConfigError


class Steered(Protocol):
    """What can be done to a running batch; see :class:`headway.Batch`. Each raises ``ConfigError``."""

    async def pause(self) -> None:  # noqa: D102
        ...

    async def resume(self) -> None:  # noqa: D102
        ...

    async def cancel(self, sample: str) -> None:  # noqa: D102
        ...

    async def set_slots(self, environment: str, slots: int) -> None:  # noqa: D102
        ...

    async def set_concurrency(self, live: int | None) -> None:  # noqa: D102
        ...


async def obey(batch: Steered, order: Order) -> None:
    """Carry out an order. Raises: ``ConfigError`` with what is wrong with it."""
    match order.verb:
        case "pause":
            await batch.pause()
        case "resume":
            await batch.resume()
        case "cancel":
            await batch.cancel(order.argument)
        case "slots":
            name, _, number = order.argument.rpartition("=")
            await batch.set_slots(name, _number(number, "slots"))
        case "concurrency":
            await batch.set_concurrency(None if order.argument == "none" else _number(order.argument, "concurrency"))


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"needs a number, is {text!r}", where=where)
    return int(text)
