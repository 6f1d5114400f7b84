"""Policies that do not fit a scenario, as the command line answers them."""

from __future__ import annotations

import json


def test_an_unfitting_policy_ends_with_one_line(slipstream):
    code, output, error = slipstream("run", "serving/tiny", "--policy", "eft")
    assert (code, output) == (2, "")
    assert "policy 'eft' does not apply to serving/tiny: it routes requests" in " ".join(error.split())


def test_a_scenario_that_routes_is_run_by_a_policy_that_routes(slipstream):
    code, output, _ = slipstream("run", "serving/route", "--json")
    assert code == 0
    assert json.loads(output)["choice"]["policy"] in ("eft", "most-accurate", "learned-bursty")
