"""The fit finds what made the turns."""

import random

import pytest

from headway.core.progress import TurnSample
from headway.core.units import SECOND, EngineId, Nanos, Tokens, nanos
from headway.latency import FEWEST, LatencyModel, fit

TRUTH = LatencyModel(base=0.010, per_sequence=0.00015, per_token=5e-9, prefill=1 / 12000)


def turns(model: LatencyModel, count: int = 400, noise: float = 0.0, batch: float | None = None) -> list[TurnSample]:
    dice = random.Random(7)
    samples = []
    for _ in range(count):
        new, output = dice.randint(0, 6000), dice.randint(1, 800)
        running = dice.uniform(1, 60) if batch is None else batch
        context = running * dice.uniform(2000, 12000)
        service = model.turn_service(new=new, output=output, batch=running, context=context)
        service = nanos(service / SECOND * dice.lognormvariate(0, noise))
        samples.append(TurnSample(EngineId("e"), Tokens(9000), Tokens(new), Tokens(output), service, running, context))
    return samples


def test_a_step_and_a_turn() -> None:
    model = LatencyModel(base=0.01, per_sequence=0.001, per_token=1e-6, prefill=0.0001)
    assert model.step(10, 5000) == pytest.approx(0.025)
    assert model.turn_service(new=1000, output=4, batch=10, context=5000) == 200_000_000
    assert model.turn_service(new=0, output=1) == 11_000_000


def test_without_noise_the_truth_comes_back() -> None:
    found = fit(turns(TRUTH))
    assert found is not None
    for name in ("base", "per_sequence", "per_token", "prefill"):
        assert getattr(found.model, name) == pytest.approx(getattr(TRUTH, name), rel=1e-6)
    assert found.turns == 400
    assert found.mean_error < 1e-6


def test_with_noise_it_comes_close_and_says_how_far_off_it_is() -> None:
    found = fit(turns(TRUTH, 4000, noise=0.1))
    assert found is not None
    assert found.model.base == pytest.approx(TRUTH.base, rel=0.1)
    assert found.model.prefill == pytest.approx(TRUTH.prefill, rel=0.1)
    assert found.model.step(30, 200_000) == pytest.approx(TRUTH.step(30, 200_000), rel=0.05)
    assert 0.05 < found.median_error < 0.09
    assert found.mean_error == pytest.approx(0.08, abs=0.02)


def test_nothing_is_ever_negative() -> None:
    samples = turns(TRUTH, 200)
    odd = [
        TurnSample(
            s.engine, s.prompt, s.new, s.output, Nanos(round(1e9 * s.output * (0.1 - s.batch / 1000))), s.batch, 0.0
        )
        for s in samples
    ]
    found = fit(odd)
    assert found is not None
    assert (found.model.per_sequence, found.model.per_token) == (0, 0)
    assert found.model.base > 0


def test_what_cannot_be_told_apart_is_explained_by_less() -> None:
    found = fit(turns(LatencyModel(0.01, 0.001, 0, 0.0001), batch=4))
    assert found is not None
    assert found.model.step(4, 0) == pytest.approx(0.014)
    assert 0 in {found.model.base, found.model.per_sequence}


def test_too_little_to_go_by() -> None:
    assert fit(turns(TRUTH, FEWEST - 1)) is None
    instant = TurnSample(EngineId("e"), Tokens(1), Tokens(1), Tokens(1), Nanos(1000), 1, 1)
    assert fit([*turns(TRUTH, FEWEST - 1), instant]) is None
    assert fit(turns(TRUTH, FEWEST)) is not None
