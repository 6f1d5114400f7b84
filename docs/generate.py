"""Write what the documentation takes from the code into its Markdown files.

    python docs/generate.py           # after a change of keys, columns, policies, scenarios, settings or commands
    python docs/generate.py --check   # exit code 1 if a page is out of date

A page holds pairs of markers: `<!-- table: NAME -->` and `<!-- /table -->`, or `<!-- example: NAME -->` and
`<!-- /example -->`. What stands between them is replaced: by the table of that name (see `tables`), or by the source of
that file of `examples/`.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from slipstream.cli.application import app
from slipstream.families.contract import FAMILIES, REQUIRED, Family, Members
from slipstream.families.edge.workload.profiles import PROFILES
from slipstream.policies.base import describe
from slipstream.scenario import builtin_names, digest, load
from slipstream.scenario import schema as json_schema
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.lanes import KernelFunctions

PAGES = Path(__file__).resolve().parent
EXAMPLES = PAGES.parent / "examples"
BLOCK = re.compile(r"(<!-- (table|example): (\S+) -->\n)(.*?)(<!-- /(?:table|example) -->)", re.DOTALL)
WORDS = {float: "number", int: "whole number", str: "text", bool: "true or false"}


def main() -> int:
    """Update every page, or with `--check` name those that are out of date; return the exit code."""
    parser = argparse.ArgumentParser(description="Write tables and examples from the code into the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    check = parser.parse_args().check
    outdated = 0
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        current = render(text)
        if current != text:
            outdated += 1
            print(f"{page.name}: {'out of date' if check else 'written'}")
            if not check:
                page.write_text(current, encoding="utf-8")
    return int(check and outdated > 0)


def render(markdown: str) -> str:
    """Return the text of a page with the contents of every pair of markers taken from the code."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{_content(match[2], match[3])}\n\n{match[5]}", markdown)


def _content(kind: str, name: str) -> str:
    return (_table if kind == "table" else _example)(name)


def tables() -> dict[str, Callable[[], str]]:
    """Return what each marker stands for."""
    found: dict[str, Callable[[], str]] = {
        "cli": _commands,
        "edge.profiles": _profiles,
        "train.settings": _settings,
        "contract.family": _family_members,
        "contract.members": lambda: _contract(Members, field_docstrings(Members)),
        "contract.kernel": lambda: _contract(KernelFunctions, _declared() | field_docstrings(KernelFunctions)),
    }
    for name, family in FAMILIES.items():
        parts = parts_of(family.scenario_type)
        found[f"{name}.candidates"] = family.candidate_features.markdown
        found[f"{name}.globals"] = family.global_features.markdown
        if len(family.node_features):
            found[f"{name}.nodes"] = family.node_features.markdown
        found[f"{name}.policies"] = lambda name=name: _policies(name)
        found[f"{name}.scenarios"] = lambda family=family: _scenarios(family)
        found[f"{name}.keys"] = lambda parts=parts: "\n\n".join(map(_part, parts))
        for part in parts:
            found[f"{name}.keys.{part.__name__}"] = lambda part=part: _fields(part)
    return found


def _table(name: str) -> str:
    known = tables()
    if name not in known:
        raise ValueError(f"no table '{name}': expected one of {', '.join(known)}")
    return known[name]()


def _example(name: str) -> str:
    if not (EXAMPLES / name).is_file():
        raise ValueError(f"no example '{name}': expected one of {', '.join(p.name for p in EXAMPLES.glob('*.py'))}")
    source = (EXAMPLES / name).read_text(encoding="utf-8").strip()
    language = {".py": "python"}.get(Path(name).suffix, Path(name).suffix.removeprefix("."))
    return f'```{language} title="examples/{name}"\n{source}\n```'


def _rows(header: list[str], rows: list[list[str]]) -> str:
    cells = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


# Scenario keys


def parts_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the model and every model inside it, in the order in which a reader meets them."""
    found: dict[type[BaseModel], None] = {model: None}
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            found.update(dict.fromkeys(parts_of(inner)))
    return list(found)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _part(part: type[BaseModel]) -> str:
    return f"### {part.__name__}\n\n{inspect.getdoc(part)}\n\n{_fields(part)}"


def _fields(part: type[BaseModel]) -> str:
    described = json_schema()["$defs"][part.__name__]["properties"]
    rows = []
    for key, field in part.model_fields.items():
        meaning = " ".join((field.description or described[key]["description"]).split())
        rows.append([f"`{key}`", _type(field.annotation), _range(field), _default(field), meaning])
    return _rows(["key", "type", "range", "default", "meaning"], rows)


def _type(annotation: Any) -> str:
    """Return a type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(_type(one) for one in inner if one is not NoneType)
    if origin is list:
        return f"list of {_several(inner[0])}"
    if origin is dict:
        return f"{_type(inner[1])} by name"
    if origin is Literal:
        return " or ".join(f'`"{value}"`' for value in inner)
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        family = annotation.__module__.split(".")[2]  # slipstream.families.<family>.scenario
        return f"[{annotation.__name__}]({family}.md#{annotation.__name__.lower()})"
    return WORDS[annotation]


def _several(annotation: Any) -> str:
    """Return a type in words, for several of it."""
    return re.sub(r"^(whole number|number|list|text)\b", r"\1s", _type(annotation))


def _range(field: Any) -> str:
    """Return the limits of a number, or of the length of a text or list."""
    limits: dict[str, Any] = {}
    for part in _metadata(field):
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length"):
            if getattr(part, name, None) is not None:
                limits[name] = getattr(part, name)
    signs = {"ge": "≥", "gt": "&gt;", "le": "≤", "lt": "&lt;", "min_length": "length ≥", "max_length": "length ≤"}
    return ", ".join(f"{sign} {_number(limits[name])}" for name, sign in signs.items() if name in limits)


def _metadata(field: Any) -> Iterator[Any]:
    """Yield what is said about a field, also where it is said about the type that may be absent."""
    yield from field.metadata
    for inner in get_args(field.annotation):
        if get_origin(inner) is Annotated:
            for part in get_args(inner)[1:]:
                yield from getattr(part, "metadata", [part])


def _number(value: float) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e-" if sign.group(1) == "-" else "e", f"{value:.10g}")


def _default(field: Any) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "absent"
    if isinstance(value, BaseModel):
        return f"`{value.kind}`" if hasattr(value, "kind") else "its own defaults"
    if value == "":
        return "empty"
    return f"`{_number(value)}`" if isinstance(value, float) else f"`{value}`"


# Policies, scenarios, profiles


def _policies(family: str) -> str:
    return _rows(["policy", "what it does"], [[f"`{name}`", text] for name, text in describe(family).items()])


def _scenarios(family: Family) -> str:
    about = {
        "edge": _edge_load,
        "dag": _dag_load,
        "taskgraph": _taskgraph_load,
        "serving": _serving_load,
        "cluster": _cluster_load,
        "llm": _llm_load,
        "elastic": _elastic_load,
    }[family.name]
    columns = {
        "edge": ["tasks", "jobs/s", "work, fastest variants", "work, slowest variants"],
        "dag": ["executors", "jobs", "arrivals", "source"],
        "taskgraph": ["processors", "jobs", "tasks of a job", "tiles of a job"],
        "serving": ["accelerators", "models", "variants", "requests/s"],
        "cluster": ["GPUs", "placement", "jobs of an episode", "of a workload", "load"],
        "llm": ["engines", "seats", "blocks", "requests", "requests/s"],
        "elastic": ["GPUs", "models", "jobs", "round", "load"],
    }[family.name]
    rows = []
    for name in builtin_names():
        scenario: Any = load(name)
        if scenario.family == family.name:
            rows.append([f"`{name}`", f"`{digest(scenario)[:12]}`", *about(family, scenario), scenario.description])
    return _rows(["name", "digest", *columns, "description"], rows)


def _dag_load(family: Family, scenario: Any) -> list[str]:
    """Return executors, jobs, how they arrive and what they are."""
    jobs = int(family.spec_arrays(scenario)["machine"]["jobs"][0])
    return [str(scenario.executors), str(jobs), scenario.arrivals.kind, scenario.jobs.kind]


def _taskgraph_load(family: Family, scenario: Any) -> list[str]:
    """Return processors, jobs, and the tasks and tiles of the largest job."""
    machine = family.spec_arrays(scenario)["machine"][0]
    processors = " + ".join(f"{kind.count} {kind.name}" for kind in scenario.processors)
    return [processors, *(str(machine[name]) for name in ("jobs", "tasks", "tiles"))]


def _serving_load(family: Family, scenario: Any) -> list[str]:
    """Return accelerators, active models, their variants, and the mean rate of requests."""
    spec = family.spec_arrays(scenario)
    fleet = " + ".join(f"{kind.count} {kind.name}" for kind in scenario.accelerators)
    return [fleet, str(len(spec["models"])), str(len(spec["variants"])), f"{spec['models']['expected'].sum():.0f}"]


def _llm_load(_family: Family, scenario: Any) -> list[str]:
    """Return engines, seats and blocks of each, requests of an episode, and their mean rate."""
    engine, requests = scenario.engine, scenario.requests
    counts = (scenario.engines, engine.seats, engine.blocks, requests.requests)
    return [*map(str, counts), f"{requests.rate_hz:g}"]


def _elastic_load(family: Family, scenario: Any) -> list[str]:
    """Return GPUs, models, jobs, the length of a round, and the work per second where jobs need least of a kind."""
    spec = family.spec_arrays(scenario)
    gpus, templates = spec["kinds"]["gpus"], spec["templates"]
    need = 0.0
    for template in templates:
        own = spec["configurations"][template["first"] :][: template["configurations"]]
        need += float((template["work"] * own["gpus"] / gpus[own["kind"]] / own["rate"]).min())
    load = need / len(templates) / len(gpus) / (scenario.jobs.mean_gap_s)
    kinds = " + ".join(f"{kind.gpus} {kind.name}" for kind in scenario.kinds)
    round_s = "at events" if scenario.round_s is None else f"{scenario.round_s:g} s"
    return [kinds, str(len(scenario.models)), str(scenario.jobs.jobs), round_s, f"{load:.0%}"]


def _cluster_load(family: Family, scenario: Any) -> list[str]:
    """Return GPUs, placement, jobs of an episode and of the workload, and the work these bring per second."""
    arrays = family.spec_arrays(scenario)
    jobs = arrays["jobs"]
    work = float((jobs["run"] * jobs["gpus"]).sum()) / max(1, int(jobs["submit"][-1])) / scenario.gpus
    count = str(arrays["machine"]["jobs"][0])
    return [str(scenario.gpus), scenario.placement, count, str(len(jobs)), f"{work:.0%}"]


def _edge_load(family: Family, scenario: Any) -> list[str]:
    """Return tasks, jobs per second, and the work they bring as a share of what the device can do."""
    count = str(len(scenario.tasks))
    if any(task.arrival.kind in ("trace", "closed") for task in scenario.tasks):
        return [count, "", "", ""]  # their rate is not a property of the file alone
    spec = family.spec_arrays(scenario)
    gaps = spec["tasks"]["period"]
    capacity = min(spec["device"]["throughput"][0] or scenario.device.streams, scenario.device.streams)
    slowest = [spec["variants"]["latency"][index, task.num_variants - 1] for index, task in enumerate(scenario.tasks)]
    work = [(spec["tasks"]["fastest"] / gaps).sum() / capacity, (slowest / gaps).sum() / capacity]
    return [count, f"{(1e9 / gaps).sum():.0f}", *(f"{share:.0%}" for share in work)]


def _profiles() -> str:
    pieces = []
    for name, profile in PROFILES.items():
        rows = [[v.name, f"{v.latency_ms:g}", f"{v.accuracy:.5g}", f"{v.demand:g}"] for v in profile.variants]
        ladder = _rows(["variant", "latency, ms", "accuracy", "demand"], rows)
        pieces.append(f"### `{name}`\n\n{profile.device}. Source: {profile.source}.\n\n{ladder}")
    return "\n\n".join(pieces)


# Settings of training


def _settings() -> str:
    from slipstream.learn.settings import TrainSettings

    return "\n\n".join(_settings_part("", TrainSettings()))


def _settings_part(name: str, part: Any) -> Iterator[str]:
    """Yield the table of a settings object, and those of the objects inside it."""
    meanings = field_docstrings(type(part))
    rows, inner = [], []
    for field in dataclasses.fields(part):
        value, key = getattr(part, field.name), f"{name}{field.name}"
        if dataclasses.is_dataclass(value):
            inner.append((f"{key}.", value))
        else:
            rows.append([f"`{key}`", _setting(value), meanings.get(field.name, "")])
    heading = f"### {name.rstrip('.')}" if name else "### All trainings"
    yield f"{heading}\n\n{inspect.getdoc(type(part))}\n\n{_rows(['setting', 'default', 'meaning'], rows)}"
    for prefix, value in inner:
        yield from _settings_part(prefix, value)


def field_docstrings(kind: type) -> dict[str, str]:
    """Return the texts that stand under the fields of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    found = {}
    for field, text in pairwise(getattr(body, "body", [])):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[getattr(field.target, "id", "")] = " ".join(str(text.value.value).split())
    return found


def _setting(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{_number(value)}`" if isinstance(value, float) else f"`{str(value).lower()}`"


# The contract of families


def _contract(kind: type, meanings: dict[str, str]) -> str:
    """Return the table of the fields of a dataclass: whether a family must give each, and what it is."""
    rows = []
    for field in dataclasses.fields(kind):
        needed = "required" if field.default is dataclasses.MISSING else "optional"
        rows.append([f"`{field.name}`", needed, meanings[field.name]])
    return _rows(["member", "", "what it is"], rows)


def _declared() -> dict[str, str]:
    """Return what each compiled function does, from where it is declared, and what stands in for it."""
    found = {}
    for field in dataclasses.fields(KernelFunctions):
        if hasattr(lanes, field.name):
            found[field.name] = _first_sentence(getattr(lanes, field.name))
            if callable(field.default):
                found[field.name] += f" Default: {_first_sentence(field.default)}"
    return found


def _first_sentence(function: Any) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _family_members() -> str:
    meanings = field_docstrings(Family)
    rows = [[f"`{name}`", "required" if name in REQUIRED else "optional", text] for name, text in meanings.items()]
    for name in sorted(Family.__abstractmethods__):
        rows.append([f"`{name}`", "required", _first_sentence(inspect.getattr_static(Family, name))])
    rows.append(["`complete`", "optional", _first_sentence(Family.complete)])
    return _rows(["member", "", "what it is"], rows)


# Command line


def _commands() -> str:
    group: Any = typer.main.get_command(app)
    return "\n\n".join(_group("slipstream", group, "##"))


def _group(words: str, group: Any, level: str) -> Iterator[str]:
    """Yield a section for each command of a group, and under it those of the command, where it is a group too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield _command(f"{level} {words} {name}", command)
        if hasattr(command, "list_commands"):
            yield from _group(f"{words} {name}", command, level + "#")


def _command(heading: str, command: Any) -> str:
    text, _, example = (command.help or "").partition("Example:")
    paragraphs = [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]
    # The items of a list follow each other without a blank line.
    prose = re.sub(r"(?m)(^- .*)\n\n(?=- )", r"\1\n", "\n\n".join(paragraphs))
    pieces = [heading, prose, f"```sh\n{' '.join(example.split())}\n```"]
    rows = [[_parameter(p), _parameter_default(p), p.help or ""] for p in command.params]
    if rows:
        pieces.append(_rows(["argument or option", "default", "meaning"], rows))
    return "\n\n".join(pieces)


def _parameter(parameter: Any) -> str:
    """Return the names of an option, the long one first, or that of an argument."""
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`"
    names = sorted(parameter.opts, key=lambda name: not name.startswith("--")) + parameter.secondary_opts
    return ", ".join(f"`{name}`" for name in names)


def _parameter_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    words = [word for value, word in ((False, "off"), (True, "on"), (None, "none")) if parameter.default is value]
    return words[0] if words else f"`{parameter.default}`"


if __name__ == "__main__":
    sys.exit(main())
