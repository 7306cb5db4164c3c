"""The life of every sample: its states, its phases, and what an attempt that was given up had done."""

from array import array
from collections import Counter

from headway.core.facts import SampleSubmitted, TrajectoryAbandoned, TrajectoryFinished
from headway.core.progress.records import Chain, Engine, Environment, Errand, Lane, Lost, Phase, State, Work
from headway.core.units import EngineId, EnvironmentId, Nanos, TrajectoryId

_MANY_CAUSES = 1000


class Lives:
    """Samples and trajectories. ``done_at``: batch times at which samples ended for good, in order.

    ``lengths``: turns of finished chains, ``live_lengths``: turns so far of live ones, both as counts.
    """

    def __init__(self) -> None:
        self.now = 0
        self.chains: dict[TrajectoryId, Chain] = {}
        self.engines: dict[EngineId, Engine] = {}
        self.environments: dict[EnvironmentId, Environment] = {}
        self.counts = [0] * len(State)
        self.population = [0] * len(Phase)
        self.lengths: Counter[int] = Counter()
        self.live_lengths: Counter[int] = Counter()
        self.done_at = array("q")
        self.first_admission: int | None = None
        self.admissions = self.trajectory_retries = 0
        self.scores, self.scored = 0.0, 0
        self.failures: Counter[str] = Counter()
        self.lost = Lost()
        self._edges = [0] * len(Phase)
        self._skipped = 0

    # -- what others ask --------------------------------------------------------------------------------------

    def attempts(self, trajectory: TrajectoryId) -> int:
        """How often a sample was admitted so far."""
        return self.chains[trajectory].admissions

    def spent(self, phase: Phase, now: int | None = None) -> int:
        """Nanoseconds that all trajectories together were in a phase, all attempts included."""
        return self._edges[phase] + self.population[phase] * (self.now if now is None else now)

    def batch_time(self, at: Nanos) -> int:
        """Convert a fact's time to batch time, which leaves out the gaps between coordinators."""
        return at - self._skipped

    def engine(self, name: EngineId) -> Engine:
        """The engine of that name, known from now on."""
        engine = self.engines.get(name)
        if engine is None:
            engine = self.engines[name] = Engine(name, since=self.now)
        return engine

    def environment(self, name: EnvironmentId) -> Environment:
        """The environment of that name, known from now on."""
        environment = self.environments.get(name)
        if environment is None:
            environment = self.environments[name] = Environment(name, since=self.now)
        return environment

    # -- from state to state ----------------------------------------------------------------------------------

    def _submitted(self, fact: SampleSubmitted) -> None:
        self.chains[fact.trajectory] = Chain(fact.trajectory, fact.index, fact.group)
        self.counts[State.PENDING] += 1

    def _admitted(self, chain: Chain) -> None:
        now = self.now
        if self.first_admission is None:
            self.first_admission = now
        self._move(chain, State.LIVE)
        self.admissions += 1
        chain.admissions += 1
        chain.admitted = chain.since = now
        chain.cause, chain.score = None, None
        chain.work, chain.spent = Work(), [0] * len(Phase)
        chain.phase = Phase.IDLE
        self.population[Phase.IDLE] += 1
        self._edges[Phase.IDLE] -= now
        self.live_lengths[0] += 1

    def _move(self, chain: Chain, state: State) -> None:
        self.counts[chain.state] -= 1
        self.counts[state] += 1
        chain.state = state

    def _settle(self, chain: Chain) -> None:
        phase, now, old = chain.due(), self.now, chain.phase
        if phase is not old:
            chain.spent[old] += now - chain.since
            chain.since = now
            chain.phase = phase
            self.population[old] -= 1
            self._edges[old] += now
            self.population[phase] += 1
            self._edges[phase] -= now

    def _leave(self, chain: Chain) -> None:
        """The attempt is over: nothing of it is under way any more, and its sums are drawn up."""
        if chain.state is not State.LIVE:
            return
        for lane in chain.lanes.values():
            self._end_turn(chain, lane)
        for index in list(chain.errands):
            self._end_action(chain, index)
        now, phase = self.now, chain.phase
        chain.spent[phase] += now - chain.since
        chain.since = now
        self.population[phase] -= 1
        self._edges[phase] += now
        self.live_lengths[chain.work.turns] -= 1
        chain.close()

    def _end(self, chain: Chain, state: State) -> None:
        self._leave(chain)
        self._move(chain, state)
        chain.ended = self.now
        self.done_at.append(self.now)

    def _finished(self, fact: TrajectoryFinished) -> None:
        chain = self.chains[fact.trajectory]
        if fact.score is not None:
            chain.score = fact.score
            self.scores += fact.score
            self.scored += 1
        self.lengths[chain.work.turns] += 1
        self._end(chain, State.FINISHED)

    def _abandoned(self, fact: TrajectoryAbandoned) -> None:
        chain = self.chains[fact.trajectory]
        if fact.again:
            chain.cause = fact.cause
            self.trajectory_retries += 1
            self._again(chain)
        else:
            self._fail(chain, fact.cause)

    def _again(self, chain: Chain) -> None:
        """It goes back to the queue; what it did is lost."""
        self._leave(chain)
        self._move(chain, State.PENDING)
        lost, work = self.lost, chain.work
        lost.attempts += 1 if chain.spent else 0
        lost.turns += work.turns
        lost.actions += work.actions
        lost.service += work.turn_service + work.action_service
        lost.live += sum(chain.spent)
        chain.work, chain.spent = Work(), []

    def _cause(self, cause: str) -> str:
        known = cause in self.failures or len(self.failures) < _MANY_CAUSES
        return cause if known else "other causes"

    def _fail(self, chain: Chain, cause: str) -> None:
        chain.cause = cause
        self.failures[self._cause(cause)] += 1
        self._end(chain, State.FAILED)

    def _take_back(self, *, failed: bool) -> None:
        """Whatever is live waits for admission again, and with ``failed`` what had failed for good, too."""
        for chain in self.chains.values():
            if chain.state is State.LIVE:
                self._again(chain)
            elif failed and chain.state is State.FAILED:
                self.failures[self._cause(chain.cause or "")] -= 1
                self._again(chain)
        if failed:
            self.failures = +self.failures
            ended = (chain.ended for chain in self.chains.values() if chain.state is State.FINISHED)
            self.done_at = array("q", sorted(ended))

    # -- what is under way ------------------------------------------------------------------------------------

    def _end_turn(self, chain: Chain, lane: Lane) -> None:
        """The stream's turn, if any, is over or unwanted."""
        if lane.turn < 0:
            return
        if lane.running:
            self._stop(chain, lane)
        chain.asking -= 1
        lane.turn = -1

    def _stop(self, chain: Chain, lane: Lane) -> None:
        """The running turn is over; until somebody says otherwise it waits again."""
        engine = self.engines[lane.engine]
        engine.advance(self.now)
        engine.running -= 1
        engine.tokens -= lane.prompt
        chain.turning -= 1
        chain.asking += 1
        lane.running, lane.since = False, self.now

    def _end_action(self, chain: Chain, index: int) -> None:
        """The action, if there is one, is over or unwanted."""
        errand = chain.errands.pop(index, None)
        if errand is not None:
            if errand.running:
                self._suspend(chain, errand)
            chain.wanting -= 1
            self.environments[errand.environment].queued -= 1

    def _suspend(self, chain: Chain, errand: Errand) -> None:
        """The action has no slot any more; until somebody says otherwise it waits again."""
        environment = self.environments[errand.environment]
        environment.advance(self.now)
        environment.busy -= 1
        environment.queued += 1
        chain.acting -= 1
        chain.wanting += 1
        errand.running, errand.since = False, self.now
