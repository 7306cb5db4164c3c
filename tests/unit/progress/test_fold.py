"""Facts and commands in, numbers out."""

import pytest

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    EngineSampled,
    Fact,
    LimitChanged,
    Paused,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
    Woke,
)
from headway.core.progress import Phase, Progress, State, TurnSample, snapshot
from headway.core.units import MAIN, SECOND, EngineId, EnvironmentId, GroupId, Nanos, StreamId, Tokens, TrajectoryId

A, B = TrajectoryId("a"), TrajectoryId("b")
ONE, TWO = EngineId("one"), EngineId("two")
BASH = EnvironmentId("bash")
SUB = StreamId("sub")


def s(value: float) -> Nanos:
    return Nanos(round(value * SECOND))


def opening(slots: int = 1) -> Progress:
    progress = Progress()
    progress.apply(CoordinatorStarted(s(0), wall=1_000 * SECOND, version="9"))
    progress.apply(SlotsChanged(s(0), BASH, slots))
    progress.apply(EngineJoined(s(0), ONE, "vllm", Tokens(1000)))
    progress.apply(EngineJoined(s(0), TWO))
    progress.apply(Resumed(s(0)))
    return progress


def submit(progress: Progress, at: float, name: TrajectoryId = A, *commands: Command, group: str | None = None) -> None:
    progress.apply(SampleSubmitted(s(at), name, group=GroupId(group) if group else None), commands or [Admit(name, 1)])


def request(at: float, turn: int = 0, prompt: int = 100, name: TrajectoryId = A, stream: StreamId = MAIN) -> Fact:
    return TurnRequested(s(at), name, stream, turn, Tokens(prompt))


def start(
    turn: int = 0, engine: EngineId = ONE, name: TrajectoryId = A, stream: StreamId = MAIN, **more: int
) -> Command:
    return StartTurn(name, stream, turn, 1, engine, **more)


def finish(
    at: float,
    turn: int,
    prompt: int,
    output: int,
    service: float,
    cached: int | None = None,
    name: TrajectoryId = A,
    stream: StreamId = MAIN,
) -> Fact:
    tokens = None if cached is None else Tokens(cached)
    return TurnFinished(s(at), name, stream, turn, 1, Tokens(prompt), Tokens(output), s(service), tokens)


def act(at: float, action: int = 0, name: TrajectoryId = A, stream: StreamId = MAIN, env: str = "bash") -> Fact:
    return ActionRequested(s(at), name, stream, action, EnvironmentId(env))


def grant(action: int = 0, name: TrajectoryId = A, stream: StreamId = MAIN) -> Command:
    return GrantAction(name, stream, action, 1, BASH)


def acted(at: float, action: int, service: float, name: TrajectoryId = A, stream: StreamId = MAIN) -> Fact:
    return ActionFinished(s(at), name, stream, action, 1, s(service))


def phases(progress: Progress) -> list[float]:
    return [progress.spent(phase) / SECOND for phase in Phase]


def one_chain() -> Progress:
    """Admitted at 1; waits 1 for a turn of 2; idle 0.5; waits 1 for a slot, acts 3; a last turn of 1."""
    progress = opening()
    submit(progress, 1)
    progress.apply(request(1))
    progress.apply(LimitChanged(s(2), 8), [start()])
    progress.apply(finish(4, 0, 100, 10, 2, 0))
    progress.apply(act(4.5))
    progress.apply(Woke(s(5.5)), [grant()])
    progress.apply(acted(8.5, 0, 3))
    progress.apply(request(8.5, 1, 150), [start(1, expected_cached=110)])
    progress.apply(finish(9.5, 1, 150, 20, 1, 88))
    progress.apply(TrajectoryFinished(s(9.5), A, 1.0))
    return progress


def test_one_chain_from_admission_to_finish() -> None:
    seen = snapshot(one_chain())
    assert seen.complete
    assert seen.makespan_s == 8.5
    assert (seen.turns, seen.actions, seen.prompt_tokens, seen.output_tokens) == (2, 1, 250, 30)
    assert (seen.samples.submitted, seen.samples.finished, seen.samples.done) == (1, 1, 1)
    assert seen.time_to_s == {"50": 8.5, "90": 8.5, "95": 8.5, "99": 8.5, "100": 8.5}
    waits = seen.phases_s
    assert (waits.inference_queue, waits.inference, waits.slot_queue, waits.action, waits.idle) == (1, 3, 1, 3, 0.5)
    assert seen.limit == 8
    assert seen.mean_score == 1.0
    (slow,) = seen.slowest
    assert (slow.trajectory, slow.state, slow.live_s, slow.turns, slow.actions) == ("a", "finished", 8.5, 2, 1)
    assert slow.phases_s == waits
    assert slow.phase is None


def test_the_cache_counts_only_what_could_have_been_found() -> None:
    seen = snapshot(one_chain())
    one, two = seen.engines
    assert (one.cached_tokens, one.expected_cached) == (88, 110)
    assert seen.hit_rate == one.hit_rate == 88 / 110
    assert seen.cached_share == 88 / 250
    assert (two.cached_tokens, two.expected_cached, two.hit_rate, two.mean_batch) == (None, None, None, None)


def test_engines_and_environments_report_what_they_did() -> None:
    seen = snapshot(one_chain())
    one = seen.engines[0]
    assert (one.kind, one.alive, one.running, one.turns, one.busy_s, one.service_s) == ("vllm", True, 0, 2, 3, 3)
    assert (one.wait_s, one.longest_wait_s, one.mean_batch) == (1, 1, 1)
    (bash,) = seen.environments
    assert (bash.slots, bash.actions, bash.busy_s, bash.service_s) == (1, 1, 3, 3)
    assert (bash.wait_s, bash.longest_wait_s) == (1, 1)
    assert bash.occupancy == 3 / 9.5


def test_what_bounds_need_is_summed_per_trajectory() -> None:
    work = one_chain().chains[A].work
    assert (work.turns, work.actions, work.prompt, work.cached, work.output) == (2, 1, 250, 88, 30)
    assert (work.first_prompt, work.new) == (100, 100 + 40)
    assert work.weighted == 10 * 210 + 20 * 320
    assert (work.turn_service, work.action_service, work.serial) == (s(3), s(3), s(6))
    use = work.uses[BASH]
    assert (use.actions, use.service, use.head, use.tail) == (1, s(3), s(2), s(1))


def test_a_moment_in_between() -> None:
    progress = opening()
    submit(progress, 1)
    submit(progress, 1, B, WakeAt(s(9)))
    progress.apply(request(1), [start()])
    progress.apply(Paused(s(2)))
    seen = snapshot(progress, now=s(3))
    assert not seen.complete
    assert seen.paused
    assert seen.makespan_s == 2
    assert seen.time_to_s["50"] is None
    assert (seen.samples.pending, seen.samples.live, seen.phases.inference) == (1, 1, 1)
    assert seen.phases_s.inference == 2
    assert (seen.engines[0].running, seen.engines[0].busy_s, seen.engines[0].mean_batch) == (1, 2, 1)
    assert [(c.trajectory, c.live_s, c.phase, c.phases_s.inference) for c in seen.slowest] == [("a", 2, "inference", 2)]
    assert snapshot(progress, now=s(3), chains=0).slowest == []
    assert snapshot(progress, now=s(0)).makespan_s == 1


def test_nothing_yet() -> None:
    seen = snapshot(Progress())
    assert (seen.complete, seen.makespan_s, seen.hit_rate, seen.mean_score) == (False, None, None, None)
    assert seen.time_to_s["100"] is None


def test_with_several_streams_a_trajectory_is_in_one_phase_at_a_time() -> None:
    progress = opening(slots=2)
    submit(progress, 0)
    progress.apply(request(0))  # main waits
    progress.apply(request(1, stream=SUB), [start(stream=SUB)])  # inference wins over its queue
    progress.apply(finish(3, 0, 100, 1, 2, stream=SUB))  # back to main's wait
    progress.apply(act(4, stream=SUB), [grant(stream=SUB)])  # action
    progress.apply(Woke(s(5)), [start()])  # still action
    progress.apply(acted(7, 0, 3, stream=SUB))  # main's inference
    progress.apply(finish(9, 0, 100, 1, 4))
    progress.apply(TrajectoryFinished(s(10), A))
    assert phases(progress) == [1 + 1, 2 + 2, 0, 3, 1]
    work = progress.chains[A].work
    assert work.serial == s(5)
    assert (work.uses[BASH].head, work.uses[BASH].tail) == (s(2), 0)


def test_heads_and_tails_are_the_least_over_the_streams() -> None:
    progress = opening(slots=2)
    submit(progress, 0)
    progress.apply(request(0), [start()])
    progress.apply(request(0, stream=SUB), [start(stream=SUB)])
    progress.apply(finish(1, 0, 10, 1, 1, stream=SUB))
    progress.apply(act(1, 0, stream=SUB), [grant(0, stream=SUB)])
    progress.apply(acted(2, 0, 1, stream=SUB))
    progress.apply(request(2, 1, stream=SUB), [start(1, stream=SUB)])
    progress.apply(finish(3, 0, 10, 1, 3))
    progress.apply(act(3, 1), [grant(1)])
    progress.apply(finish(4, 1, 10, 1, 2, stream=SUB))
    progress.apply(acted(4, 1, 1))
    progress.apply(request(4, 1), [start(1)])
    progress.apply(finish(7, 1, 10, 1, 3))
    progress.apply(TrajectoryFinished(s(9), A))
    use = progress.chains[A].work.uses[BASH]
    assert (use.actions, use.head, use.tail) == (2, s(1), s(2))
    assert progress.chains[A].work.serial == s(7)


def test_parallel_actions_of_one_stream_count_once_in_what_is_serial() -> None:
    progress = opening(slots=2)
    submit(progress, 0)
    progress.apply(act(0, 0), [grant(0)])
    progress.apply(act(0, 1), [grant(1)])
    progress.apply(acted(3, 0, 3))
    progress.apply(acted(4, 1, 4))
    progress.apply(TrajectoryFinished(s(4), A))
    work = progress.chains[A].work
    assert (work.action_service, work.serial) == (s(7), s(4))
    assert snapshot(progress).environments[0].busy_s == 7


def test_a_failed_turn_waits_on_and_its_wait_is_one() -> None:
    progress = opening()
    submit(progress, 0)
    progress.apply(request(0))
    progress.apply(Woke(s(1)), [start()])
    progress.apply(TurnFailed(s(2), A, MAIN, 0, 1, "overloaded", "429"), [WakeAt(s(4))])
    assert progress.chains[A].phase is Phase.INFERENCE_QUEUE
    progress.apply(Woke(s(4)), [start()])
    seen = snapshot(progress)
    assert (seen.engines[0].wait_s, seen.engines[0].longest_wait_s, seen.engines[0].failed_turns) == (3, 3, 1)
    assert (seen.retries.turns_failed, seen.retries.turns_retried) == ({"overloaded": 1}, {"overloaded": 1})


def test_a_turn_that_failed_for_good_is_no_retry() -> None:
    progress = opening()
    submit(progress, 0)
    progress.apply(request(0), [start()])
    failed = TurnFailed(s(2), A, MAIN, 0, 1, "invalid", "400")
    progress.apply(failed, [Reject(A, "turn", "invalid after 1 tries: 400", MAIN, 0), Admit(B, 1)][:1])
    assert progress.chains[A].phase is Phase.IDLE
    progress.apply(TrajectoryAbandoned(s(3), A, "no answer"))
    seen = snapshot(progress)
    assert (seen.retries.turns_failed, seen.retries.turns_retried) == ({"invalid": 1}, {})
    assert seen.failures == {"no answer": 1}
    assert (seen.samples.failed, seen.complete) == (1, True)
    assert seen.slowest[0].cause == "no answer"
    assert progress.live_lengths[0] == 0


def test_a_lost_action_waits_again_and_a_failed_one_is_over() -> None:
    progress = opening()
    submit(progress, 0)
    progress.apply(act(0), [grant()])
    progress.apply(ActionFailed(s(1), A, MAIN, 0, 1, "lost", "node gone"))
    assert progress.chains[A].phase is Phase.SLOT_QUEUE
    progress.apply(Woke(s(2)), [grant()])
    progress.apply(ActionFailed(s(3), A, MAIN, 0, 2, "lost", "again"), [Reject(A, "action", "lost", MAIN, 0)])
    assert progress.chains[A].phase is Phase.IDLE
    progress.apply(act(3, 1), [grant(1)])
    progress.apply(ActionFailed(s(4), A, MAIN, 1, 2, "error", "exit 1"))
    seen = snapshot(progress)
    assert (seen.environments[0].busy, seen.environments[0].queued, seen.environments[0].failed_actions) == (0, 0, 3)
    assert (seen.retries.actions_failed, seen.retries.actions_retried) == ({"lost": 2, "error": 1}, {"lost": 1})
    assert (seen.environments[0].longest_wait_s, seen.actions) == (1, 0)


def test_what_the_agent_no_longer_wants() -> None:
    progress = opening()
    submit(progress, 0)
    progress.apply(request(0), [start()])
    progress.apply(TurnWithdrawn(s(1), A, MAIN, 0), [CancelTurn(A, MAIN, 0, 1, ONE)])
    progress.apply(act(1))
    progress.apply(ActionWithdrawn(s(2), A, MAIN, 0))
    assert phases(progress)[:3] == [0, 1, 1]
    assert progress.chains[A].phase is Phase.IDLE
    assert snapshot(progress).engines[0].running == 0


def test_an_engine_lost_moves_its_turns() -> None:
    progress = opening()
    submit(progress, 0)
    progress.apply(request(0), [start()])
    progress.apply(finish(1, 0, 100, 10, 1))
    progress.apply(request(1, 1, 120), [start(1)])
    progress.apply(EngineLost(s(3), ONE, "connection refused"), [CancelTurn(A, MAIN, 1, 1, ONE), start(1, TWO)])
    progress.apply(finish(5, 1, 120, 10, 2))
    seen = snapshot(progress)
    (loss,) = seen.engine_losses
    assert (loss.at_s, loss.engine, loss.cause, loss.turns) == (3, "one", "connection refused", 1)
    assert [(e.alive, e.turns, e.moved_turns) for e in seen.engines] == [(False, 1, 0), (True, 1, 1)]
    assert seen.moved_turns == 1
    assert progress.most_engines == 2
    progress.apply(EngineLost(s(5), ONE, "still gone"))
    progress.apply(EngineJoined(s(6), ONE))
    progress.apply(EngineJoined(s(6), ONE))
    assert (progress.alive_engines, progress.most_engines) == (2, 2)


def test_what_can_never_be() -> None:
    progress = opening()
    submit(progress, 0, A, Reject(A, "sample", "too long"))
    assert progress.chains[A].state is State.FAILED
    submit(progress, 0, B)
    progress.apply(act(1, name=B, env="nowhere"), [Reject(B, "action", "there is no environment", MAIN, 0)])
    progress.apply(request(1, name=B), [Reject(B, "turn", "fits no engine", MAIN, 0)])
    progress.apply(Woke(s(2)), [Reject(B, "turn", "of another turn", MAIN, 7), Reject(B, "turn", "of no stream")])
    assert progress.chains[B].phase is Phase.IDLE
    seen = snapshot(progress)
    assert (seen.failures, seen.samples.done) == ({"too long": 1}, 1)
    assert [chain.trajectory for chain in seen.slowest] == ["b"]


def test_an_attempt_given_up_is_lost_work() -> None:
    progress = opening(slots=1)
    submit(progress, 0)
    progress.apply(request(0), [start()])
    progress.apply(finish(2, 0, 100, 10, 2, 0))
    progress.apply(act(2), [grant()])
    progress.apply(request(2, stream=SUB), [start(stream=SUB)])
    again = TrajectoryAbandoned(s(3), A, "crashed", again=True)
    progress.apply(again, [CancelTurn(A, SUB, 0, 1, ONE), Drop(A, MAIN, ONE), Admit(A, 3)])
    progress.apply(request(3), [start()])
    progress.apply(finish(4, 0, 100, 10, 1, 0))
    progress.apply(TrajectoryFinished(s(4), A))
    seen = snapshot(progress)
    assert (seen.lost.attempts, seen.lost.turns, seen.lost.actions) == (1, 1, 0)
    assert (seen.lost.service_s, seen.lost.live_s) == (2, 3)
    assert (seen.attempts, progress.attempts(A), seen.retries.trajectories_retried) == (2, 2, 1)
    assert (seen.engines[0].running, seen.environments[0].busy, seen.environments[0].queued) == (0, 0, 0)
    assert (seen.slowest[0].live_s, seen.slowest[0].turns, seen.slowest[0].attempts) == (1, 1, 2)
    assert (seen.phases_s.inference, seen.phases_s.action) == (3, 1)
    assert progress.lengths == {1: 1}


@pytest.mark.parametrize("gap", [0, 50], ids=["the clock stood still", "the clock went on"])
def test_time_between_coordinators_is_downtime_and_nothing_else(gap: int) -> None:
    progress = opening()
    submit(progress, 1)
    submit(progress, 1, B)
    progress.apply(request(1), [start()])
    progress.apply(request(1, name=B), [start(name=B)])
    progress.apply(finish(4, 0, 10, 1, 3, name=B))
    progress.apply(TrajectoryFinished(s(4), B))
    progress.apply(CoordinatorStarted(s(4 + gap), wall=1_100 * SECOND, version="10"))
    seen = snapshot(progress)
    assert (seen.coordinators, seen.downtime_s, seen.paused) == (2, 96, True)
    assert (seen.samples.pending, seen.samples.live, seen.lost.live_s, seen.lost.turns) == (1, 0, 3, 0)
    assert [(engine.alive, engine.running) for engine in seen.engines] == [(False, 0), (False, 0)]
    progress.apply(EngineJoined(s(4 + gap), ONE))
    progress.apply(Resumed(s(5 + gap)), [Admit(A, 2)])
    progress.apply(request(5 + gap), [start()])
    progress.apply(finish(7 + gap, 0, 10, 1, 2))
    progress.apply(TrajectoryFinished(s(7 + gap), A))
    seen = snapshot(progress, now=s(7 + gap))
    assert (seen.makespan_s, seen.time_to_s["50"], seen.time_to_s["100"]) == (6, 3, 6)
    assert not seen.paused
    assert progress.version == "10"


def test_a_coordinator_that_tries_failed_samples_again() -> None:
    progress = opening()
    for name in (A, B):
        submit(progress, 0, name)
    progress.apply(TrajectoryAbandoned(s(1), A, "broken"))
    progress.apply(TrajectoryFinished(s(2), B))
    submit(progress, 2, TrajectoryId("c"), Reject(TrajectoryId("c"), "sample", "too long"))
    progress.apply(CoordinatorStarted(s(2), wall=0, version="9", retry_failed=True))
    seen = snapshot(progress)
    assert (seen.samples.pending, seen.samples.finished, seen.samples.failed, seen.failures) == (2, 1, 0, {})
    assert list(progress.done_at) == [s(2)]
    assert (seen.lost.attempts, seen.lost.live_s, seen.downtime_s) == (1, 1, 0)


def test_engines_say_of_themselves() -> None:
    progress = opening()
    progress.apply(EngineSampled(s(1), ONE, waiting=3, kv_usage=0.5, preemptions=2))
    one = snapshot(progress).engines[0]
    assert (one.waiting, one.kv_usage, one.preemptions) == (3, 0.5, 2)


def test_causes_without_end_are_lumped() -> None:
    progress = opening()
    for number in range(1010):
        name = TrajectoryId(f"t{number}")
        submit(progress, 0, name)
        progress.apply(TrajectoryAbandoned(s(0), name, f"cause {number}"))
    assert len(progress.failures) == 1001
    assert progress.failures["other causes"] == 10


def test_slots_that_change_count_as_they_were() -> None:
    progress = opening(slots=4)
    progress.apply(SlotsChanged(s(10), BASH, 2))
    (bash,) = snapshot(progress, now=s(20)).environments
    assert (bash.slots, bash.occupancy, progress.environments[BASH].most_slots) == (2, 0, 4)
    assert progress.environments[BASH].capacity == 40 * SECOND


def test_finished_turns_can_be_listened_to() -> None:
    heard: list[TurnSample] = []
    progress = Progress(heard.append)
    progress.apply(EngineJoined(s(0), ONE))
    for name in (A, B):
        submit(progress, 0, name)
    progress.apply(request(0, 0, 100), [start(expected_cached=60)])
    progress.apply(request(1, 0, 300, B), [start(name=B)])
    progress.apply(finish(2, 0, 110, 10, 2))
    progress.apply(finish(4, 0, 300, 20, 3, 40, name=B))
    first, second = heard
    assert (first.engine, first.prompt, first.new, first.output, first.service) == (ONE, 110, 50, 10, s(2))
    assert (first.batch, first.context) == (1.5, (100 + 400) / 2 + 5)
    assert (second.new, second.batch, second.context) == (260, (2 + 1 + 1) / 3, (400 + 300 + 300) / 3 + 10)


def test_a_turn_that_took_no_time_has_itself_for_company() -> None:
    heard: list[TurnSample] = []
    progress = Progress(heard.append)
    submit(progress, 0)
    progress.apply(request(0), [start()])
    progress.apply(finish(0, 0, 100, 10, 0))
    assert (heard[0].batch, heard[0].context) == (1, 105)
