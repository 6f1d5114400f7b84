"""The documentation runs, its tables come from the code, and its links lead somewhere."""

import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from slipstream.families.contract import FAMILIES, REQUIRED, Family, Members
from slipstream.policies.base import describe
from slipstream.scenario import builtin_names, digest, load, schema
from slipstream.sim.eventlog import KINDS
from slipstream.sim.kernel.lanes import KernelFunctions
from tests.subjects import subject_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "slipstream"
FOLDERS = (ROOT, ROOT / "src", PACKAGE, PACKAGE / "jit", *(PACKAGE / "families" / name for name in FAMILIES))
"""Where the paths of modules in the pages begin."""
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
SIGNATURES = {".png": b"\x89PNG", ".gif": b"GIF89a", ".svg": b"<svg "}
"""First bytes of a picture, by its ending."""
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def load_script(name):
    spec = importlib.util.spec_from_file_location(f"slipstream_docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load_script("generate")
pictures = load_script("pictures")


def by_name(paths):
    return pytest.mark.parametrize("page", paths, ids=[path.name for path in paths])


# Running


SHORTER = {
    "--minutes 5": "--minutes 0.1",
    "all,learned,runs": "edf,learned,runs",
    "hindsight.rounds=150": "hindsight.rounds=2",
    "profile edge/cpu-mini --device cpu --out": "profile edge/cpu-mini --runs 5 --pair-seconds 0.02 --out",
}
"""Replacements that keep the meaning of a command of the README and take seconds instead of minutes."""
SERVERS = ("slipstream dashboard", "slipstream execute requests.json")
"""Commands that serve until Ctrl-C."""


def commands_of(block):
    """Return the commands of a console block: lines after a prompt, all lines where there is none."""
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    prompted = [line[2:] for line in lines if line.startswith("$ ")]
    return [line for line in prompted or lines if not line.startswith(("make", "source", "git", "pip"))]


def lines_of(page, language, title, block):
    """Return the lines of a program that does what a reader of one block would do."""
    if title:
        return [] if title.startswith("examples/") else [f"Path({title!r}).write_text({block!r}, encoding='utf-8')"]
    if language == "python":
        return [f"exec(compile({block!r}, {page.name!r}, 'exec'), names)"]
    if language in ("console", "sh"):
        return [f"run({shortened(command)!r})" for command in commands_of(block)]
    return []


def shortened(command):
    for long, short in SHORTER.items():
        command = command.replace(long, short)
    return command


HEAD = f"""
import os, re, signal, subprocess, time, urllib.error, urllib.request
from pathlib import Path
names = {{'__name__': '__main__'}}

def run(command):
    if not command.startswith({SERVERS!r}):
        subprocess.run(command, shell=True, check=True, executable="/bin/bash")
        return
    command = re.sub(r"(127\\.0\\.0\\.1:)8080", r"\\g<1>0", command) + (" --port 0" if "dashboard" in command else "")
    Path("runs").mkdir(exist_ok=True)
    server = subprocess.Popen(command.split(), stdout=subprocess.PIPE, text=True)
    address = next(found[0] for line in server.stdout if (found := re.search(r"http://[^\\s,)]+", line)))
    for _ in range(600):  # the address is printed before requests are answered
        try:
            urllib.request.urlopen(address)
            break
        except urllib.error.HTTPError:
            break
        except OSError:
            time.sleep(0.1)
    server.send_signal(signal.SIGINT)
    server.stdout.read()
    assert server.wait(60) == 0, command
"""


def script_of(page):
    """Return a program that does what a reader of the page would do, in order; blocks share their names."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return "\n".join([HEAD, *(line for block in blocks for line in lines_of(page, *block))])


def can_run(page):
    return re.search(r"^(exec|run)\(", script_of(page), re.MULTILINE) is not None


def play(script, folder):
    """Run a program in a new process, in `folder`."""
    file = folder / "page.py"
    file.write_text(script, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    run = subprocess.run(
        [sys.executable, file], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr


BY_BLOCK = (PAGES[0], DOCS / "tutorial.md")
"""Pages whose blocks run one by one, in tests of their own."""
REFERENCE = DOCS / "cli.md"
"""The page whose examples name files of the reader's: they are parsed, not run (tests/cli/test_listing.py)."""


@pytest.mark.thorough
@by_name([page for page in PAGES if can_run(page) and page not in (*BY_BLOCK, REFERENCE)])
def test_every_block_of_a_page_runs(page, tmp_path):
    play(script_of(page), tmp_path)


def separate_blocks(page):
    """Return the number and program of each block of a page that runs something."""
    scripts = ["\n".join(lines_of(page, *block)) for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [(number, script) for number, script in enumerate(scripts) if script]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [number for number, _ in separate_blocks(PAGES[0])])
def test_each_block_of_the_readme_runs_by_itself(number, tmp_path):
    play(HEAD + dict(separate_blocks(PAGES[0]))[number], tmp_path)


@pytest.mark.thorough
def test_each_block_of_the_tutorial_runs_in_a_process_of_its_own(tmp_path):
    """Blocks share the folder, and so the files that earlier ones wrote, but no Python names."""
    for _, script in separate_blocks(DOCS / "tutorial.md"):
        play(HEAD + script, tmp_path)


def outputs_of(command):
    """Return the files that a command of a page writes."""
    return re.findall(r"(?:--out|--log|--perfetto|>)\s+(\S+)", command)


def test_commands_of_the_readme_do_not_overwrite_what_others_wrote():
    blocks = BLOCK.findall(PAGES[0].read_text(encoding="utf-8"))
    commands = [command for language, _, block in blocks if language == "console" for command in commands_of(block)]
    written = [file for command in commands for file in outputs_of(command)]
    assert len(written) >= 6
    assert len(set(written)) == len(written)


def test_the_tutorial_runs_commands_and_python():
    script = script_of(DOCS / "tutorial.md")
    assert script.count("\nexec(") >= 4
    assert script.count("\nrun(") >= 5


# Tables from the code


@by_name(PAGES[1:])
def test_tables_and_examples_of_a_page_are_current(page):
    text = shown(page)
    assert len(re.findall(r"<!-- (?:table|example): \S+ -->\n", text)) == len(generate.BLOCK.findall(text))
    assert generate.render(text) == text, "run `python docs/generate.py`"


def test_generating_replaces_what_stands_between_markers():
    outdated = "a\n<!-- table: edge.policies -->\nold\n<!-- /table -->\nb"
    current = generate.render(outdated)
    assert "old" not in current
    assert current.startswith("a\n<!-- table: edge.policies -->\n\n| policy |")
    assert current.endswith("|\n\n<!-- /table -->\nb")
    assert generate.render(current) == current


def test_an_unknown_marker_is_refused():
    with pytest.raises(ValueError, match=r"no table 'edge\.nothing'"):
        generate.render("<!-- table: edge.nothing -->\n<!-- /table -->")
    with pytest.raises(ValueError, match=r"no example 'nothing\.py': expected one of .*vector_env\.py"):
        generate.render("<!-- example: nothing.py -->\n<!-- /example -->")


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_drawn_pictures_are_current_and_shown(name):
    drawn = pictures.PICTURES[name]().svg()
    assert (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8") == drawn, "run `python docs/pictures.py`"
    assert any(f"images/{name}.svg" in page.read_text(encoding="utf-8") for page in PAGES)


def test_every_training_example_is_shown_in_full():
    page = shown(DOCS / "other-libraries.md")
    examples = [*(ROOT / "examples").glob("train_*.py"), ROOT / "examples" / "ppo_single_file.py"]
    assert len(examples) == 5
    for path in examples:
        assert path.read_text(encoding="utf-8").strip() in page


def test_the_example_of_a_family_is_shown_in_full():
    page = shown(DOCS / "add-a-family.md")
    files = [path for path in (ROOT / "examples" / "mm1").rglob("*") if path.suffix in (".py", ".json")]
    assert len(files) >= 9
    for path in files:
        assert path.name == "__init__.py" or path.read_text(encoding="utf-8").strip() in page


def test_every_member_of_the_contract_is_documented():
    page = shown(DOCS / "add-a-family.md")
    assert page.count("| `name` | required |") == 1
    assert set(REQUIRED) < set(generate.field_docstrings(Family)) == set(inspect.get_annotations(Family))
    for name in inspect.get_annotations(Family):
        assert f"| `{name}` | {'required' if name in REQUIRED else 'optional'} | " in page
    for name in Family.__abstractmethods__:
        assert f"| `{name}` | required | " in page
    for kind in (Members, KernelFunctions):
        for member in dataclasses.fields(kind):
            needed = "required" if member.default is dataclasses.MISSING else "optional"
            row = next(line for line in page.splitlines() if line.startswith(f"| `{member.name}` | {needed} | "))
            assert len(row.split(" | ")[2].split()) >= 3


def test_every_feature_policy_and_scenario_is_documented():
    for name, family in FAMILIES.items():
        page = shown(DOCS / f"{name}.md")
        for feature in (*family.candidate_features.features, *family.global_features.features):
            assert f"| `{feature.name}` | {feature.unit} |" in page
        for policy, text in describe(name).items():
            assert f"| `{policy}` | {text} |" in page
        for scenario in builtin_names():
            if scenario.startswith(f"{name}/"):
                assert f"| `{scenario}` | `{digest(load(scenario))[:12]}` |" in page


def test_every_json_key_is_documented_with_a_meaning():
    pages = {name: shown(DOCS / f"{name}.md") for name in FAMILIES}
    owners = {
        part.__name__: name for name, family in FAMILIES.items() for part in generate.parts_of(family.scenario_type)
    }
    for name, definition in schema()["$defs"].items():
        table = pages[owners[name]].split(f"### {name}\n", 1)[1].split("\n###", 1)[0]
        for key in definition["properties"]:
            row = next(line for line in table.splitlines() if line.startswith(f"| `{key}` |"))
            assert row.split(" | ")[-1].strip(" |")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_metric_is_defined(name):
    scenario = load(f"{name}/tiny")
    empty = np.zeros(
        0, [("time", "i8"), ("job", "i8"), ("task", "i4"), ("resource", "i4"), ("variant", "i2"), ("kind", "i2")]
    )
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    section = page.split("## Metrics", 1)[1].split("\n## ", 1)[0]
    defined = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    general = {
        re.sub(r"/(class-)?.*", lambda m: f"/{m[1]}<n>" if m[1] else "/<task>", metric)
        for metric in FAMILIES[name].metrics(scenario, empty)
    }
    assert defined == general


@pytest.mark.parametrize("name", FAMILIES)
def test_the_machine_page_names_every_column_and_every_kind_of_event(name):
    page = (DOCS / f"{name}-machine.md").read_text(encoding="utf-8")
    family = FAMILIES[name]
    for column in (*family.candidate_features.names, *family.global_features.names):
        assert f"`{column}`" in page or f"**{column}" in page, column
    for code in subject_of(name).logged:
        assert f"| {code} | {KINDS[code]}" in page


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_of_nodes_is_on_the_page(name):
    page = shown(DOCS / f"{name}.md")
    for feature in FAMILIES[name].node_features.features:
        assert f"| `{feature.name}` | {feature.unit} |" in page


def test_every_setting_of_training_is_documented_with_a_meaning():
    from slipstream.learn.study.search_space import GRIDS

    page = shown(DOCS / "training.md")
    rows = re.findall(r"^\| `([a-z_.]+)` \| .+ \| (.*) \|$", page.split("## Settings", 1)[1], re.MULTILINE)
    assert {name for name, _ in rows} >= {"algo", "steps", "variation.rate", "network.width", *GRIDS}
    assert all(meaning for _, meaning in rows)


def test_every_operation_that_can_be_compiled_is_documented():
    from slipstream.policies.operations import KINDS

    section = (DOCS / "training.md").read_text(encoding="utf-8").split("## What can be compiled", 1)[1]
    first = " ".join(re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first)) == set(KINDS)


def test_every_command_is_documented():
    page = shown(DOCS / "cli.md")
    run = subprocess.run(
        [Path(sys.executable).parent / "slipstream", "--help"], capture_output=True, text=True, check=True
    )
    commands = re.findall(r"^[│|]\s(\w+)\s{2,}", run.stdout, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        assert f"## slipstream {command}\n" in page


# Links


@cache
def shown(page):
    return page.read_text(encoding="utf-8")


def anchors_of(page):
    """Return the anchors of a page's headings, as the table of contents makes them."""
    from markdown.extensions.toc import slugify

    text = shown(page)
    text = BLOCK.sub("", text)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {slugify(heading.replace("`", ""), "-") for heading in headings} | set(
        re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    )


@by_name(PAGES)
def test_internal_links_resolve(page):
    text = shown(page)
    for link in LINK.findall(BLOCK.sub("", text)):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), link
        if anchor:
            assert anchor in anchors_of(path), link


def resolves(name):
    """Return whether a dotted name is a module of the package, or an attribute of one.

    What a module lists in `__all__` is there, though importing it may need a package that is not installed.
    """
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        if parts[count:] and parts[count] in getattr(found, "__all__", ()):
            return True
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@by_name(PAGES)
def test_names_of_the_package_exist(page):
    names = set(re.findall(r"(?<![\w./-])slipstream(?:\.[A-Za-z_]\w*)+(?!\.?\w|/)", page.read_text(encoding="utf-8")))
    wrong = [name for name in sorted(names) if not resolves(name) and not name.endswith((".json", ".toml"))]
    assert not wrong


@by_name(PAGES)
def test_paths_of_modules_exist(page):
    text = page.read_text(encoding="utf-8")
    paths = set(re.findall(r"(?<![\w<>./-])[a-z_]+(?:/[a-z_0-9-]+)*/[a-z_0-9]+\.py\b", text))
    if page.name == "design.md":
        paths |= set(re.findall(r"`([a-z_/]+/|[a-z_]+\.py)`", text))
        assert len(paths) > 50
    named = [path for path in sorted(paths) if "my" not in path.split("/")]  # the example of a family to be added
    assert not [path for path in named if not any((base / path).exists() for base in FOLDERS)]


def test_wrong_names_and_paths_would_be_found():
    assert resolves("slipstream.sim.simulator.Simulator.play")
    assert not resolves("slipstream.core.lanes")
    assert not resolves("slipstream.sim.simulator.Emulator")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_picture_on_its_page_and_in_the_readme(family):
    for page in (DOCS / f"{family}.md", ROOT / "README.md"):
        assert f"images/family-{family}.svg" in page.read_text(encoding="utf-8")


@by_name(PAGES)
def test_pictures_exist_and_are_small(page):
    for text, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        picture = page.parent / target
        assert text
        assert picture.read_bytes().startswith(SIGNATURES[picture.suffix])
        assert picture.stat().st_size < (400_000 if picture.suffix == ".gif" else 200_000)


# Navigation and metadata


def pages_in(entry):
    """Return the files that an entry of the navigation names."""
    if isinstance(entry, str):
        return [entry]
    children = entry if isinstance(entry, list) else entry.values()
    return [page for child in children for page in pages_in(child)]


def test_the_navigation_has_five_groups_and_names_every_page_once():
    import yaml

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert [next(iter(group)) for group in nav] == ["Quickstart", "Concepts", "Families", "How-to", "Reference"]
    assert sorted(pages_in(nav)) == sorted(page.name for page in DOCS.glob("*.md"))


def test_the_citation_names_the_version_of_the_package():
    import yaml

    import slipstream

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == slipstream.__version__
    assert f"version = {{{slipstream.__version__}}}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"cff-version", "title", "message", "authors"} <= citation.keys()
