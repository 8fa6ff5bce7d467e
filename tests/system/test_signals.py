from __future__ import annotations

import queue
import subprocess
import sys
import threading

import pytest

from ralph.system.signals import SignalSafeQueue

_HANDLED_FOR_LONG = """
import queue, signal, time
from ralph.system.signals import SignalSafeQueue

signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.5))
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    SignalSafeQueue().get(timeout=0.3)
except queue.Empty:
    print("empty")
"""

_PUT_BY_A_HANDLER = """
import signal
from ralph.system.signals import SignalSafeQueue

things = SignalSafeQueue()
signal.signal(signal.SIGALRM, lambda *_: things.put("by the handler"))
signal.setitimer(signal.ITIMER_REAL, 0.1)
print(things.get(timeout=30))
"""


def test_things_come_in_their_order_and_then_nothing() -> None:
    things: SignalSafeQueue[int] = SignalSafeQueue()
    for number in range(3):
        things.put(number)
    assert [things.get(timeout=0), things.get_nowait(), things.get_nowait()] == [0, 1, 2]
    with pytest.raises(queue.Empty):
        things.get(timeout=0.01)


def test_of_many_who_put_at_once_nothing_is_lost_and_nobody_is_kept_waiting() -> None:
    things: SignalSafeQueue[int] = SignalSafeQueue()
    most, each = 8, 2_000

    def put(first: int) -> None:
        for number in range(first, first + each):
            things.put(number)

    threads = [threading.Thread(target=put, args=(number * each,)) for number in range(most)]
    for thread in threads:
        thread.start()
    taken = [things.get(timeout=30) for _ in range(most * each)]
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(most * each))
    for number in range(most):
        mine = [thing for thing in taken if thing // each == number]
        assert mine == sorted(mine)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(_HANDLED_FOR_LONG, "empty", id="the time is over when a signal has been handled"),
        pytest.param(_PUT_BY_A_HANDLER, "by the handler", id="a handler puts"),
    ],
)
def test_a_signal_while_somebody_waits(program: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == printed
