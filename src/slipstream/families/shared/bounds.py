"""Lower and upper bounds of the hindsight optimum of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream import display
from slipstream.errors import InputError
from slipstream.files.inputs import as_object, show


def share_of_bound(reward: float, bound: float) -> float:
    """Return the ratio of `reward` to `bound`, inverted where both are costs: 1 means that the bound is reached."""
    if bound > 0.0:
        return reward / bound
    return bound / reward if reward < 0.0 else 0.0


@dataclass(frozen=True)
class OptimumBounds:
    """The best reward of one episode with all arrivals known lies between `best_known` and `bound`."""

    best_known: float
    """A reward that was reached, by a schedule played in the simulator."""
    bound: float
    """A reward that no policy can exceed, proven."""
    exact: bool
    """Whether the two are equal."""
    source: str
    """What reached `best_known`: the name of a policy, or what solved it, such as 'schedule' or 'search'."""
    method: str
    """What proved the bound, such as 'relaxation', 'schedule' or 'search'."""
    seconds: float
    """Computing time."""

    def share_of_bound(self, reward: float) -> float:
        """Return the ratio of `reward` to the bound; 1 means that it is reached."""
        return share_of_bound(reward, self.bound)

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as JSON-ready data."""
        return {
            "best_known": self.best_known,
            "bound": self.bound,
            "exact": self.exact,
            "source": self.source,
            "method": self.method,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, data: Any, label: str) -> OptimumBounds:
        """Return the bounds that `to_dict` gave as `data`; an InputError names the place of what is something else."""
        found = as_object(data, label)
        kinds: dict[str, tuple[type, ...]] = dict.fromkeys(("best_known", "bound", "seconds"), (int, float))
        kinds |= {"exact": (bool,), "source": (str,), "method": (str,)}
        for key, types in kinds.items():
            if type(found.get(key)) not in types:
                expected = {bool: "true or false", str: "a text"}.get(types[0], "a number")
                raise InputError(f"{label}.{key}: expected {expected}, got {show(found.get(key))}")
        return cls(**{key: found[key] for key in kinds})

    def __repr__(self) -> str:
        if self.exact:
            return f"OptimumBounds(optimum {display.number(self.bound)}, reached by {self.source!r})"
        between = f"{display.number(self.best_known)} to {display.number(self.bound)}"
        return f"OptimumBounds(optimum in {between}, reached by {self.source!r})"

    def _repr_html_(self) -> str:
        names = {"best_known": "best known reward", "bound": "upper bound", "source": "reached by"}
        names |= {"method": "bound proven by", "seconds": "computing time (s)"}
        texts = {
            key: value if isinstance(value, str) else display.number(value) for key, value in self.to_dict().items()
        }
        rows = [[name, texts[key]] for key, name in names.items()]
        return display.html_table("Best possible reward, all arrivals known", ["", "value"], rows)

    def to_pandas(self) -> Any:
        """Return a DataFrame of one row."""
        return display.data_frame({key: [value] for key, value in self.to_dict().items()})

    def save(self, path: str | Path) -> Path:
        """Write the bounds as JSON."""
        return display.save_json(path, self.to_dict())
