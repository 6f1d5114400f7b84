"""Power caps: a command of the site sets them before a job starts, as a list of words that no shell reads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from slipstream.device.slurm.capping import CapCommand
from slipstream.device.slurm.decisions import StartOf
from slipstream.device.slurm.driver import Driver, DriverSettings, caps_of_start
from slipstream.errors import InputError
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.policies.base import find
from slipstream.scenario import load
from tests.slurm.conftest import wait_for
from tests.slurm.test_driver import RULES, all_ended, driven, job_of, submit

# Four GPUs at work would draw 800 W more than idle ones, and with the cap 400 W: only that is within the budget.
CAPPED = {
    **RULES,
    "nodes": [{**RULES["nodes"][0], "caps": [{"watts": 150.0, "time": 1.2, "power": 0.6}]}],
    "power": {"budget_w": 1300.0},
}


def test_names_are_put_into_words_that_stay_whole():
    command = CapCommand("""sh -c 'exit 0' "{node} x" {watts} {job}/{gpus}""")
    assert command.words("7", "n1; {job}", 4, 150.0) == ["sh", "-c", "exit 0", "n1; {job} x", "150", "7/4"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sh {node}", "without {watts}"),
        ("", "without {node}"),
        ("sh '{node} {watts}", "No closing quotation"),
        ("sh {node} {watts} {name}", "{name}: expected only"),
        ("no-such-program {node} {watts}", "no-such-program: no such program"),
    ],
)
def test_a_command_that_cannot_set_a_cap_is_refused(text, said):
    with pytest.raises(InputError, match="--cap-command") as error:
        CapCommand(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("rules", "said"), [(RULES, "no kind of node in the scenario has caps"), ({**CAPPED, "placement": "flat"}, "flat")]
)
def test_rules_that_say_nothing_about_caps_are_refused(rules, said):
    settings = DriverSettings(caps=CapCommand("true {node} {watts}"))
    with pytest.raises(InputError, match=said):
        Driver(None, load(rules), find("fifo", "cluster"), settings)


def test_nodes_that_slurm_chooses_get_no_cap():
    command = CapCommand("true {node} {watts}")
    assert caps_of_start(StartOf(job_of("7"), (("n1", 2),), (150.0,)), command) == [["true", "n1", "150"]]
    assert caps_of_start(StartOf(job_of("7", constrained=True), (("n1", 2),), (150.0,)), command) == []


@pytest.mark.thorough
def test_a_cap_is_set_before_its_job_starts(slurm, tmp_path):
    seen = tmp_path / "seen"
    script = tmp_path / "cap"
    script.write_text(f'#!/bin/sh\necho "$@" $(squeue --noheader --jobs=$1 --format=%T) >> {seen}\n')
    script.chmod(0o755)
    command = CapCommand(f"env SLURM_CONF={slurm.folder / 'slurm.conf'} {script} {{job}} {{node}} {{gpus}} {{watts}}")
    job = submit(slurm, 1, 4)
    with driven(slurm, settings=DriverSettings(interval_s=0.3, caps=command), **CAPPED):
        wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))
    assert seen.read_text() == f"{job} n1 4 150 PENDING\n"


@pytest.mark.thorough
def test_a_job_whose_cap_cannot_be_set_does_not_start(slurm):
    job = submit(slurm, 1, 4)
    settings = DriverSettings(interval_s=0.3, caps=CapCommand("false {node} {watts}"))
    with driven(slurm, settings=settings, **CAPPED) as driver:
        wait_for(lambda: driver.counts["refused"])
        assert driver.counts["started"] == 0
    assert next(one for one in read_snapshot(slurm.slurm).jobs if one.id == job).is_held
    slurm.slurm.change("release", job)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))


@pytest.mark.thorough
def test_a_dry_run_prints_the_command(slurm, tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps(CAPPED))
    job = submit(slurm, 1, 4)
    words = [sys.executable, "-m", "slipstream", "execute", "rules.json", "--engine", "slurm", "--policy", "fifo"]
    words += ["--slurm-conf", str(slurm.folder / "slurm.conf"), "--dry-run"]
    words += ["--cap-command", f"touch {tmp_path / 'sent'} '{{node}} {{watts}}'"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"start job {job} (4 GPUs: 4 on n1 at 150 W)" in done.stdout
    assert f"touch {tmp_path / 'sent'} 'n1 150'" in " ".join(done.stdout.split())
    assert not (tmp_path / "sent").exists()
    slurm.slurm.change("release", job)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))
