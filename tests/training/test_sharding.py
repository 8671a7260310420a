"""A sharded model is the same function, and what it keeps between calls knows when its weights have changed."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from mondrian import SeparableMixture, TransformerOperator, vit_no
from mondrian.operators.kernel_cache import WeightSnapshot
from mondrian.operators.ridge import Ridge, terms_needed
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.training.sharding import count_steps, own_part, shard


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A process group of this process alone."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


@pytest.fixture
def model(float64: None) -> TransformerOperator:
    operator = SeparableMixture(terms=4)
    return vit_no(
        in_channels=1, out_channels=1, hidden_channels=8, n_layers=2, n_heads=2, subdomains=(2, 2), operator=operator
    )


def test_values_and_gradients_are_those_of_the_whole_model(model: TransformerOperator, mesh: DeviceMesh) -> None:
    whole, x = copy.deepcopy(model), torch.randn(2, 1, 8, 8)
    shard(model, mesh)
    model(model(x)).square().mean().backward()  # twice the same weights in one graph
    whole(whole(x)).square().mean().backward()
    for (name, weight), other in zip(model.named_parameters(), whole.parameters(), strict=True):
        assert isinstance(weight, DTensor), name
        assert torch.equal(own_part(weight), other)
        assert torch.allclose(weight.grad.full_tensor(), other.grad, rtol=1e-12, atol=1e-15), name
    model.eval()  # what looks at weights when the mode changes meets them sharded
    assert torch.allclose(model(x), whole.eval()(x), rtol=1e-12)


def test_counters_rise_with_each_step_and_only_then(model: TransformerOperator, mesh: DeviceMesh) -> None:
    shard(model, mesh)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    count_steps(model, optimiser)
    seen: dict[nn.Module, list[int]] = {}

    def note(operator: nn.Module, *_: object) -> None:
        state = WeightSnapshot.take(list(operator.parameters())).state
        assert state is not None
        seen.setdefault(operator, []).append(state[0][1])

    for operator in (model.lift.first, *(block.feed_forward.first for block in model.blocks)):
        operator.register_forward_pre_hook(note)
    x = torch.randn(2, 1, 8, 8)
    for _ in range(3):
        with torch.no_grad():
            y: Tensor = model(x)
        model(y).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    for versions in seen.values():
        first = versions[0]
        assert versions == [first, first, first + 1, first + 1, first + 2, first + 2]


def test_the_weights_of_a_sharded_model_are_read_once_in_many_steps(
    model: TransformerOperator, mesh: DeviceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Ridge] = []

    def counted(ridge: Ridge, tolerance: float) -> int | None:
        read.append(ridge)
        return terms_needed(ridge, tolerance)

    shard(model, mesh)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    count_steps(model, optimiser)
    operators = [module for module in model.modules() if isinstance(module, RidgeOperator)]
    monkeypatch.setattr("mondrian.operators.separation_terms.terms_needed", counted)
    for _ in range(5):
        model(torch.randn(2, 1, 8, 8)).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    assert len(read) == len(operators)


def test_a_sharded_model_in_use_knows_weights_that_are_loaded(model: TransformerOperator, mesh: DeviceMesh) -> None:
    other, x = copy.deepcopy(model), torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        for weight in other.parameters():
            weight += 0.1 * torch.randn_like(weight)
        shard(model.eval(), mesh)
        model(x)
        model.load_state_dict({name: distribute_tensor(value, mesh) for name, value in other.state_dict().items()})
        assert torch.allclose(model(x), other.eval()(x), rtol=1e-12)


def test_weights_of_several_kinds_are_refused(mesh: DeviceMesh) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(ValueError, match=r"cannot shard weights of several kinds \(float32, float64\); needed ddp"):
        shard(model, mesh)
