"""Jobs from Slurm's accounting: the output of `sacct --parsable2`, and the file that `jobcomp/filetxt` writes.

A job's name is chosen by its user and may hold anything, also the separators of both formats. Names are skipped, not
used, and a record whose name repeats the fields after it is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from slipstream.errors import TraceError
from slipstream.families.cluster.slurm.snapshot import SlurmJob, gpus_of_tres, seconds_of_limit
from slipstream.files.inputs import read_bytes

EXPECTED = "the output of `sacct --parsable2`, or a file of jobcomp/filetxt"
SACCT_COLUMNS = ("JobID", "User", "State", "Submit", "Start", "End")
SHOWN = 60
NEVER = ("Unknown", "None", "N/A", "")
JOBCOMP = re.compile(
    r"JobId=(?P<id>\d+) UserId=(?P<user>[^ ()]*)\(\d+\) GroupId=[^ ]* Name=(?P<name>.*?) JobState=(?P<state>[A-Z_]+) "
    r"Partition=(?P<partition>[^ ]*) TimeLimit=(?P<limit>[^ ]*) StartTime=(?P<start>[^ ]*) EndTime=(?P<end>[^ ]*) "
    r"(?P<rest>NodeList=.*)",
    re.DOTALL,
)


def read_accounting(path: Path) -> tuple[list[SlurmJob], dict[str, int]]:
    """Return the jobs of a file, and the number of those left out by reason.

    Raises:
        TraceError: One line: the file, the row, what is wrong and what was expected.
    """
    try:
        text = read_bytes(path, EXPECTED, TraceError).decode()
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not text in UTF-8: expected {EXPECTED}") from None
    head = text.partition("\n")[0]
    if head.startswith("JobId="):
        return _jobcomp(path, text)
    if "JobID" in head.split("|"):
        return _sacct(path, text)
    raise TraceError(f"{path}: row 1: '{head[:SHOWN]}': expected {EXPECTED}")


# sacct --parsable2


def _sacct(path: Path, text: str) -> tuple[list[SlurmJob], dict[str, int]]:
    lines = text.split("\n")
    header = lines[0].split("|")
    missing = [name for name in SACCT_COLUMNS if name not in header]
    if missing or not {"AllocTRES", "ReqTRES"} & set(header):
        wanted = missing[0] if missing else "AllocTRES or ReqTRES"
        columns = ",".join((*SACCT_COLUMNS, "Timelimit,AllocTRES,ReqTRES,Partition"))
        raise TraceError(f"{path}: row 1: no column {wanted}: expected `sacct --parsable2 --format={columns}`")
    jobs = []
    for number, cells in _rows(path, header, lines):
        row = dict(zip(header, cells, strict=True))
        # Steps of a job, such as 12.batch, are no jobs; '12+0' is a part of a heterogeneous one.
        if "." not in row["JobID"]:
            jobs.append(_sacct_job(path, number, row))
    return jobs, {}


def _rows(path: Path, header: list[str], lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each row; the name of a job may contain separators and line ends."""
    name = header.index("JobName") if "JobName" in header else None
    number = 1
    while number < len(lines):
        first, line = number + 1, lines[number]
        number += 1
        if not line:
            continue
        while name is not None and line.count("|") < len(header) - 1 and number < len(lines) and lines[number]:
            line += "\n" + lines[number]
            number += 1
        cells = line.split("|")
        more = len(cells) - len(header)
        if name is not None and more > 0:
            cells[name : name + more + 1] = ["|".join(cells[name : name + more + 1])]
        if len(cells) != len(header):
            raise TraceError(f"{path}: row {first}: {len(cells)} fields: expected {len(header)} as in the header")
        yield first, cells


def _sacct_job(path: Path, number: int, row: dict[str, str]) -> SlurmJob:
    where = f"{path}: row {number}"
    if not re.fullmatch(r"\d+(_(\d+|\[.*\]))?(\+\d+)?", row["JobID"]):
        raise TraceError(f"{where}: JobID: expected a number, got '{row['JobID'][:SHOWN]}'")
    state = row["State"].split(" ")[0]
    if not re.fullmatch(r"[A-Z_]+", state):
        raise TraceError(f"{where}: State: expected a word such as COMPLETED, got '{row['State'][:SHOWN]}'")
    return SlurmJob(
        id=row["JobID"],
        user=row["User"] or "unknown",
        partition=row.get("Partition", ""),
        state=state,
        reason="",
        gpus=gpus_of_tres(row.get("AllocTRES", "")) or gpus_of_tres(row.get("ReqTRES", "")),
        limit_s=_limit(where, row.get("Timelimit", "")),
        submit=_time(where, "Submit", row["Submit"]),
        start=_time(where, "Start", row["Start"]),
        end=_time(where, "End", row["End"]),
    )


# jobcomp/filetxt


def _jobcomp(path: Path, text: str) -> tuple[list[SlurmJob], dict[str, int]]:
    begins = [found.start() for found in re.finditer(r"^JobId=\d+ UserId=", text, re.MULTILINE)]
    jobs, unclear = [], 0
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        number = text.count("\n", 0, begin) + 1
        record = JOBCOMP.match(text, begin, end)
        if record is None:
            raise TraceError(f"{path}: row {number}: '{text[begin : begin + SHOWN]}': expected {EXPECTED}")
        if " JobState=" in record["rest"] or " StartTime=" in record["rest"]:
            unclear += 1
            continue
        jobs.append(_jobcomp_job(f"{path}: row {number}", record))
    return jobs, {"whose name looks like fields": unclear} if unclear else {}


def _jobcomp_job(where: str, record: re.Match[str]) -> SlurmJob:
    rest = dict(word.partition("=")[::2] for word in record["rest"].split())
    minutes = record["limit"]
    if not (minutes.isdigit() or minutes in ("UNLIMITED", "Partition_Limit")):
        raise TraceError(f"{where}: TimeLimit: expected minutes or UNLIMITED, got '{minutes[:SHOWN]}'")
    return SlurmJob(
        id=record["id"],
        user=record["user"],
        partition=record["partition"],
        state=record["state"],
        reason="",
        gpus=gpus_of_tres(rest.get("Tres", "")),
        limit_s=float(minutes) * 60.0 if minutes.isdigit() else math.inf,
        submit=_time(where, "SubmitTime", rest.get("SubmitTime", "")),
        start=_time(where, "StartTime", record["start"]),
        end=_time(where, "EndTime", record["end"]),
    )


def _time(where: str, column: str, text: str) -> float:
    """Return a time in seconds since 1970, 0 where there is none yet."""
    return 0.0 if text in NEVER else time_of(f"{where}: {column}", text)


def time_of(where: str, text: str) -> float:
    """Return a time in seconds since 1970; Slurm's local times are read as they stand."""
    try:
        if re.fullmatch(r"\d{1,12}", text):
            return float(text)
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise TraceError(f"{where}: expected a time, got '{text[:SHOWN]}'") from None


def _limit(where: str, text: str) -> float:
    found = seconds_of_limit(text)
    if found is None:
        raise TraceError(f"{where}: Timelimit: expected days-hours:minutes:seconds, got '{text[:SHOWN]}'")
    return found


# Limits of users


def read_associations(path: Path) -> dict[str, int]:
    """Return the most GPUs of each user, from `sacctmgr --parsable2 show associations`."""
    try:
        text = read_bytes(path, "the output of `sacctmgr --parsable2 show associations`", TraceError).decode()
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not text in UTF-8: expected the output of sacctmgr") from None
    lines = text.split("\n")
    header = lines[0].split("|")
    if not {"User", "GrpTRES"} <= set(header):
        raise TraceError(f"{path}: row 1: expected the columns User and GrpTRES of `sacctmgr --parsable2`")
    limits: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        cells = line.split("|")
        if len(cells) != len(header):
            raise TraceError(f"{path}: row {number}: {len(cells)} fields: expected {len(header)} as in the header")
        row = dict(zip(header, cells, strict=True))
        gpus = gpus_of_tres(row["GrpTRES"])
        if row["User"] and gpus:
            limits[row["User"]] = min(gpus, limits.get(row["User"], gpus))
    return limits
