"""The stand-in for a GPU catches mistakes: each seeded into a copy of the backend, and each by the rule it breaks."""

from __future__ import annotations

import inspect
import sys
import threading
import types
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from slipstream.device.backends import cuda
from slipstream.device.backends.streams import RunRequest, now
from slipstream.device.workload import workload_of
from tests.device.conftest import scenario_of, task
from tests.device.cuda_standin import CudaError, Misuse, installed

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU is here: the stand-in takes its place")

SOURCE = inspect.getsource(cuda)

MISTAKES = {
    "work on the default stream": (
        ", torch.inference_mode(), torch.cuda.stream(cuda_stream.stream):",
        ", torch.inference_mode():",
        "launched on the default stream",
    ),
    "buffers that are not pinned": (
        "np.ascontiguousarray(values)).pin_memory()",
        "np.ascontiguousarray(values))",
        "not pinned",
    ),
    "a blocking copy": (
        "captured.host_output.copy_(captured.device_output, non_blocking=True)",
        "captured.host_output.copy_(captured.device_output)",
        "a blocking copy blocks until a running graph has ended",
    ),
    "a submit that waits": (
        "        cuda_stream.launched.put(request.model)\n",
        "        cuda_stream.stream.synchronize()\n        cuda_stream.launched.put(request.model)\n",
        "Stream.synchronize blocks until a running graph has ended",
    ),
    "one graph for both streams": (
        "        began = torch.cuda.Event(",
        "        for one, first in zip(captured, vars(self).setdefault('_first', [one.graph for one in captured])):\n"
        "            one.graph = first\n"
        "        began = torch.cuda.Event(",
        "one graph is launched on two streams at a time",
    ),
    "one pool for both streams": (
        "pool = torch.cuda.graph_pool_handle()",
        "pool = vars(self).setdefault('_pool', torch.cuda.graph_pool_handle())",
        "share a memory pool",
    ),
    "an end before the copy of the output": (
        "            captured.host_output.copy_(captured.device_output, non_blocking=True)\n"
        "            cuda_stream.ended.record(cuda_stream.stream)\n",
        "            cuda_stream.ended.record(cuda_stream.stream)\n"
        "            captured.host_output.copy_(captured.device_output, non_blocking=True)\n",
        "uses results before the event",
    ),
    "no wait for the end": (
        "                cuda_stream.ended.synchronize()\n",
        "",
        "read before it was waited for",
    ),
    "a wait that spins": (
        "torch.cuda.Event(enable_timing=True, blocking=True)",
        "torch.cuda.Event(enable_timing=True)",
        "keeps a core busy",
    ),
    "an event without a time": (
        "began = torch.cuda.Event(enable_timing=True)",
        "began = torch.cuda.Event()",
        "must be created with argument 'enable_timing=True'",
    ),
    "one event for both streams": (
        "began = torch.cuda.Event(enable_timing=True)",
        "began = vars(self).setdefault('_began', torch.cuda.Event(enable_timing=True))",
        "recorded again before the host has waited",
    ),
    "an input that is overwritten while it is copied": (
        "            captured.graph.replay()\n",
        "            captured.graph.replay()\n            captured.host_input.zero_()\n",
        "overwrites a buffer that a copy has yet to read",
    ),
    "synchronisation during capture": (
        'capture_error_mode="thread_local"):\n                    output = run(device_input)\n',
        'capture_error_mode="thread_local"):\n                    output = run(device_input)\n'
        "                    stream.synchronize()\n",
        "not permitted when stream is capturing",
    ),
    "pinned memory allocated during capture": (
        'capture_error_mode="thread_local"):\n                    output = run(device_input)\n',
        'capture_error_mode="thread_local"):\n                    output = run(device_input)\n'
        "                    _pinned(np.zeros(1))\n",
        "cudaHostAlloc",
    ),
    "a result read during capture": (
        "            return result.reshape(-1)[:OUTPUT_NUMBERS].float()\n",
        "            return result.reshape(-1)[:OUTPUT_NUMBERS].float() if result.sum() < 1e9 else result\n",
        "not permitted when stream is capturing",
    ),
    "no warm-up": ("WARM_RUNS = 3", "WARM_RUNS = 0", "for the first time while a graph is captured"),
    "weights that are freed": (
        "for stream in _distinct_streams(count, priorities)]\n",
        "for stream in _distinct_streams(count, priorities)]\n                self._models = []\n",
        "memory that was freed after its capture",
    ),
    "an input that is not static": (
        "captured.device_input.copy_(captured.host_input, non_blocking=True)",
        "captured.device_input = captured.host_input.to('cuda', non_blocking=True)",
        "memory that was freed after its capture",
    ),
    "priorities beyond the range": (
        "max(greatest, least - rank)",
        "-10 * rank",
        "priority -10 is taken for -3",
    ),
    "a write outside inference mode": (
        "), torch.inference_mode(), torch.cuda.stream(cuda_stream.stream):",
        "), torch.cuda.stream(cuda_stream.stream):",
        "Inplace update to inference tensor outside InferenceMode",
    ),
}
"""By name: the text of the backend, what it is replaced with, and what the stand-in says."""


@contextmanager
def backend(source):
    """Provide a backend of that source, as a module of its own."""
    module = types.ModuleType("seeded_cuda_backend")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__name__, "exec"), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]


def drive(module, gpu):
    """Run every model on both streams of a backend at once; check outputs and completions."""
    text = task("text", "builtin:transformer", "text-128")
    workload = workload_of(scenario_of([task(), text]))
    with module.CudaStreams(workload, 2, [1, 0]) as streams:
        outputs = {}
        for model in (0, 1):
            with gpu.paused():
                for stream in range(2):
                    streams.submit(stream, RunRequest(model, model, 3))
            ended, until = [], now() + 20_000_000_000
            while len(ended) < 2 and not gpu.violations and now() < until:
                ended += streams.wait(0.05)
            assert [one.error for one in ended] == ["", ""], f"{ended} {gpu.violations}"
            outputs[model] = [np.array(streams.output(stream)) for stream in range(2)]
    return outputs


def test_the_backend_as_it_is_breaks_no_rule():
    with installed() as gpu, backend(SOURCE) as module:
        outputs = drive(module, gpu)
    assert all(np.array_equal(*pair) for pair in outputs.values())
    assert [len(pair[0]) for pair in outputs.values()] == [10, 2]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_seeded_mistake_is_caught_by_its_rule(name, monkeypatch):
    was, becomes, told = MISTAKES[name]
    assert SOURCE.count(was) == 1
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # a thread of the backend may end with the misuse
    with installed(check=False) as gpu, backend(SOURCE.replace(was, becomes)) as module:
        with pytest.raises(Exception) as raised:  # noqa: PT011
            drive(module, gpu)
        first = raised.value
        while first.__context__ is not None:  # what went wrong before the streams were closed
            first = first.__context__
        assert any(told in text for text in (str(first), *gpu.violations[:1]))


# The rules that no single change of the backend breaks


def tensor():
    """Return a stream, and a tensor that was written on it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        made = torch.zeros(4).pin_memory().to("cuda", non_blocking=True)
    return stream, made


def test_work_on_what_another_stream_has_yet_to_write_is_refused_without_an_event():
    with installed(check=False), torch.inference_mode():
        writer, made = tensor()
        reader = torch.cuda.Stream()
        with torch.cuda.stream(reader), pytest.raises(Misuse, match="another stream has yet to write"):
            made + 1
        reader.wait_stream(writer)
        with torch.cuda.stream(reader):
            added = made + 1
        with torch.cuda.stream(writer), pytest.raises(Misuse, match="another stream has yet to read"):
            made.zero_()
        assert added.device.type == "cuda"
        reader.synchronize()


def test_memory_that_another_stream_still_uses_may_not_be_freed():
    with installed(check=False) as gpu, torch.inference_mode():
        writer, made = tensor()
        reader = torch.cuda.Stream()
        reader.wait_stream(writer)
        with gpu.paused():
            with torch.cuda.stream(reader):
                added = made + 1
            del made
        assert gpu.violations == ["memory is freed while another stream uses it: expected record_stream"]
        reader.synchronize()
        del added


def test_a_positive_priority_and_tensors_of_two_devices_are_refused_as_torch_does():
    with installed(), torch.inference_mode():
        with pytest.raises(CudaError, match="priority to be less than or equal to 0, got 1"):
            torch.cuda.Stream(priority=1)
        stream, made = tensor()
        with torch.cuda.stream(stream), pytest.raises(RuntimeError, match="same device"):
            made + torch.zeros(4)
        stream.synchronize()


def test_the_thirty_third_stream_is_the_first_again():
    with installed():
        streams = [torch.cuda.Stream() for _ in range(33)]
        assert len({stream.cuda_stream for stream in streams}) == 32
        assert streams[32].cuda_stream == streams[0].cuda_stream


def test_a_graph_runs_its_kernels_anew_and_only_when_it_is_replayed():
    with installed(), torch.inference_mode():
        stream = torch.cuda.Stream()
        host = torch.ones(4).pin_memory()
        with torch.cuda.stream(stream):
            given = host.to("cuda", non_blocking=True)
            for _ in range(3):
                result = given * 2 + 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = given * 2 + 1
        with torch.cuda.stream(stream):
            for number in (1.0, 5.0):
                host.fill_(number)
                given.copy_(host, non_blocking=True)
                graph.replay()
                event = torch.cuda.Event(blocking=True)
                event.record(stream)
                event.synchronize()
                assert result.cpu().tolist() == [2 * number + 1] * 4
