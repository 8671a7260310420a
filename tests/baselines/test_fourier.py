"""Multiplied spectra: the sum over frequencies that the docstring names, and what a transform may be given."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from mondrian.models.baselines.fourier import fourier_multiply

pytestmark = pytest.mark.usefixtures("float64")


def by_definition(u: Tensor, weight: Tensor) -> Tensor:
    """The sum over all frequencies; those of the last axis stand for their conjugates too."""
    space, modes = u.shape[2:], weight.shape[2:-1]
    matrices = torch.view_as_complex(weight)
    points = torch.cartesian_prod(*(torch.arange(n) / n for n in space)).reshape(math.prod(space), -1)
    flat = u.flatten(2).to(torch.complex128)
    result = torch.zeros(u.shape[0], weight.shape[1], len(points))
    starts = [-(m // 2) for m in modes[:-1]] + [0]
    for index in product(*(range(m) for m in modes)):
        k = torch.tensor([start + i for start, i in zip(starts, index, strict=True)])
        if any(2 * abs(int(number)) >= n for number, n in zip(k, space, strict=True)):
            continue
        wave = torch.exp(2j * math.pi * (points @ k.double()))
        coefficient = (flat @ wave.conj()) / len(points)
        mixed = torch.einsum("bi,io->bo", coefficient, matrices[(slice(None), slice(None), *index)])
        result += (1 if k[-1] == 0 else 2) * (mixed[..., None] * wave).real
    return result.unflatten(2, space)


CASES = [((9,), (4,)), ((8,), (8,)), ((6, 7), (4, 3)), ((4, 8), (6, 5)), ((4, 5, 6), (2, 4, 3))]


@pytest.mark.parametrize(("space", "modes"), CASES)
def test_it_is_the_sum_over_frequencies(space, modes) -> None:
    u, weight = torch.randn(2, 3, *space), torch.randn(3, 2, *modes, 2)
    torch.testing.assert_close(fourier_multiply(u, weight), by_definition(u, weight))


@pytest.mark.parametrize(("space", "modes"), CASES)
def test_the_last_transform_is_given_the_spectrum_of_a_real_function(space, modes, monkeypatch) -> None:
    """A GPU's transform answers anything else with what it likes."""
    seen = []
    original = torch.fft.irfft

    def watched(spectrum: Tensor, **settings) -> Tensor:
        seen.append(spectrum.detach())
        return original(spectrum, **settings)

    monkeypatch.setattr(torch.fft, "irfft", watched)
    monkeypatch.setattr(torch.fft, "irfftn", None)  # of several axes it wants a symmetry along each
    fourier_multiply(torch.randn(2, 3, *space), torch.randn(3, 2, *modes, 2))
    (spectrum,) = seen
    assert spectrum[..., 0].imag.abs().max() == 0
    assert 2 * (spectrum.shape[-1] - 1) < space[-1]  # nor is there a lone highest frequency


def test_gradients() -> None:
    u, weight = torch.randn(1, 2, 4, 5, requires_grad=True), torch.randn(2, 2, 3, 2, 2, requires_grad=True)
    assert torch.autograd.gradcheck(fourier_multiply, (u, weight))
