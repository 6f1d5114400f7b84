"""Compiled code is found again by the next process; kernels are linked into their callers with options of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import slipstream
from slipstream.jit.cache_folder import PACKAGE
from slipstream.jit.decorators import algebra, entry, inlined, kernel

PLAY = """
import slipstream
from slipstream.sim.kernel import lanes
slipstream.evaluate("edge/tiny", "edf", episodes=1)
print(sum(lanes.run.stats.cache_hits.values()), sum(lanes.run.stats.cache_misses.values()))
"""
CALLER = """
import numpy as np
from slipstream.jit.decorators import entry
from slipstream.sim.kernel.rng import stream_key

@entry
def call(key):
    {body}

value = call(np.uint64(7))
print(sum(stream_key.stats.cache_hits.values()), value)
"""
PROMPT = """
import slipstream
from slipstream import rule

@rule("edge")
def mine(row):
    return -row[0]

print(slipstream.evaluate("edge/tiny", mine, episodes=1).mean("reward"))
"""


def python(code, package=PACKAGE, whole=False, prepare=None, **environment):
    """Return what a program printed, or with `whole` the completed process; `prepare` is called in it first."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(package).parent), **environment},
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=prepare,
    )
    return done if whole else done.stdout.strip()


def test_a_second_process_compiles_nothing():
    python(PLAY)
    hits, misses = python(PLAY).split()
    assert int(hits) >= 1
    assert int(misses) == 0


def test_a_rule_typed_at_a_prompt_runs():
    assert float(python(PROMPT)) == 4.25


def test_the_package_under_test_is_the_installed_one():
    assert Path(slipstream.__file__).parent == PACKAGE


@kernel
def add(first, second):
    return first + second


@entry
def add_constants(value):
    return add(value, 1) + add(value, 2) + add(3, value)


def test_calls_with_different_constants_share_one_function():
    assert add_constants(10) == 11 + 12 + 13
    assert len(add.signatures) == 1


def test_python_may_call_what_is_compiled_for_other_functions():
    add_constants(10)
    assert add(2, 3) == 5
    assert add(2.5, 3) == 5.5


def test_an_entry_links_kernels_that_another_process_compiled(tmp_path):
    """The second process compiles another caller of functions that the first compiled."""
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path)}
    first = python(CALLER.format(body="return stream_key(key, 1)"), **cache)
    second = python(CALLER.format(body="return stream_key(key, 1) + np.uint64(1)"), **cache)
    hits, value = second.split()
    assert first.split()[0] == "0"
    assert hits == "1"
    assert int(value) == int(first.split()[1]) + 1


@kernel
def multiply(first, second):
    return first * second + second


@inlined
def double(value):
    return multiply(value, 2.0)


@algebra
def triple(value):
    return multiply(value, 3.0)


@entry
def double_and_triple(value):
    return double(value) + triple(value)


def test_a_kernel_inherits_no_option_of_its_callers():
    assert double_and_triple(4.0) == 25.0
    (compiled,) = multiply.overloads.values()
    code = str(compiled.library._get_module_for_linking())
    assert "alwaysinline" not in code
    assert "contract" not in code
