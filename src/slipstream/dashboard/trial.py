"""What the page 'Try it' sends: a draft to check, and a trial to run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from slipstream.errors import InputError, ScenarioError
from slipstream.families.contract import FAMILIES
from slipstream.files.inputs import check_values
from slipstream.policies.base import describe, find_for
from slipstream.policies.learned import shipped
from slipstream.scenario import load, parse, problems
from slipstream.sim.kernel.rng import SEED_LIMIT

MOST_EPISODES, MOST_POLICIES, MOST_ORACLE_SECONDS = 100, 20, 10.0
LONGEST_TEXT = 2_000_000

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


class Draft(BaseModel):
    """A scenario as it stands in the editor."""

    model_config = ConfigDict(extra="forbid")

    text: Text


class Trial(BaseModel):
    """Policies to compare on a scenario."""

    model_config = ConfigDict(extra="forbid")

    text: Text
    policies: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=MOST_POLICIES)]
    episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 5
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT - MOST_EPISODES)] = 0
    oracle_seconds: Annotated[float, Field(ge=0, le=MOST_ORACLE_SECONDS)] = 0.0


def problems_of(text: str) -> tuple[Any, list[tuple[str, str]]]:
    """Return the data of the JSON `text`, and its problems as a scenario: pairs of key path and message.

    The data are None if the text is not JSON, or has values that JSON cannot hold, such as NaN.
    """
    try:
        data = parse(text)
    except ScenarioError as error:
        return None, [("", str(error).removeprefix("scenario: "))]
    try:
        check_values(data, "scenario", ScenarioError)
    except ScenarioError:
        return None, problems(data) if isinstance(data, dict) else [("", "expected a JSON object")]
    # Before files are opened: a page must not learn which files exist.
    named = [(place, "names a file, which a scenario of this page cannot") for place in _files(data, "")]
    return data, named or problems(data)


def checked(trial: Trial) -> tuple[dict[str, Any], list[str], int, int, float]:
    """Return scenario, policies, episodes, seed and oracle seconds of a valid trial.

    Raises:
        InputError: One line: the first thing that is wrong.
    """
    data, found = problems_of(trial.text)
    if found:
        place, text = found[0]
        raise InputError(f"{place}: {text}" if place else text)
    family = str(data["family"])
    known = known_policies(family)
    for policy in trial.policies:
        # By name only: a policy may also be a folder, and a page must not open arbitrary folders.
        if policy.partition("(")[0] not in known:
            raise InputError(f"policies: unknown policy '{policy}': expected one of {', '.join(known)}")
        find_for(policy, load(data))
    return data, list(dict.fromkeys(trial.policies)), trial.episodes, trial.seed, trial.oracle_seconds


def known_policies(family: str) -> dict[str, str]:
    """Return the policies that a page may choose from, with descriptions."""
    if family not in FAMILIES:
        return {}
    return {**describe(family), **dict.fromkeys(shipped(family), "A trained policy that comes with Slipstream.")}


def _files(data: Any, path: str) -> list[str]:
    """Return the key paths at which a scenario names a file or folder."""
    if isinstance(data, list):
        return [place for n, value in enumerate(data) for place in _files(value, f"{path}[{n}]")]
    if not isinstance(data, dict):
        return []
    found = []
    for key, value in data.items():
        place = f"{path}.{key}" if path else str(key)
        # Of tasks, a profile is the name of a built-in ladder; of a scenario, a file.
        if isinstance(value, str) and (key == "path" or place == "profile"):
            found.append(place)
        found += _files(value, place)
    return found
