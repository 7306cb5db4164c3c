"""What a live driver needs from the outside world, as Protocols: adapters satisfy them, tests fake them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headway.core.commands import Command, GrantAction, StartTurn
from headway.core.facts import EngineJoined, EngineSampled, Fact
from headway.core.units import EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId

Headers = Sequence[tuple[str, str]]
"""HTTP headers, in their order."""


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> Nanos:
        """Nanoseconds since the batch began."""
        ...

    async def sleep_until(self, at: Nanos) -> None:
        """Return at ``at`` or at once if it is past."""
        ...


class Relay(Protocol):
    """Who takes an engine's answer byte by byte, as a gateway does for its caller.

    One attempt at a turn either calls ``refused``, or ``whole``, or ``begun`` and then ``more`` for each piece; when it
    fails in between, ``broke``.
    """

    @property
    def prompt(self) -> Tokens:
        """The prompt's length as far as is known, for engines that don't count it."""
        ...

    @property
    def started(self) -> bool:
        """Has the caller got a part of an answer? Then nothing may be tried again."""
        ...

    def refused(self, status: int, headers: Headers, body: bytes) -> None:
        """The engine answered with an error, which it may be asked again after."""
        ...

    def whole(self, headers: Headers, body: bytes) -> None:
        """The whole answer, not streamed."""
        ...

    def begun(self, headers: Headers) -> None:
        """A streamed answer begins."""
        ...

    async def more(self, piece: bytes) -> None:
        """A piece of it. Returns when there is room for the next."""
        ...

    def broke(self, cause: str) -> None:
        """A streamed answer broke off."""
        ...


class TurnRequest(msgspec.Struct, frozen=True):
    """What a stream wants from an engine: an OpenAI request body without the fields that Headway owns.

    ``route`` is the path under ``/v1`` (``chat/completions``, ``completions``, ``responses``). ``body`` goes out as it
    is, but for ``model`` where it is missing, ``priority`` where the engine knows it, and ``stream``. Values may be
    ``msgspec.Raw``: those bytes are not touched. With a ``relay`` the answer goes there as it is, ``stream`` stays as
    the caller set it, and ``headers`` go along.
    """

    body: Mapping[str, Any]
    route: str = "chat/completions"
    timeout: float | None = None
    headers: Headers = ()
    relay: Relay | None = None


class TurnAnswer(msgspec.Struct, frozen=True):
    """An engine's answer: the decoded body as it came, and the facts in it. None: not reported.

    ``body`` is empty where a relay took the answer.
    """

    body: Mapping[str, Any]
    prompt_tokens: Tokens
    output_tokens: Tokens
    service: Nanos
    cached_tokens: Tokens | None = None
    engine_queue: Nanos | None = None

    @property
    def message(self) -> Mapping[str, Any]:
        """The first choice's message, ready to be appended to the conversation; empty for a completion."""
        message: Mapping[str, Any] = self.body["choices"][0].get("message", {})
        return message

    @property
    def text(self) -> str:
        """The first choice's text, empty when it holds only tool calls."""
        choice = self.body["choices"][0]
        return str(choice.get("text") or self.message.get("content") or "")

    @property
    def tool_calls(self) -> Sequence[Mapping[str, Any]]:
        """The first choice's tool calls, as OpenAI shapes them."""
        calls: Sequence[Mapping[str, Any]] = self.message.get("tool_calls") or ()
        return calls


class Engine(Protocol):
    """One inference replica with a cache of its own."""

    @property
    def id(self) -> EngineId:
        """Stable within a batch; for real engines the URL."""
        ...

    async def join(self, at: Nanos) -> EngineJoined:
        """Check that it is there and say what it can hold. Raises: ``EngineError``, ``ConfigError``."""
        ...

    async def turn(self, start: StartTurn, request: TurnRequest) -> TurnAnswer:
        """Run one turn. Cancelling stops the engine's work. Raises: ``EngineError``."""
        ...

    async def sample(self, at: Nanos) -> EngineSampled | None:
        """What it says of itself now; None where it does not say. Raises: ``EngineError`` when dead."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Environment(Protocol):
    """A named kind of place where actions run. Slots are the machine's business, not its."""

    @property
    def id(self) -> EnvironmentId:
        """The name that actions ask for."""
        ...

    async def enter(self, grant: GrantAction) -> object:
        """Hand out the place for one granted action (an instance of the trajectory, made if need be)."""
        ...

    async def leave(self, grant: GrantAction) -> None:
        """The action is over, well or badly; stop what it left running. Idempotent."""
        ...

    async def release(self, trajectory: TrajectoryId) -> None:
        """The trajectory is over: destroy what it held. Idempotent."""
        ...

    async def close(self) -> None:
        """Destroy everything that is left."""
        ...


class Journal(Protocol):
    """Durable, ordered memory of every fact and of the commands it produced."""

    def append(self, fact: Fact, commands: Sequence[Command]) -> None:
        """Record; returns at once, order is kept. Raises: ``JournalError`` if an earlier write failed."""
        ...

    def keep(self, trajectory: TrajectoryId, result: bytes) -> None:
        """Record the result of a sample, in the same order and the same durability as facts."""
        ...

    async def durable(self) -> None:
        """Return when everything recorded so far is on disk. Raises: ``JournalError``."""
        ...

    async def close(self) -> None:
        """Make everything durable and let go of the file."""
        ...
