"""The model on points: consistency with grids, symmetries, convergence, ragged batches, artefact, refusals."""

import math

import pytest
import torch
from skfem import MeshTri

import mondrian
from mondrian import (
    Decomposition,
    GlobalAttention,
    Grid,
    LearnedPosition,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    WindowedAttention,
)
from mondrian.attention import CentreAttention, CoordinatePosition, Position
from mondrian.models import PointSpec, point_no
from mondrian.operators import use_definitions
from mondrian.points import Boxes, Mesh, MetisParts, Placement, PointSet, parts_of, with_neighbours
from mondrian.quadrature import Cell, Midpoint
from tests.points.cases import RESAMPLERS, UNIT, cloud, small, smooth, square_mesh
from tests.unchecked import unchecked

pytestmark = pytest.mark.usefixtures("float64")
METIS = MetisParts(parts=5)
CASES = {
    "boxes": {},
    "boxes, integral": {"resampler": RESAMPLERS["integral"]},
    "boxes, staggered": {"stagger": True},
    "boxes, near": {"radius": 1.0},
    "boxes, lattice": {
        "attention": NeighborhoodAttention(n_heads=2, radius=1),
        "positions": (LearnedPosition(), Rotary()),
    },
    "boxes, windows": {"attention": WindowedAttention(n_heads=2, window=(3, 2)), "stagger": True, "positions": ()},
    "parts": {"partition": METIS},
    "parts, near, integral": {"partition": METIS, "radius": 1.2, "resampler": RESAMPLERS["integral"]},
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def lshape():
    peer = MeshTri.init_lshaped().refined(2)
    return Mesh(torch.from_numpy(peer.p.T.copy()), torch.from_numpy(peer.t.T.copy())).point_set()


@every_case
def test_it_equals_the_model_made_of_plain_definitions(case):
    model, points = small(**case), lshape()
    values = torch.randn(2, 2, points.size)
    fast = model(values, points)
    assert fast.shape == (2, 3, points.size)
    torch.testing.assert_close(fast, use_definitions(model)(values, points), rtol=1e-9, atol=1e-9)


@every_case
def test_a_batch_of_different_meshes_is_each_of_them_alone(case):
    model = small(**case)
    sets = [lshape(), square_mesh(5, jitter=0.2).point_set(), square_mesh(8).point_set()]
    values = [torch.randn(2, points.size) for points in sets]
    together = model(values, sets)
    assert [tuple(u.shape) for u in together] == [(3, points.size) for points in sets]
    for function, points, result in zip(values, sets, together, strict=True):
        torch.testing.assert_close(result, model(function[None], points)[0], rtol=1e-9, atol=1e-9)
    wanted = [PointSet(torch.rand(n, 2), box=UNIT) for n in (4, 1, 9)]
    elsewhere = model(values, sets, wanted)
    for function, points, out, result in zip(values, sets, wanted, elsewhere, strict=True):
        torch.testing.assert_close(result, model(function[None], points, out)[0], rtol=1e-9, atol=1e-9)


@every_case
def test_asking_at_the_given_points_is_asking_for_nothing_else(case):
    model, points = small(**case), lshape()
    values = torch.randn(1, 2, points.size)
    same = PointSet(points.coordinates, box=points.domain)
    torch.testing.assert_close(model(values, points, same), model(values, points))
    placed = model.place(points)
    assert torch.equal(model(values, placed), model(values, points))
    torch.testing.assert_close(model(values, placed, model.place(points)), model(values, points))
    some = PointSet(points.coordinates[:7], box=points.domain)
    torch.testing.assert_close(model(values, placed, placed.at([some])), model(values, points)[..., :7])


def test_on_a_grid_the_blocks_see_what_they_see_on_a_grid():
    """With resamplers of no reach and idle networks, reference points on the points: the blocks on the cut grid."""
    grid = Grid(extent=(3.0, 2.0), points=(6, 6))
    model = point_no(
        8, 8, partition=Boxes((3, 2)), hidden_channels=8, n_layers=2, n_heads=2, reference=(2, 3), stagger=True,
        positions=(RelativeBias(),),
    )  # fmt: skip
    with torch.no_grad():
        for network in (model.embed, model.project):
            network.skip.weight.copy_(torch.eye(8))
            network.skip.bias.zero_()
            network.second.weight.zero_()
        for resampler in (model.encode, model.decode):
            resampler.value.weight.copy_(torch.eye(8))
            resampler.out.weight.copy_(torch.eye(8))
            resampler.out.bias.zero_()
            resampler.log_reach.fill_(math.log(1e-4))
    u = torch.randn(2, 8, 6, 6)
    result = model(u.flatten(2), PointSet.of_grid(grid)).unflatten(2, (6, 6))

    decomposition = Decomposition(grid, (3, 2))
    cell = Cell.build((2, 3), Midpoint())
    regular = mondrian.vit_no(
        8, 8, hidden_channels=8, n_layers=2, n_heads=2, subdomains=(3, 2), operator=model.spec.operator,
        positions=(RelativeBias(),), stagger=True,
    )  # fmt: skip
    regular.blocks.load_state_dict(model.blocks.state_dict())
    expected = decomposition.join(regular.blocks(decomposition.cut(u), cell, decomposition))
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)


@every_case
def test_the_order_of_points_does_not_matter_and_outputs_move_with_them(case):
    model, points = small(**case), lshape()
    partition = model.spec.partition.cut(points)
    order = torch.randperm(points.size)
    moved = PointSet(points.coordinates[order], points.weights[order], points.domain)
    if partition.lattice is None:  # METIS itself may cut differently when points are numbered differently
        placed = Placement.of([parts_of(moved, partition.members[order], partition.cells)])
    else:
        placed = model.place(moved)
    values = torch.randn(2, 2, points.size)
    expected = model(values, Placement.of([partition]))[..., order]
    torch.testing.assert_close(model(values[..., order], placed), expected, rtol=1e-9, atol=1e-9)


def test_the_numbering_of_parts_does_not_matter():
    model, points = small(METIS, radius=1.5), lshape()
    partition = METIS.cut(points)
    renumbered = parts_of(points, torch.randperm(5)[partition.members], 5)
    values = torch.randn(2, 2, points.size)
    torch.testing.assert_close(
        model(values, Placement.of([partition])), model(values, Placement.of([renumbered])), rtol=1e-9, atol=1e-9
    )


@every_case
def test_moving_and_scaling_the_domain_changes_nothing(case):
    model, points = small(**case), lshape()
    box = Grid(
        extent=tuple(5 * side for side in points.domain.extent),
        origin=tuple(5 * start + 2 for start in points.domain.origin),
    )
    elsewhere = PointSet(5 * points.coordinates + 2, 25 * points.weights, box, points.edges)
    values = torch.randn(1, 2, points.size)
    torch.testing.assert_close(model(values, elsewhere), model(values, points), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("resampler", RESAMPLERS.values(), ids=RESAMPLERS)
@pytest.mark.parametrize("stagger", [False, True], ids=["plain", "staggered"])
def test_refining_the_points_converges_at_second_order(resampler, stagger):
    model = small(Boxes((2, 2)), resampler=resampler, stagger=stagger)
    wanted = PointSet(torch.rand(20, 2), box=UNIT)

    def output(n):
        points = PointSet.of_grid(Grid((1.0, 1.0), points=(2 * n, 2 * n)))
        return model(smooth(points)[None], points, wanted)

    truth = output(96)
    errors = [(output(n) - truth).norm().item() for n in (12, 24)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)
    assert errors[1] < 0.01 * truth.norm()


def test_meshes_and_clouds_converge_to_what_grids_do():
    model = small(Boxes((1, 1)), reference=(3, 3))
    wanted = PointSet(torch.rand(20, 2), box=UNIT)

    def output(points):
        return model(smooth(points)[None], points, wanted)

    truth = output(PointSet.of_grid(Grid((1.0, 1.0), points=(128, 128))))
    meshes = [(output(square_mesh(n, jitter=0.2).point_set()) - truth).norm().item() for n in (12, 24)]
    assert math.log2(meshes[0] / meshes[1]) == pytest.approx(2.0, abs=0.4)
    clouds = [(output(cloud(n)) - truth).norm().item() for n in (100, 1600)]
    assert clouds[1] < clouds[0] / 4


@every_case
def test_every_parameter_gets_a_gradient(case):
    model, points = small(**case), lshape()
    model(torch.randn(2, 2, points.size), points).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().amax() > 0, name


def test_gradients_in_the_values_are_those_of_finite_differences():
    model, points = small(Boxes((2, 1)), n_layers=1), cloud(8)
    placed = model.place(points)
    values = torch.randn(1, 2, 8, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: use_definitions(model)(v, placed), values)


def test_far_cells_are_reached_only_through_neighbours():
    """One block of radius 1: nothing further than one cell; the resamplers stay inside a cell."""
    model = small(Boxes((5, 1)), n_layers=1, radius=1.0)
    points = cloud(100)
    member = Boxes((5, 1)).cut(points).members
    values = torch.randn(1, 2, 100)
    changed = values.clone()
    changed[..., member == 0] += 1
    moved = (model(values, points) - model(changed, points)).abs().amax(dim=(0, 1)) > 1e-12
    assert moved[member <= 1].all()
    assert not moved[member >= 2].any()


def test_it_can_be_asked_where_nothing_is_given():
    """A box without points still has an answer, made of what the other boxes say."""
    model = small(Boxes((2, 1)))
    points = PointSet(cloud(30).coordinates * torch.tensor([0.5, 1.0]), cloud(30).weights / 2, UNIT)
    wanted = PointSet(torch.rand(5, 2) * 0.4 + 0.6, box=UNIT)
    values = torch.randn(2, 2, 30)
    result = model(values, points, wanted)
    assert result.isfinite().all()
    assert (result[0] - result[1]).abs().max() > 1e-3


@every_case
def test_it_survives_a_folder(case, tmp_path):
    model, points = small(**case), lshape()
    model.save_pretrained(tmp_path)
    again = mondrian.from_pretrained(tmp_path)
    assert again.spec == model.spec
    values = torch.randn(1, 2, points.size)
    assert torch.equal(again(values, points), model(values, points))


@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions(dim):
    model = small(Boxes((2, 3, 2)[:dim]), reference=(2, 2, 2)[:dim], stagger=True)
    points = cloud(40, dim)
    values = torch.randn(2, 2, 40)
    result = model(values, points)
    assert result.shape == (2, 3, 40)
    torch.testing.assert_close(result, use_definitions(model)(values, points), rtol=1e-9, atol=1e-9)


def test_it_runs_in_lower_precision():
    model, points = small(), lshape()
    values = torch.randn(1, 2, points.size)
    expected = model(values, points)
    low = model.float()(values.float(), points)
    assert low.dtype == torch.float32
    assert (low - expected).norm() < 1e-4 * expected.norm()


def test_a_periodic_box_lets_opposite_sides_meet():
    values = torch.randn(1, 2, 100)
    changed = values.clone()
    member = Boxes((5, 1)).cut(cloud(100)).members
    changed[..., member == 0] += 1
    for periodic, meet in ((False, False), (True, True)):
        model = small(Boxes((5, 1)), n_layers=1, radius=1.0)
        points = cloud(100)
        points = PointSet(points.coordinates, points.weights, Grid((1.0, 1.0), periodic=(periodic, False)))
        moved = (model(values, points) - model(changed, points)).abs().amax(dim=(0, 1)) > 1e-12
        assert bool(moved[member == 4].all()) == meet


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda m, p: m(torch.randn(1, 3, p.size), p), r"values has shape \(1, 3, 81\).*needed \(batch, 2 channels"),
        (lambda m, p: m(torch.randn(1, 2, 5), p), r"values has shape \(1, 2, 5\).*81 points"),
        (lambda m, p: m(torch.ones(1, 2, p.size, dtype=torch.long), p), "dtype torch.int64; needed .* floating-point"),
        (
            lambda m, p: m(torch.ones(1, 2, p.size, dtype=torch.float32), p),
            r"values has dtype torch.float32, the model torch.float64; needed .*: values.to\(torch.float64\) or model",
        ),
        (
            lambda m, p: m([torch.ones(2, p.size).half()], [p]),
            "values has dtype torch.float16, the model torch.float64",
        ),
        (lambda m, p: m(torch.ones(1, 2, p.size, device="meta"), p), "values is on meta, the model on cpu"),
        (lambda m, p: m([torch.randn(2, p.size)], [p, p]), "values holds 1 functions; needed 2"),
        (lambda m, p: m([torch.randn(2, p.size), torch.randn(2, 3)], [p, p]), r"values\[1\] has shape \(2, 3\)"),
        (lambda m, p: m(torch.randn(1, 2, p.size), [p, p]), "one tensor for 2 point sets"),
        (lambda m, p: m([], []), r"points=\[\] holds no point set"),
        (lambda m, p: m(torch.randn(1, 2, 9), PointSet(torch.rand(9, 2))), r"points\[0\] has weights=None"),
        (lambda m, p: m(torch.randn(1, 2, 9), cloud(9, 3)), "has 2 axes; needed 3"),
        (
            lambda m, p: m(torch.randn(1, 2, p.size), p, PointSet(torch.tensor([[0.0, 0.0], [1.5, 1.0]]))),
            "outside the box",
        ),
        (lambda m, p: m([torch.randn(2, p.size)], [p], [p, p]), "out_points holds 2 point sets; needed 1"),
        (lambda m, p: m(torch.randn(1, 2, p.size), small(Boxes((2, 2))).place(p)), "placed with another partition"),
        (
            lambda m, p: m(torch.randn(1, 2, p.size), p.coordinates),
            r"points is a tensor of shape \(81, 2\); needed Point",
        ),
        (
            lambda m, p: m(torch.randn(1, 2, p.size), p, m.place(cloud(9, scale=3.0))),
            r"out_points has other cells than points; needed placement.at\(out_points\)",
        ),
        (
            lambda m, p: m(torch.randn(1, 2, p.size), p, m.place([p, p])),
            "out_points has other cells than points",
        ),
        (
            lambda m, p: m(torch.randn(1, 2, p.size), p, small(Boxes((2, 2))).place(p)),
            "out_points has other cells than points",
        ),
        (lambda m, p: Placement.of([]), r"partitions=\[\] holds no partition"),
    ],
)
def test_bad_input_is_named(run, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        run(small(), square_mesh(8).point_set())


@pytest.mark.parametrize("partition", [Boxes((3, 2)), METIS], ids=["boxes", "parts"])
def test_points_are_placed_on_the_cpu_whatever_the_default_device(partition):
    model, mesh, values = small(partition), square_mesh(4), torch.randn(1, 2, 20)
    grid = Grid((1.0, 2.0), points=(5, 4), ends=(2, 0))

    def placed():
        points, wanted = with_neighbours(PointSet.of_grid(grid), 3), PointSet.of_grid(grid.with_points((3, 3)))
        given = model.place(points)
        return given, given.at([wanted]), model.place([points, mesh.point_set()])

    expected = placed()
    with torch.device("meta"):  # on which nothing can be looked at
        placements = placed()
    for one, other in zip(placements, expected, strict=True):
        for name in ("index", "filled", "slot", "cell", "coordinates", "weights"):
            assert torch.equal(getattr(one.tiles, name), getattr(other.tiles, name))
        for name in ("centres", "sizes", "scales"):
            assert torch.equal(getattr(one, name), getattr(other, name))
        assert torch.equal(one.arrangement.centres, other.arrangement.centres)
        assert torch.equal(one.arrangement.filled, other.arrangement.filled)
    with torch.device("meta"):
        answer = model(values, placements[0], placements[1])
    assert torch.equal(answer, model(values, expected[0], expected[1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PointSpec(0, 1, Boxes((2, 2))), "in_channels=0 must be at least 1"),
        (lambda: PointSpec(1, 1, Boxes((2, 2)), reference=()), r"reference=\(\)"),
        (lambda: PointSpec(1, 1, Boxes((2, 2)), reference=(4,)), r"subdomains=\(2, 2\) has 2 axes; needed 1"),
        (
            lambda: PointSpec(1, 1, METIS, attention=GlobalAttention()),
            "needs a lattice of cells: choose CentreAttention",
        ),
        (lambda: PointSpec(1, 1, METIS, stagger=True), "need a lattice of cells"),
        (lambda: PointSpec(1, 1, METIS, positions=(LearnedPosition(),)), "need a lattice of cells"),
        (lambda: PointSpec(1, 1, Boxes((2, 2)), attention=WindowedAttention(window=(4, 4))), "larger than"),
        (lambda: CoordinatePosition(hidden=0), "hidden=0 must be at least 1"),
        (lambda: point_no(1, 1, partition=Boxes((2, 2)), attention=CentreAttention(n_heads=3)), "does not divide"),
        (
            lambda: point_no(1, 1, partition=Boxes((2, 2)), n_heads=2, attention=CentreAttention()),
            r"n_heads=2 and radius=None conflict with attention=CentreAttention\(.*: needed either",
        ),
        (
            lambda: point_no(1, 1, partition=Boxes((2, 2)), radius=1.0, attention=CentreAttention()),
            r"n_heads=None and radius=1\.0 conflict with attention=CentreAttention",
        ),
        (
            lambda: PointSpec(1, 1, Boxes((2, 2)), positions=(Position(),)),
            r"holds Position\(\), which is not defined",
        ),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
