"""Slipstream-Bench: a frozen set of scenarios that every policy can be measured on, and how that is done."""

from slipstream.suite.catalogue import Entry, Suite, load_suite
from slipstream.suite.players import Player, players_of
from slipstream.suite.playing import Played, measure
from slipstream.suite.submission import results, verify

__all__ = ["Entry", "Played", "Player", "Suite", "load_suite", "measure", "players_of", "results", "verify"]
