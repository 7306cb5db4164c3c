"""A second simulator, token by token and written with simpy, comes to the same makespan within 1%.

It shares nothing with the one under test but the scripts and the numbers of a setting: first come, first served, all
samples admitted at once, a home for life on the engine with fewest, idle contexts evicted least recently used first.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import pytest
import simpy

from headway.analysis.play import Drawn, draw, play
from headway.analysis.simulate import Arm
from headway.core.policy import Policies
from headway.core.units import SECOND
from headway.policies.admission import Unlimited
from headway.policies.priority import Fifo
from headway.policies.residency import Uncontrolled
from headway.policies.routing import Sticky
from headway.workloads import ACCEPTANCE, Setting

FIRST_COME = Arm(Policies("first-come", Unlimited(), Fifo(), Fifo(), Sticky(), Uncontrolled()))


class TinyEngine:
    """Steps: each gives every decoding turn a token, and prefill the same time again."""

    def __init__(self, env: simpy.Environment, setting: Setting) -> None:
        self.env, self.shape = env, setting.engine
        self.queue: deque[list] = deque()
        self.prefills: deque[list] = deque()
        self.decoding: list[list] = []
        self.idle: OrderedDict[str, int] = OrderedDict()
        self.prompts: dict[str, set[str]] = {}
        self.bell = env.event()
        env.process(self.work())

    def turn(self, name: str, group: str, shared: int, prompt: int, output: int) -> simpy.Event:
        done = self.env.event()
        self.queue.append([name, group, shared, prompt, output, done, 0])
        if not self.bell.triggered:
            self.bell.succeed()
        return done

    def room(self) -> bool:
        running = len(self.prefills) + len(self.decoding)
        return self.shape.state_slots is None or running < self.shape.state_slots

    def enter(self) -> None:
        while self.queue and self.room():
            turn = self.queue.popleft()
            turn[6] = self.idle.pop(turn[0], 0)
            running = len(self.prefills) + len(self.decoding) + 1
            while self.shape.state_slots is not None and running + len(self.idle) > self.shape.state_slots:
                gone, _ = self.idle.popitem(last=False)
                for members in self.prompts.values():
                    members.discard(gone)
            self.prefills.append(turn)

    def work(self) -> Iterator[simpy.Event]:
        cost, left = self.shape.cost, None
        while True:
            self.enter()
            if not self.prefills and not self.decoding:
                self.bell = self.env.event()
                yield self.bell
                continue
            if self.prefills and left is None:
                _, group, shared, prompt, _, _, own = self.prefills[0]
                hit = own or (shared if self.prompts.get(group) else 0)
                left = cost.prefill * (prompt - min(hit, prompt - 1))
            if not self.decoding:
                spent = min(left, cost.base)  # a chunk, so that whoever arrives meanwhile need not wait for all of it
                yield self.env.timeout(spent)
                left -= spent
            else:
                context = sum(turn[3] for turn in self.decoding)
                step = cost.base + cost.per_sequence * len(self.decoding) + cost.per_token * context
                if self.prefills:
                    spent = min(left, step)
                    yield self.env.timeout(step + spent)
                    left -= spent
                else:
                    yield self.env.timeout(step)
                self.token()
            if self.prefills and left is not None and left <= 0:
                turn, left = self.prefills.popleft(), None
                self.prompts.setdefault(turn[1], set()).add(turn[0])
                self.decoding.append(turn)

    def token(self) -> None:
        for turn in list(self.decoding):
            turn[3] += 1
            turn[4] -= 1
            if not turn[4]:
                self.decoding.remove(turn)
                self.idle[turn[0]] = turn[3]
                turn[5].succeed()


def tiny(batch: Drawn) -> float:
    env = simpy.Environment()
    (shape,) = batch.setting.environments.values()
    slots = simpy.Resource(env, shape.slots)
    engines = [TinyEngine(env, batch.setting) for _ in range(batch.setting.engines)]

    def agent(place: int) -> Iterator[simpy.Event]:
        script, context = batch.scripts[place], 0
        engine = engines[place % len(engines)]
        group = script.group or script.trajectory
        for step in script.steps:
            context += step.new_tokens
            yield engine.turn(script.trajectory, group, script.steps[0].new_tokens, context, step.output_tokens)
            context += step.output_tokens
            if step.action is not None:
                with slots.request() as slot:
                    yield slot
                    yield env.timeout(step.action.service / SECOND)

    agents = [env.process(agent(place)) for place in range(len(batch.scripts))]
    env.run(simpy.AllOf(env, agents))
    return float(env.now)


@pytest.mark.parametrize(("name", "samples", "slots"), [("E1", 64, 6), ("I1", 48, 256), ("R2", 64, 256)])
def test_both_come_to_the_same_makespan(name: str, samples: int, slots: int) -> None:
    batch = draw(replace(ACCEPTANCE[name], samples=samples).with_slots(slots), 1)
    played = play(batch, FIRST_COME.policies)
    assert played.makespan == pytest.approx(tiny(batch), rel=0.01)
    assert played.evictions == 0


def test_both_come_to_the_same_makespan_when_contexts_are_evicted_all_the_time() -> None:
    """Who is evicted first decides who comes back first, and so on: only means can be compared."""
    one = ACCEPTANCE["I1"]
    work = replace(one.workload, sigma=0.4, out=200.0, obs=1500.0, prompt=6000.0)
    setting = replace(one, samples=48, workload=work, engine=replace(one.engine, state_slots=20))
    batches = [draw(setting, seed) for seed in range(3)]
    played = [play(batch, FIRST_COME.policies) for batch in batches]
    assert all(one.evictions > 300 and one.hit_rate < 0.5 for one in played)
    assert fmean(one.makespan for one in played) == pytest.approx(fmean(map(tiny, batches)), rel=0.01)
