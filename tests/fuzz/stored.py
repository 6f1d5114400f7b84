"""What slipstream itself writes, and reads again: event logs, policies, libraries, trainings and folders of runs."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save as save_arrays

from slipstream.cli.common import describe_run
from slipstream.dashboard.comparison import compare_runs
from slipstream.dashboard.replay import Recording, Recordings
from slipstream.dashboard.runs import RunsFolder
from slipstream.errors import InputError
from slipstream.evaluation import Comparison, compare
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.workload.importers.log import releases_of_log
from slipstream.learn.files import read_history
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.learn.training import train
from slipstream.library import Library
from slipstream.library.storage.store import DATABASE, VERSIONS
from slipstream.library.storage.verifying import verify
from slipstream.policies import find
from slipstream.policies.learned import CARD, load_policy, load_tensors, shipped
from slipstream.reports.html.comparison import comparisons_page
from slipstream.reports.runs import read_recording, read_run
from slipstream.reports.terminal.library import events_table, models_table, versions_table
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import COLUMNS, EVENT, LogWriter, read, read_chunks, to_arrow
from slipstream.sim.simulator import Simulator
from tests.fuzz.checks import HIDDEN
from tests.fuzz.mutations import any_json, damaged_bytes, file_name, json_bytes, mutated, nasty, odd_entry
from tests.fuzz.surface import Reading, Surface, empty, put, taken

SHORTER = {"serving": {"duration_s": 0.2}}
"""What makes a run of a family's smallest scenario short."""


def recorded(path: Path, family: str, policy: str | None = None) -> bytes:
    """Return the event log of a short run of a family."""
    scenario: Any = load({**json.loads(dump(load(f"{family}/tiny"))), **SHORTER.get(family, {})})
    policy = policy or FAMILIES[scenario.family].default_policy
    writer = LogWriter(path, describe_run(f"{family}/tiny", scenario, policy, 0))
    writer.write(Simulator(scenario).play(find(policy, scenario.family), 0))
    writer.close()
    return path.read_bytes()


def rewritten(rng: Random, content: bytes) -> bytes:
    """Return an event log with other events, another description, or other columns."""
    table = pq.read_table(io.BytesIO(content))
    about = json.loads((table.schema.metadata or {})[b"slipstream"])
    events = np.zeros(table.num_rows, EVENT)
    for name in COLUMNS:
        events[name] = table.column(name).to_numpy()
    way = rng.random()
    if way < 0.4:
        about = mutated(rng, about)
    elif way < 0.5:
        about["scenario"] = json.dumps(mutated(rng, json.loads(about["scenario"])))
    if way > 0.4:
        events = _other_events(rng, events)
    batch = pa.Table.from_batches([to_arrow(events)])
    if rng.random() < 0.1:
        batch = _other_columns(rng, batch)
    text = json.dumps(about).encode("utf-8", "surrogatepass")
    file = io.BytesIO()
    pq.write_table(batch.replace_schema_metadata({b"slipstream": text}), file, compression="zstd")
    return file.getvalue()


def _other_events(rng: Random, events: np.ndarray) -> np.ndarray:
    for _ in range(rng.randint(1, 3)):
        if not len(events):
            break
        row, way = rng.randrange(len(events)), rng.randrange(5)
        if way == 0:
            name = rng.choice(COLUMNS)
            limits = np.iinfo(EVENT[name])
            events[name][row] = rng.choice((-1, 0, 1, -2, 99, int(limits.max), int(limits.min), rng.randrange(30)))
        elif way == 1:
            events = np.delete(events, row)
        elif way == 2:
            events = np.insert(events, row, events[rng.randrange(len(events))])
        elif way == 3:
            other = rng.randrange(len(events))
            events[[row, other]] = events[[other, row]]
        else:
            events = events[: row + 1]
    return events


def _other_columns(rng: Random, table: pa.Table) -> pa.Table:
    place, name = rng.randrange(table.num_columns), rng.choice(COLUMNS)
    ways: list[Callable[[], pa.Table]] = [
        lambda: table.drop_columns([name]),
        lambda: table.set_column(place, table.column_names[place], pa.nulls(table.num_rows)),
        lambda: table.set_column(place, table.column_names[place], pa.array(["x"] * table.num_rows)),
        lambda: table.append_column(name, table.column(name)),
        lambda: table.slice(0, 0),
    ]
    return rng.choice(ways)()


class EventLogs(Surface):
    """Recorded runs, for reports, traces of Perfetto, and imports."""

    name = "event-logs"

    def prepare(self, home: Path) -> None:
        self.logs = [recorded(home / f"{name}.parquet", name) for name in FAMILIES]

    def make(self, rng: Random, folder: Path) -> Reading:
        content = rng.choice(self.logs)
        path = folder / "run.parquet"
        path.write_bytes(rewritten(rng, content) if rng.random() < 0.6 else damaged_bytes(rng, content))
        way = rng.randrange(4)

        def read_it() -> list[str]:
            if way == 0:
                return [str(len(chunk)) for chunk in read_chunks(path)]
            if way == 1:
                read(path)
                return []
            if way == 2:
                events, _, scenario = read_recording(path)
                if scenario.family == "edge":
                    releases_of_log(path, scenario, events)
                return []
            run = read_run(path)
            return [str(sorted(run.metrics))]

        return read_it


class Policies(Surface):
    """Folders of trained policies."""

    name = "policies"

    def prepare(self, home: Path) -> None:
        self.folder = shipped("edge")["learned-heavy"]
        self.files = taken(self.folder)
        self.card = json.loads(self.files[CARD])
        self.tensors = load_tensors(self.folder, self.card["weights"], "weights")
        self.outside = home / "outside"
        put({**self.files, "note": HIDDEN.encode()}, self.outside)

    def make(self, rng: Random, folder: Path) -> Reading:
        place = folder / "policy"
        put(self.files, place)
        way = rng.random()
        if way < 0.1:
            odd_entry(rng, place / rng.choice(list(self.files)), self.outside)
        elif way < 0.4:
            self._other_tensors(rng, place)
        elif way < 0.5:
            name = rng.choice(list(self.files))
            (place / name).write_bytes(damaged_bytes(rng, self.files[name]))
        else:
            (place / CARD).write_bytes(any_json(rng, self.files[CARD]))

        def read_it() -> list[str]:
            policy = load_policy(place)
            return [policy.name, policy.description, str(find(str(place), "edge").name).replace(str(folder), "")]

        return read_it

    def _other_tensors(self, rng: Random, place: Path) -> None:
        """Write other weights, with the hash that belongs to them."""
        tensors = dict(self.tensors)
        name = rng.choice(list(tensors))
        ways: list[Callable[[np.ndarray], np.ndarray]] = [
            lambda old: np.full_like(old, rng.choice((np.nan, np.inf, 1e38))),
            lambda old: old.astype(rng.choice(("f2", "f8", "i1", "i8", "u8", "?"))),
            lambda old: old[:0],
            lambda old: old[None],
            lambda old: np.concatenate([old, old]),
            lambda old: np.zeros((1, 0, 7), np.float32),
        ]
        if rng.random() < 0.8:
            tensors[name] = rng.choice(ways)(tensors[name])
        else:
            tensors[file_name(rng).encode("utf-8", "replace").decode()] = tensors.pop(name)
        content = save_arrays({key: np.ascontiguousarray(one) for key, one in tensors.items()})
        if rng.random() < 0.5:
            content = _other_header(rng, content)
        (place / "new.safetensors").write_bytes(content)
        entry = {"file": "new.safetensors", "sha256": hashlib.sha256(content).hexdigest()}
        (place / CARD).write_text(json.dumps({**self.card, "weights": entry}))


def _other_header(rng: Random, content: bytes) -> bytes:
    """Return a safetensors file with another header, of its own length or of one that is wrong."""
    length = int.from_bytes(content[:8], "little")
    header, rest = content[8 : 8 + length], content[8 + length :]
    new = header.replace(b'"F32"', rng.choice((b'"BF16"', b'"F64"', b'"X"', b'"I8"', b'"F8_E4M3"')), 1)
    if rng.random() < 0.5:
        new = json_bytes(rng, json.loads(header))
    said = len(new) if rng.random() < 0.8 else rng.choice((0, 2**63, length, len(new) + 1))
    return said.to_bytes(8, "little") + new + rest


class Libraries(Surface):
    """Libraries of models: records in SQLite, and the folders of versions."""

    name = "libraries"
    share = 0.6

    def prepare(self, home: Path) -> None:
        self.home = home / "library"
        opened = Library(self.home, create=True, episodes=2)
        for name, policy in (("one", "learned-heavy"), ("two", "learned-medium")):
            opened.add(name, shipped("edge").get(policy, shipped("edge")["learned-heavy"]), ["edge/tiny"])
        opened.models()
        opened.choose("edge/tiny", episodes=2)
        opened.store.close()
        self.outside = home / "outside"
        self.files = taken(self.home)
        for name, content in self.files.items():
            put({Path(name).name: content}, self.outside)

    def make(self, rng: Random, folder: Path) -> Reading:
        place = folder / "library"
        put(self.files, place)
        way = rng.random()
        if way < 0.15:
            (place / DATABASE).write_bytes(damaged_bytes(rng, self.files[DATABASE], 8))
        elif way < 0.75:
            self._other_records(rng, place)
        elif way < 0.9:
            odd_entry(rng, place / rng.choice(list(self.files)), self.outside)
        else:
            (place / VERSIONS / file_name(rng)).mkdir(exist_ok=True)
        ask = rng.randrange(5)

        def read_it() -> list[str]:
            if ask < 2:
                return [f"{one.place}: {one.what}".replace(str(folder), "") for one in verify(place)]
            opened = Library(place, episodes=2)
            try:
                if ask == 2:
                    return [json.dumps(opened.models()), str(models_table(opened.models()).row_count)]
                if ask == 3:
                    shown = opened.show(rng.choice(("one", "two", "one@v1")))
                    return [
                        json.dumps(shown),
                        str(versions_table(shown).row_count + events_table(shown["events"]).row_count),
                    ]
                return [opened.choose("edge/tiny", episodes=2).reason]
            finally:
                opened.store.close()

        return read_it

    def _other_records(self, rng: Random, place: Path) -> None:
        database = sqlite3.connect(place / DATABASE)
        try:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for _ in range(rng.randint(1, 3)):
                table = rng.choice(tables)
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                    self._other_record(rng, database, table, columns)
            database.commit()
        finally:
            database.close()

    def _other_record(self, rng: Random, database: sqlite3.Connection, table: str, columns: list[str]) -> None:
        way = rng.random()
        if way < 0.7 and columns:
            column = rng.choice(columns)
            value = nasty(rng)
            if column in ("text", "traits", "evidence") and rng.random() < 0.8:
                (found,) = database.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone() or ("{}",)
                value = any_json(rng, found.encode()).decode("utf-8", "replace")
            elif not isinstance(value, str | int | float):
                value = json.dumps(value).encode()
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid % 2 = ?", (value, rng.randrange(2)))
        elif way < 0.85:
            database.execute(f"DELETE FROM {table} WHERE rowid % 2 = ?", (rng.randrange(2),))
        elif way < 0.9:
            database.execute(f"DROP TABLE {table}")
        elif way < 0.95:
            database.execute(f"CREATE VIEW {rng.choice(('v', 'sqlite_x', 'z'))} AS SELECT * FROM {table}")
        else:
            database.execute(f"PRAGMA user_version = {rng.choice((0, 1, 3, 2**31))}")


class Trainings(Surface):
    """Folders of trainings, to go on with or to show."""

    name = "trainings"

    def prepare(self, home: Path) -> None:
        settings = TrainSettings(
            steps=16, n_envs=2, n_steps=4, groups=1, threads=1, evaluate_every=1, evaluation_episodes=1
        )
        train("edge/tiny", settings, home / "run", command="slipstream train edge/tiny")
        shutil.rmtree(home / "run" / "tensorboard", ignore_errors=True)
        self.files = taken(home / "run")
        self.texts = [name for name in self.files if name.endswith((".json", ".jsonl"))]
        self.outside = home / "outside"
        for name, content in self.files.items():
            put({Path(name).name: content}, self.outside)
        self.trainer = Trainer(load("edge/tiny"), settings)

    def make(self, rng: Random, folder: Path) -> Reading:
        place = folder / "run"
        put(self.files, place)
        name = rng.choice(self.texts)
        way = rng.random()
        if way < 0.1:
            odd_entry(rng, place / rng.choice(list(self.files)), self.outside)
        elif way < 0.2:
            name = rng.choice(list(self.files))
            (place / name).write_bytes(damaged_bytes(rng, self.files[name]))
        elif way < 0.35:
            self._other_state(rng, place)
        elif name.endswith(".jsonl"):
            lines = self.files[name].splitlines()
            (place / name).write_bytes(b"".join(any_json(rng, line) + b"\n" for line in lines))
        else:
            (place / name).write_bytes(any_json(rng, self.files[name]))
        ask = rng.randrange(4)

        def read_it() -> list[str]:
            run = RunFolder(place)
            if ask == 0:
                return [str(len(read_history(place)))]
            if ask == 1:
                return [json.dumps(one.to_dict(), ensure_ascii=False) for one in RunsFolder(folder).listing()[0]]
            about = run.about()
            load(about["scenario_file"])
            TrainSettings.from_dict(about["settings"], "settings")
            if ask == 2:
                return [str(run.restore(self.trainer).keys()), str(len(run.history()))]
            return [load_policy(place / rng.choice(("best", "last"))).description]

        return read_it

    def _other_state(self, rng: Random, place: Path) -> None:
        """Write other arrays to go on from, with the hash that belongs to them."""
        folder = place / "state"
        card = json.loads((folder / "state.json").read_text())
        arrays = load_tensors(folder, card["arrays"], "arrays")
        name = rng.choice(list(arrays))
        ways: list[Callable[[], object]] = [
            lambda: arrays.pop(name),
            lambda: arrays.update({name: arrays[name].reshape(-1)[:-1]}),
            lambda: arrays.update({name: arrays[name].astype(np.float64)}),
            lambda: arrays.update({"algorithm/99/exp_avg": np.zeros(3, np.float32)}),
            lambda: arrays.update({"memory/0/earned": np.zeros(3, np.float32)}),
        ]
        rng.choice(ways)()
        content = save_arrays({key: np.ascontiguousarray(one) for key, one in arrays.items()})
        (folder / "state-new.safetensors").write_bytes(content)
        entry = {"file": "state-new.safetensors", "sha256": hashlib.sha256(content).hexdigest()}
        (folder / "state.json").write_text(json.dumps({**card, "arrays": entry}))


def runs_folder(home: Path) -> dict[str, bytes]:
    """Return the files of a folder with runs of every kind that the dashboard shows."""
    empty(home)
    files = {"deep/edf.parquet": recorded(home / "a", "edge", "edf")}
    files |= {f"{name}.parquet": recorded(home / "a", name) for name in FAMILIES}
    files["all.json"] = json.dumps(compare("edge/tiny", "edf,edf-fit", 2).to_dict()).encode()
    about = {"scenario": "edge/heavy", "command": "slipstream train", "settings": {"algo": "ppo", "seed": 3}}
    line = {"update": 1, "steps": 10, "seconds": 2.0, "phase": "ppo", "reward": 10.0, "heuristic_reward": 12.5}
    files["trained/run.json"] = json.dumps(about).encode()
    files["trained/history.jsonl"] = json.dumps(line).encode() + b"\n"
    files["camera.live.jsonl"] = json.dumps({"time_s": 1.0}).encode() + b"\n"
    files["page.html"] = b"<!doctype html><title>page</title>"
    return files


class Folders(Surface):
    """Folders of runs, as the dashboard lists and shows them."""

    name = "dashboard-folders"
    share = 0.7

    def prepare(self, home: Path) -> None:
        self.files = runs_folder(home / "runs")
        self.outside = home / "outside"
        put({Path(name).name: content for name, content in self.files.items()}, self.outside)
        (self.outside / "page.html").write_text(HIDDEN)

    def make(self, rng: Random, folder: Path) -> Reading:
        runs = folder / "runs"
        kept = rng.sample(list(self.files), 3)
        put({name: self.files[name] for name in kept}, runs)
        for name in kept[: rng.randint(1, 2)]:
            self._harm(rng, runs, name)
        chosen = [*kept, "trained"]
        moment = rng.choice((0.0, 1.0, -1.0, 1e9, 50.5))

        def read_it() -> list[str]:
            found = RunsFolder(runs)
            output = [json.dumps([one.to_dict() for one in found.listing()[0]], ensure_ascii=False)]
            for name in chosen:
                with suppress(InputError):
                    entry = found.entry(name)
                    if entry.kind == "run":
                        recording = Recording(found.path(name))
                        shown = [recording.about_page(), recording.window(0.0, moment, 10, 5), recording.moment(moment)]
                        output += [json.dumps(one, allow_nan=False) for one in [*shown, recording.metrics]]
            with suppress(InputError):
                output.append(json.dumps(compare_runs(found, Recordings(), chosen[:1], "edf"), allow_nan=False))
            return [text.replace(str(folder), "") for text in output]

        return read_it

    def _harm(self, rng: Random, runs: Path, name: str) -> None:
        path, content = runs / name, self.files[name]
        way = rng.random()
        if way < 0.2:
            odd_entry(rng, path, self.outside)
        elif way < 0.3:
            path.rename(path.with_name(file_name(rng) + path.suffix))
        elif name.endswith((".json", ".jsonl")):
            path.write_bytes(any_json(rng, content.strip()) + b"\n")
        elif name.endswith(".parquet") and way < 0.7:
            path.write_bytes(rewritten(rng, content))
        else:
            path.write_bytes(damaged_bytes(rng, content))


class Comparisons(Surface):
    """Saved comparisons, as Python and reports read them."""

    name = "comparisons"
    share = 0.7

    def prepare(self, home: Path) -> None:
        self.content = json.dumps(compare("edge/tiny", "edf,edf-fit", 2, oracle_seconds=0.5).to_dict()).encode()

    def make(self, rng: Random, folder: Path) -> Reading:
        path = folder / "comparison.json"
        path.write_bytes(any_json(rng, self.content) if rng.random() < 0.8 else damaged_bytes(rng, self.content))

        def read_it() -> list[str]:
            found = Comparison.load(path)
            shown = [found._repr_html_(), repr(found), comparisons_page([found], "report").partition("<script")[0]]
            return [*shown, json.dumps(found.to_dict(), allow_nan=False)]

        return read_it
