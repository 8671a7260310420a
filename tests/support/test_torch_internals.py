"""What the private names of torch promise, in the versions that we know: a new torch fails here first."""

import re
from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import mondrian
from mondrian.support import torch_internals
from mondrian.support.torch_internals import (
    SEEN_IN,
    backward_active,
    dispatch_mode_active,
    forward_mode_active,
    is_batched,
    is_batched_gradient,
    is_wrapped,
    transform_active,
    unwrapped,
    write_count,
)


def test_this_torch_is_one_that_was_seen():
    release = torch.__version__.partition("+")[0]
    assert release in SEEN_IN, f"torch {release} is new: once the tests below pass, add it to SEEN_IN"


def test_nobody_else_uses_a_private_name_of_torch():
    private = re.compile(r"torch(\.\w+)*\._(?!_)\w+|\b_C\b|forward_ad\._|\._version\b|lightning(\.\w+)*\._(?!_)\w+")
    files = Path(mondrian.__file__).parent.rglob("*.py")
    users = {file.name for file in files if private.search(file.read_text())}
    assert users == {Path(torch_internals.__file__).name}


def test_a_transform_is_seen_inside_of_it_and_its_tensors_can_be_unwrapped():
    seen = []

    def square(x):
        seen.append((transform_active(), is_wrapped(x), is_batched(x), unwrapped(x).shape))
        return (x * x).sum()

    x = torch.arange(6.0).reshape(3, 2)
    torch.func.grad(square)(x)
    torch.func.vmap(square)(x)
    assert seen == [(True, True, False, (3, 2)), (True, True, True, (3, 2))]
    assert not transform_active()
    assert not is_wrapped(x)


def test_batched_gradients_are_seen():
    seen = []

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(is_batched_gradient(gradient))
            return gradient

    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(Identity.apply(x), x, torch.eye(2), is_grads_batched=True)
    torch.autograd.grad(Identity.apply(x), x, torch.ones(2))
    assert seen == [True, False]


def test_forward_mode_is_seen():
    assert not forward_mode_active()
    with forward_ad.dual_level():
        assert forward_mode_active()
    assert not forward_mode_active()


def test_a_dispatch_mode_is_seen():
    assert not dispatch_mode_active()
    with FakeTensorMode():
        assert dispatch_mode_active()
    assert not dispatch_mode_active()


def test_a_backward_pass_is_seen_where_a_layer_is_computed_again():
    seen = []

    def layer(x):
        seen.append(backward_active())
        return x.sin()

    checkpoint(layer, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
    assert seen == [False, True]


def test_writes_are_counted_for_all_tensors_of_the_same_memory():
    x = torch.zeros(4)
    before = write_count(x)
    x[:2].add_(1)
    assert write_count(x) > before
    assert write_count(x[2:]) == write_count(x)


def test_moves_casts_and_loading_go_through_the_methods_that_we_override():
    called = []

    class Layer(nn.Linear):
        def _apply(self, change, recurse=True):
            called.append("apply")
            return super()._apply(change, recurse)

        def _load_from_state_dict(self, *args, **kwargs):
            called.append("load")
            super()._load_from_state_dict(*args, **kwargs)

    layer = Layer(2, 2)
    nn.Sequential(layer).to(torch.float64)
    nn.Sequential(layer).load_state_dict(nn.Sequential(nn.Linear(2, 2)).state_dict())
    assert called == ["apply", "load"]
