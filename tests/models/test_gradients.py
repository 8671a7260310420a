"""Gradients as optimisers use them: added up over several passes, and scaled in place."""

import pytest
import torch

import mondrian
from mondrian.settings.recipes import recipe_names

RECIPES = [name for name in recipe_names() if name.startswith("allen_cahn/") and "updown" not in name]


def small(name: str) -> torch.nn.Module:
    words = ["model.hidden_channels=16", "model.n_layers=2"]
    if name.split("/")[1].startswith(("vit", "swin", "nbr")):
        words.append("model.subdomains=[4,4]")
    return mondrian.build(name, *words)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", RECIPES)
def test_gradients_of_two_halves_add_up_to_that_of_the_whole_batch_and_share_no_memory(name: str) -> None:
    """Clipping scales gradients in place: one memory under two names would be scaled twice."""
    model = small(name)
    x, y = torch.randn(4, 2, 16, 16), torch.randn(4, 1, 16, 16)

    def gradients(parts: int) -> list[torch.Tensor]:
        model.zero_grad()
        for part, target in zip(x.chunk(parts), y.chunk(parts), strict=True):
            ((model(part) - target).square().mean() / parts).backward()
        return [torch.zeros(()) if p.grad is None else p.grad.clone() for p in model.parameters()]

    for whole, halves in zip(gradients(1), gradients(2), strict=True):
        torch.testing.assert_close(halves, whole, rtol=1e-6, atol=1e-8)  # FNO keeps complex64
    places = [parameter.grad.data_ptr() for parameter in model.parameters() if parameter.grad is not None]
    assert len(set(places)) == len(places)
