"""Results as they come, out of a batch that runs beside its consumer."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType

import anyio

from headway.batch.sample import Result

Deliver = Callable[[Result], Awaitable[None]]


class ResultStream:
    """``async for`` over results. The batch runs in a task of its own, begun by the first step.

    An async generator can't hold a task group safely when its consumer leaves early, so this is an object with a
    clear end: exhausted, ``aclose``, or the end of its ``async with``.
    """

    def __init__(self, execute: Callable[[Deliver], Awaitable[None]]) -> None:
        self._execute = execute
        self._inlet, self._outlet = anyio.create_memory_object_stream[Result](math.inf)
        self._task: asyncio.Task[None] | None = None

    def __aiter__(self) -> "ResultStream":
        return self

    async def __anext__(self) -> Result:
        if self._task is None:
            self._task = asyncio.create_task(self._produce())
        try:
            return await self._outlet.receive()
        except anyio.EndOfStream:
            await self._task
            raise StopAsyncIteration from None
        except anyio.ClosedResourceError:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "ResultStream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the batch if it still runs; finished samples stay in its journal, what went wrong is not raised."""
        self._outlet.close()
        if self._task is None:
            self._inlet.close()
            return
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # heard, lest the loop complain that nobody did

    async def _produce(self) -> None:
        with self._inlet:
            await self._execute(self._inlet.send)
