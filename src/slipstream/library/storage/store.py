"""The library on disk: immutable version folders, and a SQLite database of their records.

versions/<hash>/     a trained policy each (`policies.learned`), immutable
incoming/            unfinished folders of writers
library.sqlite       models, versions, scenarios, evaluations, runs, aliases and events

A version is published in two steps: its complete folder is renamed to its final name, then one transaction inserts the
version with its alias and event. A writer that is killed between the two leaves an unreferenced folder; concurrent
writers wait for each other's transactions.
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
from slipstream.library.storage.folders import fault, publish_folder, sync_folder
from slipstream.library.storage.records import Event, KnownScenario, Version, check_name, parse_reference
from slipstream.library.storage.rows import TABLES, row_fault

DATABASE, VERSIONS, INCOMING = "library.sqlite", "versions", "incoming"
APPLICATION = 0x51125712
"""Marks the SQLite file as one of ours."""
FORMAT = 2
BUSY_TIMEOUT_S = 60.0
"""Timeout of waiting for the transaction of another writer."""

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
    """CREATE TABLE optimum_bounds (
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
WHOLE = "a whole library; see `slipstream library verify`"
OLD_FORMAT, OLD_COLUMN, OLD_TABLE = 1, ("namespace", "split"), ("bracket", "optimum_bounds")
"""Format of earlier versions, and the names that have changed since."""


@dataclass(frozen=True)
class Entry:
    """A version to be published, with its record."""

    model: str
    family: str
    operation: str
    files: Mapping[str, bytes]
    reason: str
    parents: Sequence[Version] = ()
    owned: Sequence[str] = ()
    """Digests of the scenarios that the model owns from now on."""
    held_out: Sequence[str] = ()
    """Digests of scenarios that it was not trained on, for judging it."""
    taken_from: str | None = None
    """The model that loses the owned scenarios."""
    use: bool = False
    """Whether this becomes the version in use."""
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Reward of a version in use in one episode."""

    version: int
    scenario: str
    split: str
    seed: int
    reward: float


class Store:
    """Folders and database of a library."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        """Open the library in `folder`; with `create`, make a new one if there is none."""
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
            self._database = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        except (OSError, sqlite3.OperationalError) as error:
            raise LibraryError(f"{self.folder}: cannot be written ({error}): expected a writable folder") from None
        with self._database_errors():
            self._database.execute("PRAGMA foreign_keys = ON")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("PRAGMA trusted_schema = OFF")
            self._begin_or_check()

    def _begin_or_check(self) -> None:
        found = self._pragma("application_id"), self._pragma("user_version")
        if found == (0, 0):
            with self.transaction():
                # Another process may have made it meanwhile.
                if self._pragma("user_version") == 0:
                    if self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        raise LibraryError(f"{self.path}: is another program's database: expected a library")
                    for statement in SCHEMA:
                        self._database.execute(statement)
                    self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                    self._database.execute(f"PRAGMA user_version = {FORMAT}")
            sync_folder(self.folder)
        elif found == (APPLICATION, OLD_FORMAT):
            self._migrate()
        elif found != (APPLICATION, FORMAT):
            raise LibraryError(f"{self.path}: is no library of format {FORMAT}: expected one of this program's version")
        self._check_schema()

    def _check_schema(self) -> None:
        """Raise a LibraryError if the database has other tables, or triggers, views or indices."""
        if self._schema() != {" ".join(statement.split()) for statement in SCHEMA}:
            raise LibraryError(f"{self.path}: its tables are not those of a library: expected a whole library")

    def _schema(self) -> set[str]:
        """Return the statements that define the database, without the quotes of a renamed table."""
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        quoted, plain = f'TABLE "{OLD_TABLE[1]}"', f"TABLE {OLD_TABLE[1]}"
        return {" ".join(str(sql).split()).replace(quoted, plain) for (sql,) in self._database.execute(query)}

    def _migrate(self) -> None:
        """Rename the columns and the table that earlier versions named otherwise, in one transaction."""
        expected = {" ".join(statement.split()) for statement in SCHEMA}
        with self.transaction(f"a whole, writable library to migrate from format {OLD_FORMAT} to {FORMAT}") as database:
            if self._pragma("user_version") == FORMAT:  # another process has migrated it meanwhile
                return
            if {sql.replace(*OLD_COLUMN).replace(*OLD_TABLE) for sql in self._schema()} != expected:
                raise LibraryError(f"{self.path}: its tables are not those of a library: expected a whole library")
            for table in ("evaluation", OLD_TABLE[0], "run"):
                columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                if OLD_COLUMN[0] in columns:
                    database.execute(f"ALTER TABLE {table} RENAME COLUMN {OLD_COLUMN[0]} TO {OLD_COLUMN[1]}")
                if columns and table == OLD_TABLE[0]:
                    database.execute(f"ALTER TABLE {table} RENAME TO {OLD_TABLE[1]}")
            database.execute(f"PRAGMA user_version = {FORMAT}")

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def _database_errors(self, expected: str = WHOLE) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes invalid text in its messages
            raise LibraryError(f"{self.path}: {error}: expected {expected}") from None

    @contextmanager
    def transaction(self, expected: str = WHOLE) -> Iterator[sqlite3.Connection]:
        """Run the block as one write transaction, after those of other writers; errors end with `expected`."""
        with self._database_errors(expected):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _rows(self, table: str, columns: str, clause: str = "", values: Sequence[Any] = ()) -> list[Any]:
        """Return `columns` of the rows of `table` selected by `clause`, with their types checked."""
        with self._database_errors():
            found = self._database.execute(f"SELECT {columns} FROM {table} {clause}", values).fetchall()
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
        """Skip invalid rows within the block; yield the list of their errors."""
        self._skipped = []
        try:
            yield self._skipped
        finally:
            self._skipped = None

    # Versions and aliases ------------------------------------------------------------------------------------------

    def publish(self, entry: Entry) -> Version:
        """Publish a version durably and return its record."""
        check_name(entry.model)
        sha256, _ = publish_folder(entry.files, self.folder / INCOMING, self.folder / VERSIONS)
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

    def record_event(
        self,
        operation: str,
        model: str,
        reason: str,
        evidence: Mapping[str, Any],
        use: Version | None = None,
        instead_of: Version | None = None,
        owned: Sequence[str] = (),
    ) -> None:
        """Record an event; with `use`, set the version in use.

        It is refused if the version in use is no longer `instead_of`, against which the new one was judged.
        """
        with self.transaction() as database:
            before = self._alias(model)
            if use is not None:
                if instead_of is not None and before != instead_of.id:
                    raise LibraryError(
                        f"model '{model}' was changed by another writer meanwhile: expected it at {instead_of.label}; "
                        f"{use.label} is kept, but not in use"
                    )
                database.execute("INSERT OR REPLACE INTO alias VALUES (?, ?)", (model, use.id))
            self._own(model, owned, False)
            self._note(operation, model, before, None if use is None else use.id, reason, evidence)

    def models(self) -> dict[str, str]:
        """Return the family of every model by name."""
        return dict(self._rows("model", "name, family", "ORDER BY name"))

    def versions(self, model: str | None = None) -> list[Version]:
        """Return all versions, of `model` or of all models, in the order of creation."""
        chosen, values = ("", ()) if model is None else ("WHERE model = ?", (model,))
        rows = self._rows("version", "id, model, number, sha256, operation, created", f"{chosen} ORDER BY id", values)
        labels = {one: f"{name}@v{number}" for one, name, number in self._rows("version", "id, model, number")}
        parents: dict[int, list[str]] = {}
        for child, parent in self._rows("parent", "version, parent", "ORDER BY parent"):
            parents.setdefault(child, []).append(labels.get(parent, "a lost version"))
        return [Version(*row) for row in ((*row, tuple(parents.get(row[0], ()))) for row in rows)]

    def version(self, reference: str) -> Version:
        """Return the version of a reference such as 'cholesky@v3'; without a number, the version in use."""
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

    def verified_folder(self, version: Version) -> Path:
        """Return the folder of `version`; raise a LibraryError if its files are not the published ones."""
        folder = self.folder_of(version)
        wrong = fault(folder, version.sha256)
        if wrong is not None:
            raise LibraryError(f"{version.label}: {folder}: {wrong}")
        return folder

    def folder_of(self, version: Version) -> Path:
        """Return the path of the folder of `version`, without a check."""
        return self.folder / VERSIONS / version.sha256[:24]

    def events(self, model: str | None = None) -> list[Event]:
        """Return the events of `model` or of all models, oldest first."""
        labels = {version.id: version.label for version in self.versions()}
        chosen, values = ("", ()) if model is None else ("WHERE model = ?", (model,))
        columns = "id, time, operation, model, before, after, reason, evidence"
        rows = self._rows("event", columns, f"{chosen} ORDER BY id", values)
        fields = ((*row[:4], *map(labels.get, row[4:6]), row[6], self._json("event", row[0], row[7])) for row in rows)
        return [Event(*one) for one in fields]

    def _json(self, table: str, row: Any, text: str) -> dict[str, Any]:
        return json_object(text, f"{self.path}: {table} {row}", LibraryError)

    # Scenarios -----------------------------------------------------------------------------------------------------

    def remember(self, scenario: KnownScenario) -> None:
        """Store a scenario; one that is stored already is not changed."""
        values = (*vars(scenario).values(),)[:-1]
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO scenario VALUES (?, ?, ?, ?, ?, ?)", (*values, json.dumps(scenario.traits))
            )

    def scenarios(self) -> dict[str, KnownScenario]:
        """Return all stored scenarios by digest."""
        rows = self._rows("scenario", "digest, family, name, text, folder, traits", "ORDER BY rowid")
        return {row[0]: self._known(*row) for row in rows}

    def scenario(self, digest: str) -> KnownScenario:
        """Return the stored scenario of `digest`."""
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
        """Return the digests of every model's own scenarios, or of its held-out ones."""
        found: dict[str, list[str]] = {}
        for model, digest in self._rows("owned", "model, scenario", "WHERE held_out = ? ORDER BY rowid", (held_out,)):
            found.setdefault(model, []).append(digest)
        return found

    # Evaluations and runs ------------------------------------------------------------------------------------------

    def rewards(self, policy: str, scenario: str, split: str, code: str) -> dict[int, float]:
        """Return the stored rewards of a policy by seed, of the same simulator `code` only."""
        chosen = "WHERE scenario = ? AND split = ? AND policy = ? AND code = ?"
        return dict(self._rows("evaluation", "seed, reward", chosen, (scenario, split, policy, code)))

    def keep_rewards(self, policy: str, scenario: str, split: str, code: str, found: Mapping[int, float]) -> None:
        """Store the rewards `found` of a policy by seed."""
        rows = [(policy, scenario, split, seed, reward, code) for seed, reward in found.items()]
        with self.transaction() as database:
            database.executemany("INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?, ?, ?, ?)", rows)

    def best_rewards(self, scenario: str, split: str, code: str) -> dict[int, tuple[float, int]]:
        """Return by seed the best stored reward of any policy and the number of policies."""
        chosen = "WHERE scenario = ? AND split = ? AND code = ?"
        found: dict[int, tuple[float, int]] = {}
        for seed, reward in self._rows("evaluation", "seed, reward", chosen, (scenario, split, code)):
            best, count = found.get(seed, (reward, 0))
            found[seed] = (max(best, reward), count + 1)
        return found

    def optimum_bounds(self, scenario: str, split: str, code: str) -> dict[int, tuple[float, float, bool]]:
        """Return the oracle's results by seed: best known reward, bound, and whether they are equal."""
        chosen = "WHERE scenario = ? AND split = ? AND code = ?"
        rows = self._rows("optimum_bounds", "seed, best_known, bound, exact", chosen, (scenario, split, code))
        return {row[0]: (row[1], row[2], bool(row[3])) for row in rows}

    def keep_optimum_bounds(
        self, scenario: str, split: str, code: str, found: Mapping[int, tuple[float, float, bool]]
    ) -> None:
        """Store the oracle's results `found` by seed."""
        rows = [(scenario, split, seed, *bounds, code) for seed, bounds in found.items()]
        with self.transaction() as database:
            database.executemany("INSERT OR REPLACE INTO optimum_bounds VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def record(self, runs: Iterable[Run]) -> None:
        """Store rewards of versions in use."""
        rows = [(now(), run.version, run.scenario, run.split, run.seed, run.reward) for run in runs]
        with self.transaction() as database:
            database.executemany(
                "INSERT INTO run (time, version, scenario, split, seed, reward) VALUES (?, ?, ?, ?, ?, ?)", rows
            )

    def runs(self, version: Version, scenario: str, newest: int) -> list[Run]:
        """Return the `newest` last runs of a version on a scenario, oldest first."""
        chosen = "WHERE version = ? AND scenario = ? ORDER BY id DESC LIMIT ?"
        columns = "version, scenario, split, seed, reward"
        return [Run(*row) for row in reversed(self._rows("run", columns, chosen, (version.id, scenario, newest)))]

    def check_database(self) -> list[str]:
        """Return SQLite's integrity errors, dangling references and invalid rows."""
        try:
            with self._database_errors():
                found = [str(row[0]) for row in self._database.execute("PRAGMA integrity_check")]
                lost = self._database.execute("PRAGMA foreign_key_check").fetchall()
                errors = [text for text in found if text != "ok"]
                errors += [f"row {row[1]} of {row[0]} refers to a {row[2]} that is not there" for row in lost]
                return [one_line(text) for text in errors + self._check_rows()]
        except LibraryError as error:
            return [str(error).removeprefix(f"{self.path}: ")]

    def _check_rows(self) -> list[str]:
        """Return the errors of all rows with invalid values or invalid JSON."""
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
    """Return the present time in ISO 8601, which sorts as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
