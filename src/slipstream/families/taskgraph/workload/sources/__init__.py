"""Sources of graphs: generators, files and the scenario itself."""

from __future__ import annotations

from pathlib import Path

from slipstream.families.taskgraph.scenario import GraphFile, InlineGraph, Layered, SpGemm, Stg, Tiled, WfCommons
from slipstream.families.taskgraph.workload.sources import inline, layered, stg, tiled, wfcommons
from slipstream.families.taskgraph.workload.templates import Template


def read_graph(graph: Tiled | SpGemm | Layered | Stg | WfCommons | InlineGraph | GraphFile, folder: Path) -> Template:
    """Return the template of a graph of a scenario in `folder`."""
    if isinstance(graph, Tiled):
        return tiled.template(graph)
    if isinstance(graph, SpGemm):
        return tiled.sparse_product(graph)
    if isinstance(graph, Layered):
        return layered.template(graph)
    if isinstance(graph, Stg):
        return stg.template(graph, folder / graph.path)
    if isinstance(graph, WfCommons):
        return wfcommons.template(graph, folder / graph.path)
    if isinstance(graph, InlineGraph):
        return inline.template(graph, "inline")
    return inline.template_of_file(folder / graph.path)
