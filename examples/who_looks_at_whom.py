"""How much of its attention a trained model gives to near subdomains: has it learned where its neighbours are?

  python examples/who_looks_at_whom.py runs/navier_stokes/vit_mo_cpu
  python examples/who_looks_at_whom.py runs/navier_stokes/vit_mo_cpu 2        # within two subdomains along every axis

Mean over subdomains and eight validation samples, one row per block, next to uniform attention.
"""

import sys

import torch

from mondrian import attention_map
from mondrian.training.run import Run

SAMPLES = 8


def near(folder: str, radius: int = 1) -> list[tuple[str, float, float, float]]:
    """For each block: name, attention to near subdomains of the least and the most local head, and if uniform."""
    run = Run.open(folder)
    surrogate = run.surrogate().eval()
    dataset = run.data().dataset("valid", memory=0)  # at the resolution of training
    every = max(1, len(dataset) // SAMPLES)
    samples = dataset.__getitems__(range(0, len(dataset), every)[:SAMPLES])
    rows = []
    for block in attention_map(surrogate, torch.stack([sample["x"] for sample in samples]), dataset.grid):
        neighbours = block.lattice.near(radius)
        heads = (block.weights * neighbours).sum(dim=-1).mean(dim=(0, 2))
        equal = neighbours.double().mean()
        rows.append((block.block, float(heads.min()), float(heads.max()), float(equal)))
    return rows


if __name__ == "__main__":
    rows = near(sys.argv[1], *map(int, sys.argv[2:]))
    if not rows:
        sys.exit(f"{sys.argv[1]} has no attention between subdomains")
    print(f"{'block':<16}{'least local head':>18}{'most local head':>18}{'uniform':>15}")
    for block, low, high, equal in rows:
        print(f"{block:<16}{low:>17.1%} {high:>17.1%} {equal:>14.1%}")
