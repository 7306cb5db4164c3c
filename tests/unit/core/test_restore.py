"""A journal read back agrees with the machine that wrote it, on everything that outlives a coordinator."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.errors import RefusedFact

NAMES = "abcd"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["sample", "turn", "answer", "fail", "act", "acted", "fail_action", "finish", "abandon", "again", "crash"]
        ),
        st.sampled_from(NAMES),
    ),
    max_size=80,
)


def survivors(world):
    return (
        world.done,
        set(world.failed),
        {name: (t.phase, t.completed) for name, t in world.trajectories.items()},
        {name: (g.submitted, g.actions, g.finished) for name, g in world.groups.items()},
        (world.outputs, world.answered),
    )


def attempts(world):
    return {name: t.attempt for name, t in [*world.trajectories.items(), *world.failed.items()]}


def step(batch, what, name):
    if what == "sample":
        batch.sample(name, group="g" if name in "ab" else "h")
    elif what == "again":
        batch.abandon(name, again=True)
    elif what == "fail_action" or what == "acted":
        action = next(action for trajectory, action in batch.grants if trajectory == name)
        getattr(batch, what)(name, action=action)
    elif what == "crash":
        batch.starts.clear()
        batch.grants.clear()
        batch.coordinator(retry_failed=name == "a")
        batch.engine("e", kv=3000, running=2)
        batch.resume()
    else:
        getattr(batch, what)(name)


@given(STEPS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_restore_agrees_with_the_live_world(journal, steps):
    batch = journal("caas")
    batch.engine("e", kv=3000, running=2)
    batch.environment("bash", 1)
    for what, name in steps:
        try:
            step(batch.pass_(1), what, name)
        except (KeyError, RefusedFact, StopIteration):
            continue  # not possible just now
        restored, used = batch.restored().world, {}
        assert survivors(restored) == survivors(batch.world)
        for _, commands in batch.rows:
            for command in commands:
                if hasattr(command, "attempt"):
                    used[command.trajectory] = max(command.attempt, used.get(command.trajectory, 0))
        known = attempts(restored)
        assert all(known[name] >= used.get(name, 0) for name in known), "an attempt's number could come twice"
        assert all(known[name] <= attempt for name, attempt in attempts(batch.world).items())
