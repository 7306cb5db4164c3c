"""What an agent holds: its turns and its actions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import msgspec

from headway.core.units import MAIN, SECOND, EnvironmentId, StreamId, Tokens, TrajectoryId
from headway.drivers.live import Coordinator, occupy
from headway.errors import ConfigError, SandboxError
from headway.ports import Clock, Environment, TurnAnswer, TurnRequest

T = TypeVar("T")


@dataclass(slots=True)
class TokenGuess:
    """Prompt lengths before an engine has counted them: bytes times a ratio that is learnt from its answers."""

    counted: int = 0
    measured: int = 0

    def tokens(self, size: int) -> int:
        """Tokens in ``size`` bytes of JSON; a quarter of them until something was counted."""
        return size * self.counted // self.measured if self.measured else size // 4

    def learn(self, size: int, tokens: int) -> None:
        """An engine counted ``tokens`` in ``size`` bytes."""
        self.measured += size
        self.counted += tokens


@dataclass(slots=True)
class ServiceBudget:
    """How long a sample may be served. Waiting in a queue, for an engine or a slot, costs nothing."""

    left: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def waiting(self) -> None:
        """The agent waits for Headway: the clock stops."""
        self.left = self.scope.deadline - anyio.current_time()
        self.scope.deadline = float("inf")

    def serving(self, spent: float = 0.0) -> None:
        """The agent runs again, after ``spent`` seconds of service."""
        self.left -= spent
        self.scope.deadline = anyio.current_time() + max(0.0, self.left)


@dataclass(slots=True)
class _StreamState:
    turns: int = 0
    size: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all trajectories of a batch share."""

    coordinator: Coordinator
    environments: Mapping[EnvironmentId, Environment]
    clock: Clock
    guess: TokenGuess
    fields: Mapping[str, Any]
    turn_timeout: float | None = None
    action_timeout: float | None = None


class Trajectory:
    """One attempt at a sample: the agent's way to engines and environments.

    A turn of a stream follows the last one; streams of one trajectory run side by side.
    """

    def __init__(
        self, identity: str, attempt: int, group: str | None, around: Surroundings, budget: ServiceBudget
    ) -> None:
        self.id, self.attempt, self.group = identity, attempt, group
        self._around = around
        self._budget = budget
        self._streams: dict[StreamId, _StreamState] = {}
        self._actions = 0

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], *, stream: str = MAIN, timeout: float | None = None, **body: Any
    ) -> TurnAnswer:
        """Run a turn of chat.

        Args:
            messages: the whole conversation, as OpenAI shapes it.
            stream: which growing prompt of this trajectory it belongs to.
            timeout: seconds that the engine may take; waiting in a queue doesn't count.
            body: further fields of the request (``tools``, ``max_tokens``, ``temperature`` ...), sent as they are.

        Raises: ``Rejected`` when no engine will ever answer it.
        """
        return await self._turn(StreamId(stream), {"messages": list(messages), **body}, "chat/completions", timeout)

    async def complete(
        self, prompt: str | Sequence[int], *, stream: str = MAIN, timeout: float | None = None, **body: Any
    ) -> TurnAnswer:
        """Run a turn of plain completion, with text or token ids; the rest as for ``chat``."""
        prompt = prompt if isinstance(prompt, str) else list(prompt)
        return await self._turn(StreamId(stream), {"prompt": prompt, **body}, "completions", timeout)

    async def _turn(self, stream: StreamId, body: dict[str, Any], route: str, timeout: float | None) -> TurnAnswer:
        around, state = self._around, self._streams.setdefault(stream, _StreamState())
        content = body.get("messages", body.get("prompt"))
        exact = len(content) if isinstance(content, list) and content and isinstance(content[0], int) else None
        size = len(msgspec.json.encode(content)) + len(msgspec.json.encode(body.get("tools")))
        grown = (
            around.guess.tokens(size - state.size) + state.total if size >= state.size else around.guess.tokens(size)
        )
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        turn, state.turns = state.turns, state.turns + 1
        self._budget.waiting()
        spent = 0.0
        try:
            answer = await around.coordinator.turn(
                TrajectoryId(self.id),
                stream,
                turn,
                TurnRequest({**around.fields, **body}, route, timeout if timeout is not None else around.turn_timeout),
                prompt=Tokens(exact if exact is not None else grown),
                max_output=None if limit is None else Tokens(int(limit)),
            )
            spent = answer.service / SECOND
        finally:
            self._budget.serving(spent)
        around.guess.learn(size, answer.prompt_tokens)
        state.size, state.total = size, answer.prompt_tokens + answer.output_tokens
        return answer

    @asynccontextmanager
    async def action(
        self, environment: str | None = None, *, stream: str = MAIN, timeout: float | None = None
    ) -> AsyncIterator[Any]:
        """Wait for a slot of an environment and hold it while the block runs; yields the place to act in.

        Args:
            environment: which; may be left out where the batch has one only.
            stream: the stream that acts.
            timeout: seconds that the block may take, the wait for the slot excluded; raises ``TimeoutError``.

        Raises: ``Rejected`` when there is no such environment.
        """
        around = self._around
        name = EnvironmentId(environment if environment is not None else self._only_environment())
        action, self._actions = self._actions, self._actions + 1
        self._budget.waiting()
        try:
            grant = await around.coordinator.slot(TrajectoryId(self.id), StreamId(stream), action, name)
        finally:
            self._budget.serving()
        limit = timeout if timeout is not None else around.action_timeout
        holding = asynccontextmanager(occupy)(around.coordinator, around.environments[name], grant, around.clock)
        async with holding as place:
            with anyio.fail_after(limit):
                yield place

    async def act(
        self,
        work: Callable[[Any], Awaitable[T]],
        environment: str | None = None,
        *,
        stream: str = MAIN,
        timeout: float | None = None,
        attempts: int = 3,
    ) -> T:
        """Run ``work(place)`` under a slot, and again, at most ``attempts`` times, if its place dies under it.

        Raises: what ``work`` raises; ``SandboxError`` when the last place was lost too.
        """
        for tried in range(1, attempts + 1):
            try:
                async with self.action(environment, stream=stream, timeout=timeout) as place:
                    return await work(place)
            except SandboxError as error:
                if not error.lost or tried == attempts:
                    raise
        raise ConfigError(f"attempts must be at least 1, is {attempts}")

    def _only_environment(self) -> EnvironmentId:
        names = list(self._around.environments)
        if len(names) != 1:
            known = ", ".join(names) or "none"
            raise ConfigError("say which environment the action is for", hint=f"this batch has: {known}")
        return names[0]
