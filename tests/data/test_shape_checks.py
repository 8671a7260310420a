"""The run-time shape checks of the test suite see the data package: an annotation that cannot be read is silent."""

import inspect
import pkgutil
from importlib import import_module

import jaxtyping
import numpy as np
import pytest
import torch

import mondrian.data
from mondrian.data.arrays import MemoryArray
from mondrian.data.bases import apply_along
from mondrian.data.datasets import _finite
from mondrian.data.random_fields import random_field
from mondrian.data.restriction import BlockAverage, block_average, fourier_truncate, linear
from mondrian.data.sources.grids import grid_from_axes
from mondrian.grid import Grid

GRID = Grid(extent=(1.0,), points=(8,))
MODULES = [import_module(info.name) for info in pkgutil.walk_packages(mondrian.data.__path__, "mondrian.data.")]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_annotation_can_be_read(module):
    members = [item for item in vars(module).values() if getattr(item, "__module__", "") == module.__name__]
    functions = [item for item in members if inspect.isfunction(item)]
    for kind in filter(inspect.isclass, members):
        attributes = [getattr(item, "fget", item) for item in vars(kind).values()]
        functions += filter(inspect.isfunction, attributes)
        inspect.get_annotations(kind, eval_str=True)
    for function in functions:
        inspect.get_annotations(inspect.unwrap(function), eval_str=True)


@pytest.mark.checked
@pytest.mark.parametrize(
    "call",
    [
        lambda: block_average(torch.ones(2, 8, dtype=torch.long), (4,)),
        lambda: linear(torch.ones(2, 8, dtype=torch.long), (4,)),
        lambda: fourier_truncate(torch.ones(2, 8, dtype=torch.complex64), (4,)),
        lambda: apply_along(torch.ones(3, 8), torch.ones(2, 8, dtype=torch.long), 0),
        lambda: apply_along(torch.ones(8), torch.ones(2, 8), 0),
        lambda: random_field([0], GRID, lambda k: k.to(torch.complex128)),
        lambda: MemoryArray([1.0, 2.0], file="list"),
        lambda: _finite(np.ones(3, dtype=int)),
        lambda: grid_from_axes([[0.5, 1.5]], (False,), file="list", keys=["x"]),
    ],
)
def test_a_wrong_type_is_refused(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


@pytest.mark.checked
def test_a_spec_is_refused_by_the_function_that_it_calls():
    with pytest.raises(jaxtyping.TypeCheckError):  # specs themselves are not checked: they turn lists into tuples
        BlockAverage()(torch.ones(2, 8, dtype=torch.long), (4,))
