"""Signals end what runs by one exception, which is never lost; handlers from before come back."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from slipstream import interrupts


@pytest.fixture(autouse=True)
def usual_handler():
    """Heed Ctrl-C as Python does, which a shell has its background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def deliver(number):
    os.kill(os.getpid(), number)
    time.sleep(5)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_becomes_an_exception_and_is_told(number):
    before = [signal.getsignal(one) for one in interrupts.SIGNALS]
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        deliver(number)
    assert interrupts.received() == number
    assert [signal.getsignal(one) for one in interrupts.SIGNALS] == before


def test_a_signal_that_is_ignored_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.handled():
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.received() is None


def test_a_signal_is_deferred_until_the_outermost_block_is_over():
    reached = []

    def work():
        with interrupts.deferred():
            with interrupts.deferred():
                os.kill(os.getpid(), signal.SIGTERM)
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        work()
    assert reached == ["inner", "outer"]


class Fragile:
    """Receives a signal in its finaliser, where an exception does not propagate."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)


def test_a_signal_that_cannot_be_passed_on_is_redelivered(capsys):
    def work():
        Fragile()
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        work()
    assert capsys.readouterr().err == ""


class Broken:
    """Fails in its finaliser."""

    def __del__(self):
        raise RuntimeError("from a finaliser")


@pytest.mark.parametrize("received", [False, True])
def test_other_errors_of_finalisers_are_reported_unless_a_signal_is_the_cause(monkeypatch, received):
    def work():
        if received:
            with suppress(KeyboardInterrupt):
                deliver(signal.SIGTERM)
        Broken()

    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)
    with interrupts.handled():
        work()
    assert [str(about.exc_value) for about in told] == ([] if received else ["from a finaliser"])


def test_an_expected_end_interrupts_nothing():
    with interrupts.handled():
        with interrupts.as_normal_end():
            deliver(signal.SIGINT)
        assert interrupts.received() is None


def test_signals_are_ignored_once_the_process_is_ending():
    before = [signal.getsignal(one) for one in interrupts.SIGNALS]
    with interrupts.handled():
        interrupts.ignore_from_now_on()
        for number in interrupts.SIGNALS:
            os.kill(os.getpid(), number)
    assert interrupts.received() is None
    assert [signal.getsignal(one) for one in interrupts.SIGNALS] == before
