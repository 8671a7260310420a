"""Other domains than the one a model was made for: more subdomains of the same size."""

import pytest
import torch

from mondrian import Gaze, Grid, LearnedPosition, RelativeBias, Rotary
from mondrian.models import TransformerOperator
from tests.models.cases import small

pytestmark = pytest.mark.usefixtures("float64")
SIZE = (0.25, 0.25)  # 4 x 6 subdomains of the box 1 x 1.5


def sized(kind: str, **more) -> TransformerOperator:
    return small(kind, subdomains=(), subdomain_size=SIZE, **more)


@pytest.mark.parametrize("stagger", [False, True], ids=["plain", "staggered"])
@pytest.mark.parametrize("points", [3, 2.5], ids=["divided", "resampled"])
@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        ("vit", ()),
        ("nbr", (RelativeBias(),)),
        ("nbr", ()),
        ("nbr", (Gaze(),)),
        ("swin", (LearnedPosition(tile=(2, 2)), RelativeBias())),
    ],
    ids=["vit", "nbr with bias", "nbr", "nbr with gaze", "swin"],
)
def test_a_torus_twice_as_long_with_the_same_field_twice_gives_the_same_answer_twice(kind, positions, points, stagger):
    """Each subdomain sees what it saw: the mean over all of them twice, or the same neighbours."""
    model = sized(kind, periodic=True, positions=positions, stagger=stagger)
    x = torch.randn(1, 2, int(4 * points), int(6 * points))
    long = Grid((2.0, 1.5), periodic=(True, True))
    y = model(x)
    torch.testing.assert_close(model(x.repeat(1, 1, 2, 1), long), y.repeat(1, 1, 2, 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("position", [RelativeBias(), Gaze(), Rotary()], ids=["bias", "gaze", "rotary"])
def test_neighbours_on_a_longer_box_have_the_offsets_they_had(position):
    """Far from the new end a neighbourhood is the one that was learned: two blocks of radius 1 reach two cells."""
    model = sized("nbr", positions=(position,))
    x = torch.randn(1, 2, 32, 24)
    long, short = model(x, Grid((2.0, 1.5))), model(x[:, :, :16])
    torch.testing.assert_close(long[:, :, :8], short[:, :, :8], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(long[:, :, 12:16], short[:, :, 12:16])


def test_rotary_on_a_ring_knows_its_length_and_says_what_to_choose():
    model = sized("nbr", periodic=True, positions=(Rotary(),))
    x = torch.randn(1, 2, 16, 12)
    model(x[:, :, :8])
    with pytest.raises(ValueError, match=r"subdomains=\(8, 6\), but Rotary was trained on rings of \(4, 6\).*choose RelativeBias"):  # fmt: skip # noqa: E501
        model(x, Grid((2.0, 1.5), periodic=(True, True)))
    model(x, Grid((2.0, 1.5), periodic=(False, True)))  # on a box its angles do not depend on the length


def test_a_learned_position_says_what_to_choose():
    model = sized("vit")
    with pytest.raises(
        ValueError,
        match=r"subdomains=\(8, 6\), but LearnedPosition has functions for \(4, 6\);.*choose RelativeBias",
    ):
        model(torch.randn(1, 2, 16, 12), Grid((2.0, 1.5)))


def test_a_domain_that_the_subdomains_do_not_fill_is_refused():
    model = sized("nbr", positions=())
    with pytest.raises(ValueError, match=r"size=\(0.25, 0.25\) does not divide extent=\(1.1, 1.5\)"):
        model(torch.randn(1, 2, 16, 12), Grid((1.1, 1.5)))
