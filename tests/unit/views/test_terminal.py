"""The live view: lines that redraw themselves, or plain ones."""

import io
from collections import Counter

import pytest
from rich.console import Console

from headway.core.commands import Reject
from headway.core.facts import EngineJoined, EngineLost, Paused, SampleSubmitted, SlotsChanged
from headway.core.progress import Progress, snapshot
from headway.core.units import SECOND, EngineId, EnvironmentId, Nanos, TrajectoryId
from headway.views.terminal import LiveView, line, picture

NOW = Nanos(13 * SECOND)


def rendered(progress: Progress, width: int = 80) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True)
    console.print(picture("bfcl on 2 engines", snapshot(progress, now=NOW, chains=0), width))
    return [each.rstrip() for each in out.getvalue().splitlines()]


def test_a_picture_of_a_batch_under_way(begun: Progress) -> None:
    assert rendered(begun) == [
        "bfcl on 2 engines                                                  12.0 s, ETA -",
        "━━━━━━━━━━━━━━╸                                             1/4 done, 1 pending",
        "2 live: inference 0 (+0 waiting), actions 1 (+1 waiting), idle 0",
        "127.0.0.1:8001  0 running    3 turns  hit rate 92%",
        "127.0.0.1:8002  0 running    1 turns    hit rate -",
        "bash            1/1 slots  1 actions      1 queued",
    ]


def test_a_picture_of_trouble(begun: Progress) -> None:
    begun.apply(EngineLost(NOW, EngineId("http://127.0.0.1:8002"), "gone"))
    begun.apply(SampleSubmitted(NOW, TrajectoryId("x")), [Reject(TrajectoryId("x"), "sample", "too long")])
    begun.apply(Paused(NOW))
    begun.population[4] += 1
    shown = "\n".join(rendered(begun))
    assert "12.0 s, paused" in shown
    assert "2/5 done, 1 failed, 1 pending" in shown
    assert "127.0.0.1:8002       gone" in shown
    assert "actions 1 (+1 waiting), idle 1" in shown


def test_a_picture_of_the_end(ended: Progress) -> None:
    assert rendered(ended)[0].endswith("22.0 s, done")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_picture_fits_its_terminal_whatever_there_is(begun: Progress, width: int) -> None:
    for number in range(20):
        begun.apply(EngineJoined(NOW, EngineId(f"http://a-rather-long-name-of-a-host-{number}.example.com:80{number}")))
        begun.apply(SlotsChanged(NOW, EnvironmentId(f"environment-{number}"), 3))
    lines = rendered(begun, width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 3 + 2 * 9
    assert any("and 14 engines more" in each for each in lines)
    assert width < 80 or any("and 13 environments more" in each for each in lines)


def test_an_eta_once_there_is_one(begun: Progress) -> None:
    begun.lengths = Counter({2: 4})
    eta = snapshot(begun, now=NOW).eta_s
    assert eta is not None
    assert f"ETA {eta:.1f} s" in rendered(begun)[0]
    assert line(snapshot(begun, now=NOW)).endswith(f"ETA {eta:.1f} s")


def test_plain_lines_where_there_is_no_terminal(begun: Progress, ended: Progress) -> None:
    out = io.StringIO()
    moments = iter([0.0, 1.0, 4.9, 5.0, 9.0])
    with LiveView("x", console=Console(file=out, width=40), every=5, clock=lambda: next(moments)) as view:
        for at in range(5):
            view.update(begun, Nanos((12 + at) * SECOND))
        view._latest = (ended, Nanos(0))
    assert out.getvalue().splitlines() == [
        "11.0 s: 1/4 done, 2 live, inference 0 (+0 waiting), actions 1 (+1 waiting), ETA -",
        "14.0 s: 1/4 done, 2 live, inference 0 (+0 waiting), actions 1 (+1 waiting), ETA -",
        "22.0 s: 4/4 done, 1 failed, 0 live, inference 0 (+0 waiting), actions 0 (+0 waiting)",
    ]


def test_a_paused_batch_says_so(begun: Progress) -> None:
    begun.apply(Paused(NOW))
    assert ", paused, ETA -" in line(snapshot(begun, now=NOW))


def test_nothing_was_ever_shown() -> None:
    out = io.StringIO()
    with LiveView("x", console=Console(file=out)):
        pass
    assert out.getvalue() == ""


def terminal(monkeypatch: pytest.MonkeyPatch, **environ: str) -> tuple[io.StringIO, Console]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    out = io.StringIO()
    return out, Console(file=out, force_terminal=True, width=80, height=25)


def test_a_terminal_is_redrawn_in_place_and_keeps_the_last_state(
    monkeypatch: pytest.MonkeyPatch, begun: Progress
) -> None:
    out, console = terminal(monkeypatch, TERM="xterm-256color")
    moments = iter([0.0, 0.1, 0.3])
    with LiveView("title", console=console, clock=lambda: next(moments)) as view:
        for _ in range(3):
            view.update(begun, NOW)
    written = out.getvalue()
    assert written.count("title") == 4  # the update between was too soon; two are the end's
    assert "\x1b[1A\x1b[2K" in written
    assert written.rstrip().endswith("\x1b[?25h")
    assert "\x1b[38" in written or "\x1b[1m" in written


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, begun: Progress) -> None:
    out, console = terminal(monkeypatch, TERM="xterm-256color", NO_COLOR="1")
    with LiveView("title", console=console) as view:
        view.update(begun, NOW)
    assert "\x1b[3" not in out.getvalue()


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, begun: Progress) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with LiveView("title", console=Console(file=out, force_terminal=True)) as view:
        view.update(begun, NOW)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().startswith("12.0 s: 1/4 done")


def test_the_batch_may_fail_beneath_it(monkeypatch: pytest.MonkeyPatch, begun: Progress) -> None:
    out, console = terminal(monkeypatch, TERM="xterm")

    def run() -> None:
        with LiveView("title", console=console) as view:
            view.update(begun, NOW)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        run()
    assert out.getvalue().rstrip().endswith("\x1b[?25h")


def test_by_default_it_speaks_to_standard_error(capfd: pytest.CaptureFixture[str], begun: Progress) -> None:
    with LiveView("title") as view:
        view.update(begun, NOW)
    said = capfd.readouterr()
    assert said.out == ""
    assert "1/4 done" in said.err
