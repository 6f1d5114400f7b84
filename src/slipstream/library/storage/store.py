"""The library on disk: immutable version folders, and one SQLite file that says what they are.

versions/<hash>/     a trained policy each (`policies.learned`), never changed
incoming/            what writers have not finished yet
library.sqlite       models, versions, scenarios, evaluations, runs, aliases and events

A version is published in two steps: its folder is put in place whole, then one transaction makes it known, with the
alias and the event that belong to it. Whoever is stopped between them leaves a folder that nobody knows of, and nothing
else; whoever writes at the same time waits for the other's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slipstream.errors import LibraryError, one_line
from slipstream.files.confined import ConfinementError, refuse_links_out
from slipstream.files.inputs import json_object
from slipstream.library.storage.folders import fault, put_in_place, sync_folder
from slipstream.library.storage.records import Event, KnownScenario, Version, check_name, parse_reference
from slipstream.library.storage.rows import TABLES, row_fault

DATABASE, VERSIONS, INCOMING = "library.sqlite", "versions", "incoming"
APPLICATION = 0x51125712
"""Marks the SQLite file as one of ours."""
FORMAT = 1
PATIENCE_S = 60.0
"""How long a writer waits for another one's transaction."""

SCHEMA = (
    "CREATE TABLE model (name TEXT PRIMARY KEY, family TEXT NOT NULL, created TEXT NOT NULL)",
    """CREATE TABLE version (
        id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL REFERENCES model, number INTEGER NOT NULL,
        sha256 TEXT NOT NULL, operation TEXT NOT NULL, created TEXT NOT NULL, UNIQUE (model, number))""",
    """CREATE TABLE parent (
        version INTEGER NOT NULL REFERENCES version, parent INTEGER NOT NULL REFERENCES version,
        PRIMARY KEY (version, parent))""",
    """CREATE TABLE scenario (
        digest TEXT PRIMARY KEY, family TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, folder TEXT NOT NULL,
        traits TEXT NOT NULL)""",
    """CREATE TABLE owned (
        model TEXT NOT NULL REFERENCES model, scenario TEXT NOT NULL REFERENCES scenario, held_out INTEGER NOT NULL,
        PRIMARY KEY (model, scenario))""",
    """CREATE TABLE evaluation (
        policy TEXT NOT NULL, scenario TEXT NOT NULL REFERENCES scenario, split TEXT NOT NULL,
        seed INTEGER NOT NULL, reward REAL NOT NULL, code TEXT NOT NULL,
        PRIMARY KEY (scenario, split, seed, policy))""",
    """CREATE TABLE bracket (
        scenario TEXT NOT NULL REFERENCES scenario, split TEXT NOT NULL, seed INTEGER NOT NULL,
        best_known REAL NOT NULL, bound REAL NOT NULL, exact INTEGER NOT NULL, code TEXT NOT NULL,
        PRIMARY KEY (scenario, split, seed))""",
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, version INTEGER NOT NULL REFERENCES version,
        scenario TEXT NOT NULL REFERENCES scenario, split TEXT NOT NULL, seed INTEGER NOT NULL,
        reward REAL NOT NULL)""",
    "CREATE TABLE alias (name TEXT PRIMARY KEY REFERENCES model, version INTEGER NOT NULL REFERENCES version)",
    """CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, operation TEXT NOT NULL, model TEXT NOT NULL,
        before INTEGER REFERENCES version, after INTEGER REFERENCES version, reason TEXT NOT NULL,
        evidence TEXT NOT NULL)""",
)


@dataclass(frozen=True)
class Entry:
    """A version to be published, and what is to be known about it."""

    model: str
    family: str
    operation: str
    files: Mapping[str, bytes]
    reason: str
    parents: Sequence[Version] = ()
    owned: Sequence[str] = ()
    """Digests of the scenarios that the model has from now on."""
    held_out: Sequence[str] = ()
    """Digests of scenarios that it was not trained on, to judge it by."""
    taken_from: str | None = None
    """The model that gives these scenarios away."""
    use: bool = False
    """Whether the model's name stands for this version from now on."""
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """What a version earned in use."""

    version: int
    scenario: str
    split: str
    seed: int
    reward: float


class Store:
    """The files of a library."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        """Open a library; with `create`, begin one where there is none."""
        self.folder = Path(folder)
        self.path = self.folder / DATABASE
        self._skipped: list[str] | None = None
        if not self.path.is_file() and not create:
            raise LibraryError(f"{self.folder}: holds no library: expected a folder made by `slipstream library add`")
        try:
            refuse_links_out(self.folder, (DATABASE, VERSIONS, INCOMING))
        except ConfinementError as error:
            raise LibraryError(str(error)) from None
        if self.path.exists() and not self.path.is_file():
            raise LibraryError(f"{self.path}: is not a regular file: expected a library")
        try:
            for part in (VERSIONS, INCOMING):
                if create:
                    (self.folder / part).mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None)
        except (OSError, sqlite3.OperationalError) as error:
            raise LibraryError(f"{self.folder}: cannot be written ({error}): expected a writable folder") from None
        with self._told_in_words():
            self._database.execute("PRAGMA foreign_keys = ON")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("PRAGMA trusted_schema = OFF")
            self._begin_or_check()

    def _begin_or_check(self) -> None:
        found = self._pragma("application_id"), self._pragma("user_version")
        if found == (0, 0):
            with self.transaction():
                # Another process may have been faster.
                if self._pragma("user_version") == 0:
                    if self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        raise LibraryError(f"{self.path}: is another program's database: expected a library")
                    for statement in SCHEMA:
                        self._database.execute(statement)
                    self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                    self._database.execute(f"PRAGMA user_version = {FORMAT}")
            sync_folder(self.folder)
        elif found != (APPLICATION, FORMAT):
            raise LibraryError(f"{self.path}: is no library of format {FORMAT}: expected one of this program's version")
        self._check_schema()

    def _check_schema(self) -> None:
        """Refuse a database with other tables, or with anything that acts when these are read or written."""
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        found = {" ".join(str(sql).split()) for (sql,) in self._database.execute(query)}
        if found != {" ".join(statement.split()) for statement in SCHEMA}:
            raise LibraryError(f"{self.path}: its tables are not those of a library: expected a whole library")

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    @contextmanager
    def _told_in_words(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes what it finds, as bytes
            raise LibraryError(
                f"{self.path}: {error}: expected a whole library; see `slipstream library verify`"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the database wholly or not at all, after everybody who began before."""
        with self._told_in_words():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _rows(self, table: str, columns: str, behind: str = "", values: Sequence[Any] = ()) -> list[Any]:
        """Return some columns of a table's rows, once each is known to hold what it may."""
        with self._told_in_words():
            found = self._database.execute(f"SELECT {columns} FROM {table} {behind}", values).fetchall()
        return self._checked(table, columns, found)

    def _checked(self, table: str, columns: str, rows: list[Any]) -> list[Any]:
        names, whole = columns.split(", "), []
        for row in rows:
            wrong = row_fault(table, names, row)
            if wrong is None:
                whole.append(row)
            elif self._skipped is None:
                raise LibraryError(f"{self.path}: {wrong}; see `slipstream library verify`")
            elif wrong not in self._skipped:
                self._skipped.append(wrong)
        return whole

    @contextmanager
    def skipping_damage(self) -> Iterator[list[str]]:
        """Leave out rows with values that cannot be, and give what is wrong with them, while others are read."""
        self._skipped = []
        try:
            yield self._skipped
        finally:
            self._skipped = None

    # Versions and aliases ------------------------------------------------------------------------------------------

    def publish(self, entry: Entry) -> Version:
        """Make a version known; when this returns, it is there for good."""
        check_name(entry.model)
        sha256, _ = put_in_place(entry.files, self.folder / INCOMING, self.folder / VERSIONS)
        with self.transaction() as database:
            database.execute("INSERT OR IGNORE INTO model VALUES (?, ?, ?)", (entry.model, entry.family, now()))
            family = database.execute("SELECT family FROM model WHERE name = ?", (entry.model,)).fetchone()[0]
            if family != entry.family:
                raise LibraryError(f"model '{entry.model}' is for '{family}': expected a policy of that family")
            known = "SELECT coalesce(max(number), 0) + 1 FROM version WHERE model = ?"
            number = int(database.execute(known, (entry.model,)).fetchone()[0])
            created = now()
            values = (entry.model, number, sha256, entry.operation, created)
            made = database.execute(
                "INSERT INTO version (model, number, sha256, operation, created) VALUES (?, ?, ?, ?, ?)", values
            ).lastrowid
            assert made is not None
            for parent in entry.parents:
                database.execute("INSERT OR IGNORE INTO parent VALUES (?, ?)", (made, parent.id))
            for held_out, digests in enumerate((entry.owned, entry.held_out)):
                self._own(entry.model, digests, bool(held_out))
            for digest in entry.owned:
                database.execute("DELETE FROM owned WHERE model = ? AND scenario = ?", (entry.taken_from, digest))
            before = self._alias(entry.model)
            if entry.use:
                database.execute("INSERT OR REPLACE INTO alias VALUES (?, ?)", (entry.model, made))
            after = made if entry.use else None
            evidence = {**entry.evidence, "version": f"{entry.model}@v{number}"}
            self._note(entry.operation, entry.model, before, after, entry.reason, evidence)
        parents = tuple(parent.label for parent in entry.parents)
        return Version(made, entry.model, number, sha256, entry.operation, created, parents)

    def _own(self, model: str, digests: Iterable[str], held_out: bool) -> None:
        for digest in digests:
            self._database.execute("INSERT OR REPLACE INTO owned VALUES (?, ?, ?)", (model, digest, held_out))

    def _alias(self, name: str) -> int | None:
        found = self._database.execute("SELECT version FROM alias WHERE name = ?", (name,)).fetchone()
        return None if found is None else int(found[0])

    def _note(
        self,
        operation: str,
        model: str,
        before: int | None,
        after: int | None,
        reason: str,
        evidence: Mapping[str, Any],
    ) -> None:
        values = (now(), operation, model, before, after, reason, json.dumps(evidence))
        self._database.execute(
            "INSERT INTO event (time, operation, model, before, after, reason, evidence) VALUES (?, ?, ?, ?, ?, ?, ?)",
            values,
        )

    def note(
        self,
        operation: str,
        model: str,
        reason: str,
        evidence: Mapping[str, Any],
        use: Version | None = None,
        instead_of: Version | None = None,
        owned: Sequence[str] = (),
    ) -> None:
        """Write down what happened; with `use`, let the model's name stand for that version from now on.

        It is refused where the name no longer stands for `instead_of`, against which the version was judged.
        """
        with self.transaction() as database:
            before = self._alias(model)
            if use is not None:
                if instead_of is not None and before != instead_of.id:
                    raise LibraryError(
                        f"model '{model}' was moved by somebody else meanwhile: expected it at {instead_of.label}; "
                        f"{use.label} is kept, but not in use"
                    )
                database.execute("INSERT OR REPLACE INTO alias VALUES (?, ?)", (model, use.id))
            self._own(model, owned, False)
            self._note(operation, model, before, None if use is None else use.id, reason, evidence)

    def models(self) -> dict[str, str]:
        """Return the family of every model by name."""
        return dict(self._rows("model", "name, family", "ORDER BY name"))

    def versions(self, model: str | None = None) -> list[Version]:
        """Return all versions, of one model or of all, in the order of their making."""
        chosen, values = ("", ()) if model is None else ("WHERE model = ?", (model,))
        rows = self._rows("version", "id, model, number, sha256, operation, created", f"{chosen} ORDER BY id", values)
        labels = {one: f"{name}@v{number}" for one, name, number in self._rows("version", "id, model, number")}
        parents: dict[int, list[str]] = {}
        for child, parent in self._rows("parent", "version, parent", "ORDER BY parent"):
            parents.setdefault(child, []).append(labels.get(parent, "a lost version"))
        return [Version(*row) for row in ((*row, tuple(parents.get(row[0], ()))) for row in rows)]

    def version(self, reference: str) -> Version:
        """Return the version that a text such as 'cholesky@v3' names; the one in use where it gives no number."""
        model, number = parse_reference(reference)
        known = self.versions(model)
        if not known:
            names = ", ".join(self.models())
            expected = f"expected one of {names}" if names else "it holds none yet: expected `slipstream library add`"
            raise LibraryError(f"model '{model}' is not in {self.folder}: {expected}")
        if number is None:
            used = self.aliases().get(model)
            if used is None:
                labels = ", ".join(version.label for version in known)
                raise LibraryError(f"model '{model}' has no version in use: expected one of {labels}")
            for version in known:
                if version.id == used:
                    return version
            raise LibraryError(f"model '{model}' stands for no version of its own; see `slipstream library verify`")
        for version in known:
            if version.number == number:
                return version
        raise LibraryError(f"version '{reference}': expected one of v1 to v{len(known)}")

    def aliases(self) -> dict[str, int]:
        """Return the id of the version in use by model."""
        return dict(self._rows("alias", "name, version", "ORDER BY name"))

    def place(self, version: Version) -> Path:
        """Return the folder of a version, once it is known to hold what was published."""
        place = self.folder_of(version)
        wrong = fault(place, version.sha256)
        if wrong is not None:
            raise LibraryError(f"{version.label}: {place}: {wrong}")
        return place

    def folder_of(self, version: Version) -> Path:
        """Return where the folder of a version should be."""
        return self.folder / VERSIONS / version.sha256[:24]

    def events(self, model: str | None = None) -> list[Event]:
        """Return what happened, to one model or to all, first things first."""
        labels = {version.id: version.label for version in self.versions()}
        chosen, values = ("", ()) if model is None else ("WHERE model = ?", (model,))
        columns = "id, time, operation, model, before, after, reason, evidence"
        rows = self._rows("event", columns, f"{chosen} ORDER BY id", values)
        told = ((*row[:4], *map(labels.get, row[4:6]), row[6], self._json("event", row[0], row[7])) for row in rows)
        return [Event(*one) for one in told]

    def _json(self, table: str, row: Any, text: str) -> dict[str, Any]:
        return json_object(text, f"{self.path}: {table} {row}", LibraryError)

    # Scenarios -----------------------------------------------------------------------------------------------------

    def remember(self, scenario: KnownScenario) -> None:
        """Keep a scenario; one that is known already stays as it is."""
        values = (*vars(scenario).values(),)[:-1]
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO scenario VALUES (?, ?, ?, ?, ?, ?)", (*values, json.dumps(scenario.traits))
            )

    def scenarios(self) -> dict[str, KnownScenario]:
        """Return all known scenarios by digest."""
        rows = self._rows("scenario", "digest, family, name, text, folder, traits", "ORDER BY rowid")
        return {row[0]: self._known(*row) for row in rows}

    def scenario(self, digest: str) -> KnownScenario:
        """Return a known scenario by its digest."""
        columns = "digest, family, name, text, folder, traits"
        for row in self._rows("scenario", columns, "WHERE digest = ?", (digest,)):
            return self._known(*row)
        raise LibraryError(f"{self.path}: scenario {digest[:12]} is not there; see `slipstream library verify`")

    def _known(self, digest: str, family: str, name: str, text: str, folder: str, traits: str) -> KnownScenario:
        return KnownScenario(digest, family, name, text, folder, self._traits(digest, traits))

    def _traits(self, digest: str, text: str) -> dict[str, float]:
        traits = self._json("scenario", digest[:12], text)
        if not all(type(value) in (int, float) for value in traits.values()):
            raise LibraryError(f"{self.path}: scenario {digest[:12]}: traits: expected numbers")
        return traits

    def owned(self, held_out: bool = False) -> dict[str, list[str]]:
        """Return the digests of every model's own scenarios, or of those held out to judge it by."""
        found: dict[str, list[str]] = {}
        for model, digest in self._rows("owned", "model, scenario", "WHERE held_out = ? ORDER BY rowid", (held_out,)):
            found.setdefault(model, []).append(digest)
        return found

    # Evaluations and runs ------------------------------------------------------------------------------------------

    def rewards(self, policy: str, scenario: str, split: str, code: str) -> dict[int, float]:
        """Return what a policy is known to earn, by seed; what other code found does not count."""
        chosen = "WHERE scenario = ? AND split = ? AND policy = ? AND code = ?"
        return dict(self._rows("evaluation", "seed, reward", chosen, (scenario, split, policy, code)))

    def keep_rewards(self, policy: str, scenario: str, split: str, code: str, found: Mapping[int, float]) -> None:
        """Keep what a policy earned, by seed."""
        rows = [(policy, scenario, split, seed, reward, code) for seed, reward in found.items()]
        with self.transaction() as database:
            database.executemany("INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?, ?, ?, ?)", rows)

    def best_rewards(self, scenario: str, split: str, code: str) -> dict[int, tuple[float, int]]:
        """Return the best that any policy is known to earn, by seed, and how many were tried."""
        chosen = "WHERE scenario = ? AND split = ? AND code = ?"
        found: dict[int, tuple[float, int]] = {}
        for seed, reward in self._rows("evaluation", "seed, reward", chosen, (scenario, split, code)):
            best, count = found.get(seed, (reward, 0))
            found[seed] = (max(best, reward), count + 1)
        return found

    def brackets(self, scenario: str, split: str, code: str) -> dict[int, tuple[float, float, bool]]:
        """Return what the oracle found, by seed: best known, bound, and whether they meet."""
        chosen = "WHERE scenario = ? AND split = ? AND code = ?"
        rows = self._rows("bracket", "seed, best_known, bound, exact", chosen, (scenario, split, code))
        return {row[0]: (row[1], row[2], bool(row[3])) for row in rows}

    def keep_brackets(
        self, scenario: str, split: str, code: str, found: Mapping[int, tuple[float, float, bool]]
    ) -> None:
        """Keep what the oracle found, by seed."""
        rows = [(scenario, split, seed, *bracket, code) for seed, bracket in found.items()]
        with self.transaction() as database:
            database.executemany("INSERT OR REPLACE INTO bracket VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def record(self, runs: Iterable[Run]) -> None:
        """Keep what versions earned in use."""
        rows = [(now(), run.version, run.scenario, run.split, run.seed, run.reward) for run in runs]
        with self.transaction() as database:
            database.executemany(
                "INSERT INTO run (time, version, scenario, split, seed, reward) VALUES (?, ?, ?, ?, ?, ?)", rows
            )

    def runs(self, version: Version, scenario: str, newest: int) -> list[Run]:
        """Return the newest runs of a version on a scenario, oldest first."""
        chosen = "WHERE version = ? AND scenario = ? ORDER BY id DESC LIMIT ?"
        columns = "version, scenario, split, seed, reward"
        return [Run(*row) for row in reversed(self._rows("run", columns, chosen, (version.id, scenario, newest)))]

    def check_database(self) -> list[str]:
        """Return what SQLite finds wrong with its file, and references that lead nowhere."""
        try:
            with self._told_in_words():
                found = [str(row[0]) for row in self._database.execute("PRAGMA integrity_check")]
                lost = self._database.execute("PRAGMA foreign_key_check").fetchall()
                told = [text for text in found if text != "ok"]
                told += [f"row {row[1]} of {row[0]} refers to a {row[2]} that is not there" for row in lost]
                return [one_line(text) for text in told + self._check_rows()]
        except LibraryError as error:
            return [str(error).removeprefix(f"{self.path}: ")]

    def _check_rows(self) -> list[str]:
        """Return every row that holds what it cannot, and every text that should be JSON and is not."""
        with self.skipping_damage() as found:
            for table, columns in TABLES.items():
                self._rows(table, ", ".join(columns))
        for table, key, column in (("event", "id", "evidence"), ("scenario", "digest", "traits")):
            for row, text in self._database.execute(f"SELECT {key}, {column} FROM {table}"):
                try:
                    if table == "event":
                        self._json(table, row, str(text))
                    else:
                        self._traits(str(row), str(text))
                except LibraryError as error:
                    found.append(str(error).removeprefix(f"{self.path}: "))
        return found


def now() -> str:
    """Return the present time as text that sorts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
