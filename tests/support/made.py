"""Trajectories out of thin air, for tests: as hypothesis draws them, always possible ones."""

from hypothesis import strategies as st

from headway.core.units import EnvironmentId, GroupId, StreamId, TrajectoryId
from headway.traces.format import Recorded, RecordedAction, RecordedTurn

seconds = st.integers(0, 10**12).map(lambda n: n / 1e9)
tags = st.sampled_from(["measured", "derived", "assumed"])
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)

actions = st.builds(
    RecordedAction,
    environment=st.sampled_from(["bash", "web"]).map(EnvironmentId),
    service_s=seconds,
    queue_s=st.none() | seconds,
    tag=tags,
    parallel=st.booleans(),
    failures=st.lists(st.sampled_from(["lost", "error"]), max_size=2).map(tuple),
    command=json,
    exit_code=st.none() | st.integers(0, 255),
    response=st.none() | st.text(max_size=8),
)


@st.composite
def turns(draw: st.DrawFn) -> tuple[RecordedTurn, ...]:
    held: dict[str, int] = {}
    made = []
    for place in range(draw(st.integers(0, 5))):
        stream = draw(st.sampled_from(["main", "side"]))
        kept = draw(st.integers(0, held.get(stream, 0)))
        new, output = draw(st.integers(0 if kept else 1, 50)), draw(st.integers(0, 9))
        ids = draw(st.booleans())
        made.append(
            RecordedTurn(
                stream=StreamId(stream),
                new_tokens=new,
                prompt_tokens=kept + new,
                output_tokens=output,
                lengths=draw(tags),
                cached_tokens=draw(st.none() | st.integers(0, kept)),
                queue_s=draw(st.none() | seconds),
                service_s=draw(st.none() | seconds),
                engine_queue_s=draw(st.none() | seconds),
                think_s=draw(st.none() | seconds),
                tag=draw(tags),
                after=tuple(draw(st.sets(st.integers(0, place - 1), max_size=2))) if place else (),
                prompt_ids=tuple(range(new)) if ids else None,
                output_ids=tuple(range(output)) if ids else None,
                added=draw(json),
                answer=draw(json),
                actions=tuple(draw(st.lists(actions, max_size=2))),
            )
        )
        held[stream] = kept + new + output
    return tuple(made)


trajectories = st.lists(
    st.builds(
        Recorded,
        id=st.text(min_size=1, max_size=6).map(TrajectoryId),
        group=st.none() | st.text(max_size=4).map(GroupId),
        turns=turns(),
        setup=st.lists(actions, max_size=1).map(tuple),
        outcome=st.sampled_from(["finished", "failed", "unfinished"]),
        cause=st.none() | st.text(max_size=4),
        score=st.none() | st.floats(-1, 1),
        hint=st.none() | st.floats(0, 9),
        attempt=st.integers(1, 3),
        started_s=st.none() | st.just(0.5),
        finished_s=st.none() | st.just(7.5),
        request=st.none() | st.dictionaries(st.text(max_size=4), json, max_size=2),
    ),
    max_size=4,
    unique_by=lambda t: t.id,
)
