"""The models of the paper by name: a function builds what the spec of a file resolves to."""

import json

import pytest
import torch

from mondrian import Boxes, GlobalAttention, LearnedPosition, Mixture, RelativeBias, WindowedAttention
from mondrian.models import (
    NbrNO,
    PointNO,
    PointSpec,
    SwinNO,
    TransformerSpec,
    UNetNO,
    UNetSpec,
    ViTNO,
    nbr_no,
    point_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.support.spec import Spec

CASES = [
    (ViTNO, vit_no, TransformerSpec, {"n_heads": 2, "attention_operator": Mixture(terms=2)}),
    (SwinNO, swin_no, TransformerSpec, {"window": (2, 2), "shift": (1, 0)}),
    (NbrNO, nbr_no, TransformerSpec, {"radius": 1, "zero_far": True}),
    (UNetNO, unet_no, UNetSpec, {"levels": 2, "radius": 2, "n_layers": 1}),
    (PointNO, point_no, PointSpec, {"n_heads": 2, "radius": 1.5, "partition": Boxes((2, 2))}),
]


@pytest.mark.parametrize(("kind", "function", "resolved", "settings"), CASES)
def test_a_function_builds_what_the_spec_resolves_to(kind, function, resolved, settings):
    common = {} if kind is PointNO else {"subdomains": (4, 4)}
    spec = kind(1, 1, hidden_channels=8, **common, **settings)
    assert type(spec.resolved()) is resolved
    with torch.device("meta"):
        assert function(1, 1, hidden_channels=8, **common, **settings).spec == spec.resolved() == spec.build().spec
    assert Spec.from_json(json.loads(json.dumps(spec.to_json()))).resolved() == spec.resolved()
    assert spec.resolved().resolved() == spec.resolved()


def test_windows_have_learned_positions_and_a_relative_bias_unless_told_otherwise():
    spec = SwinNO(1, 1, subdomains=(4, 4), window=(2, 4)).resolved()
    assert spec.attention == WindowedAttention(window=(2, 4), shift=(1, 2))
    assert spec.positions == (LearnedPosition(tile=(2, 4)), RelativeBias())
    assert SwinNO(1, 1, subdomains=(4, 4), positions=()).resolved().positions == ()


def test_another_pattern_beside_the_named_one_is_refused():
    with pytest.raises(ValueError, match=r"attention=GlobalAttention\(.*needed spec=TransformerSpec"):
        NbrNO(1, 1, subdomains=(4, 4), attention=GlobalAttention())
