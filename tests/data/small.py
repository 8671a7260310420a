"""Small data sets that tests generate, and what is compared of them."""

from pathlib import Path
from typing import Any

from mondrian import Grid
from mondrian.data.generate import plan
from mondrian.data.manifest import Manifest
from mondrian.data.problems import AllenCahn
from mondrian.data.store import read_shard

SPLITS = {"train": 7, "valid": 3, "test": 4}
POINTS = {"train": [(8, 8)], "valid": [(8, 8)], "test": [(8, 8), (16, 16)]}


def tiny(**settings: Any) -> AllenCahn:
    return AllenCahn(**{"grid": Grid(extent=(2.0, 2.0), points=(16, 16)), **settings})


def planned(shard_size: int = 2, seed: int = 3, **settings: Any) -> Manifest:
    return plan(tiny(**settings), seed=seed, simulations=SPLITS, points=POINTS, shard_size=shard_size)


def few() -> Manifest:
    simulations, points = {"train": 3, "test": 1}, {"train": POINTS["train"], "test": POINTS["test"]}
    return plan(tiny(), seed=3, simulations=simulations, points=points, shard_size=2)


def arrays(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """The bytes of every field and scalar, joined over shards."""
    contents: dict[str, bytes] = {}
    for shard in manifest.shards():
        for sizes, file in shard.files().items():
            data = read_shard(folder / file)
            for key, values in {**data.fields, **data.scalars}.items():
                name = f"{shard.split} {sizes} {key}"
                contents[name] = contents.get(name, b"") + values.tobytes()
    return contents
