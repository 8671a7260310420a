"""Train a model: a recipe of the paper, or any model on any data set.

  mondrian train experiment=allen_cahn/vit_sepmo                the paper's recipe (a GPU's work)
  mondrian train experiment=allen_cahn/vit_sepmo scale=cpu      the same, cut to ten minutes on two cores
  mondrian train experiment=navier_stokes/fno scale=smoke       cut to seconds

Data that is not there is simulated first, to data/<problem>_<scale>. A folder of your own, in the layout of
`mondrian generate` or The Well:

  mondrian train experiment=allen_cahn/vit_sepmo data.path=data/ac
  mondrian train data=files data.path=data/mine data.input=[u] data.target=[u] data.steps_in=2 data.steps_out=2
  mondrian train data=files data.path=data/mine data.input=[u] data.target=[u] model=fno max_steps=5000

A model of your own, in a file my_models.py (docs/own_models.md):

  MONDRIAN_PLUGINS=my_models mondrian train experiment=allen_cahn/fno model=own model.spec=Mine

Other people's files, split by simulation (see docs/data.md for the readers):

  mondrian train data=files 'data.reader={spec: PDEBenchFile, path: burgers.hdf5}' \\
                 data.input=[tensor] data.target=[tensor]

Meshes, each with its own fields at its vertices (docs/points.md):

  mondrian train experiment=poisson/boxes scale=cpu
  mondrian train data=meshes data.path=data/wings data.input=[angle] data.target=[pressure]

The folder of the run (run=DIR, by default runs/<experiment>) gets run.json, history.csv, the best model as
artefact/, checkpoints/ and tensorboard/. Stopped by Ctrl-C, killed, out of disk? Resume it:

  mondrian train run=runs/allen_cahn/vit_sepmo resume=true

On several ranks or machines, restarted by torchrun when one dies:

  export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  torchrun --standalone --nproc-per-node 4 --max-restarts 3 -m mondrian train experiment=... trainer=ddp resume=true

Everything is a setting:

  max_steps=3000 batch_size=32 seed=1 validate_every=200 checkpoint_every=200
  optimizer.lr=5e-4 optimizer.weight_decay=1e-4 optimizer.warmup=200 optimizer.decay=linear optimizer.clip=1.0
  loss=relative_l2                     or mse (the paper's), h1
  normalise=standard|scale|none        data.log=[gamma]: enters by its logarithm (paper: normalise=none data.log=[])
  unroll=4 grow_every=500 noise=0.01   four applications in a row, one more every 500 steps, on noisy input
  unroll=2 pushforward=true            gradient through the last application only
  augment=[rotations,reflections]      images under symmetries of the equation, in training only
  model.hidden_channels=64 model.n_layers=6 model.stagger=true
  trainer.accelerator=gpu trainer.devices=4 trainer.precision=bf16-mixed trainer.compile=true
  trainer.accumulate_grad_batches=2    in two portions: batch_size stays what one step sees
  trainer=ddp | trainer=fsdp           several ranks, each with all of the model or a shard (docs/many_machines.md)
  wandb=my-project                     log to Weights & Biases as well (extra `tracking`)
"""

from __future__ import annotations

import math
import os
import shlex

from mondrian.support.process import is_first


def run(arguments: list[str]) -> None:
    """Train what the overrides describe."""
    from mondrian.training.guards import Stopped  # Lightning takes seconds to import
    from mondrian.training.train import train_config

    first = is_first(os.environ)  # of several ranks; Lightning forgets which it was at the end
    try:
        made = train_config(arguments, progress=True)
    except Stopped as stopped:
        print(f"stopped by {stopped}; the same overrides with resume=true resume from there")
        raise KeyboardInterrupt from stopped
    if not first:
        return
    losses = [loss for loss in made.history().get("valid_loss", ()) if math.isfinite(loss)]
    if not losses or not made.artefact.exists():
        raise ValueError(f"{made.folder} has ended without a model: no validation loss was finite")
    print(f"best validation loss {min(losses):.4g}, model in {made.artefact}")
    folder = shlex.quote(str(made.folder))
    print(f"next: mondrian evaluate {folder} && mondrian report {folder}")
