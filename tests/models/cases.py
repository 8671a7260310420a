"""Small models of every kind."""

import torch

from mondrian import Grid, LearnedPosition, RelativeBias, Rotary, SeparableMixture, nbr_no, swin_no, unet_no, vit_no
from mondrian.models import TransformerOperator

OPERATOR = SeparableMixture(terms=4, skip=True)


def small(kind: str, *, dim: int = 2, periodic: bool = False, relative: bool = False, **more) -> TransformerOperator:
    """A model with two channels in, three out, whose weights are away from their initial values."""
    counts = more.pop("subdomains", (4, 6, 2)[:dim])
    settings = {
        "hidden_channels": 16,
        "n_layers": 2,
        "n_heads": 2,
        "subdomains": counts,
        "operator": OPERATOR,
        "grid": Grid(extent=(1.0, 1.5, 0.5)[:dim], periodic=(periodic,) * dim),
    } | more
    if relative:
        settings["positions"] = (RelativeBias(), Rotary())
    match kind:
        case "vit":
            model = vit_no(2, 3, **settings)
        case "swin":
            model = swin_no(2, 3, window=(2,) * dim, shift=(1,) * dim, **settings)
        case "nbr":
            model = nbr_no(2, 3, radius=1, **settings)
        case "unet":
            model = unet_no(2, 3, radius=1, levels=2, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


KINDS = ("vit", "swin", "nbr")
ALL_KINDS = (*KINDS, "unet")


def transposed(model: TransformerOperator, like: TransformerOperator) -> TransformerOperator:
    """The weights of `like` with the two axes of space exchanged, in a model built with exchanged axes."""
    state = like.state_dict()
    swapped = {}
    for name, weight in state.items():
        if name.endswith("bias.first.weight"):
            weight = weight[:, [1, 0]]  # offset along each axis
        elif name.endswith("first.weight") and weight.shape[1] == 4:
            weight = weight[:, [1, 0, 3, 2]]  # x and y, two coordinates each
        elif name.startswith("positions"):
            counts = like.spec.positions[0].tile or like.spec.subdomains
            weight = weight.unflatten(0, counts).transpose(0, 1).flatten(0, 1)
        swapped[name] = weight
    model.load_state_dict(swapped)
    return model


__all__ = ["ALL_KINDS", "KINDS", "OPERATOR", "LearnedPosition", "small", "transposed"]
