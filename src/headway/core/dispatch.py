"""What leaves the queues: admission here, turns in :mod:`~headway.core.turns`, actions in :mod:`~headway.core.slots`.

What waits stands in one queue per cause: samples for admission, turns for their engine, actions for a slot, and turns
for any engine at all while none is alive. After a fact only the queues that it can have helped are looked at again.
"""

from headway.core.commands import Admit, Command, Reject
from headway.core.policy import Policies
from headway.core.queues import Index, WaitingQueue
from headway.core.slots import Slots
from headway.core.turns import Turns
from headway.core.waiting import Item, Queue, Waiting
from headway.core.world import EngineState, EnvironmentState, Trajectory, World


class Dispatch:
    """Who waits where, and who goes next. Only the machine calls it."""

    def __init__(self, world: World, policies: Policies) -> None:
        """Every trajectory of ``world`` waits for admission; nothing of it may be in flight."""
        self._world = world
        self._policies = policies
        self._waiting = Waiting(world, policies)
        self.turns = Turns(self._waiting)
        self.slots = Slots(self._waiting)
        self._groups: Index[Item] = {}
        self._pending: Queue = WaitingQueue(policies.overtakes, self._waiting.arrivals, self._groups)
        self._refused = (0, 0)
        for trajectory in sorted(world.trajectories.values(), key=lambda t: (t.index, t.id)):
            self._wait(trajectory)

    def commands(self) -> list[Command]:
        """What was decided since the last call."""
        world = self._world
        if not world.turning and not world.acting and not world.paused:
            self.turns.unstick()
        out, self._waiting.commands = self._waiting.commands, []
        return out

    def emit(self, command: Command) -> None:
        """Add a command that needs no queue."""
        self._waiting.commands.append(command)

    def forget(self, item: Item) -> None:
        """Take something out of the queue that it stands in, if it does."""
        self._waiting.forget(item)

    def progressed(self, trajectory: Trajectory) -> None:
        """A trajectory went on or ended: buckets may move in every queue."""
        self._waiting.progressed(trajectory)
        self._reorder(trajectory)

    def _reorder(self, trajectory: Trajectory) -> None:
        if self._pending.size:
            self._waiting.moved(self._policies.order, trajectory, (self._pending,), self._groups)

    # -- samples --------------------------------------------------------------------------------------------

    def submitted(self, trajectory: Trajectory) -> None:
        """A sample waits for admission."""
        self._wait(trajectory)
        self.admit()

    def _wait(self, trajectory: Trajectory) -> None:
        self._waiting.wait_by(self._policies.order, self._pending, trajectory, trajectory)

    def admit(self) -> None:
        """Let samples in while there is room for them."""
        world = self._world
        while not world.paused and (ticket := self._pending.first()) is not None:
            trajectory = ticket.item
            assert isinstance(trajectory, Trajectory)  # noqa: S101 - only samples stand there
            if world.engines and not any(trajectory.prompt < e.longest for e in world.engines.values()):
                self.forget(trajectory)
                self.emit(Reject(trajectory.id, "sample", self.turns.too_long(trajectory.prompt)))
                world.end(trajectory, finished=False)
            elif self._has_room(trajectory):
                self.forget(trajectory)
                world.admit(trajectory)
                self._reorder(trajectory)
                self.emit(Admit(trajectory.id, trajectory.attempt))
            else:
                self._refused = (world.live_tokens, world.expected_growth())
                return

    def learnt(self) -> None:
        """A turn showed contexts to be smaller than they were taken for when somebody was refused."""
        if self._pending.size:
            tokens, growth = self._refused
            if self._world.live_tokens < tokens or self._world.expected_growth() < growth:
                self.admit()

    def _has_room(self, trajectory: Trajectory) -> bool:
        world = self._world
        if world.limit is not None and world.live >= world.limit:
            return False
        if world.engines_seen and not world.engines:
            return False
        if self._policies.coupled and not (
            all(e.busy < e.slots for e in world.scope(trajectory)) and world.claimable(trajectory)
        ):
            return False
        return self._policies.admission.admits(trajectory, world)

    # -- surroundings ---------------------------------------------------------------------------------------

    def woken(self) -> None:
        """A time has come: retries that were waiting for it go on, and creations that were rate-limited."""
        self._waiting.woken()
        self.turns.woken()
        self.slots.woken()

    def reconsider(self) -> None:
        """Something was learnt that only policies with a state of their own can make use of."""
        if self._policies.observers:
            self.admit()

    def environment_changed(self, environment: EnvironmentState) -> None:
        """An environment appeared or changed size."""
        self.slots.changed(environment)
        self.admit()

    def engine_joined(self, engine: EngineState) -> None:
        """An engine appeared: whoever had none goes there, and others may be admitted."""
        self.turns.engine_joined(engine)
        self.admit()

    def retry_everything(self) -> None:
        """A pause is over."""
        for engine in self._world.engines.values():
            self.turns.retry(engine)
        self.slots.retry_all()
        self.admit()
