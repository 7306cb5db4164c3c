"""Reports and statuses, to the letter."""

from pathlib import Path

import msgspec
import pytest

from headway import journal
from headway.core.facts import EngineSampled, Paused, Resumed
from headway.core.progress import Progress, TurnSample
from headway.core.units import EngineId, Nanos, Tokens
from headway.latency import LatencyModel, fit
from headway.views import summary, text, wording

REPORT = """\
run.headway, policy default, finished

  makespan  22.0 s = 2.20 x the lower bound of 10.0 s
  bound by  the slots of bash
  samples   4: 3 finished, 1 failed
  done      50% 19.0 s   90% 22.0 s   95% 22.0 s   99% 22.0 s   100% 22.0 s
  score     0.667 on average
  work      7 turns, 2 actions, 7,000 prompt and 280 output tokens
  hit rate  42.1% of what earlier turns left; 13.7% of all prompt tokens
  downtime  60.0 s between 2 coordinators (in no other figure)

where 49.5 s of trajectory time went
  phase              time  share
  inference queue   6.5 s  13.1%  turns that waited for an engine
  inference        16.0 s  32.3%  turns that ran
  slot queue        7.0 s  14.1%  actions that waited for a slot
  action           17.0 s  34.3%  actions that ran
  idle              3.0 s   6.1%  the harness's own time

engines
  engine          turns  batch    busy  prompt  output  hit rate  longest wait
  127.0.0.1:8001      6    1.0  12.0 s   5,800     240     42.1%         6.5 s
  127.0.0.1:8002      1    1.0   4.0 s   1,200      40         -         0.0 s

environments
  environment  slots  in use  actions  service  waited  longest wait
  bash             1   73.9%        2    7.0 s   7.0 s         4.0 s

no schedule could have been shorter than
     10.0 s  ENV  the slots of bash
      8.0 s  CP   the longest chain, multi_turn_base_1

what went wrong, and what moved
  http://127.0.0.1:8002 was lost at 15.0 s with 1 turn running: connection refused
  1 turn ran elsewhere than their stream's turn before
  1 turn failed (1 overloaded), 1 tried again
  1 action failed (1 lost), 1 tried again
  2 attempts given up and begun anew: 2 turns, 0 actions, 20.0 s lost
  1 sample failed: its prompt fits no engine

slowest chains, and where each spent its seconds (q: queue)
  chain                turns  live  inf. q  infer.  slot q  action  idle
  multi_turn_base_22       2  19.0     0.0     7.0     4.0     7.0   1.0
  multi_turn_base_1        2   8.5     0.0     3.0     0.0     5.0   0.5
  multi_turn_base_333      1   2.0     0.0     1.5     0.0     0.0   0.5"""

STATUS = """\
half.headway, policy default, stopped
  samples   4: 1 finished, 2 live, 1 pending
  elapsed   11.0 s
  was live  1 in slot queue, 1 in action
  engine    http://127.0.0.1:8001: 0 running, 3 turns, hit rate 92.3%
  engine    http://127.0.0.1:8002: 0 running, 1 turn, hit rate -
  slots     bash: 1 of 1 busy, 1 queued, 1 action
  go on with: headway resume half.headway"""


def test_the_report_of_a_batch_with_a_bit_of_everything(run: Path) -> None:
    assert text.report(summary.load(run)) == REPORT


def test_the_status_of_a_batch_that_was_killed(half: Path) -> None:
    seen = summary.load(half)
    assert (seen.standing, seen.process, seen.makespan_over_bound) == ("stopped", None, None)
    assert text.status(seen) == STATUS


def test_the_status_of_a_batch_under_way(half: Path) -> None:
    recorder = journal.open_resume(half)
    try:
        shown = text.status(summary.load(half)).splitlines()
        recorder.append(Paused(Nanos(12 * 10**9)), [])
        recorder.flush()
        paused = text.status(summary.load(half)).splitlines()
    finally:
        recorder.shut()
    assert shown[0].startswith("half.headway, policy default, running, process ")
    assert "  ETA       -" in shown
    assert "  live      1 in slot queue, 1 in action" in shown
    assert paused[0].endswith(", paused")
    assert not any("resume" in line for line in shown)


def test_the_status_of_a_batch_that_was_interrupted(run: Path) -> None:
    shown = text.status(summary.load(run))
    assert "elapsed   22.0 s, 60.0 s between 2 coordinators" in shown
    assert "http://127.0.0.1:8002: gone, 0 running" in shown


def test_the_report_of_a_batch_that_is_not_done(half: Path) -> None:
    shown = text.report(summary.load(half))
    assert "  elapsed   11.0 s\n" in shown
    assert "no schedule, for the samples done so far, could have been shorter than" in shown
    assert "multi_turn_base_22 (live)" in shown


def test_no_line_is_longer_than_a_terminal_is_wide(run: Path, half: Path) -> None:
    for path in (run, half):
        assert max(map(len, text.report(summary.load(path)).splitlines())) <= 82
        assert text.report(summary.load(path)).isascii()


def test_an_empty_batch(tmp_path: Path) -> None:
    path = tmp_path / "empty.headway"
    journal.open_new(path, journal.Header({}, "fifo", {}, {})).shut()
    shown = text.report(summary.load(path))
    assert "  elapsed   -\n" in shown
    assert "samples   0: none" in shown
    assert "hit rate  - (no engine reports cached tokens" in shown
    assert "samples   0: none" in text.status(summary.load(path))


def test_a_summary_travels_as_json(run: Path) -> None:
    seen = summary.load(run)
    assert msgspec.json.decode(msgspec.json.encode(seen), type=summary.Summary) == seen
    assert seen.binding == seen.bounds[0]
    assert (seen.policy, seen.source, seen.settings) == ("default", {"suite": "bfcl"}, {"seed": 0})


def fitted(scale: float):
    model = LatencyModel(base=scale, per_sequence=0, per_token=0, prefill=0)
    turns = [
        TurnSample(EngineId("e"), Tokens(9), Tokens(0), Tokens(10 + n), model.turn_service(new=0, output=10 + n), 1, 1)
        for n in range(10)
    ]
    return fit(turns)


def test_an_estimate_says_that_it_is_one_and_how_good_it_is(ended: Progress) -> None:
    header = journal.Header({}, "default", {}, {})
    seen = summary.summarise("r", header, ended, found=fitted(0.5))
    assert (seen.bounds[0].kind, seen.bounds[0].estimate, seen.fit_is_off) == ("LLM", True, False)
    shown = text.report(seen)
    assert "bound by  the engines (estimate)" in shown
    assert "(engine cost fitted to 10 turns, off by 0% in the median, 0% on average)" in shown


def test_an_estimate_above_the_makespan_does_not_count(ended: Progress) -> None:
    header = journal.Header({}, "default", {}, {})
    seen = summary.summarise("r", header, ended, found=fitted(2.0))
    assert (seen.bounds[0].kind, seen.fit_is_off) == ("LLM", True)
    assert seen.binding is not None
    assert seen.binding.kind == "ENV"
    assert "the fit is off: it does not count" in text.report(seen)


def test_a_run_long_enough_is_fitted_from_its_own_turns(tmp_path: Path) -> None:
    from headway.core.commands import Admit, StartTurn
    from headway.core.facts import EngineJoined, SampleSubmitted, TrajectoryFinished, TurnFinished, TurnRequested
    from headway.core.units import MAIN, TrajectoryId, nanos

    path, who, engine = tmp_path / "run.headway", TrajectoryId("a"), EngineId("e")
    recorder = journal.open_new(path, journal.Header({}, "fifo", {}, {}))
    recorder.append(EngineJoined(Nanos(0), engine), [])
    recorder.append(SampleSubmitted(Nanos(0), who), [Admit(who, 1)])
    at = 0.0
    for turn in range(12):
        recorder.append(TurnRequested(nanos(at), who, MAIN, turn, Tokens(100)), [StartTurn(who, MAIN, turn, 1, engine)])
        took = 0.01 * (10 + turn)
        at += took
        recorder.append(
            TurnFinished(nanos(at), who, MAIN, turn, 1, Tokens(100), Tokens(10 + turn), nanos(took), Tokens(100)), []
        )
    recorder.append(TrajectoryFinished(nanos(at), who), [])
    recorder.shut()
    found = summary.load(path).fit
    assert found is not None
    assert (found.turns, round(found.mean_error, 6)) == (12, 0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.04, "0.0 s"), (999.94, "999.9 s"), (999.96, "16m 40s"), (7199.4, "119m 59s"), (7200, "2h 00m")],
)
def test_durations(value: float | None, shown: str) -> None:
    assert wording.duration(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (99_999, "99,999"), (100_000, "100.0k"), (9_999_999, "10,000.0k"), (1e7, "10.0M")]
)
def test_counts(value: float | None, shown: str) -> None:
    assert wording.count(value) == shown


def test_words() -> None:
    assert (wording.percent(None), wording.percent(0.5, 0), wording.number(None)) == ("-", "50%", "-")
    assert wording.clip("two\nlines", 20) == "two lines"
    assert wording.clip("abcdefghij", 7) == "ab..hij"
    assert wording.table(["a", "b"], [["a long name that does not fit at all", "1"]], 20) == [
        "  a                b",
        "  a long.. at all  1",
    ]


def test_many_causes_are_cut_short(begun: Progress) -> None:
    for number in range(13):
        begun.failures[f"cause {number}"] = 1
    begun.apply(EngineSampled(Nanos(12 * 10**9), EngineId("http://127.0.0.1:8001"), waiting=1))
    begun.apply(Resumed(Nanos(12 * 10**9)))
    shown = text.report(summary.summarise("r", journal.Header({}, "p", {}, {}), begun))
    assert "  and 3 causes more" in shown
