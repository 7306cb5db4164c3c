"""A setting: a workload, the engines and the environments that it meets. Frozen values, checked where they are made."""

from dataclasses import dataclass, field, replace
from typing import Literal

from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.latency import LatencyModel
from headway.workloads.laws import Geometric, Law, Lognormal, Pareto, TwoModes, Uniform

Length = Literal["lognormal", "geometric", "mixture", "uniform", "pareto"]
ACTING = EnvironmentId("environment")
"""The environment of settings that have only one."""


@dataclass(frozen=True, slots=True)
class EngineShape:
    """One modelled engine.

    Args:
        cost: what tokens cost it.
        kv_tokens: KV tokens that its cache holds; None: more than is ever needed.
        state_slots: recurrent states that it keeps; None: it has none, or more than are ever needed.
        block_tokens: granularity of a prefix hit.
        max_running: sequences that it runs at once.
        keeps_decode: whether a turn leaves a state behind at the end of its answer; if not, at the last block boundary
            of its prompt, as vLLM does unless told otherwise.
        running_states: states that a running turn holds; a paused one holds 1.
        prefill_share: the part of its time that prefill takes while there is something to decode as well.
        forgets: whether it frees a trajectory's cache when the trajectory ends. Real engines are never told.
    """

    cost: LatencyModel
    kv_tokens: int | None = None
    state_slots: int | None = None
    block_tokens: int = 1
    max_running: int | None = None
    keeps_decode: bool = True
    running_states: int = 1
    prefill_share: float = 0.5
    forgets: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.prefill_share < 1:
            raise ConfigError(f"prefill's share of an engine must lie between 0 and 1, is {self.prefill_share:g}")
        if self.block_tokens < 1 or self.running_states < 1:
            raise ConfigError("an engine's blocks and states per running turn are at least 1")


@dataclass(frozen=True, slots=True)
class EnvironmentShape:
    """One modelled environment.

    Args:
        slots: actions at once.
        instances: trajectories that may hold an instance for life; None: it is stateless.
        create_interval: least seconds between two creations.
        create_seconds: what an instance costs before its first action.
        resume_seconds: what an action costs more in a slot that last served another trajectory.
        share: how many of the workload's actions go here, against the other environments.
        seconds: how long actions take here, against the workload's own seconds.
    """

    slots: int
    instances: int | None = None
    create_interval: float = 0.0
    create_seconds: float = 0.0
    resume_seconds: float = 0.0
    share: float = 1.0
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ConfigError(f"an environment needs a slot, has {self.slots}", hint="give it at least 1")


@dataclass(frozen=True, slots=True)
class Workload:
    """What samples do: means, and how they spread.

    Args:
        length: distribution of actions per sample, around ``mean`` (``sigma``, ``alpha``: where it has them).
        icc: how much of the spread of lengths lies between groups.
        cap: most actions of a sample.
        prompt: tokens of the first prompt, ``prompt_sigma`` between groups.
        out: tokens of an answer. ``obs``: tokens of an observation. Each with the deviation of its logarithm.
        env: seconds of an action; ``env_sigma`` within groups, ``env_group_sigma`` between them.
        stragglers: share of actions that take ``straggler_factor`` times as long.
        failures: share of actions whose place dies under them once, at their end.
        laws: distributions that replace the lognormal ones, by the names ``length``, ``prompt``, ``out``, ``obs``,
            ``env``.
    """

    length: Length = "lognormal"
    mean: float = 12.0
    sigma: float = 0.8
    alpha: float = 1.8
    icc: float = 0.6
    cap: int = 100
    prompt: float = 3000.0
    prompt_sigma: float = 0.4
    out: float = 300.0
    out_sigma: float = 0.6
    obs: float = 600.0
    obs_sigma: float = 0.8
    env: float = 6.0
    env_sigma: float = 1.0
    env_group_sigma: float = 0.3
    stragglers: float = 0.0
    straggler_factor: float = 10.0
    failures: float = 0.0
    laws: dict[str, Law] = field(default_factory=dict[str, Law], hash=False)

    def __post_init__(self) -> None:
        if not 1 < self.mean < float("inf"):
            raise ConfigError(f"the mean length must be above 1, is {self.mean:g}")
        if self.length == "pareto" and self.alpha <= 1:
            raise ConfigError(f"a Pareto length has a mean only for alpha above 1, is {self.alpha:g}")
        if not 0 <= self.icc <= 1:
            raise ConfigError(f"the share of spread between groups (icc) lies between 0 and 1, is {self.icc:g}")

    def lengths(self) -> Law:
        """The distribution of actions per sample."""
        if "length" in self.laws:
            return self.laws["length"]
        match self.length:
            case "lognormal":
                return Lognormal(self.mean, self.sigma)
            case "geometric":
                return Geometric(self.mean)
            case "mixture":
                return TwoModes(self.mean)
            case "uniform":
                return Uniform(self.mean)
            case "pareto":
                return Pareto(self.mean, self.alpha)


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything about a simulated batch but the seed.

    ``source``: where its figures come from, shown with every result.
    """

    name: str
    workload: Workload
    engine: EngineShape
    environments: dict[EnvironmentId, EnvironmentShape] = field(hash=False)
    samples: int = 256
    group: int = 8
    engines: int = 4
    source: str = "synthetic"

    def __post_init__(self) -> None:
        for what, value in (("samples", self.samples), ("a group", self.group), ("engines", self.engines)):
            if value < 1:
                raise ConfigError(f"{what}: at least 1, is {value}", where=self.name)

    def with_slots(self, slots: int) -> "Setting":
        """The same with that many slots in its sole environment. Raises: ``ConfigError`` where it has several."""
        if len(self.environments) != 1:
            names = ", ".join(self.environments)
            raise ConfigError(f"it has several environments ({names})", where=self.name, hint="say which: NAME=SLOTS")
        return replace(self, environments={k: replace(v, slots=slots) for k, v in self.environments.items()})


def moved(setting: Setting, *, mean: float = 1.0, sigma: float = 1.0, slots: float = 1.0) -> Setting:
    """The same setting with mean length, spread of lengths and slots multiplied."""
    workload = replace(setting.workload, mean=setting.workload.mean * mean, sigma=setting.workload.sigma * sigma)
    environments = {
        name: replace(shape, slots=max(1, round(shape.slots * slots))) for name, shape in setting.environments.items()
    }
    name = f"{setting.name} (mean x{mean:g}, sigma x{sigma:g}, slots x{slots:g})"
    return replace(setting, name=name, workload=workload, environments=environments)
