"""What was run: simulated or real, on which hardware; commands and digests, folded away."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.files.markup import escape
from slipstream.files.wording import counted
from slipstream.reports.runs import Run
from slipstream.reports.terminal.tables import figure


def lead_of(runs: Sequence[Run]) -> str:
    """Return the descriptions of the scenarios, and whether the runs are simulated or real."""
    descriptions = dict.fromkeys(run.scenario.description for run in runs if run.scenario.description)
    sources = dict.fromkeys(
        f'<span class="badge {"real" if run.real else "simulated"}">{escape(run.source)}</span>' for run in runs
    )
    lead = "".join(f'<p class="lead">{escape(text)}</p>' for text in descriptions)
    return f'{lead}<p class="sources">{" ".join(sources)}</p>'


def provenance(runs: Sequence[Run], labels: Sequence[str], command: str) -> str:
    """Return the commands and digests of the runs and the `command` of this page, folded away."""
    cards = "\n".join(_card(run, label) for run, label in zip(runs, labels, strict=True))
    return f"""<details id="provenance"><summary>How to reproduce it: commands, seeds and digests</summary>
<div class="cards">
{cards}
</div>
<p class="note">This page: <code>{escape(command)}</code></p>
</details>"""


def _card(run: Run, label: str) -> str:
    about, line = run.about, run.timeline
    nouns = line.nouns
    played = f", which played {about['plays']}" if "plays" in about else ""
    time = f"{figure(line.end / run.family.nanoseconds_per_unit)} {run.family.time_unit}"
    tasks = "" if line.per_job else f" of {counted(len(line.tasks), nouns.task)}"
    rows = {
        "command": f"<code>{escape(str(about.get('command', 'not recorded')))}</code>",
        "run": escape(run.source),
        "policy": escape(f"{about['policy']}{played}"),
        "seed": escape(f"{about['seed']} ({about.get('split', 'unknown')} arrivals)"),
        "work": escape(f"{counted(len(line.task), nouns.job)}{tasks} in {time}"),
        "scenario digest": f"<code>{escape(str(about.get('scenario_digest', 'not recorded')))}</code>",
        "event log digest": f"<code>{run.digest}</code>",
        "version": escape(f"slipstream {about.get('version', 'unknown')}"),
    }
    terms = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in rows.items())
    return f'<article class="card"><h3>{escape(label)}</h3><dl>{terms}</dl></article>'
