"""An engine with continuous batching, modelled turn by turn instead of token by token.

A decode step of n turns takes ``base + per_sequence n + per_token Σ context`` seconds and gives each of them one
token. Between two events n is constant and Σ context grows by n a step, so t(s) = α s + β s² with
α = base + per_sequence n + per_token Σ context and β = per_token n / 2: the end of the next answer, or the moment when
memory runs out, is found by solving that. All turns advance together, so one count of steps serves them all. Prefill
works on one prompt after the other and takes a fixed share of the engine while anything decodes (chunked prefill).

A turn waits inside the engine (by rank, then arrival, nobody passing) until its prompt and state fit beside what runs;
idle contexts give way. Where the answers of running turns outgrow the memory and nothing idle is left, the last in that
order is preempted: it keeps its tokens, but computes all of them again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from math import ceil, sqrt

from headway.core.commands import CancelTurn, StartTurn
from headway.core.facts import EngineJoined, EngineSampled, TurnFailed, TurnFinished
from headway.core.units import MAIN, SECOND, EngineId, Nanos, Tokens, TrajectoryId
from headway.drivers.simulate.cache import Cache, Context, Key
from headway.workloads.setting import EngineShape

Family = Callable[[TrajectoryId], tuple[str, int]]
"""Who shares a trajectory's first prompt, and how many tokens of it."""

_NEVER = float("inf")
_ROUNDING = 1e-6  # of a token


class _Phase(IntEnum):
    WAITING = 0
    PREFILLING = 1
    DECODING = 2
    OVER = 3


class _Event(IntEnum):
    NONE = 0
    PREFILLED = 1
    ANSWERED = 2
    FULL = 3


@dataclass(slots=True, eq=False)
class _Turn:
    """One turn that the engine has.

    ``done``: tokens answered before its last preemption. ``counted``: its context counts for its family. ``joined``:
    the step count at which it began to decode; ``end``: at which its last token comes.
    """

    start: StartTurn
    key: Key
    began: Nanos
    prompt: int
    output: int
    family: str
    shared: int
    serial: int
    done: int = 0
    phase: _Phase = _Phase.WAITING
    own: Context | None = None
    counted: bool = False
    cached: int | None = None
    queued: int = -1
    joined: float = 0.0
    end: float = 0.0

    @property
    def size(self) -> int:
        """Tokens of prompt and answer before it decodes on."""
        return self.prompt + self.done

    @property
    def identity(self) -> "_Identity":
        """Which one it is."""
        return self.key, self.start.turn, self.start.attempt

    @property
    def order(self) -> tuple[int, int]:
        """Its place among those that wait; the last of those that run is preempted first."""
        return self.start.rank, self.serial


_Identity = tuple[Key, int, int]


@dataclass(slots=True)
class Totals:
    """What one engine did. ``decoded`` counts tokens of answers that came to an end; ``computed`` prompt tokens."""

    turns: int = 0
    computed: int = 0
    recomputed: int = 0
    cached: int = 0
    decoded: int = 0
    preemptions: int = 0


class ContinuousBatching:
    """One engine. Satisfies :class:`~headway.drivers.simulate.driver.EngineModel`."""

    def __init__(self, name: EngineId, shape: EngineShape, family: Family) -> None:
        self.name, self.shape, self.totals = name, shape, Totals()
        cost = shape.cost
        self._base, self._per_sequence, self._per_token = cost.base, cost.per_sequence, cost.per_token
        self._share, self._kv = shape.prefill_share, shape.kv_tokens
        self._family = family
        self._cache = Cache()
        self._serial = count()
        self._reset(Nanos(0))

    def _reset(self, at: Nanos) -> None:
        self._at = at
        self._turns: dict[_Identity, _Turn] = {}
        self._waiting: list[tuple[int, int, _Turn]] = []
        self._prefills: deque[_Turn] = deque()
        self._prefilling = 0  # tokens of the prompts of those
        self._left = 0.0  # seconds of work on the first of them
        self._ends: list[tuple[float, int, _Turn]] = []  # decoding turns by their end
        self._steps = self._context = 0.0
        self._running = self._decoding = 0
        self._refused: list[TurnFailed] = []
        self._due: Nanos | None = None
        self._event = _Event.NONE
        self._target = 0.0

    # -- what the driver asks -----------------------------------------------------------------------------------

    def join(self, at: Nanos) -> EngineJoined:
        """What it tells of itself when it joins."""
        shape = self.shape
        kv = None if shape.kv_tokens is None else Tokens(shape.kv_tokens)
        states = None if shape.state_slots is None else shape.state_slots // shape.running_states
        return EngineJoined(
            at, self.name, "model", kv, states, Tokens(shape.block_tokens), shape.max_running, max_context=kv
        )

    def sample(self, at: Nanos) -> EngineSampled:
        """What it tells of itself now. Tokens of running turns only count as used, as engines report it."""
        self._advance(at)
        self._plan()
        kv = self.shape.kv_tokens
        usage = None if kv is None else (self._prefilling + self._context) / kv
        waiting = len(self._turns) - self._running
        return EngineSampled(at, self.name, self._running, waiting, usage, self.totals.preemptions)

    def start(self, at: Nanos, start: StartTurn, prompt: Tokens, output: Tokens) -> None:
        """A turn arrives."""
        self._advance(at)
        kv, states = self.shape.kv_tokens, self.shape.state_slots
        if (kv is not None and prompt + output > kv) or (states is not None and self.shape.running_states > states):
            cause = f"{prompt} tokens of prompt and {output} of answer don't fit into the engine"
            self._refused.append(
                TurnFailed(at, start.trajectory, start.stream, start.turn, start.attempt, "invalid", cause)
            )
        else:
            family, shared = self._family(start.trajectory)
            key = Key(start.trajectory, start.stream)
            turn = _Turn(start, key, at, prompt, output, family, min(shared, prompt), next(self._serial))
            self._turns[turn.identity] = turn
            heappush(self._waiting, (start.rank, turn.serial, turn))
            self._let_in()
        self._plan()

    def cancel(self, at: Nanos, cancel: CancelTurn) -> None:
        """A turn is given up, with what it computed."""
        key = Key(cancel.trajectory, cancel.stream)
        turn = self._turns.pop((key, cancel.turn, cancel.attempt), None)
        if turn is None:
            return
        self._advance(at)
        self._stop(turn)
        turn.phase = _Phase.OVER
        self._let_in()
        self._plan()

    def ended(self, at: Nanos, trajectory: TrajectoryId) -> None:
        """A trajectory is over: engines that forget free its context."""
        if self.shape.forgets:
            self._advance(at)
            self._cache.free(Key(trajectory, MAIN))
            self._let_in()
            self._plan()

    def lose(self, at: Nanos) -> None:
        """The engine is gone, with everything that it had."""
        self._cache.clear()
        self._reset(at)

    @property
    def evictions(self) -> int:
        """Idle contexts that were given up for running turns."""
        return self._cache.evictions

    def next_at(self) -> Nanos | None:
        """When something happens here next; not every such moment ends a turn."""
        return self._at if self._refused else self._due

    def finish(self, at: Nanos) -> list[TurnFinished | TurnFailed]:
        """Let everything happen that happens up to ``at``; the turns that end."""
        facts: list[TurnFinished | TurnFailed] = [*self._refused]
        self._refused.clear()
        while self._due is not None and self._due <= at:
            event, due = self._event, self._due
            self._advance(due)
            match event:
                case _Event.PREFILLED:
                    self._prefilled()
                case _Event.ANSWERED:
                    self._answered(due, facts)
                case _Event.FULL:
                    self._make_room()
                case _Event.NONE:
                    pass
            self._plan()
        return facts

    # -- time -------------------------------------------------------------------------------------------------

    def _slope(self) -> tuple[float, float]:
        """α and β of the time that s steps take, α s + β s²."""
        n = self._decoding
        return self._base + self._per_sequence * n + self._per_token * self._context, self._per_token * n / 2

    def _plan(self) -> None:
        """Find out what happens next, and when."""
        prefills, n = bool(self._prefills), self._decoding
        soonest, self._event = _NEVER, _Event.NONE
        if n:
            end, room = self._first_end() - self._steps, self._room() / n
            self._event, target = (_Event.FULL, max(room, 0.0)) if room < end else (_Event.ANSWERED, end)
            self._target = target
            alpha, beta = self._slope()
            soonest = target * (alpha + beta * target)
            if prefills:
                soonest /= 1 - self._share
        if prefills:
            prefilled = self._left / self._share if n else self._left
            if prefilled < soonest:
                soonest, self._event = prefilled, _Event.PREFILLED
        self._due = None if self._event is _Event.NONE else Nanos(self._at + ceil(soonest * SECOND))

    def _advance(self, at: Nanos) -> None:
        """Work until ``at``, which must not lie behind the next event."""
        reached = self._due == at
        if at <= self._at and not reached:
            return
        passed, share, prefills = (at - self._at) / SECOND, self._share, bool(self._prefills)
        if self._decoding:
            if reached and self._event is not _Event.PREFILLED:
                steps = self._target
            else:
                steps = self._steps_in(passed * (1 - share if prefills else 1))
            self._steps += steps
            self._context += steps * self._decoding
        if prefills:
            work = passed * (share if self._decoding else 1)
            self._left = 0.0 if reached and self._event is _Event.PREFILLED else max(0.0, self._left - work)
        self._at = at

    def _steps_in(self, seconds: float) -> float:
        alpha, beta = self._slope()
        steps = 2 * seconds / (alpha + sqrt(alpha * alpha + 4 * beta * seconds)) if seconds > 0 else 0.0
        return min(steps, self._first_end() - self._steps)

    def _first_end(self) -> float:
        ends = self._ends
        while ends[0][2].phase is not _Phase.DECODING or ends[0][2].end != ends[0][0]:
            heappop(ends)
        return ends[0][0]

    # -- turns ------------------------------------------------------------------------------------------------

    def _room(self) -> float:
        kv = self._kv
        return _NEVER if kv is None else kv - self._cache.tokens - self._prefilling - self._context

    def _let_in(self) -> None:
        while self._waiting:
            turn = self._waiting[0][2]
            if turn.phase is _Phase.WAITING:
                if not self._fits(turn):
                    return
                self._enter(turn)
            heappop(self._waiting)

    def _fits(self, turn: _Turn) -> bool:
        shape = self.shape
        if shape.max_running is not None and self._running >= shape.max_running:
            return False
        if shape.state_slots is not None and (self._running + 1) * shape.running_states > shape.state_slots:
            return False
        kv = shape.kv_tokens
        return kv is None or self._prefilling + self._context + turn.size <= kv

    def _enter(self, turn: _Turn) -> None:
        """The turn runs: it gets its own idle context back, if that is still there, and others make room."""
        states = self.shape.state_slots
        turn.own = self._cache.take(turn.key)
        turn.counted = turn.own is not None
        self._running += 1
        self._prefilling += turn.size
        if states is not None:
            while self._running * self.shape.running_states + len(self._cache) > states and self._cache.evict():
                pass
        while self._room() < 0 and self._cache.evict():
            pass
        if turn.queued < 0:
            turn.queued = self._at - turn.began
        turn.phase = _Phase.PREFILLING
        self._prefills.append(turn)
        if len(self._prefills) == 1:
            self._open_prefill()

    def _open_prefill(self) -> None:
        """Work on the first prompt begins: what of it is in memory now counts."""
        if not self._prefills:
            return
        turn = self._prefills[0]
        hit = self._hit(turn)
        new = turn.size - hit
        if turn.cached is None:
            turn.cached = min(hit, turn.prompt)
        else:
            self.totals.recomputed += new
        self.totals.computed += new
        self._left = new * self.shape.cost.prefill

    def _hit(self, turn: _Turn) -> int:
        own, block = turn.own, self.shape.block_tokens
        grown = own is not None and own.turn < turn.start.turn and own.tokens <= turn.prompt
        usable = own.usable if own is not None and grown else 0
        if not usable and self._cache.has(turn.family):
            usable = turn.shared
        return min(usable, turn.size - 1) // block * block

    def _prefilled(self) -> None:
        turn = self._prefills.popleft()
        self._prefilling -= turn.size
        if not turn.counted:
            self._cache.computed(turn.family)
            turn.counted = True
        turn.own = None
        turn.phase = _Phase.DECODING
        turn.joined = self._steps
        turn.end = self._steps + turn.output - turn.done
        self._decoding += 1
        self._context += turn.size
        heappush(self._ends, (turn.end, turn.serial, turn))
        self._open_prefill()

    def _answered(self, at: Nanos, facts: list[TurnFinished | TurnFailed]) -> None:
        self._steps = self._first_end()
        while self._decoding and self._first_end() <= self._steps:
            turn = heappop(self._ends)[2]
            self._leave_decoding(turn)
            turn.phase = _Phase.OVER
            tokens = turn.prompt + turn.output
            del self._turns[turn.identity]
            usable = tokens if self.shape.keeps_decode else turn.prompt - 1
            self._cache.keep(turn.key, Context(turn.family, turn.start.turn, tokens, usable))
            self.totals.turns += 1
            self.totals.decoded += turn.output
            self.totals.cached += turn.cached or 0
            facts.append(_finished(at, turn))
        self._let_in()

    def _leave_decoding(self, turn: _Turn) -> None:
        self._running -= 1
        self._decoding -= 1
        self._context -= turn.size + self._steps - turn.joined
        if not self._decoding:
            self._context = self._steps = 0.0
            self._ends.clear()

    def _stop(self, turn: _Turn) -> None:
        """A turn no longer runs, and what it had in memory is gone."""
        if turn.phase is _Phase.DECODING:
            answered = int(self._steps - turn.joined + _ROUNDING)
            self._leave_decoding(turn)
            turn.done = min(turn.output - 1, turn.done + answered)
        elif turn.phase is _Phase.PREFILLING:
            first = self._prefills[0] is turn
            self._running -= 1
            self._prefilling -= turn.size
            self._prefills.remove(turn)
            if first:
                self._open_prefill()
        if turn.counted:
            self._cache.lost(turn.family)
        turn.own, turn.counted = None, False

    def _make_room(self) -> None:
        """Memory is full: what was used least recently goes, else the last of the running turns."""
        if self._cache.evict():
            return
        running = [turn for turn in self._turns.values() if turn.phase in {_Phase.PREFILLING, _Phase.DECODING}]
        victim = max(running, key=lambda turn: turn.order)
        self._stop(victim)
        victim.phase = _Phase.WAITING
        heappush(self._waiting, (*victim.order, victim))
        self.totals.preemptions += 1


def _finished(at: Nanos, turn: _Turn) -> TurnFinished:
    start = turn.start
    return TurnFinished(
        at,
        start.trajectory,
        start.stream,
        start.turn,
        start.attempt,
        Tokens(turn.prompt),
        Tokens(turn.output),
        Nanos(at - turn.began),
        Tokens(turn.cached or 0),
        Nanos(turn.queued),
    )
