import statistics
import subprocess
import sys

from headway.suites.bfcl import InjectedLatency


def test_a_delay_depends_on_seed_task_and_action_alone():
    one, other = InjectedLatency(), InjectedLatency()
    late = [one.seconds("b", action) for action in (2, 1, 0)]
    assert late == [other.seconds("b", action) for action in (2, 1, 0)]
    assert (
        len({one.seconds("a", 0), one.seconds("a", 1), one.seconds("b", 0), InjectedLatency(seed=1).seconds("a", 0)})
        == 4
    )


def test_delays_are_the_same_in_another_process():
    program = "from headway.suites.bfcl.latency import InjectedLatency; print(InjectedLatency().seconds('a', 3))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert float(printed) == InjectedLatency().seconds("a", 3)


def test_the_fixed_defaults_are_those_that_the_label_names():
    delays = [InjectedLatency().seconds(f"task{number}", number % 7) for number in range(20_000)]
    assert 1.4 < statistics.mean(delays) < 1.6
    assert min(delays) > 0
    assert InjectedLatency().label == "injected action delay: lognormal, mean 1.5 s, sigma 1, seed 0"
