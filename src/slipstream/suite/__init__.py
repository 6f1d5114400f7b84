"""Slipstream-Bench: a frozen suite of scenarios on which policies are scored."""

from slipstream.suite.catalogue import Entry, Suite, load_suite
from slipstream.suite.players import Player, players_of
from slipstream.suite.playing import ScenarioResult, measure
from slipstream.suite.submission import results, verify

__all__ = ["Entry", "Player", "ScenarioResult", "Suite", "load_suite", "measure", "players_of", "results", "verify"]
