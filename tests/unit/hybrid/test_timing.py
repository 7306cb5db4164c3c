"""The time model: what is fitted, what is assumed, and that it grows where it must."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import ConfigError
from headway.hybrid.architecture import from_config, named
from headway.hybrid.geometry import Dtypes
from headway.hybrid.timing import Fitted, assumed, device

LING = named("Ling-3.0-flash")
DTYPES = Dtypes()


def test_a_fit_by_hand() -> None:
    fit = Fitted(
        base=0.01, per_sequence=0.001, per_context=1e-6, per_new=1e-4, per_pair=1e-8, error=0.034, run="a.headway"
    )
    assert fit.step(4, 1000) == pytest.approx(0.01 + 4 * 0.002)
    assert fit.prefill(100, 1000) == pytest.approx(100 * (1e-4 + 1e-8 * 1050))
    assert fit.label == "fitted from a.headway, error 3%"
    assert Fitted(0, 0, 0, 0).label == "fitted from a run"


def test_what_is_assumed_says_so() -> None:
    assert assumed("h100", LING, 4, DTYPES).label == "assumed from the data sheet of H100"
    with pytest.raises(ConfigError, match=r"--device: unknown device 'H9'.*A100"):
        device("H9")


def test_one_decode_step_of_a_dense_model_by_hand() -> None:
    model = named("Meta-Llama-3.1-8B")
    timing = assumed("H100", model, 1, DTYPES)
    assert model.parameters is not None
    seconds = (model.parameters.total * 2 + 131072 * 1000) / (0.7 * 3.35e12)
    assert timing.step(1, 1000) == pytest.approx(0.004 + seconds)


def test_many_sequences_wait_for_arithmetic() -> None:
    model = named("Meta-Llama-3.1-8B")
    timing = assumed("H100", model, 1, DTYPES)
    assert model.parameters is not None
    flops = 4096 * 2 * model.parameters.active
    assert timing.step(4096, 0) == pytest.approx(0.004 + flops / (0.5 * 989e12))


def test_a_prompt_of_a_dense_model_by_hand() -> None:
    model = named("Meta-Llama-3.1-8B")
    timing = assumed("H100", model, 1, DTYPES)
    assert model.parameters is not None
    pairs = 32 * 2 * 32 * 256 * (500 + 50)
    assert timing.prefill(100, 500) == pytest.approx(100 * (2 * model.parameters.active + pairs) / (0.5 * 989e12))


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(0, 100_000), st.sampled_from([1, 2, 4, 8]))
def test_more_work_takes_longer_and_more_ranks_less(sequences: int, context: int, tp: int) -> None:
    timing = assumed("H200", LING, tp, DTYPES)
    assert timing.step(sequences + 1, context) > timing.step(sequences, context)
    assert timing.step(sequences, context + 1) >= timing.step(sequences, context)
    assert timing.prefill(sequences + 1, context) > timing.prefill(sequences, context)
    assert assumed("H200", LING, 2 * tp, DTYPES).step(sequences, context) < timing.step(sequences, context)


def test_smaller_weights_are_read_sooner() -> None:
    assert assumed("H200", LING, 4, DTYPES, weights="fp8").step(1, 0) < assumed("H200", LING, 4, DTYPES).step(1, 0)


def test_a_model_of_unknown_size_has_no_time_model() -> None:
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 8}
    with pytest.raises(ConfigError, match="mine: a time model needs the number of weights"):
        assumed("H200", from_config(config, name="mine"), 1, DTYPES)
