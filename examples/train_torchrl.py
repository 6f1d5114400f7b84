"""TorchRL: masked PPO on 16 lanes of the native vector environment."""

import torch
from tensordict.nn import TensorDictModule
from torchrl.modules import MLP, MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss

from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.interop.torchrl import make_env

SCENARIO = generate(Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500), seed=0)

torch.manual_seed(0)
env, test = make_env(SCENARIO, num_envs=16), make_env(SCENARIO, num_envs=16, split="test")
scores = TensorDictModule(MLP(out_features=env.action_spec.space.n, num_cells=[64, 64]), ["observation"], ["logits"])
inputs = {"logits": "logits", "mask": "action_mask"}
actor = ProbabilisticActor(scores, inputs, distribution_class=MaskedCategorical, return_log_prob=True)
critic = ValueOperator(MLP(out_features=1, num_cells=[64, 64]))
critic(actor(env.reset(seed=0)))  # the first call sets the sizes of the networks
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.02, normalize_advantage=True)
loss.make_value_estimator(gamma=0.99, lmbda=0.95)  # generalised advantages
optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)

for update in range(13):
    with torch.no_grad():
        if update in (0, 12):
            run = test.rollout(500, actor, tensordict=test.reset(seed=0), auto_reset=False, break_when_any_done=False)
            first = run["next", "done"].cumsum(dim=1) <= run["next", "done"]  # the first episode of every lane
            print(f"PPO: reward {run['next', 'reward'][first].sum() / 16:.1f} after {update} updates")
        batch = loss.value_estimator(env.rollout(128, actor, break_when_any_done=False)).reshape(-1)
    for part in [one for _ in range(5) for one in batch[torch.randperm(len(batch))].split(256)]:
        sum(value for name, value in loss(part).items() if name.startswith("loss_")).backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad()
