"""Run workloads on a real vLLM and in the simulator under the same policies, and compare the event logs.

    python benchmarks/vllm_engine.py --json

vLLM 0.32 for CPUs runs in an environment of its own (`make .venv-vllm`), with a model of random weights. Every step
counts as 10 ms for the policy, so that what it sees does not depend on the machine; all requests are there at the
beginning. Decision times are measured in the same runs. `--record FOLDER` keeps the runs as data for tests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
VLLM = "0.32.0"
STEP_MS = 10.0
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
"""A model without weights: vLLM draws them."""
VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "KMP_BLOCKTIME": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
ENGINE = {"token_budget": 256, "seats": 16, "blocks": 257, "block_tokens": 32, "longest_tokens": 512}
CLASSES = [
    {"name": "chat", "ttft_s": 0.5, "tpot_ms": 12.0},
    {"name": "batch", "priority": 1, "ttft_s": 3.0},
]
RECORDED = ROOT / "tests" / "llm" / "vllm" / "recorded.json"
TRAINED = ROOT / "tests" / "llm" / "vllm" / "trained"
POLICIES = ("fcfs", "shortest-prompt", "mc-sf", "trained")


def workloads() -> dict[str, dict[str, Any]]:
    """Return the scenarios, by name."""
    levels = {"token_budgets": [64, 128, 256], "watermarks": [0.0, 0.1]}
    return {
        "roomy": _scenario(1, 80, {}),
        "short of blocks": _scenario(2, 60, {"blocks": 31}),
        "shared prefixes": _scenario(3, 80, {"blocks": 61, "token_budget": 64, "watermark": 0.05}, shared=96),
        "one step in flight": _scenario(4, 60, {"blocks": 31, "steps_in_flight": 1, "prefix_cache": False}),
        "all decided": _scenario(
            5, 60, {"blocks": 31, "preempt": "lowest-priority"}, decide=["budget", "evict"], levels=levels
        ),
    }


def _scenario(seed: int, count: int, engine: dict[str, Any], shared: int = 0, **more: Any) -> dict[str, Any]:
    """Return a scenario of `count` requests that arrive at once, some of which begin with the same tokens."""
    import numpy as np

    draw = np.random.default_rng(seed)
    requests = []
    for _ in range(count):
        prompt = int(np.clip(draw.lognormal(4.0, 0.8), 4, 300))
        row: dict[str, Any] = {
            "arrival_s": 0.0,
            "prompt": prompt,
            "output": int(np.clip(draw.lognormal(3.0, 0.8), 2, 120)),
        }
        row["client"] = "chat" if draw.random() < 0.6 else "batch"
        row["predicted"] = max(1, round(row["output"] * float(draw.lognormal(0.0, 0.4))))
        if shared and draw.random() < 0.7:
            group = int(draw.integers(3))
            row["prompt"] += shared
            row["hashes"] = [1000 * group + piece for piece in range(shared // 32)]
        requests.append(row)
    return {
        "family": "llm",
        "engine": ENGINE | engine,
        "step_time": {"kind": "closed", "dense": [{"at": 0, "us": 1000.0 * STEP_MS}]},
        "requests": {"kind": "list", "requests": requests, "hash_tokens": ENGINE["block_tokens"]},
        "classes": CLASSES,
        **more,
    }


def policy_of(name: str) -> str:
    """Return what a policy of the table is called elsewhere."""
    return str(TRAINED) if name == "trained" else name


def tokens_of(requests: dict[str, Any], place: int) -> list[int]:
    """Return token ids for the prompt of a request, equal where its pieces are."""
    import numpy as np

    row = requests["requests"][place]
    found: list[int] = []
    for piece in row.get("hashes", []):
        found += np.random.default_rng(piece).integers(3, 2048, requests.get("hash_tokens", 32)).tolist()
    return (found + np.random.default_rng((1 << 32) + place).integers(3, 2048, row["prompt"]).tolist())[: row["prompt"]]


# In the environment of vLLM


def allow_asynchronous_scheduling() -> None:
    """Keep what was asked for: vLLM switches asynchronous scheduling off on CPUs, where nothing is gained by it."""
    from vllm.platforms.cpu import CpuPlatform

    usual = CpuPlatform.check_and_update_config

    def check(cls: Any, vllm_config: Any) -> None:
        asked = vllm_config.scheduler_config.async_scheduling
        usual(vllm_config)
        vllm_config.scheduler_config.async_scheduling = asked

    CpuPlatform.check_and_update_config = classmethod(check)


def serve(folder: Path, job: dict[str, Any]) -> None:
    """Run the requests of a scenario on a new engine of vLLM."""
    from vllm import LLM, SamplingParams

    data = json.loads(Path(job["settings"]["scenario"]).read_text())
    engine, requests, listed = data["engine"], data["requests"], data["requests"]["requests"]
    asynchronous = engine.get("steps_in_flight", 2) == 2
    llm = LLM(
        model=str(folder),
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=engine["longest_tokens"],
        max_num_seqs=engine["seats"],
        max_num_batched_tokens=engine["token_budget"],
        num_gpu_blocks_override=engine["blocks"],
        block_size=engine["block_tokens"],
        enable_prefix_caching=engine.get("prefix_cache", True),
        watermark=engine.get("watermark", 0.0),
        long_prefill_token_threshold=engine.get("long_prefill_tokens", 0),
        scheduling_policy="priority" if engine.get("preempt") == "lowest-priority" else "fcfs",
        async_scheduling=asynchronous,
        scheduler_cls=f"slipstream.engines.vllm.{'' if asynchronous else 'Sync'}PolicyScheduler",
        additional_config={"slipstream": job["settings"]},
    )
    priorities = {one["name"]: one.get("priority", 0) for one in data["classes"]}
    named: dict[str, Any] = {}
    if engine.get("preempt") == "lowest-priority":
        named["priority"] = [priorities[one["client"]] for one in listed]
    if job["fail_after"] is not None:
        _fail_after(llm, job["fail_after"])
    outputs = llm.generate(
        [{"prompt_token_ids": tokens_of(requests, place)} for place in range(len(listed))],
        [
            SamplingParams(
                max_tokens=one["output"],
                ignore_eos=True,
                detokenize=False,
                temperature=0.0,
                extra_args={"slipstream_client": one["client"], "slipstream_predicted": one["predicted"]},
            )
            for one in listed
        ],
        use_tqdm=False,
        **named,
    )
    lengths = [len(one.outputs[0].token_ids) for one in outputs]
    Path(job["outputs"]).write_text(json.dumps(lengths))
    llm.llm_engine.engine_core.shutdown()


def _fail_after(llm: Any, decisions: int) -> None:
    """Make the policy fail after some decisions."""
    lane = llm.llm_engine.engine_core.engine_core.scheduler.follower.lane
    decide, asked = lane.decide, []

    def fail(*arguments: Any, **named: Any) -> int:
        asked.append(1)
        if len(asked) > decisions:
            raise RuntimeError("a policy that fails")
        return int(decide(*arguments, **named))

    lane.decide = fail


def inside(path: Path) -> None:
    """Run the jobs of a file."""
    allow_asynchronous_scheduling()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL))
        for job in json.loads(path.read_text()):
            # A process has one engine: vLLM registers its kernels once. The import, most of the time, is shared.
            child = os.fork()
            if not child:
                code = 1
                try:
                    serve(Path(folder), job)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            if os.waitpid(child, 0)[1]:
                raise SystemExit(f"failed: {job}")


# Outside


def drive(
    python: Path, folder: Path, runs: list[tuple[str, dict[str, Any], str]], fail_after: list[int | None] | None = None
) -> list[dict[str, Any]]:
    """Run each (name, scenario, policy) on vLLM; return the settings of each, with the paths of what it wrote."""
    jobs = []
    for number, (_, scenario, policy) in enumerate(runs):
        (folder / f"{number}.json").write_text(json.dumps(scenario))
        files = {key: str(folder / f"{number}.{end}") for key, end in (("log", "parquet"), ("statistics", "txt"))}
        settings = {"policy": policy, "scenario": str(folder / f"{number}.json"), "step_ms": STEP_MS, **files}
        fails = None if fail_after is None else fail_after[number]
        jobs.append({"settings": settings, "fail_after": fails, "outputs": str(folder / f"{number}.outputs")})
    (folder / "jobs").write_text(json.dumps(jobs))
    variables = os.environ | VARIABLES | {"PYTHONPATH": str(ROOT / "src")}
    openmp = python.parents[1] / "lib" / "libiomp5.so"
    if openmp.exists():
        variables["LD_PRELOAD"] = str(openmp)
    done = subprocess.run(
        [python, __file__, "--inside", folder / "jobs"], env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"vLLM failed:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return [job["settings"] | {"outputs": job["outputs"]} for job in jobs]


def simulated(scenario: dict[str, Any], policy: str) -> Any:
    """Return the event log of the simulator."""
    import slipstream
    from slipstream.policies.base import find_for
    from slipstream.sim.simulator import Simulator

    loaded = slipstream.load(scenario)
    return Simulator(loaded).play(find_for(policy, loaded), 0)


def digest_of(scenario: dict[str, Any]) -> str:
    """Return the digest of a scenario."""
    from slipstream.scenario import digest, load

    return digest(load(scenario))


def recorded(events: Any) -> dict[str, Any]:
    """Return what is kept of a run: the tokens of every step, preemptions, first tokens, a digest of the whole log."""
    from slipstream.sim.eventlog import DONE, PREEMPT, digest

    return {
        "step_tokens": events["job"][events["kind"] == DONE].tolist(),
        "preempted": [[int(row["task"]), int(row["job"])] for row in events[events["kind"] == PREEMPT]],
        "first_tokens": [list(one) for one in figures(events)["first_tokens"]],
        "log": digest(events),
    }


def figures(events: Any) -> dict[str, Any]:
    """Return steps, preemptions and the order of first tokens of an event log."""
    from slipstream.sim.eventlog import DONE, PREEMPT, READY

    first: dict[tuple[int, int], None] = {}
    for row in events[events["kind"] == READY]:
        first.setdefault((int(row["task"]), int(row["job"])))
    kinds = events["kind"].tolist()
    return {"steps": kinds.count(DONE), "preemptions": kinds.count(PREEMPT), "first_tokens": list(first)}


def compare(name: str, policy: str, scenario: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return how a run on vLLM and its simulation compare."""
    from slipstream.sim.eventlog import read

    real, ours = read(Path(settings["log"]))[0], simulated(scenario, policy)
    mine, theirs = figures(ours), figures(real)
    return json.loads(Path(settings["statistics"]).read_text()) | {
        "workload": name,
        "policy": Path(policy).name,
        "steps": theirs["steps"],
        "steps_simulated": mine["steps"],
        "preemptions": theirs["preemptions"],
        "preemptions_simulated": mine["preemptions"],
        "equal_order": mine["first_tokens"] == theirs["first_tokens"],
        "equal_logs": len(real) == len(ours) and bool((real == ours).all()),
    }


def _record(runs: list[tuple[str, dict[str, Any], str]], done: list[dict[str, Any]]) -> None:
    """Write what vLLM did to the file that tests read."""
    from slipstream.sim.eventlog import read

    kept: dict[str, Any] = {"vllm": VLLM, "scenarios": {}, "runs": {}}
    if RECORDED.exists():
        kept = json.loads(RECORDED.read_text())
    for (name, scenario, policy), settings in zip(runs, done, strict=True):
        kept["scenarios"][name] = digest_of(scenario)
        kept["runs"].setdefault(name, {})[Path(policy).name] = recorded(read(Path(settings["log"]))[0])
    RECORDED.parent.mkdir(exist_ok=True)
    lists = json.dumps(kept).replace(', "', ',\n"').replace('{"', '{\n"')
    RECORDED.write_text(lists + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--python", type=Path, default=PYTHON, help="Python of vLLM's environment")
    parser.add_argument("--only", help="workload to run")
    parser.add_argument("--record", action="store_true", help="keep the runs as data for tests")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        inside(options.inside)
        return
    if not options.python.exists():
        print(f"{options.python} is absent: `make .venv-vllm` makes the environment of vLLM", file=sys.stderr)
        return
    runs = [
        (name, scenario, policy_of(policy))
        for name, scenario in workloads().items()
        if options.only in (None, name)
        for policy in POLICIES
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = drive(options.python, Path(folder), runs)
        found = [compare(name, policy, scenario, one) for (name, scenario, policy), one in zip(runs, done, strict=True)]
        if options.record:
            _record(runs, done)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for one in found:
        print(
            f"{one['workload']:20} {one['policy']:16} steps {one['steps']} / {one['steps_simulated']}, preemptions"
            f" {one['preemptions']} / {one['preemptions_simulated']}, same order {one['equal_order']}, same log"
            f" {one['equal_logs']}, {one['decisions']} decisions, p99 {one['decision_us_p99']:.1f} us,"
            f" {one['failures']} failures"
        )


if __name__ == "__main__":
    main()
