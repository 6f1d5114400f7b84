"""Arrays of LLM engines: constants of an episode (spec) and its state."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

NONE, ADMITS, LEVELS, EVICTS, SENDS = range(5)
"""What a decision is about."""
IDLE, LEVELLING, CONTINUING, ADMITTING, LAUNCHING = range(5)
"""How far an engine has come with the schedule of its next step."""
COMING, WAITING, RUNNING, DONE, REJECTED = range(5)
"""Status of a request."""
LAST_ADMITTED, LOWEST_PRIORITY = range(2)
ROUND_ROBIN, LEAST_LOAD, PREFIX_AFFINITY = range(3)
TIME, VIOLATIONS = range(2)
"""Reward terms."""
GAPS, CLASSES, PROMPTS, OUTPUTS, GROUPS, PREDICTIONS, WINDOW, REDRAWN = range(1, 9)
"""Streams of random numbers; stream 0 belongs to policies."""
INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2
"""What a token counts in the service of a class (VTC, Sheng et al., 2024)."""
FAR = 3_600_000_000_000
"""Time until a first token that is never due: an hour."""
MOST_HITS = 32767
"""Most blocks that the log can state."""

MACHINE = np.dtype(
    [
        *ROW_FIELDS,
        ("engines", "i8"),
        ("requests", "i8"),  # of an episode
        ("classes", "i8"),
        ("budget", "i8"),
        ("seats", "i8"),
        ("blocks", "i8"),  # usable ones
        ("block_tokens", "i8"),
        ("longest", "i8"),  # most tokens of a request
        ("depth", "i8"),  # steps in flight
        ("prefix", "i8"),
        ("headroom", "i8"),  # blocks
        ("long_prefill", "i8"),
        ("version", "i8"),  # minor version of vLLM
        ("preempt", "i8"),
        ("eos", "i8"),
        ("router", "i8"),
        ("decides_budget", "i8"),
        ("decides_evict", "i8"),
        ("decides_route", "i8"),
        ("levels", "i8"),
        ("listed", "i8"),  # 1 if requests are rows of `listed`
        ("mean_gap", "f8"),
        ("paired", "i8"),  # 1 if prompt and output are drawn as a pair
        ("groups", "i8"),
        ("prefix_tokens", "i8"),
        ("hash_tokens", "i8"),
        ("piece_blocks", "i8"),  # blocks of a piece with a hash
        ("predicts", "i8"),  # 1 if outputs are predicted one by one
        ("spread", "f8"),  # standard deviation of the logarithm of predictions
        ("mean_output", "i8"),
        ("tables", "i8"),  # 1 if attention is interpolated
        ("attention", "f8"),
        ("per_sequence", "f8"),
        ("per_context", "f8"),
        ("per_mixed_context", "f8"),
        ("per_pair", "f8"),
        ("skew", "f8"),
        ("step", "f8"),
        ("decode_token", "f8"),  # time of a token of a lone request
        ("time_weight", "f8"),
        ("violation_weight", "f8"),
        ("log_margin", "i8"),
    ],
    align=True,
)
CLASS = np.dtype([("priority", "i8"), ("ttft", "i8"), ("tpot", "i8"), ("until", "f8")], align=True)
"""until: sum of the shares up to this class; limits in ns, 0 if there is none."""
LISTED = np.dtype(
    [
        ("time", "i8"),
        ("prompt", "i8"),
        ("output", "i8"),
        ("group", "i8"),  # class
        ("predicted", "i8"),  # 0 if it is drawn
        ("first_hash", "i8"),
        ("hashes", "i8"),
    ],
    align=True,
)
LEVEL = np.dtype([("budget", "i8"), ("headroom", "i8")], align=True)
SPLIT = np.dtype([("low", "i8"), ("high", "i8")], align=True)
"""First and last request that an episode may begin with."""

LANE = np.dtype(
    [
        *LANE_FIELDS,
        *LIST_FIELDS,
        ("parameter", "f8"),
        ("kind", "i8"),  # what the decision is about
        ("engine", "i8"),  # engine of the decision
        ("pending", "i8"),  # request that is to be sent, -1 if none
        ("arrived", "i8"),
        ("to_come", "i8"),  # requests of the episode
        ("first", "i8"),  # first listed request of the window
        ("origin", "i8"),  # its time
        ("unfinished", "i8"),
        ("request_time", "i8"),  # ns that requests spent in this step
        ("failed", "i8"),  # violations in this step
        ("redrawn", "i8"),  # 1 if what comes was redrawn
        ("seen", "i8"),  # requests that had arrived then
        ("block", "i8"),  # request seen with which the redrawn ones begin
        ("gap_key", "u8"),
        ("class_key", "u8"),
        ("prompt_key", "u8"),
        ("output_key", "u8"),
        ("group_key", "u8"),
        ("prediction_key", "u8"),
    ],
    align=True,
)
REQUEST = np.dtype(
    [
        ("arrival", "i8"),
        ("first", "i8"),  # time of the first token, -1 before
        ("last", "i8"),  # time of the latest token
        ("prompt", "i4"),
        ("output", "i4"),
        ("predicted", "i4"),
        ("group", "i4"),  # class
        ("number", "i4"),  # within its class
        ("source", "i4"),  # listed request, or number of its shared prefix
        ("status", "i4"),
        ("engine", "i4"),
        ("known", "i4"),  # tokens of the prompt and of the output until now
        ("pending", "i4"),  # tokens that steps in flight will bring
        ("computed", "i4"),  # tokens scheduled until now
        ("scheduled", "i4"),  # tokens scheduled for the next step
        ("blocks", "i4"),
        ("tail", "i4"),  # last block, -1 if none
        ("entered", "i4"),  # blocks entered into the prefix cache or found there
        ("hits", "i4"),  # blocks found in the cache at the last start
        ("seat", "i4"),
        ("shown", "i4"),  # 1 once a token has come out since the last start
        ("started", "i4"),  # 1 once it has started
        ("preemptions", "i4"),
    ],
    align=True,
)
ENGINE = np.dtype(
    [
        ("ended", "i8"),  # end of the step that was launched last
        ("duration", "i8"),  # its length
        ("free", "i8"),  # free blocks
        ("head", "i4"),  # of the list of free blocks
        ("tail", "i4"),
        ("running", "i4"),
        ("waiting", "i4"),
        ("first", "i4"),  # index of the head of the queue
        ("flight", "i4"),  # steps begun and not ended
        ("oldest", "i4"),  # index of the first of them
        ("due", "i4"),  # 1 if the next step can be scheduled
        ("parked", "i8"),  # events applied when nothing could be scheduled
        ("phase", "i4"),
        ("index", "i4"),  # next running request to schedule
        ("preempted", "i4"),
        ("sequences", "i4"),  # requests scheduled until now
        ("budget", "i8"),
        ("headroom", "i8"),
        ("left", "i8"),
        ("long_prefill", "i8"),  # most tokens of a request in the step that is scheduled, 0 for no limit
    ],
    align=True,
)
STEP = np.dtype([("end", "i8"), ("tokens", "i8"), ("members", "i4"), ("sequences", "i4"), ("used", "i8")], align=True)
CLIENT = np.dtype([("arrived", "i8"), ("active", "i8"), ("service", "i8")], align=True)
BLOCK = np.dtype(
    [("key", "u8"), ("next", "i4"), ("previous", "i4"), ("parent", "i4"), ("chain", "i4"), ("users", "i4")], align=True
)
"""next, previous: list of free blocks; parent: block before it in its sequence; chain: next block of its bucket."""


@struct(
    *("machine", "classes", "levels", "splits", "gaps", "prompts", "outputs", "listed", "hashes"),
    *("dense_at", "dense", "head_at", "head", "chunk_at", "context_at", "decode_at", "decode_context_at", "attention"),
)
class LlmSpecType(types.StructRef):
    """Constants of an episode.

    machine (1), classes (C), levels (V), splits (2), gaps (Q) quantiles of a gap with mean 1, prompts (P) and outputs
    (P') tokens, listed (T) requests, hashes (H); dense (D) ns by dense_at tokens, head (S) ns by head_at sequences,
    attention (q * k * n * c) ns by tokens of prefill, their context, decoding sequences and their mean context.
    """


@struct(
    *("lanes", "requests", "engines", "seats", "running", "waiting", "steps", "members", "clients", "blocks"),
    *("buckets", "sorted", "heap", "terms", "log"),
)
class LlmStateType(types.StructRef):
    """State of an episode.

    lanes (L), requests (L, N), engines (L, E), seats (L, E, B) request of each or -1, running (L, E, B) requests in
    order, waiting (L, E, N) those that wait, from the engine's `first` on, steps (L, E, 2), members (L, E, 2, B)
    requests that get a token at the end of a step, clients (L, C) one for each class, blocks (L, E, M), buckets
    (L, E, K) first block of each or -1, sorted (L, B), heap (L, H), terms (L, 2), log (L, R).
    """
