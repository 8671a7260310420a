"""Constants are made once, and never carry the state of the call that made them."""

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from mondrian.quadrature import Cell, Midpoint
from mondrian.support.constants import constant


def counted():
    calls = []

    @constant
    def ramp(size, dtype):
        calls.append(size)
        return torch.arange(size, dtype=dtype)

    return ramp, calls


def test_they_are_made_once_for_each_set_of_arguments():
    ramp, calls = counted()
    assert ramp(3, torch.float32) is ramp(3, torch.float32)
    assert ramp(3, torch.float64).dtype == torch.float64
    assert ramp(4, torch.float32).shape == (4,)
    assert calls == [3, 3, 4]


def test_one_made_in_inference_mode_takes_part_in_training_later():
    ramp, _ = counted()
    with torch.inference_mode():
        ramp(3, torch.float32)
    assert not ramp(3, torch.float32).is_inference()
    weight = torch.ones(3, requires_grad=True)
    (weight * ramp(3, torch.float32)).sum().backward()
    torch.testing.assert_close(weight.grad, torch.arange(3.0))


def test_tensors_of_a_fake_mode_or_of_a_transform_are_not_kept():
    ramp, _ = counted()
    with FakeTensorMode():
        assert isinstance(ramp(3, torch.float32), FakeTensor)
    torch.func.grad(lambda x: (x * ramp(3, torch.float32)).sum())(torch.ones(3))
    kept = ramp(3, torch.float32)
    assert type(kept) is torch.Tensor
    assert not torch._C._functorch.is_functorch_wrapped_tensor(kept)


def test_a_cell_of_one_precision_or_device_is_not_taken_for_another():
    single, double = (Cell.build((4, 4), Midpoint(), dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert single == double
    assert (single.weights.dtype, double.weights.dtype) == (torch.float32, torch.float64)
    assert Cell.build((4, 4), Midpoint(), device="meta").weights.is_meta
    assert Cell.build((4, 4), Midpoint(), dtype=torch.float32).coordinates is single.coordinates
