"""Whoever sits before a terminal is told that compiling takes its time, once, and how far it is."""

from __future__ import annotations

import io

import pytest
from numba import njit
from numba.core import event
from rich.console import Console

from slipstream.cli import compiling


@pytest.fixture
def told():
    """Let a listener hear the compiler; return what it prints."""
    written = io.StringIO()
    teller = compiling.CompileTeller(Console(file=written, force_terminal=True, width=120))
    listener = compiling.listener_for(teller)
    event.register("numba:compile", listener)
    yield written
    event.unregister("numba:compile", listener)


def compile_something():
    @njit
    def inner(number):
        return number + 1

    @njit
    def outer(number):
        return inner(number) * 2

    assert outer(3) == 8


def test_long_compiling_is_told_once_and_then_how_far_it_is(told, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE_S", 0.0)
    monkeypatch.setattr(compiling, "AGAIN_S", 0.0)
    compile_something()
    lines = told.getvalue().splitlines()
    assert "this happens once on a machine" in lines[0]
    assert sum("this happens once" in line for line in lines) == 1
    assert any("functions in" in line for line in lines[1:])


def test_quick_compiling_is_not_worth_a_word(told, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE_S", 3600.0)
    compile_something()
    assert told.getvalue() == ""
