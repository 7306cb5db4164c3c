"""Draw a batch: scripts whose lengths, tokens and seconds follow a workload, grouped, from dice that are passed in."""

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, exp, log, sqrt
from random import Random
from statistics import NormalDist, fmean

from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId, nanos
from headway.traces import Script, ScriptedAction, Step
from headway.workloads.setting import EnvironmentShape, Setting, Workload

_NORMAL = NormalDist()
_EDGE = 1e-12
HISTORY_NOISE = 0.3
"""Deviation, in logarithms, of what an earlier run of the same tasks says of a group's length."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One sample: its script, and the length that an earlier run of its task would predict."""

    script: Script
    history: float


def generate(setting: Setting, dice: Random) -> list[Generated]:
    """All samples of a batch, groups together, the last one smaller where samples don't divide."""
    batch: list[Generated] = []
    while len(batch) < setting.samples:
        members = min(setting.group, setting.samples - len(batch))
        batch.extend(_group(setting, dice, len(batch), members))
    return batch


def _group(setting: Setting, dice: Random, first: int, members: int) -> list[Generated]:
    work = setting.workload
    law, own = work.lengths(), sqrt(1 - work.icc)
    shared = sqrt(work.icc) * dice.gauss()
    prompt = _draw(work, "prompt", work.prompt, work.prompt_sigma, dice)
    pace = exp(work.env_group_sigma * dice.gauss())
    lengths = [
        max(1, min(work.cap, ceil(law.at(_inside(_NORMAL.cdf(shared + own * dice.gauss())))))) for _ in range(members)
    ]
    history = exp(fmean(log(length) for length in lengths) + HISTORY_NOISE * dice.gauss())
    digits = len(str(setting.samples - 1))  # names in the order of the samples
    group = GroupId(f"g{first // setting.group:0{digits}}") if setting.group > 1 else None
    places = _Places(setting.environments)
    return [
        Generated(
            Script(
                TrajectoryId(f"s{first + place:0{digits}}"), _steps(work, length, prompt, pace, places, dice), group
            ),
            history,
        )
        for place, length in enumerate(lengths)
    ]


def _steps(
    work: Workload, actions: int, prompt: float, pace: float, places: "_Places", dice: Random
) -> tuple[Step, ...]:
    steps = []
    joined = prompt
    for _ in range(actions):
        name, factor = places.draw(dice)
        answer = _tokens(_draw(work, "out", work.out, work.out_sigma, dice))
        seconds = factor * pace * _draw(work, "env", work.env, work.env_sigma, dice)
        if work.stragglers and dice.random() < work.stragglers:
            seconds *= work.straggler_factor
        lost = bool(work.failures) and dice.random() < work.failures
        action = ScriptedAction(name, max(Nanos(1), nanos(seconds)), ("lost",) if lost else ())
        steps.append(Step(_tokens(joined), answer, action))
        joined = _draw(work, "obs", work.obs, work.obs_sigma, dice)
    steps.append(Step(_tokens(joined), _tokens(_draw(work, "out", work.out, work.out_sigma, dice))))
    return tuple(steps)


class _Places:
    """Environments by the share of actions that they get."""

    def __init__(self, environments: dict[EnvironmentId, EnvironmentShape]) -> None:
        self._names = list(environments)
        self._shapes = list(environments.values())
        self._edges = list(accumulate(shape.share for shape in self._shapes))

    def draw(self, dice: Random) -> tuple[EnvironmentId, float]:
        """An environment, and how its seconds compare to the workload's."""
        if len(self._names) == 1:
            return self._names[0], self._shapes[0].seconds
        place = dice.choices(range(len(self._names)), cum_weights=self._edges)[0]
        return self._names[place], self._shapes[place].seconds


def _draw(work: Workload, name: str, mean: float, sigma: float, dice: Random) -> float:
    law = work.laws.get(name)
    if law is not None:
        return law.at(_inside(dice.random()))
    return mean * exp(sigma * dice.gauss() - sigma * sigma / 2)


def _tokens(value: float) -> Tokens:
    return Tokens(max(1, round(value)))


def _inside(u: float) -> float:
    return min(1 - _EDGE, max(_EDGE, u))
