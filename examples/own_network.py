"""Train a network of your own, a transformer over the candidates of a choice, by PPO.

python examples/own_network.py
slipstream train edge/medium --network examples/own_network.py:RowTransformer --minutes 5
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import slipstream
from slipstream.networks import Columns, pad_rows, segment_mean, spread


class RowTransformer(nn.Module):
    """Every candidate attends to all others of its choice."""

    def __init__(self, columns: Columns, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.row = nn.Linear(len(columns.rows), width)
        self.globals = nn.Linear(len(columns.globals), width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.logit = nn.Linear(width, 1)
        self.value = nn.Linear(width, 1)
        nn.init.normal_(self.logit.weight, std=0.01)  # all candidates are about equally likely at first

    def forward(self, rows: Tensor, offsets: Tensor, global_rows: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.row(rows) + spread(self.globals(global_rows), offsets)
        padded, mask = pad_rows(tokens, offsets)
        hidden = self.encoder(padded, src_key_padding_mask=~mask)[mask]
        return self.logit(hidden).squeeze(1), self.value(segment_mean(hidden, offsets)).squeeze(1)


def main() -> None:
    torch.set_num_threads(1)
    settings = {"steps": 12_000, "n_envs": 32, "n_steps": 32, "imitation.rollouts": 4, "evaluation_episodes": 4}
    training = slipstream.train("edge/tiny", settings, network=RowTransformer, warm_start="edf")
    print(f"{sum(p.numel() for p in training.policy.module.parameters()):,} parameters, played by torch")
    for policy in (training.policy, "edf", "random"):
        evaluation = slipstream.evaluate("edge/tiny", policy, episodes=10)
        print(f"{evaluation.policy}: reward {evaluation.mean('reward'):.1f}")


if __name__ == "__main__":
    main()
