"""Readers of traces and generators: what they read, what they leave out and say so, and what they refuse."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.errors import InputError
from slipstream.families.cluster.caps import MEASURED
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.workload.arrivals import workload_of
from slipstream.families.cluster.workload.sources.synthetic import arrival_rates

HEADER = "; Version: 2\n; MaxNodes: 4\n"
LINES = [
    "1 100 -1 50 2 -1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1",
    "3 90 -1 20 1 -1 -1 4 60 -1 1 8 -1 -1 0 -1 -1 -1",
    "3 95 -1 20 1 -1 -1 4 60 -1 1 8 -1 -1 0 -1 -1 -1",
    "4 110 -1 0 1 -1 -1 -1 -1 -1 0 7 -1 -1 0 -1 -1 -1",
    "5 120 -1 10 0 -1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1",
    "6 130 -1 10 64 -1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1",
]


def scenario(jobs: dict[str, Any], **rules: Any) -> ClusterScenario:
    nodes = [{"name": "node", "count": 1, "gpus": 8}]
    return ClusterScenario.model_validate({"family": "cluster", "nodes": nodes, "jobs": jobs, **rules})


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_is_sorted_and_what_is_left_out_is_told(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("log.swf.gz" if packed else "log.swf")
    text = (HEADER + "\n".join(LINES) + "\n").encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    found = workload_of(scenario({"kind": "swf", "path": str(path)}))
    assert (found.submit // 10**9).tolist() == [0, 10]
    assert found.submitted_s.tolist() == [90.0, 100.0]
    assert found.gpus.tolist() == [4, 2]
    assert (found.requested // 10**9).tolist() == [60, 50]
    assert [found.users[user] for user in found.user] == ["user 8", "user 7"]
    assert found.dropped == {
        "without a run time": 1,
        "without GPUs": 1,
        "that come twice": 1,
        "that want more than the 8 GPUs they can get at once": 1,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", r"row 3: expected 18 fields, or the first 12 of them at least, got 3"),
        (LINES[0].replace("50", "x"), r"row 3: field 4: expected a number, got 'x'"),
        (LINES[0].replace("50", "nan"), r"row 3: field 4: expected a number, got 'nan'"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "log.swf"
    path.write_text(HEADER + line + "\n")
    with pytest.raises(InputError, match=message):
        workload_of(scenario({"kind": "swf", "path": str(path)}))


def test_an_absent_or_damaged_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        workload_of(scenario({"kind": "swf", "path": str(tmp_path / "none.swf")}))
    (tmp_path / "cut.swf.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(InputError, match="cannot be read"):
        workload_of(scenario({"kind": "swf", "path": str(tmp_path / "cut.swf.gz")}))


def test_philly_has_dates_and_virtual_clusters(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    rows = ["2017-10-09 07:01:55,66.0,1,66.0,11cb48", "2017-10-09 06:01:55,30.0,2,60.0,6214e9"]
    path.write_text("\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *rows, rows[0], ""]))
    found = workload_of(scenario({"kind": "philly", "path": str(path)}))
    assert (found.submit // 10**9).tolist() == [0, 3600]
    assert found.users == ("11cb48", "6214e9")
    assert found.dropped == {"that come twice": 1}
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\nyesterday,66.0,1,66.0,a\n")
    with pytest.raises(InputError, match="row 2: timestamp: expected seconds or a date, got 'yesterday'"):
        workload_of(scenario({"kind": "philly", "path": str(path)}))


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def test_a_table_of_no_pods_has_no_jobs(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(f"{PODS}\n")
    with pytest.raises(InputError, match="no job is left"):
        workload_of(scenario({"kind": "openb", "path": str(tmp_path / "pods.csv")}))


def test_pods_that_share_gpus_or_never_ran_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    rows = [
        "a,1,1,1,1000,,LS,Running,10,100,20",
        "b,1,1,1,460,,LS,Running,0,100,0",
        "c,1,1,0,0,,BE,Running,5,100,5",
        "d,1,1,2,1000,,BE,Pending,7,100,",
    ]
    path.write_text("\n".join([PODS, *rows, ""]))
    found = workload_of(scenario({"kind": "openb", "path": str(path)}))
    assert (found.run // 10**9).tolist() == [80]
    assert found.dropped == {
        "that share a GPU with others": 1,
        "that were never scheduled": 1,
        "without GPUs": 1,
    }
    nodes = [{"name": "node", "count": 1, "gpus": 8, "slices": 4}]
    jobs = {"kind": "openb", "path": str(path)}
    shared = {"family": "cluster", "nodes": nodes, "placement": "fgd", "jobs": jobs}
    found = workload_of(ClusterScenario.model_validate(shared))
    # 0.46 of a GPU are two slices of four; a whole GPU is four.
    assert found.gpus.tolist() == [2, 4]
    assert found.dropped == {"that were never scheduled": 1, "without GPUs": 1}


def test_a_workload_without_jobs_says_why(tmp_path: Path) -> None:
    jobs = {"kind": "list", "jobs": [{"submit_s": 0.0, "gpus": 9, "run_s": 1.0}]}
    with pytest.raises(InputError, match=r"no job is left \(1 that want more than the 8 GPUs"):
        workload_of(scenario(jobs))


@pytest.mark.parametrize(
    ("file", "kind", "count"),
    [
        ("swf/lublin_256.swf", "swf", 10_000),
        ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", "swf", 18_066),
        ("swf/theta_argonne.swf", "swf", None),
        ("philly/philly.csv", "philly", None),
        ("alibaba2023/openb_pod_list_default.csv", "openb", None),
    ],
)
def test_real_traces_are_read(shared_data: Path, file: str, kind: str, count: int | None) -> None:
    nodes = [{"name": "node", "count": 8192, "gpus": 8}]
    jobs = {"kind": kind, "path": str(shared_data / "cluster" / file)}
    found = workload_of(ClusterScenario.model_validate({"family": "cluster", "nodes": nodes, "jobs": jobs}))
    assert count is None or len(found) == count
    assert len(found) > 1000
    assert (np.diff(found.submit) >= 0).all()
    assert found.run.min() >= 1
    assert found.gpus.min() >= 1


@pytest.mark.parametrize("kind", ["lublin", "poisson", "diurnal", "bursty"])
def test_a_seed_gives_the_same_jobs_and_another_one_others(kind: str) -> None:
    jobs: dict[str, Any] = (
        {"kind": "lublin", "largest": 8} if kind == "lublin" else {"kind": "synthetic", "arrivals": kind}
    )
    jobs |= {"jobs": 500}
    first, again, other = (workload_of(scenario({**jobs, "seed": seed})) for seed in (3, 3, 4))
    assert first.submit.tolist() == again.submit.tolist()
    assert first.run.tolist() == again.run.tolist()
    assert first.run.tolist() != other.run.tolist()


def test_lublin_jobs_have_the_load_that_is_asked_for() -> None:
    jobs = {"kind": "lublin", "jobs": 20_000, "seed": 1, "largest": 8, "load": 0.7}
    found = workload_of(scenario(jobs))
    load = float((found.run * found.gpus).sum()) / 8 / float(found.submit[-1])
    assert load == pytest.approx(0.7, rel=0.02)
    assert 0.2 < float((found.gpus == 1).mean()) < 0.5


def test_lublin_jobs_are_drawn_as_its_authors_do() -> None:
    jobs = {"kind": "lublin", "jobs": 40_000, "seed": 1, "largest": 128, "load": 0.7, "as_published": True}
    nodes = [{"name": "node", "count": 16, "gpus": 8}]
    made = ClusterScenario.model_validate({"family": "cluster", "nodes": nodes, "jobs": jobs})
    found = workload_of(made)
    serial, power_of_two = found.gpus == 1, np.log2(found.gpus) % 1.0 == 0.0
    # Of all jobs 0.244 are serial and 0.576 are drawn as powers of two; of the rest a quarter or so is one by rounding.
    assert float(serial.mean()) == pytest.approx(0.244, abs=0.01)
    assert 0.61 < float((power_of_two & ~serial).mean()) < 0.64
    assert found.run.max() <= np.exp(12.0) * 1e9
    assert float(found.run.astype(float) @ found.gpus) / 128 / float(found.submit[-1]) == pytest.approx(0.7, rel=0.02)
    # Half-hours of the day: the busiest is early in the afternoon, the quietest in the morning before six.
    rates = arrival_rates()
    assert rates.mean() == pytest.approx(1.0)
    assert 24 <= int(rates.argmax()) <= 30
    assert 8 <= int(rates.argmin()) <= 11
    counts = np.bincount(((found.submitted_s // 1800) % 48).astype(int), minlength=48)
    assert np.corrcoef(counts, rates)[0, 1] > 0.97


def test_days_are_busier_than_nights_and_bursts_than_lulls() -> None:
    day = workload_of(scenario({"kind": "synthetic", "arrivals": "diurnal", "jobs": 20_000, "mean_gap_s": 60.0}))
    hours = ((day.submitted_s // 3600) % 24).astype(int)
    counts = np.bincount(hours, minlength=24)
    assert counts[12] > 3.0 * counts[0]
    burst = workload_of(scenario({"kind": "synthetic", "arrivals": "bursty", "jobs": 20_000, "mean_gap_s": 60.0}))
    gaps = np.diff(burst.submit) / 1e9
    assert gaps.mean() == pytest.approx(60.0, rel=0.05)
    assert np.median(gaps) < 10.0


def test_requested_times_exceed_run_times_as_asked_for() -> None:
    found = workload_of(scenario({"kind": "synthetic", "jobs": 2000, "most_overestimate": 3.0}))
    ratio = found.requested / found.run
    assert ratio.min() >= 1.0
    assert ratio.max() <= 3.001
    assert ratio.mean() == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("gpu", MEASURED)
def test_caps_are_the_means_of_the_zeus_traces(shared_data: Path, gpu: str) -> None:
    groups: dict[tuple[str, ...], dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with (shared_data / "cluster" / "power_zeus" / f"summary_power_{gpu}.csv").open() as file:
        for row in csv.DictReader(file):
            key = (row["dataset"], row["network"], row["batch_size"])
            groups[key][int(row["power_limit"])].append((float(row["time_per_epoch"]), float(row["average_power"])))
    most = max(limit for group in groups.values() for limit in group)
    for watts, time, power in MEASURED[gpu]:
        found = [
            np.mean(g[int(watts)], 0) / np.mean(g[most], 0) for g in groups.values() if int(watts) in g and most in g
        ]
        assert np.mean(found, 0) == pytest.approx([time, power], abs=0.0015)
