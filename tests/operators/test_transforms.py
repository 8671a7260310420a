"""The transforms of `torch.func` see through every operator, whichever way it is evaluated."""

import pytest
import torch
from torch import func
from torch.autograd.functional import jacobian

from mondrian import RelativeBias, SeparableMixture, vit_no
from mondrian.operators import KernelMethod
from mondrian.quadrature import Cell, Midpoint
from tests.operators.cases import SPECS, cell_of, choose, operator, ways

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),  # by torch.func.jvp itself
]
every_operator = pytest.mark.parametrize("name", SPECS)


@every_operator
def test_gradients_of_each_sample_are_those_of_a_loop(name):
    cell, built = cell_of("2-D"), operator(SPECS[name])
    weights, v = dict(built.named_parameters()), torch.randn(3, 2, 4, cell.size)

    def loss(weights, sample):
        return func.functional_call(built, weights, (sample[None], cell)).sin().sum()

    for way in ways(built):
        choose(built, way, tolerance=1e-6)
        joint = func.vmap(func.grad(loss), in_dims=(None, 0))(weights, v)
        for number, sample in enumerate(v):
            alone = torch.autograd.grad(loss(weights, sample), list(weights.values()))
            for key, slope in zip(weights, alone, strict=True):
                torch.testing.assert_close(joint[key][number], slope, msg=f"{way} {key}")


@every_operator
def test_derivatives_by_the_input_are_those_of_autograd(name):
    cell, built = Cell.build((2, 3), Midpoint()), operator(SPECS[name], (3, 2))
    v, direction = torch.randn(2, 1, 2, 3, cell.size)
    for way in ways(built):
        choose(built, way, tolerance=1e-6)

        def apply(v):
            return built(v, cell)

        matrix = jacobian(apply, v)
        torch.testing.assert_close(func.jacrev(apply)(v), matrix)
        torch.testing.assert_close(jacobian(apply, v, vectorize=True), matrix)
        along = torch.einsum("bcoxBCIy,BCIy->bcox", matrix, direction)
        torch.testing.assert_close(func.jvp(apply, (v,), (direction,))[1], along)
        forward = jacobian(apply, v, vectorize=True, strategy="forward-mode")
        torch.testing.assert_close(forward, matrix)


@every_operator
@pytest.mark.parametrize("recorded", [True, False])
def test_many_weights_at_once_are_each_by_itself(name, recorded):
    cell = Cell.build((24, 24), Midpoint())
    members = [operator(SPECS[name]) for _ in range(3)]
    weights, buffers = func.stack_module_state(members)
    v = torch.randn(1, 2, 4, cell.size)

    def apply(weights, buffers):
        return func.functional_call(members[0], (weights, buffers), (v, cell))

    with torch.set_grad_enabled(recorded):
        for u, member in zip(func.vmap(apply)(weights, buffers), members, strict=True):
            torch.testing.assert_close(u, member(v, cell), rtol=1e-4, atol=1e-4)  # which may separate its kernel


def test_weights_that_are_many_cannot_be_separated_by_force():
    cell, built = cell_of("2-D"), operator(SPECS["mixture"])
    v, (weights, buffers) = torch.randn(1, 1, 4, cell.size), func.stack_module_state([built, built])
    built.method = KernelMethod.SEPARATED
    with pytest.raises(ValueError, match=r"cannot be met by a separated kernel.*torch.func.vmap does not hide"):
        func.vmap(lambda *state: func.functional_call(built, state, (v, cell)))(weights, buffers)


def test_without_gradients_nothing_of_a_transform_is_kept():
    cell, built = cell_of("2-D"), operator(SPECS["separable"]).eval()
    v = torch.randn(3, 2, 4, cell.size)
    with torch.no_grad():
        for way in ways(built):
            choose(built, way, tolerance=1e-6)
            inside = func.vmap(lambda sample: built(sample[None], cell)[0])(v)
            assert built.cache.entry is None
            torch.testing.assert_close(inside, built(v, cell))
            built.forget()


@pytest.mark.parametrize("name", ["separable", "mixture", "integral", "attention"])
def test_a_whole_model_is_seen_through(name):
    settings = {"hidden_channels": 4, "n_layers": 1, "n_heads": 2, "subdomains": (2, 2)}
    model = vit_no(1, 1, operator=SPECS[name], positions=(RelativeBias(),), **settings)
    x = torch.randn(1, 1, 4, 4)
    matrix = jacobian(model, x)
    torch.testing.assert_close(func.jacrev(model)(x), matrix)
    torch.testing.assert_close(func.jacfwd(model)(x), matrix)
    torch.testing.assert_close(jacobian(model, x, vectorize=True), matrix)


def test_under_a_transform_the_kernel_is_separated_where_its_weights_can_be_read(monkeypatch):
    built = SeparableMixture(terms=4).build(4, 4)
    cell = Cell.build((24, 24), Midpoint())
    v, weights, used = torch.randn(2, 2, 4, cell.size), dict(built.named_parameters()), []
    separated = built.separated

    def noted(*args):
        used.append(args[-1])
        return separated(*args)

    monkeypatch.setattr(built, "separated", noted)

    def loss(weights, v):
        return func.functional_call(built, weights, (v[None], cell)).sum()

    func.grad(loss)(weights, v[0])
    func.vmap(func.grad(loss), in_dims=(None, 0))(weights, v)
    func.vmap(loss, in_dims=(None, 0))(weights, v)
    assert used == [built.terms.terms] * 3
