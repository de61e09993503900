"""The first signal stops cleanly, the second at once, and one while starting interrupts the start."""

import os
import signal
import subprocess
import sys

import pytest

from bursa.server.stopping import Interrupted, catch_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_starting_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted), catch_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_the_first_signal_while_serving_is_a_request() -> None:
    asked = []
    with catch_signals() as stopping:
        stopping.on_first = lambda: asked.append("stop")
        os.kill(os.getpid(), signal.SIGTERM)
    assert asked == ["stop"]


def test_the_second_signal_ends_the_process_at_once() -> None:
    code = """
import os, signal
from bursa.server.stopping import catch_signals
with catch_signals() as stopping:
    stopping.on_first = lambda: print("asked", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "asked\n", "")
