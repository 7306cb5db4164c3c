"""What an agent holds: its turns and its actions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from headway.batch.budget import ServiceBudget
from headway.batch.lengths import PromptLength, TokenGuess
from headway.core.units import MAIN, EnvironmentId, StreamId, Tokens, TrajectoryId
from headway.drivers.live import Coordinator, occupy
from headway.errors import ConfigError, SandboxError
from headway.ports import Clock, Environment, TurnAnswer, TurnRequest

T = TypeVar("T")


@dataclass(slots=True)
class _StreamState:
    length: PromptLength
    turns: int = 0
    busy: bool = False


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

        Raises: ``Rejected`` when no engine will ever answer it; ``ConfigError`` when the stream has a turn under way.
        """
        return await self._turn(StreamId(stream), {"messages": list(messages), **body}, "chat/completions", timeout)

    async def complete(
        self, prompt: str | Sequence[int], *, stream: str = MAIN, timeout: float | None = None, **body: Any
    ) -> TurnAnswer:
        """Run a turn of plain completion, with text or token ids; the rest as for ``chat``."""
        prompt = prompt if isinstance(prompt, str) else list(prompt)
        return await self._turn(StreamId(stream), {"prompt": prompt, **body}, "completions", timeout)

    async def _turn(self, stream: StreamId, body: dict[str, Any], route: str, timeout: float | None) -> TurnAnswer:
        around, state = self._around, self._stream(stream)
        if state.busy:
            hint = "wait for it, or give parallel turns streams of their own: stream='...'"
            raise ConfigError(f"a turn of stream {stream!r} is under way", hint=hint)
        body = {**around.fields, **body}
        size = len(msgspec.json.encode(body))  # also: what can't be sent fails here, in the agent
        prompt, limit = _counted(body) or state.length.expected(size), _most_output(body)
        request = TurnRequest(body, route, timeout if timeout is not None else around.turn_timeout)
        turn, state.turns, state.busy = state.turns, state.turns + 1, True
        try:
            with self._budget.request() as service:
                answer = await around.coordinator.turn(
                    TrajectoryId(self.id), stream, turn, request, prompt=prompt, max_output=limit, service=service
                )
        finally:
            state.busy = False
        state.length.learn(size, answer.prompt_tokens, answer.output_tokens)
        return answer

    def _stream(self, name: StreamId) -> _StreamState:
        state = self._streams.get(name)
        if state is None:
            state = self._streams[name] = _StreamState(PromptLength(self._around.guess))
        return state

    @asynccontextmanager
    async def action(
        self, environment: str | None = None, *, stream: str = MAIN, timeout: float | None = None
    ) -> AsyncIterator[Any]:
        """Wait for a slot of an environment and hold it while the block runs; yields the place to act in.

        Args:
            environment: which; may be left out where the batch has one only.
            stream: the stream that acts.
            timeout: seconds that making the place and the block may take together, the wait for the slot excluded.

        Raises: ``Rejected`` when there is no such environment, ``TimeoutError``.
        """
        around = self._around
        name = EnvironmentId(environment if environment is not None else self._only_environment())
        limit = timeout if timeout is not None else around.action_timeout
        action, self._actions = self._actions, self._actions + 1
        with self._budget.request() as service:
            grant = await around.coordinator.slot(TrajectoryId(self.id), StreamId(stream), action, name)
            service.start()
            async with occupy(around.coordinator, around.environments[name], grant, around.clock, limit) as place:
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


def _counted(body: Mapping[str, Any]) -> Tokens | None:
    """Tokens of a prompt that comes as tokens."""
    content = body.get("prompt")
    return Tokens(len(content)) if isinstance(content, list) and content and isinstance(content[0], int) else None


def _most_output(body: Mapping[str, Any]) -> Tokens | None:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return Tokens(limit) if isinstance(limit, int) else None
