"""The schedulers of vLLM 0.32 whose waiting requests are admitted in the order of a policy.

Everything else stays vLLM's: running requests first, blocks, chunks, prefix cache, preemption. The queue asks the
policy when vLLM looks for the next request to admit, so each admission is decided with what the one before has left.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import vllm
from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import FCFSRequestQueue, SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from slipstream.engines.vllm import VERSION
from slipstream.engines.vllm.follower import Follower
from slipstream.engines.vllm.settings import CLIENT, PREDICTED, read_settings
from slipstream.errors import InputError
from slipstream.families.llm.scenario import Engine

PRIORITY_OF_VICTIM = 1 << 62
"""Priority number that makes vLLM preempt a request: no other is higher."""
PIECE_BYTES = 7
"""Bytes of a block's hash that stand for it in a recording."""


class PolicyQueue(FCFSRequestQueue):
    """Queue of vLLM whose next request is chosen by a policy; first come, first served after an error."""

    scheduler: PolicyScheduling
    chosen: int | None = None
    """Place of the request that is next, None until it is asked for."""
    keys: deque[list[Any]]
    """Keys in the prefix cache of the blocks of each request that may be found there."""

    def peek_request(self) -> Any:
        if self.chosen is None:
            self.chosen = self.scheduler.choose_request()
        return self[self.chosen]

    def pop_request(self) -> Any:
        place = self.chosen or 0
        self.chosen = None
        request = self[place]
        del self[place], self.keys[place]
        follower = self.scheduler.follower
        follower.guarded(follower.dequeue, place)
        return request

    def add_request(self, request: Any) -> None:
        super().add_request(request)
        self.keys.append(self.scheduler.keys_of(request))
        follower = self.scheduler.follower
        follower.guarded(follower.enqueue, request.request_id, front=False)

    def prepend_request(self, request: Any) -> None:
        super().prepend_request(request)
        self.keys.appendleft(self.scheduler.keys_of(request))
        self.chosen = None
        follower = self.scheduler.follower
        follower.guarded(follower.enqueue, request.request_id, front=True)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        for request in requests:
            self.prepend_request(request)

    def remove_request(self, request: Any) -> None:
        self.remove_requests([request])

    def remove_requests(self, requests: Iterable[Any]) -> None:
        super().remove_requests(requests)
        self.keys = deque(self.scheduler.keys_of(request) for request in self)
        self.chosen = None
        follower = self.scheduler.follower
        follower.guarded(follower.requeue, [request.request_id for request in self])


class PolicyScheduling:
    """What both schedulers have in common; the base class that follows is one of vLLM's."""

    steps_in_flight: int
    """Of vLLM's base class."""
    max_num_scheduled_tokens: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if not vllm.__version__.startswith(f"{VERSION}."):
            raise InputError(f"vLLM is {vllm.__version__}: expected {VERSION}, whose scheduler this one extends")
        if bool(self.scheduler_config.async_scheduling) != (self.steps_in_flight == 2):
            other = "SyncPolicyScheduler" if self.steps_in_flight == 2 else "PolicyScheduler"
            raise InputError(f"scheduler_cls does not fit async_scheduling: expected slipstream.engines.vllm.{other}")
        self.follower = Follower(read_settings(self.vllm_config.additional_config), self._engine())
        if self.follower.lane.reads_cache and (
            len(self.kv_cache_config.kv_cache_groups) > 1 or self.hash_block_size != self.block_size
        ):
            raise InputError(f"policy '{self.follower.lane.policy.name}' reads the prefix cache: expected one KV group")
        if self.follower.decides_evict and self.policy != SchedulingPolicy.PRIORITY:
            raise InputError("the scenario decides 'evict': expected vLLM's scheduling_policy 'priority'")
        self.waiting = PolicyQueue()
        self.waiting.scheduler, self.waiting.keys = self, deque()
        self._allocate_slots = self.kv_cache_manager.allocate_slots
        self.kv_cache_manager.allocate_slots = self._allocate
        self._usual_level = self.max_num_scheduled_tokens, self.kv_cache_manager.watermark_blocks
        self._admits_nothing = False
        """Whether the policy has chosen to wait, for the rest of a schedule."""
        self._victim: tuple[Any, int] | None = None
        """Request that the policy has chosen to preempt, and its own priority."""

    def _engine(self) -> Engine:
        """Return the engine as a scenario describes it."""
        config = self.scheduler_config
        return Engine(
            version="0.32",
            token_budget=self.max_num_scheduled_tokens,
            seats=self.max_num_active_reqs,
            blocks=self.cache_config.num_gpu_blocks,
            block_tokens=self.block_size,
            longest_tokens=self.max_model_len,
            steps_in_flight=2 if self.steps_in_flight == 2 else 1,
            prefix_cache=bool(self.cache_config.enable_prefix_caching),
            watermark=config.watermark,
            long_prefill_tokens=config.long_prefill_token_threshold,
            preempt="lowest-priority" if self.policy == SchedulingPolicy.PRIORITY else "last-admitted",
        )

    # What vLLM tells

    def add_request(self, request: Any) -> None:
        self.follower.guarded(self._note_arrival, request)
        super().add_request(request)

    def _note_arrival(self, request: Any) -> None:
        extra = getattr(request.sampling_params, "extra_args", None) or {}
        predicted = extra.get(PREDICTED)
        pieces = []
        if self.follower.recorder is not None:
            blocks = request.num_prompt_tokens // self.block_size
            pieces = [int.from_bytes(one[:PIECE_BYTES], "little") for one in request.block_hashes[:blocks]]
        self.follower.arrive(
            request.request_id,
            request.num_prompt_tokens,
            request.arrival_time,
            self.follower.group_of(extra.get(CLIENT), request.priority),
            int(predicted) if predicted is not None else None,
            pieces,
        )

    def _preempt_request(self, request: Any, *arguments: Any, **named: Any) -> None:
        if self._victim is not None:
            self._victim[0].priority, self._victim = self._victim[1], None
        self.follower.guarded(self.follower.preempt, request.request_id, request.num_tokens)
        super()._preempt_request(request, *arguments, **named)

    def _update_request_with_output(self, request: Any, new_token_ids: list[int], *rest: Any, **named: Any) -> Any:
        waits = request.status != RequestStatus.RUNNING
        result = super()._update_request_with_output(request, new_token_ids, *rest, **named)
        count = len(result[0])
        self.follower.guarded(self.follower.token, request.request_id, count, request.num_tokens, waits)
        return result

    def _free_request(self, request: Any, *arguments: Any, **named: Any) -> Any:
        result = super()._free_request(request, *arguments, **named)
        self.follower.guarded(self.follower.leave, request.request_id)
        return result

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        tokens = scheduler_output.total_num_scheduled_tokens
        self.follower.guarded(self.follower.end_step, tokens)
        result = super().update_from_output(scheduler_output, model_runner_output)
        self.follower.guarded(self.follower.end_tokens, tokens)
        return result

    def shutdown(self) -> None:
        super().shutdown()
        self.follower.write()

    # Schedules

    def schedule(self, *arguments: Any, **named: Any) -> Any:
        self._end_schedule()
        self.follower.guarded(self._begin_schedule)
        if self.follower.failed:
            self.max_num_scheduled_tokens, self.kv_cache_manager.watermark_blocks = self._usual_level
        output = super().schedule(*arguments, **named)
        self._end_schedule()
        self.follower.guarded(self._note_step, output)
        return output

    def _note_step(self, output: Any) -> None:
        used = self.cache_config.num_gpu_blocks - 1 - self._free_block_count
        self.follower.begin_step(output.total_num_scheduled_tokens, len(output.num_scheduled_tokens), used)

    @property
    def _free_block_count(self) -> int:
        return int(self.kv_cache_manager.block_pool.get_num_free_blocks())

    def _end_schedule(self) -> None:
        self.waiting.chosen, self._admits_nothing = None, False
        if self._victim is not None:
            self._victim[0].priority, self._victim = self._victim[1], None

    def _begin_schedule(self) -> None:
        began = time.perf_counter_ns()
        self.follower.begin_schedule(self._free_block_count)
        if self.follower.decides_budget and (self.waiting or any(map(_has_prompt_left, self.running))):
            budget, headroom = self.follower.choose_level(len(self.running), self._batch(), began)
            self.max_num_scheduled_tokens, self.kv_cache_manager.watermark_blocks = budget, headroom

    def _batch(self) -> list[tuple[str, int]]:
        """Return name and known tokens of the running requests, if the policy reads them."""
        if not self.follower.lane.reads_batch:
            return []
        return [(request.request_id, request.num_tokens) for request in self.running]

    def _allocate(self, request: Any, num_new_tokens: int, *arguments: Any, **named: Any) -> Any:
        """Allocate blocks as vLLM does; note the tokens, and let the policy choose a victim where there are too few."""
        runs = request.status == RequestStatus.RUNNING
        if self._admits_nothing and not runs:
            return None
        blocks = self._allocate_slots(request, num_new_tokens, *arguments, **named)
        if blocks is not None:
            found = None if runs else named.get("num_new_computed_tokens", 0) // self.block_size
            self.follower.guarded(self.follower.schedule, request.request_id, num_new_tokens, found)
        elif runs and self.follower.decides_evict and len(self.running) > 1:
            self.follower.guarded(self._choose_victim)
        return blocks

    # Decisions

    def choose_request(self) -> int:
        """Return the place in the queue of the request to admit next."""
        if self._admits_nothing:
            return 0
        place = self.follower.guarded(self._choose_request)
        self._admits_nothing = place == -1
        return max(place or 0, 0)

    def _choose_request(self) -> int:
        began = time.perf_counter_ns()
        if self.follower.lane.reads_cache:
            self._look_up()
        return self.follower.choose_request(self._free_block_count, len(self.running), self._batch(), began)

    def keys_of(self, request: Any) -> list[Any]:
        """Return the keys of the blocks of a request that the prefix cache may have, empty if the policy reads none."""
        if not self.follower.lane.reads_cache or not self.kv_cache_manager.prefix_cache_lookup_enabled(request):
            return []
        most = (request.num_tokens - 1) // self.block_size
        return [make_block_hash_with_group_id(one, 0) for one in request.block_hashes[:most]]

    def _look_up(self) -> None:
        """Note how many blocks of each waiting request are in the cache, and how many of these no request uses."""
        block_of, found = self.kv_cache_manager.block_pool.cached_block_hash_to_block.get_one_block, {}
        for place, keys in zip(range(self.follower.lane.most_read), self.waiting.keys, strict=False):
            if not keys or block_of(keys[0]) is None:
                continue
            request = self.waiting[place]
            if request.num_preemptions:  # a token that was under way may have filled a block
                keys = self.keys_of(request)
            blocks = list(takewhile(_is_block, map(block_of, keys)))
            found[request.request_id] = len(blocks), sum(block.ref_cnt == 0 for block in blocks)
        self.follower.found(found)

    def _choose_victim(self) -> None:
        began = time.perf_counter_ns()
        held = [len(self.kv_cache_manager.get_blocks(request.request_id).blocks[0]) for request in self.running]
        place = self.follower.choose_victim(self._free_block_count, self._batch(), held, began)
        if place >= 0:
            request = self.running[place]
            self._victim, request.priority = (request, request.priority), PRIORITY_OF_VICTIM


def _is_block(block: Any) -> bool:
    return block is not None


def _has_prompt_left(request: Any) -> bool:
    """Return whether a running request has more than one token to compute."""
    return bool(request.num_tokens + request.num_output_placeholders - request.num_computed_tokens > 1)


class PolicyScheduler(PolicyScheduling, AsyncScheduler):
    """Scheduler of vLLM with asynchronous scheduling that asks a policy."""

    steps_in_flight = 2


class SyncPolicyScheduler(PolicyScheduling, Scheduler):
    """Scheduler of vLLM without asynchronous scheduling that asks a policy."""

    steps_in_flight = 1
