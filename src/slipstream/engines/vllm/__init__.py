r"""vLLM with a policy of Slipstream as its scheduler.

    vllm serve MODEL --scheduler-cls slipstream.engines.vllm.PolicyScheduler \
        --additional-config '{"slipstream": {"policy": "shortest-prompt"}}'

`PolicyScheduler` is for asynchronous scheduling, vLLM's default, and `SyncPolicyScheduler` for vLLM without it. They
are tested with vLLM 0.32; importing this package needs no vLLM, using them does.
"""

from __future__ import annotations

from typing import Any

VERSION = "0.32"
"""Version of vLLM whose scheduler is driven: its interface is not public and changes between versions."""
__all__ = ["VERSION", "PolicyScheduler", "SyncPolicyScheduler"]


def __getattr__(name: str) -> Any:
    if name in ("PolicyScheduler", "SyncPolicyScheduler"):
        from slipstream.engines.vllm import scheduler

        return getattr(scheduler, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
