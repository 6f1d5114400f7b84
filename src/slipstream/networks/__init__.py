"""What networks of a user's own are made of: the columns that they read, graphs, and functions over packed rows.

A network is a `torch.nn.Module`. It is made with the columns of the family, `Net(columns)`, and called with the packed
candidates of several choices:

    forward(rows, offsets, global_rows) -> logits, values

rows: (N, columns) float32, the allowed candidates of all choices, one choice after the other. offsets: (choices + 1,)
int64, the rows of choice c are `rows[offsets[c]:offsets[c + 1]]`. global_rows: (choices, columns) float32. logits:
(N,), a number per row. values: (choices,), the return that is still to come. All columns are scaled to mean 0 and
deviation 1; values are scaled back. A module with `reads_graph = True` gets a fourth argument, `GraphInputs`.

The module is always in evaluation mode: a policy gradient needs the same probabilities when a choice is played and when
it is learned from, so dropout is off and batch norm uses its initial statistics.
"""

from __future__ import annotations

from slipstream.networks.inputs import Columns, GraphInputs
from slipstream.networks.segments import pad_rows, segment_attend, segment_max, segment_mean, segment_sum, spread

__all__ = [
    "Columns",
    "GraphInputs",
    "pad_rows",
    "segment_attend",
    "segment_max",
    "segment_mean",
    "segment_sum",
    "spread",
]
