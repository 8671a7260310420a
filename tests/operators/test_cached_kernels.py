"""What is kept between calls: the number of terms of a separation, and kernels."""

import copy
import pickle

import pytest
import torch
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from mondrian import Integral, LowRank, Mixture, SeparableMixture
from mondrian.operators import KernelMethod, kernel_mix
from mondrian.operators.kernel_cache import KernelCache, WeightSnapshot
from mondrian.operators.ridge import Ridge, terms_needed
from mondrian.operators.separation_terms import SeparationTerms
from mondrian.quadrature import Cell, Midpoint
from tests.operators.cases import RIDGE, SPECS, cell_of, choose, operator, ways

CELL = Cell.build((4, 4), Midpoint())


@pytest.fixture
def asked(monkeypatch):
    """How often weights were read."""
    calls = []

    def counted(*args, **more):
        calls.append(args)
        return terms_needed(*args, **more)

    monkeypatch.setattr("mondrian.operators.separation_terms.terms_needed", counted)
    return calls


@pytest.mark.parametrize("spec", [Mixture(terms=3), SeparableMixture(terms=3, skip=True), LowRank(rank=2)])
def test_a_kernel_kept_under_autocast_is_not_used_without_it(spec):
    built = operator(spec, (4, 4)).eval()
    v = torch.randn(1, 2, 4, CELL.size)
    for way in ways(built):
        choose(built, way, tolerance=1e-5)
        with torch.no_grad():
            exact = copy.deepcopy(built)(v, CELL)
            for enabled in (True, False, True, False):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                    u = built(v, CELL)
                error = (u.float() - exact).abs().amax() / exact.abs().amax()
                assert error < (0.05 if enabled else 1e-6), (way, enabled)


@pytest.mark.parametrize("name", RIDGE)
def test_other_weights_in_every_call_are_never_mistaken_for_each_other(name):
    built = operator(SPECS[name]).eval()
    v = torch.randn(1, 2, 4, CELL.size)
    with torch.no_grad():
        for way in ways(built):
            choose(built, way, tolerance=1e-5)
            for turn in range(8):  # new tensors, likely where those of the last turn were
                weights = {key: (1 + 0.1 * turn) * value for key, value in built.named_parameters()}
                u = functional_call(built, weights, (v, CELL))
                other = copy.deepcopy(built)
                other.load_state_dict(weights)
                torch.testing.assert_close(u, other(v, CELL), rtol=1e-4, atol=1e-5)
                del weights


def test_weights_know_when_they_were_written_to_or_replaced():
    first, second = torch.zeros(3), torch.zeros(3)
    before = WeightSnapshot.take([first])
    assert before == WeightSnapshot.take([first])
    assert before != WeightSnapshot.take([second])
    first += 1
    after = WeightSnapshot.take([first])
    assert before != after
    assert after.same_tensors_as(before)
    assert not WeightSnapshot.take([second]).same_tensors_as(before)
    assert copy.deepcopy(after) != after
    assert pickle.loads(pickle.dumps(after)) != after
    with torch.inference_mode():
        uncounted = torch.zeros(3)
    assert WeightSnapshot.take([uncounted]) != WeightSnapshot.take([uncounted])


def test_a_training_with_passes_without_gradients_reads_the_weights_once_in_many_calls(asked):
    built = Mixture(terms=3).build(4, 4)
    optimiser = torch.optim.SGD(built.parameters(), lr=1e-3)
    v = torch.randn(1, 2, 4, CELL.size)
    asked.clear()
    for _ in range(SeparationTerms.EVERY):
        with torch.no_grad():
            first = built(v, CELL)
        built(first, CELL).square().mean().backward()
        optimiser.step()
    assert 2 <= len(asked) <= 4


@pytest.mark.parametrize("assign", [False, True])
def test_weights_that_are_loaded_while_training_count_at_once(assign):
    cell = Cell.build((32, 32), Midpoint())
    gentle, steep = Mixture(terms=3, tolerance=1e-5).build(3, 3), Mixture(terms=3, tolerance=1e-5).build(3, 3)
    with torch.no_grad():
        steep.first.weight *= 2.5
    v = torch.randn(1, 1, 3, cell.size)
    gentle.method = KernelMethod.SEPARATED
    gentle(v, cell)
    few = gentle.terms.terms
    gentle.load_state_dict(steep.state_dict(), assign=assign)
    u = gentle(v, cell)
    assert gentle.terms.terms > few
    expected = steep.definition(v, cell)
    assert (u - expected).abs().amax() < 1e-4 * expected.abs().amax()


def test_kernels_may_sharpen_until_no_separation_is_left(monkeypatch):
    monkeypatch.setattr(SeparationTerms, "EVERY", 2)  # the second look at changed weights reads them
    built, cell = SeparableMixture(terms=4).build(4, 4), Cell.build((24, 24), Midpoint())
    v, used = torch.randn(1, 1, 4, cell.size), []
    for _ in range(40):
        with torch.no_grad():
            built.first.weight *= 1.1
        u = built(v, cell)
        used.append(built.choose(1, cell))
    assert [used[0], used[-1]] == [KernelMethod.SEPARATED, KernelMethod.COLLAPSED]
    torch.testing.assert_close(u, built.definition(v, cell))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_computes_again_what_it_computed_before(fused, reentrant, asked):
    built = SeparableMixture(terms=4).build(4, 4)
    optimiser = torch.optim.Adam(built.parameters(), lr=0.02, fused=fused)
    cell = Cell.build((16, 16), Midpoint())
    v = torch.randn(1, 2, 4, cell.size, requires_grad=True)
    seen = set()
    for _ in range(2 * SeparationTerms.EVERY + 5):  # an odd number of calls before, so that any of two is the one
        with torch.no_grad():
            built(torch.randn(1, 1, 4, CELL.size), CELL)
        u = checkpoint(built, v, cell, use_reentrant=reentrant)
        before = built.terms.terms
        (u - v.detach().flip(-1)).square().mean().backward()
        assert built.terms.terms == before
        seen.add(before)
        optimiser.step()
        optimiser.zero_grad()
    assert len(seen) > 1  # the answer did change in between
    assert len(asked) > 3


def test_while_the_weights_stay_so_does_the_answer(asked):
    built = Mixture(terms=3).build(4, 4)
    v = torch.randn(1, 2, 4, CELL.size)
    built(v, CELL)
    asked.clear()
    with torch.no_grad():
        built.first.weight *= 1.01
    for _ in range(SeparationTerms.EVERY + 10):
        built(v, CELL)
    assert not asked
    with torch.no_grad():
        built.first.weight *= 1.01
    built(v, CELL)
    assert len(asked) == 1


def test_loaded_weights_are_looked_at_though_nobody_calls():
    gentle, steep = Mixture(terms=3).build(3, 3).eval(), Mixture(terms=3).build(3, 3)
    with torch.no_grad():
        steep.first.weight *= 2.5
    few = gentle.terms.terms
    for built in (gentle, pickle.loads(pickle.dumps(gentle)), copy.deepcopy(gentle)):
        built.load_state_dict(steep.state_dict())
        assert built.terms.terms == terms_needed(Ridge.of(steep.first), 1e-5 * SeparationTerms.MARGIN) > few


def test_on_the_meta_device_the_last_answer_serves():
    built = Mixture(terms=3).build(4, 4)
    known = built.terms.terms
    built.to("meta")
    for cell in (CELL, Cell.build((64, 64), Midpoint())):
        v = torch.empty(1, 2, 4, cell.size, device="meta")
        assert built(v, Cell.build(cell.points, Midpoint(), device="meta")).shape == v.shape
    assert built.terms.terms == known


def test_a_kernel_of_another_cell_that_is_asked_for_meanwhile_is_not_given():
    cache, weight, other = KernelCache(), torch.zeros(3), Cell.build((2, 8), Midpoint())

    class Interrupted:
        """A label; comparing it takes so long that another thread comes in between, once."""

        waiting = True

        def __eq__(self, label):
            if self.waiting:
                self.waiting = False
                cache.get([weight], other, "another", lambda: "wrong")
            return isinstance(label, Interrupted)

        def __hash__(self):
            return 0

    with torch.no_grad():
        for _ in range(3):
            assert cache.get([weight], CELL, Interrupted(), lambda: "right") == "right"


def test_in_use_the_weights_are_read_whenever_they_have_changed(asked):
    built = Mixture(terms=3).build(4, 4).eval()
    v = torch.randn(1, 2, 4, CELL.size)
    asked.clear()
    with torch.no_grad():
        for _ in range(3):
            built(v, CELL)
        assert len(asked) == 1
        built.first.weight *= 1.5
        built(v, CELL)
    assert len(asked) == 2


def test_weights_on_the_cpu_are_read_there_whatever_the_default_device():
    ridge = Ridge.of(Mixture(terms=3).build(4, 4).first)
    expected = terms_needed(ridge, 1e-5)
    with torch.device("meta"):
        assert terms_needed(ridge, 1e-5) == expected


@pytest.mark.parametrize("name", [*RIDGE, "low_rank"])
def test_a_kernel_is_dropped_when_the_weights_are_cast_or_loaded(name):
    built = operator(SPECS[name]).eval()
    choose(built, None if name == "low_rank" else KernelMethod.SEPARATED, tolerance=1e-5)
    v = torch.randn(1, 2, 4, CELL.size)
    for change in (lambda: built.double().float(), lambda: built.load_state_dict(built.state_dict())):
        with torch.no_grad():
            built(v, CELL)
        assert built.cache.entry is not None
        change()
        assert built.cache.entry is None


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", [*RIDGE, "low_rank"])
def test_weights_that_a_fused_optimiser_has_written_to_count_at_once(name, training):
    built, v = operator(SPECS[name]), torch.randn(1, 2, 4, CELL.size)
    optimiser = torch.optim.AdamW(built.parameters(), lr=0.1, fused=True)
    for way in ways(built):
        built.train(training)
        choose(built, way, tolerance=1e-5)
        for _ in range(2):
            with torch.no_grad():  # as a step that is pushed forward begins
                built(v, CELL)
            built(v, CELL).square().mean().backward()
            if training:
                with torch.no_grad():
                    built(v, CELL)
            optimiser.step()
        with torch.no_grad():
            torch.testing.assert_close(built(v, CELL), built.definition(v, CELL), rtol=1e-4, atol=1e-4)


def test_nothing_is_kept_of_weights_whose_writes_are_not_counted():
    with torch.inference_mode():
        built = operator(Mixture(terms=3)).eval()
    with torch.no_grad():
        built(torch.randn(1, 2, 4, CELL.size), CELL)
    assert built.cache.entry is None


def test_what_is_kept_does_not_keep_a_graph():
    weight = torch.zeros(3, requires_grad=True)
    assert all(tensor.grad_fn is None for tensor in WeightSnapshot.take([weight, 2 * weight]).tensors)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", RIDGE)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_stack_in_chunks_is_the_stack_in_one_and_so_are_its_gradients(name, parts, monkeypatch):
    cell, built = cell_of("2-D"), operator(SPECS[name], (4, 6))
    v = torch.randn(2, 5, 4, cell.size, requires_grad=True)
    choose(built, KernelMethod.DENSE if name.startswith("separable") else KernelMethod.COLLAPSED)
    results, used = [], []
    for rows in (10, 3, 1):

        def chunks(v, kernels, rows=rows):
            used.append(rows)
            return [slice(start, start + rows) for start in range(0, len(v), rows)]

        monkeypatch.setattr(kernel_mix, "_chunks", chunks)
        outputs = built(v, cell, parts=parts)
        slope = sum((n + 1) * u.sin().sum() for n, u in enumerate(outputs))
        results.append([*outputs, *torch.autograd.grad(slope, [v, *built.parameters()])])
    assert used == [10, 10, 3, 3, 1, 1]  # forward and backward
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


def test_chunks_hold_what_the_cache_of_each_thread_holds(monkeypatch):
    v, kernels = torch.zeros(10, 4, 16), torch.zeros(2, 1, 16, 16)
    monkeypatch.setattr(kernel_mix, "CPU_CHUNK", 3 * 4 * 16 * 3)  # three rows: two terms and the input itself
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert [(part.start, part.stop) for part in kernel_mix._chunks(v, kernels)] == [(0, 3), (3, 6), (6, 9), (9, 12)]


@pytest.mark.parametrize("spec", [Mixture, SeparableMixture, Integral])
@pytest.mark.parametrize("tolerance", [-1.0, 1.0, 10.0, float("nan")])
def test_a_tolerance_that_is_none_is_refused(spec, tolerance):
    with pytest.raises(ValueError, match=f"tolerance={tolerance} must be at least 0 and below 1"):
        spec(tolerance=tolerance)


def test_with_no_tolerance_nothing_is_separated():
    built = SeparableMixture(tolerance=0.0).build(3, 3)
    assert built.choose(4096, Cell.build((32, 32), Midpoint())) is not KernelMethod.SEPARATED
