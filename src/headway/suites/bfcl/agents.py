"""Two agents that play the tasks as trajectories.

``ScriptedAgent`` executes the official calls, so chains are as long as the tasks ask for while the engine really
works; ``ModelAgent`` lets the engine decide. Both are coroutines over the public interface of a trajectory and
know nothing of engines, slots or policies.
"""

import json
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import anyio
import msgspec

from headway.adapters.environments import InProcess
from headway.batch import Sample
from headway.core.units import Tokens
from headway.ports import TurnAnswer
from headway.suites.bfcl.conversation import CLOSING, Conversation, call_tokens, closing_tokens, official_call
from headway.suites.bfcl.fit import CHARS_PER_TOKEN
from headway.suites.bfcl.latency import InjectedLatency
from headway.suites.bfcl.score import BfclResult, End, judge
from headway.suites.bfcl.simulator import Simulator, call_line
from headway.suites.bfcl.tasks import Task, UserTurn
from headway.suites.bfcl.tools import Tool, bounded_arguments, tool_name

ENVIRONMENT = "bfcl"
MOST_STEPS = 20
"""Turns of the engine in one user turn before a trajectory is cut off; the benchmark's own limit."""

Choice = Literal["auto", "structured", "named"]
Sleep = Callable[[float], Awaitable[None]]


class Trajectory(Protocol):
    """What an agent needs of a trajectory."""

    async def chat(self, messages: Sequence[Mapping[str, Any]], **body: Any) -> TurnAnswer:  # noqa: ANN401 - OpenAI's
        """One turn."""
        ...

    def action(self, environment: str) -> AbstractAsyncContextManager[Any]:
        """One action: waits for a slot and holds it."""
        ...


def environment() -> InProcess:
    """The environment that both agents act in: the official simulators, one set per trajectory."""
    return InProcess(ENVIRONMENT, lambda _: Simulator())


def samples(tasks: Sequence[Task], *, oracle: bool = False) -> list[Sample]:
    """Tasks as a batch. With ``oracle`` each carries its number of official calls as the hint.

    That is knowing the answer, so it is for policies whose name says so; no other comparison may use it.
    """
    return [
        Sample(
            id=task.id,
            data=task,
            hint=float(task.official_actions) if oracle else None,
            environments=(ENVIRONMENT,),
        )
        for task in tasks
    ]


class _Play:
    """One trajectory of a task under way: what has been said, called and answered."""

    def __init__(self, task: Task, trajectory: Trajectory, latency: InjectedLatency | None, sleep: Sleep) -> None:
        self.task, self._trajectory, self._latency, self._sleep = task, trajectory, latency, sleep
        self._calls: list[list[tuple[str, ...]]] = []
        self._outputs: list[list[tuple[str, ...]]] = []
        self._turns = self._actions = self._refused = 0
        self._injected = 0.0

    def next_user_turn(self) -> None:
        self._calls.append([])
        self._outputs.append([])

    async def chat(self, conversation: Conversation, **body: Any) -> TurnAnswer:  # noqa: ANN401 - OpenAI's
        self._turns += 1
        return await self._trajectory.chat(
            list(conversation.messages), tools=list(conversation.tools), temperature=0.0, **body
        )

    async def act(self, calls: Sequence[str]) -> tuple[str, ...]:
        """Execute the calls of one step as one action, with its delay inside the slot."""
        async with self._trajectory.action(ENVIRONMENT) as place:
            simulator: Simulator = place
            outcome = simulator.execute(self.task, calls)
            if self._latency is not None:
                delay = self._latency.seconds(self.task.id, self._actions)
                self._injected += delay
                await self._sleep(delay)
        self._actions += 1
        self._refused += len(calls) - len(outcome.executed)
        self._calls[-1].append(outcome.executed)
        self._outputs[-1].append(outcome.results)
        return outcome.results

    def result(self, agent: str, ended: End) -> BfclResult:
        """Judge what was played; a trajectory that was cut off loses the user turn it was in."""
        calls = tuple(tuple(turn) for turn in self._calls)
        verdict = judge(self.task, calls if ended == "finished" else calls[:-1])
        return BfclResult(
            task=self.task.id,
            category=self.task.category,
            agent=agent,
            calls=calls,
            outputs=tuple(tuple(turn) for turn in self._outputs),
            turns=self._turns,
            actions=self._actions,
            ended=ended,
            score=float(verdict.valid),
            error=verdict.error,
            refused=self._refused,
            injected=self._injected,
            delay=self._latency.label if self._latency else "",
        )


class ScriptedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Plays the official answer: one turn of the engine and one action per official call.

    For each call the engine generates as many tokens as its text takes (see ``call_tokens``) and the conversation
    goes on with the official call and its real result; a last turn closes each user turn.
    """

    latency: InjectedLatency | None = None
    sleep: Sleep = anyio.sleep

    async def solve(self, sample: Sample, trajectory: Trajectory) -> BfclResult:
        """Play the task that is the sample's data."""
        task: Task = sample.data
        play = _Play(task, trajectory, self.latency, self.sleep)
        conversation = Conversation(task.tools)
        for turn in task.turns:
            conversation.ask(turn.text, turn.added)
            play.next_user_turn()
            for line in turn.official:
                name, arguments = official_call(line, conversation.tools)
                await self._generate(play, conversation, call_tokens(name, arguments))
                conversation.call([(name, arguments)], await play.act([line]))
            await self._generate(play, conversation, closing_tokens())
            conversation.answer(CLOSING)
        return play.result("scripted", "finished")

    async def _generate(self, play: _Play, conversation: Conversation, tokens: int) -> None:
        await play.chat(conversation, tool_choice="none", min_tokens=tokens, max_tokens=tokens, ignore_eos=True)


class ModelAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Lets the engine decide.

    ``choice``: with ``auto`` the model calls what it wants, and a user turn ends when it answers without a call;
    this is the benchmark proper. Otherwise every step asks for the arguments of one function, in a round over the
    task's functions, and a user turn ends after as many steps as the official answer has calls (at least one):
    with ``structured`` by a JSON schema for the answer, which any model can fill in, also one with random weights;
    with ``named`` by naming the function as a strict tool. These two measure time, never ability.

    ``max_tokens`` of one answer. ``max_context`` of the engine, None: unknown; a trajectory whose next prompt would not
    fit is cut off.
    """

    choice: Choice = "structured"
    max_tokens: int = 256
    max_context: Tokens | None = None
    chars_per_token: float = CHARS_PER_TOKEN
    latency: InjectedLatency | None = None
    sleep: Sleep = anyio.sleep

    async def solve(self, sample: Sample, trajectory: Trajectory) -> BfclResult:
        """Play the task that is the sample's data."""
        task: Task = sample.data
        play = _Play(task, trajectory, self.latency, self.sleep)
        free = self.choice == "auto"
        conversation = Conversation(task.tools, strict=self.choice == "named")
        step = zlib.crc32(task.id.encode())  # where the round over the functions starts
        for turn in task.turns:
            conversation.ask(turn.text, turn.added)
            play.next_user_turn()
            for count in range(self._steps(turn)):
                if self._is_full(conversation):
                    return play.result(self._name, "context")
                if not await self._step(play, conversation, step + count) and free:
                    break
            else:
                if free:
                    return play.result(self._name, "steps")
            step += len(turn.official)
        return play.result(self._name, "finished")

    @property
    def _name(self) -> str:
        return f"model-{self.choice}"

    def _steps(self, turn: UserTurn) -> int:
        return MOST_STEPS if self.choice == "auto" else max(1, len(turn.official))

    def _is_full(self, conversation: Conversation) -> bool:
        needed = conversation.characters / self.chars_per_token + self.max_tokens
        return self.max_context is not None and needed > self.max_context

    def _fields(self, tool: Tool) -> dict[str, Any]:
        """How a request asks for a call: of any function, or of this one."""
        match self.choice:
            case "auto":
                return {"tool_choice": "auto"}
            case "named":
                return {"tool_choice": {"type": "function", "function": {"name": tool_name(tool)}}}
            case "structured":
                schema = {"name": tool_name(tool), "schema": bounded_arguments(tool), "strict": True}
                return {"tool_choice": "none", "response_format": {"type": "json_schema", "json_schema": schema}}

    async def _step(self, play: _Play, conversation: Conversation, number: int) -> bool:
        """One turn of the engine and the action it asks for. False: it asked for none."""
        tool = conversation.tools[number % len(conversation.tools)]
        answer = await play.chat(conversation, max_tokens=self.max_tokens, **self._fields(tool))
        calls = _calls(answer) if self.choice != "structured" else _written_call(tool_name(tool), answer.text)
        if not calls:
            conversation.answer(answer.text)
            return False
        conversation.call(
            [(name, json.dumps(arguments)) for name, arguments in calls],
            await play.act([call_line(name, arguments) for name, arguments in calls]),
        )
        return True


Call = tuple[str, dict[str, Any]]


def _calls(answer: TurnAnswer) -> list[Call]:
    """The calls of an answer. One that can't be read makes them all void, as in the benchmark's own decoding."""
    read = [_written_call(str(call["function"]["name"]), call["function"]["arguments"]) for call in answer.tool_calls]
    return [call for calls in read for call in calls] if all(read) else []


def _written_call(name: str, arguments: str) -> list[Call]:
    """A call with its arguments as JSON; empty when they can't be read."""
    try:
        read = json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return []
    return [(name, read)] if isinstance(read, dict) else []
