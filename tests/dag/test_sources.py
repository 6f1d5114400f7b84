"""Every source gives graphs with durations; a damaged file gives one line that names the place."""

from __future__ import annotations

import io

import numpy as np
import pytest

from slipstream.errors import InputError, ScenarioError, TraceError
from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.workload.sources import synthetic
from slipstream.families.dag.workload.sources.synthetic import PARALLELISM
from slipstream.families.dag.workload.templates import library_of
from slipstream.policies.base import find
from slipstream.scenario import digest, load
from slipstream.sim.simulator import Simulator

BASE = {"family": "dag", "executors": 3, "arrivals": {"kind": "batch", "jobs": 2}}


def with_jobs(**jobs):
    return load({**BASE, "jobs": jobs})


# Synthetic


def test_synthetic_jobs_resemble_the_profile():
    library = library_of(with_jobs(kind="synthetic"))
    stages = [len(template.stages) for template in library.templates]
    tasks = [sum(stage.tasks for stage in template.stages) for template in library.templates]
    edges = [len(template.edges) for template in library.templates]
    # The profile: 2 / 9.2 / 18 stages, 13 / 1,155 / 3,717 tasks, 8.5 edges; 154 jobs give some 5% of scatter.
    assert (min(stages), max(stages)) == (2, 18)
    assert np.mean(stages) == pytest.approx(9.2, rel=0.15)
    assert np.mean(tasks) == pytest.approx(1155, rel=0.15)
    assert np.mean(edges) == pytest.approx(8.5, rel=0.15)
    waves = [stage.waves[10] for template in library.templates for stage in template.stages]
    both = [one for one in waves if len(one.first) and len(one.rest)]
    assert np.median([one.rest.mean() / one.first.mean() for one in both]) < 0.7
    assert library.parallelism == PARALLELISM


def test_synthetic_jobs_belong_to_their_seed():
    one, again, other = (with_jobs(kind="synthetic", templates=5, seed=seed) for seed in (1, 1, 2))
    assert digest(one) == digest(again) != digest(other)


def test_every_graph_ends_in_one_stage_and_has_no_cycle():
    for template in library_of(with_jobs(kind="synthetic", templates=50)).templates:
        assert len(template.order()) == len(template.stages)
        assert sum(not children for children in template.children()) == 1


def test_a_workflow_trains_before_it_searches_and_tests_at_the_end():
    for template in library_of(with_jobs(kind="ml-workflow", templates=8)).templates:
        names = [template.stages[place].name for place in template.order()]
        assert names[:4] == ["prepare", "merge", "train", "validate"]
        assert names[-2:] == ["select", "test"]
        assert 1 <= sum(name.startswith("trial") for name in names) <= 8


# Durations


def test_levels_between_which_a_number_of_executors_lies():
    scenario = load({**BASE, "executors": 12, "jobs": {"kind": "synthetic", "templates": 2}})
    rows = compiled_scenario(scenario).spec["parallelism_of"]
    assert [PARALLELISM[row["low"]] for row in rows] == [2, 2, 2, 2, 2, 5, 5, 5, 5, 5, 10, 10, 10]
    assert [PARALLELISM[row["high"]] for row in rows] == [2, 2, 2, 5, 5, 5, 10, 10, 10, 10, 10, 20, 20]
    assert (rows[9]["offset"], rows[9]["gap"]) == (4.0, 5.0)


def test_empty_waves_are_filled_from_their_neighbours():
    stage = {"name": "s", "tasks": 2, "waves": [{"executors": 1, "first_s": [2.0]}]}
    scenario = load(
        {**BASE, "warmup_delay_s": 0.5, "jobs": {"kind": "inline", "jobs": [{"name": "j", "stages": [stage]}]}}
    )
    spec = compiled_scenario(scenario).spec
    fresh, first, rest = spec["waves"][0]
    assert spec["samples"].tolist() == [2_000_000_000]
    assert (fresh["delay"], first["delay"], rest["delay"]) == (500_000_000, 0, 0)
    assert {one["samples"] for one in (fresh, first, rest)} == {1}


# TPC-H


def pickled(content):
    """Return a .npy file of one object, as numpy writes it."""
    file = io.BytesIO()
    np.save(file, np.array(content, dtype=object), allow_pickle=True)
    return file.getvalue()


def matrix(rows):
    file = io.BytesIO()
    np.save(file, np.array(rows, float))
    return file.getvalue()


def profile_of(fresh=(), first=(1000, 2000), rest=(500,)):
    levels = {5: list, 10: list}
    return {
        wave: {level: list(values) for level in levels}
        for wave, values in (("fresh_durations", fresh), ("first_wave", first), ("rest_wave", rest))
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tpch" / "2g").mkdir(parents=True)
    write(tmp_path, matrix([[0, 1], [0, 0]]), pickled({0: profile_of(), 1: profile_of(fresh=(1000,))}))
    return tmp_path


def write(folder, adjacency=None, durations=None):
    place = folder / "tpch" / "2g"
    if adjacency is not None:
        (place / "adj_mat_1.npy").write_bytes(adjacency)
    if durations is not None:
        (place / "task_duration_1.npy").write_bytes(durations)


def read(folder, **more):
    return library_of(with_jobs(kind="tpch", path=str(folder / "tpch"), sizes=["2g"], queries=[1], **more))


def test_a_profile_is_read_with_its_stages_tasks_and_waves(folder):
    (template,) = read(folder).templates
    assert (template.name, template.edges) == ("q1-2g", ((0, 1),))
    assert [stage.tasks for stage in template.stages] == [3, 3]
    # What counts as fresh is not in the first wave too.
    assert template.stages[1].waves[5].first.tolist() == [2_000_000_000]
    assert template.stages[1].waves[5].fresh.tolist() == [1_000_000_000]


def test_the_published_simulators_have_no_level_below_five(folder):
    source = {"kind": "tpch", "path": str(folder / "tpch"), "sizes": ["2g"], "queries": [1]}
    both = [load({**BASE, "jobs": source, "compat": compat}) for compat in (None, "decima")]
    ours, theirs = (library_of(scenario).parallelism for scenario in both)
    assert min(ours) < 5
    assert theirs == tuple(level for level in ours if level >= 5)


def test_the_published_profile_is_read_whole(shared_data):
    if not (shared_data / "dag" / "tpch").is_dir():
        pytest.skip("the TPC-H profile is not among the shared data")
    library = library_of(with_jobs(kind="tpch", path=str(shared_data / "dag" / "tpch")))
    assert len(library.templates) == 154
    assert sum(len(template.stages) for template in library.templates) == 1414
    tasks = [sum(stage.tasks for stage in template.stages) for template in library.templates]
    assert (min(tasks), round(np.mean(tasks)), max(tasks)) == (13, 1155, 3717)


class Bomb:
    """What a pickle must not be able to do."""

    def __reduce__(self):
        return (open, ("owned.txt", "w"))


BAD_PROFILES = {
    "code": (pickled({0: Bomb()}), r"asks for .*open: expected a dictionary of numbers, nothing that can run"),
    "text": (b"hello", "damaged: expected a dictionary of durations"),
    "cut": (pickled({0: profile_of()})[:-20], "damaged: expected a dictionary of durations"),
    "list": (pickled({"a": 1}), "expected durations of the stages 0 to 1"),
    "missing wave": (pickled({0: {}, 1: profile_of()}), "stage 0: 'fresh_durations' is missing"),
    "text for a time": (pickled({0: profile_of(first=("x",)), 1: profile_of()}), r"first_wave\[5\]: expected a list"),
    "negative": (pickled({0: profile_of(first=(-1,)), 1: profile_of()}), r"first_wave\[5\]: expected a list of times"),
    "nothing": (pickled({0: profile_of(first=(), rest=()), 1: profile_of()}), "expected durations for 5 executors"),
}


@pytest.mark.parametrize("name", BAD_PROFILES)
def test_a_bad_profile_is_refused_in_one_line(folder, name, monkeypatch):
    content, text = BAD_PROFILES[name]
    monkeypatch.chdir(folder)
    write(folder, durations=content)
    with pytest.raises(TraceError, match=text) as error:
        read(folder)
    assert str(error.value).startswith(f"jobs.path: {folder / 'tpch' / '2g' / 'task_duration_1.npy'}: ")
    assert "\n" not in str(error.value)
    assert not (folder / "owned.txt").exists()


BAD_MATRICES = {
    "pickle": (pickled({}), "expected a matrix of numbers"),
    "not square": (matrix([[0, 1]]), "expected a square matrix"),
    "cycle": (matrix([[0, 1], [1, 0]]), "its stages wait for each other"),
}


@pytest.mark.parametrize("name", BAD_MATRICES)
def test_a_bad_matrix_is_refused_in_one_line(folder, name):
    content, text = BAD_MATRICES[name]
    write(folder, adjacency=content)
    with pytest.raises(TraceError, match=text):
        read(folder)


def test_a_missing_folder_and_a_missing_file_are_named(tmp_path, folder):
    with pytest.raises(TraceError, match="no such folder"):
        library_of(with_jobs(kind="tpch", path=str(tmp_path / "nowhere")))
    with pytest.raises(TraceError, match=r"adj_mat_2\.npy: no such file"):
        library_of(with_jobs(kind="tpch", path=str(folder / "tpch"), sizes=["2g"], queries=[2]))


# Alibaba

PACKED = {
    "stage_ptr": np.array([0, 2, 3]),
    "edge_ptr": np.array([0, 1, 1]),
    "edges": np.array([[0, 1]]),
    "num_tasks": np.array([4, 1, 2000]),
    "duration": np.array([3.0, 0.0, 1.0]),
}


def packed(tmp_path, **changes):
    np.savez(tmp_path / "jobs.npz", **{**PACKED, **changes})
    return with_jobs(kind="alibaba", path=str(tmp_path / "jobs.npz"), unit_s=2.0)


def test_packed_jobs_are_read_and_large_ones_left_out(tmp_path):
    (template,) = library_of(packed(tmp_path)).templates
    assert [stage.tasks for stage in template.stages] == [4, 1]
    assert template.stages[0].waves[1].first.tolist() == [6_000_000_000]
    assert template.stages[1].waves[1].first.tolist() == [1]
    assert len(Simulator(packed(tmp_path)).play(find("fifo", "dag"), 0)) > 10


BAD_PACKS = {
    "missing": ({"edges": None}, "pickle|numbers only|'edges' is missing|cannot be read"),
    "pointer": ({"stage_ptr": np.array([0, 2, 9])}, "stage_ptr: expected numbers that ascend from 0 to 3"),
    "edge": ({"edges": np.array([[0, 7]])}, "an edge leads out of it"),
    "tasks": ({"num_tasks": np.array([0, 1, 2000])}, "expected at least one"),
    "shape": ({"edges": np.array([0, 1])}, "do not fit"),
    "no number": ({"num_tasks": np.array([1.0, np.nan, 3.0])}, "num_tasks: expected finite numbers"),
    "broken pointer": ({"stage_ptr": np.array([0.0, 2.0, 3.0])}, "stage_ptr: expected a list of whole numbers"),
}


@pytest.mark.parametrize("name", BAD_PACKS)
def test_a_bad_pack_is_refused_in_one_line(tmp_path, name):
    changes, text = BAD_PACKS[name]
    with pytest.raises(TraceError, match=text) as error:
        library_of(packed(tmp_path, **changes))
    assert "\n" not in str(error.value)


def test_the_packed_trace_is_read(shared_data):
    path = shared_data / "dag" / "alibaba" / "j_100_train.npz"
    if not path.is_file():
        pytest.skip("the Alibaba jobs are not among the shared data")
    scenario = with_jobs(kind="alibaba", path=str(path), most_tasks=100, first_jobs=200)
    assert len(library_of(scenario).templates) == 200
    assert len(Simulator(scenario).play(find("fair", "dag"), 0)) > 0


# Traces


def test_a_trace_from_a_file_names_its_jobs(tmp_path):
    (tmp_path / "arrivals.csv").write_text("arrival_s,job\n0,job-1\n2.5,job-0\n")
    scenario = load(
        {
            "family": "dag",
            "executors": 2,
            "arrivals": {"kind": "trace", "path": str(tmp_path / "arrivals.csv"), "name_column": "job"},
            "jobs": {"kind": "synthetic", "templates": 2},
        }
    )
    rows = compiled_scenario(scenario).spec["arrivals"]
    assert (rows["time"].tolist(), rows["template"].tolist()) == ([0, 2_500_000_000], [1, 0])


BAD_TRACES = {
    "order": ("arrival_s\n2\n1\n", "row 3: 1 is earlier than the row before it"),
    "negative": ("arrival_s\n-1\n", "row 2: expected a time between 0"),
    "text": ("arrival_s\nx\n", "arrival_s: expected a number, got 'x'"),
    "column": ("time\n1\n", "column 'arrival_s' is missing"),
    "empty": ("arrival_s\n", "has 0 arrivals"),
}


@pytest.mark.parametrize("name", BAD_TRACES)
def test_a_bad_trace_is_refused_in_one_line(tmp_path, name):
    text, expected = BAD_TRACES[name]
    (tmp_path / "arrivals.csv").write_text(text)
    with pytest.raises(InputError, match=expected):
        compiled_scenario(load({**BASE, "arrivals": {"kind": "trace", "path": str(tmp_path / "arrivals.csv")}}))


def test_an_unknown_name_in_a_trace_is_told():
    arrivals = {"kind": "trace", "times_s": [0.0], "names": ["nobody"]}
    with pytest.raises(ScenarioError, match="no job 'nobody' in the source: expected one of job-0"):
        compiled_scenario(load({**BASE, "arrivals": arrivals}))


def test_the_generator_of_synthetic_jobs_uses_no_global_randomness():
    before = np.random.get_state()[1].tolist()
    synthetic.library(with_jobs(kind="synthetic", templates=3).jobs)
    assert np.random.get_state()[1].tolist() == before
