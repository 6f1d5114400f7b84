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


def strike(number):
    os.kill(os.getpid(), number)
    time.sleep(5)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_becomes_an_exception_and_is_told(number):
    before = [signal.getsignal(one) for one in interrupts.SIGNALS]
    with pytest.raises(KeyboardInterrupt), interrupts.heeded():
        strike(number)
    assert interrupts.struck() == number
    assert [signal.getsignal(one) for one in interrupts.SIGNALS] == before


def test_a_signal_that_is_ignored_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.heeded():
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.struck() is None


def test_a_strike_is_held_until_the_outermost_block_is_over():
    reached = []

    def work():
        with interrupts.held():
            with interrupts.held():
                os.kill(os.getpid(), signal.SIGTERM)
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt), interrupts.heeded():
        work()
    assert reached == ["inner", "outer"]


class Fragile:
    """Is struck in its finaliser, which can pass nothing on."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)


def test_a_strike_that_cannot_be_passed_on_is_repeated(capsys):
    def work():
        Fragile()
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt), interrupts.heeded():
        work()
    assert capsys.readouterr().err == ""


class Broken:
    """Fails in its finaliser."""

    def __del__(self):
        raise RuntimeError("from a finaliser")


@pytest.mark.parametrize("struck", [False, True])
def test_other_errors_of_finalisers_are_told_unless_a_strike_is_to_blame(monkeypatch, struck):
    def work():
        if struck:
            with suppress(KeyboardInterrupt):
                strike(signal.SIGTERM)
        Broken()

    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)
    with interrupts.heeded():
        work()
    assert [str(about.exc_value) for about in told] == ([] if struck else ["from a finaliser"])


def test_an_expected_end_interrupts_nothing():
    with interrupts.heeded():
        with interrupts.ends_quietly():
            strike(signal.SIGINT)
        assert interrupts.struck() is None


def test_nothing_strikes_any_more_once_the_end_is_near():
    before = [signal.getsignal(one) for one in interrupts.SIGNALS]
    with interrupts.heeded():
        interrupts.ignore_from_now_on()
        for number in interrupts.SIGNALS:
            os.kill(os.getpid(), number)
    assert interrupts.struck() is None
    assert [signal.getsignal(one) for one in interrupts.SIGNALS] == before
