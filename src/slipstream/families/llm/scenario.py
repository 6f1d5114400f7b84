"""Scenario schema of the family of LLM engines: engines, their step time, requests, classes, and what is decided."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.errors import TraceError
from slipstream.families.shared.schema import (
    Name,
    NonNegative,
    NonNegativeSeconds,
    PositiveHz,
    PositiveSeconds,
    ScenarioModel,
    StrictModel,
    gap_or_rate,
)
from slipstream.files.inputs import read_bytes, reading_key

MOST_ENGINES = 64
MOST_SEATS = 4096
MOST_BLOCKS = 1 << 20
MOST_TOKENS = 10_000_000
MOST_REQUESTS = 1_000_000

Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Microseconds = Annotated[float, Field(ge=0.0, le=1e9)]
Share = Annotated[float, Field(ge=0.0, le=0.9)]


# Engines


class Engine(StrictModel):
    """Rules and sizes of an engine; the keys are those of vLLM where it has them."""

    version: Literal["0.19", "0.32"] = "0.32"
    """vLLM whose rules apply; the watermark came after 0.19."""
    token_budget: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 2048
    """Most tokens of a step, `max_num_batched_tokens`."""
    seats: Annotated[int, Field(ge=1, le=MOST_SEATS)] = 256
    """Most requests in the batch, `max_num_seqs`."""
    blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS)]
    """Blocks of KV memory, `num_gpu_blocks`; the engine uses all but one of them."""
    block_tokens: Annotated[int, Field(ge=1, le=1024)] = 16
    """Tokens of a block, `block_size`."""
    longest_tokens: Tokens = 131072
    """Most tokens of a request, prompt and output, `max_model_len`; longer ones are rejected."""
    steps_in_flight: Literal[1, 2] = 2
    """Steps that are scheduled before the first of them has ended; 2 is asynchronous scheduling."""
    prefix_cache: bool = True
    """Whether full blocks are found again by later requests that begin with the same tokens."""
    watermark: Share = 0.0
    """Share of the blocks that admissions leave free once something is scheduled; 0 in version 0.19."""
    long_prefill_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] = 0
    """Most tokens of a request in a step, `long_prefill_token_threshold`; 0 for no limit."""
    preempt: Literal["last-admitted", "lowest-priority"] = "last-admitted"
    """Which running request is preempted when blocks run out, unless that is decided."""
    stop: Literal["limit", "eos"] = "limit"
    """Whether the engine knows when an output ends, as with a token limit, or wastes a token to find out."""

    @model_validator(mode="after")
    def _watermark_exists(self) -> Engine:
        if self.version == "0.19" and self.watermark > 0.0:
            raise PydanticCustomError("watermark", "watermark: version 0.19 has none: expected 0, or version '0.32'")
        return self


class DensePoint(StrictModel):
    """Time of the parts of a step that depend on one number."""

    at: Annotated[int, Field(ge=0, le=MOST_TOKENS)]
    """Tokens or sequences of the step."""
    us: Microseconds
    """Time of the whole model, in microseconds."""


class ClosedForm(StrictModel):
    """Step time as a sum of terms, fitted to kernel tables; a microsecond is the unit of all of them."""

    kind: Literal["closed"]
    dense: Annotated[list[DensePoint], Field(min_length=1, max_length=1000)]
    """Linear layers by tokens of the step; straight lines between the points and beyond the last."""
    head: Annotated[list[DensePoint], Field(min_length=1, max_length=1000)] = Field(default=[DensePoint(at=0, us=0.0)])
    """Output layer and sampler by sequences of the step."""
    attention_us: Microseconds = 0.0
    """Attention: constant of a step."""
    sequence_us: Microseconds = 0.0
    """Attention: each decoding sequence."""
    context_us: Microseconds = 0.0
    """Attention: each token of context of a decoding sequence, in steps without prefill."""
    mixed_context_us: Microseconds = 0.0
    """The same in steps with prefill."""
    prefill_us: Microseconds = 0.0
    """Attention: each pair of a prompt token of the step and a token before it."""
    step_us: Microseconds = 0.0
    """Everything else of a step, such as the processor's work."""


class KernelTables(StrictModel):
    """Step time from measured kernel times, interpolated: CSV files in the layout of LLMServingSim's profiler."""

    kind: Literal["tables"]
    path: str
    """Folder with dense.csv, per_sequence.csv, attention.csv and, for experts, moe.csv; relative to the scenario."""
    layers: Annotated[int, Field(ge=1, le=1000)]
    """Layers of the model."""
    experts: Annotated[int, Field(ge=0, le=10000)] = 0
    """Experts that a step of many tokens activates, for models with moe.csv; 0 for a dense model."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Accelerators that share each layer; the tables are those of one of them."""
    link_us: Microseconds = 0.0
    """Time that an exchange among them takes, of which a layer has two; 0 on one accelerator."""
    link_token_us: Annotated[float, Field(ge=0.0, le=1e6)] = 0.0
    """Time that it takes for each token more."""
    skew: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of the way from the mean to the longest context at which decoding attention is looked up."""
    step_us: Microseconds = 0.0
    """Everything else of a step, such as the processor's work."""


class RecordedSteps(StrictModel):
    """Step time fitted to recorded steps of an engine, by least squares without negative terms."""

    kind: Literal["steps"]
    path: str
    """CSV with tokens, sequences, context, prefill and us of each step, relative to the scenario file."""


StepTime = Annotated[ClosedForm | KernelTables | RecordedSteps, Field(discriminator="kind")]


# Requests


class LognormalLengths(StrictModel):
    """Lengths with a lognormal distribution."""

    kind: Literal["lognormal"]
    median: Annotated[float, Field(ge=1.0, le=1e6)]
    """Median length in tokens."""
    sigma: Annotated[float, Field(ge=0.0, le=5.0)]
    """Standard deviation of the logarithm."""
    most: Tokens = 32768
    """Greatest length."""


class UniformLengths(StrictModel):
    """Lengths between two numbers, each as likely."""

    kind: Literal["uniform"]
    least: Tokens
    """Least length in tokens."""
    most: Tokens
    """Greatest length."""

    @model_validator(mode="after")
    def _least_first(self) -> UniformLengths:
        if self.most < self.least:
            text = "most is {most}, less than least, {least}: expected at least as much"
            raise PydanticCustomError("lengths", text, {"most": self.most, "least": self.least})
        return self


Pair = Annotated[list[Tokens], Field(min_length=2, max_length=2)]
Lengths = Annotated[LognormalLengths | UniformLengths, Field(discriminator="kind")]


class LengthPairs(StrictModel):
    """Pairs of prompt and output lengths, of which each request draws one."""

    kind: Literal["pairs"]
    pairs: Annotated[list[Pair], Field(min_length=1, max_length=MOST_REQUESTS)] | None = None
    """The pairs."""
    path: str | None = None
    """In place of the list: a CSV with num_prefill_tokens and num_decode_tokens, relative to the scenario file."""

    @model_validator(mode="after")
    def _one_source(self) -> LengthPairs:
        if (self.pairs is None) == (self.path is None):
            raise PydanticCustomError("pairs", "expected either 'pairs' or 'path'")
        return self


class IndependentLengths(StrictModel):
    """Prompt and output lengths that are drawn independently."""

    kind: Literal["independent"]
    prompt: Lengths
    """Lengths of prompts."""
    output: Lengths
    """Lengths of outputs."""


class SharedPrefix(StrictModel):
    """Beginnings that prompts share, such as system prompts."""

    groups: Annotated[int, Field(ge=1, le=MOST_REQUESTS)]
    """Number of them, each as likely."""
    tokens: Tokens
    """Length of each; it comes in addition to the length drawn."""


class DrawnRequests(StrictModel):
    """Requests whose gaps and lengths are drawn."""

    kind: Literal["drawn"]
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)]
    """Requests of an episode."""
    rate_hz: PositiveHz | None = None
    """Mean requests per second."""
    mean_gap_s: PositiveSeconds | None = None
    """In place of the rate: mean time between two requests."""
    burstiness: Annotated[float, Field(ge=0.05, le=20.0)] = 1.0
    """Coefficient of variation of the gaps, which are gamma distributed; 1 is a Poisson process."""
    lengths: Annotated[IndependentLengths | LengthPairs, Field(discriminator="kind")]
    """Lengths of prompts and outputs."""
    prefix: SharedPrefix | None = None
    """What prompts begin with; nothing in common if absent."""

    @model_validator(mode="after")
    def _one_of_gap_and_rate(self) -> DrawnRequests:
        gap_or_rate("mean_gap_s", self.mean_gap_s is not None, self.rate_hz is not None)
        return self

    @property
    def rate(self) -> float:
        """Mean requests per second, from whichever key was given."""
        return self.rate_hz if self.rate_hz is not None else 1.0 / (self.mean_gap_s or 1.0)


class ListedRequest(StrictModel):
    """One request of a list."""

    arrival_s: NonNegativeSeconds
    """Arrival time, in ascending order."""
    prompt: Tokens
    """Length of the prompt."""
    output: Tokens
    """Length of the output."""
    client: str | None = None
    """Name of its class; the first if absent."""
    hashes: Annotated[list[Annotated[int, Field(ge=0, lt=2**62)]], Field(max_length=100_000)] = Field(default=[])
    """Numbers of the pieces that the prompt begins with: equal numbers, equal tokens up to there."""
    predicted: Tokens | None = None
    """Length of the output that is predicted; by `prediction` if absent."""


class ListedRequests(StrictModel):
    """Requests listed one by one."""

    kind: Literal["list"]
    requests: Annotated[list[ListedRequest], Field(min_length=1, max_length=MOST_REQUESTS)]
    """The requests."""
    hash_tokens: Tokens = 16
    """Tokens of a piece of `hashes`, a multiple of a block."""

    @model_validator(mode="after")
    def _ascending(self) -> ListedRequests:
        for index in range(1, len(self.requests)):
            if self.requests[index].arrival_s < self.requests[index - 1].arrival_s:
                text = "requests[{index}].arrival_s is earlier than the one before it: expected ascending times"
                raise PydanticCustomError("order", text, {"index": index})
        return self


class RequestFile(StrictModel):
    """Requests of a trace; an episode is a window of it."""

    kind: Literal["trace"]
    path: str
    """The file, relative to the scenario file."""
    format: Literal["jsonl", "azure", "mooncake", "servegen"] = "jsonl"
    """Layout: JSON lines, Azure's CSV of 2023, Mooncake's JSON lines, or the stem of a client of ServeGen."""
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] | None = None
    """Requests of an episode, which begins anywhere in the trace; all of them if absent."""
    stretch: float = Field(default=1.0, gt=0.0, le=1e6)
    """Factor on the arrival times."""
    held_out: Annotated[float, Field(ge=0.0, le=0.9)] = 0.3
    """Last share of the trace, kept for evaluation and test where episodes are windows."""


Requests = Annotated[DrawnRequests | ListedRequests | RequestFile, Field(discriminator="kind")]


class RequestClass(StrictModel):
    """A class of requests: a client, or a level of service."""

    name: Name
    """Unique in the scenario."""
    share: Annotated[float, Field(gt=0.0, le=1e6)] = 1.0
    """Share of the drawn requests, in proportion to the others."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Priority, the lowest number first."""
    ttft_s: PositiveSeconds | None = None
    """Time by which the first token should come; no limit if absent."""
    tpot_ms: Annotated[float, Field(ge=1e-6, le=1e9)] | None = None
    """Mean time that each further token may take; no limit if absent."""


class Prediction(StrictModel):
    """How well the lengths of outputs are predicted."""

    cv: Annotated[float, Field(ge=0.0, le=10.0)]
    """Standard deviation of the lognormal factor by which predictions err, relative to its mean 1; 0 if exact."""


class Levels(StrictModel):
    """Token budgets and shares of free blocks among which a policy chooses."""

    token_budgets: Annotated[list[Tokens], Field(min_length=1, max_length=32)]
    """Token budgets of a step."""
    watermarks: Annotated[list[Share], Field(min_length=1, max_length=32)] = Field(default=[0.0])
    """Shares of the blocks that admissions leave free."""


class LlmReward(StrictModel):
    """Weights of the reward terms."""

    time: NonNegative = 1.0
    """Cost: seconds that requests spend between arrival and last token."""
    violations: NonNegative = 0.0
    """Cost: requests that miss a limit of their class, or are rejected."""


class LlmScenario(ScenarioModel):
    """Requests for text arrive at one or more engines, which generate it step by step in batches."""

    family: Literal["llm"]
    engines: Annotated[int, Field(ge=1, le=MOST_ENGINES)] = 1
    """Number of equal engines behind the router."""
    engine: Engine
    """Each engine."""
    step_time: StepTime
    """How long a step takes."""
    requests: Requests
    """The requests."""
    classes: Annotated[list[RequestClass], Field(min_length=1, max_length=10_000)] = Field(
        default=[RequestClass(name="default")]
    )
    """Classes of requests."""
    prediction: Prediction | None = None
    """Predictions of output lengths; if absent, the mean output is predicted for every request."""
    decide: list[Literal["budget", "evict", "route"]] = Field(default=[])
    """What a policy decides besides the next request to admit."""
    levels: Levels | None = None
    """Choices of a policy that decides the budget."""
    router: Literal["round-robin", "least-load", "prefix-affinity"] = "round-robin"
    """Rule that sends requests to engines, unless that is decided."""
    rows: Annotated[int, Field(ge=1, le=100_000)] = 32
    """Most waiting requests of an observation; rules see all."""
    reward: LlmReward = LlmReward()

    def resolved(self) -> dict[str, Any]:
        """Return what determines the results: defaults filled in, files replaced by a digest of their content."""
        data = self.model_dump(mode="json")
        for key in ("requests", "step_time"):
            part = getattr(self, key)
            if getattr(part, "path", None) is not None:
                data[key]["path"] = self._digest(key, part.path)
        if isinstance(self.requests, DrawnRequests):
            del data["requests"]["mean_gap_s"]
            data["requests"]["rate_hz"] = self.requests.rate
        lengths = getattr(self.requests, "lengths", None)
        if isinstance(lengths, LengthPairs) and lengths.path is not None:
            data["requests"]["lengths"]["path"] = self._digest("requests.lengths", lengths.path)
        return data

    def _digest(self, key: str, path: str) -> str:
        content = hashlib.sha256()
        with reading_key(f"{key}.path"):
            place = self._folder / path
            files = sorted(place.glob("*.csv")) if place.is_dir() else sorted(place.parent.glob(f"{place.name}*"))
            for file in files or [place]:
                content.update(read_bytes(file, "a file of the scenario", TraceError))
        return content.hexdigest()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> LlmScenario:
        names = [one.name for one in self.classes]
        for index, name in enumerate(names):
            if name in names[:index]:
                text = "classes[{index}].name: '{name}' exists: expected another name"
                raise PydanticCustomError("names", text, {"index": index, "name": name})
        if ("budget" in self.decide) != (self.levels is not None):
            raise PydanticCustomError("levels", "expected 'levels' exactly where 'decide' has 'budget'")
        if len(set(self.decide)) != len(self.decide):
            raise PydanticCustomError("decide", "decide: expected each entry once")
        if self.levels is not None and self.engine.version == "0.19" and max(self.levels.watermarks) > 0.0:
            raise PydanticCustomError("watermark", "levels.watermarks: version 0.19 has none: expected 0")
        if isinstance(self.requests, ListedRequests):
            for index, one in enumerate(self.requests.requests):
                if one.client is not None and one.client not in names:
                    text = "requests.requests[{index}].client: '{name}': expected one of {names}"
                    more = {"index": index, "name": one.client, "names": ", ".join(names)}
                    raise PydanticCustomError("class", text, more)
            if self.requests.hash_tokens % self.engine.block_tokens:
                raise PydanticCustomError("hashes", "requests.hash_tokens: expected a multiple of engine.block_tokens")
        return self
