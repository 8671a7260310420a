"""The order of samples: a permutation in each pass, the same places whoever takes them, and where it left off."""

import itertools

import pytest
import torch

from mondrian.data import Splits
from mondrian.training.order import (
    Batches,
    Order,
    OrderedSamples,
    ResumableLoader,
    collate_places,
    generator_of,
    validation_batches,
)


def test_each_pass_is_a_permutation_and_no_two_are_the_same() -> None:
    order = Order(20, seed=3)
    passes = [[order[place] for place in range(20 * n, 20 * n + 20)] for n in range(3)]
    assert all(sorted(one) == list(range(20)) for one in passes)
    assert all(one != other for one, other in itertools.combinations(passes, 2))


def test_a_place_holds_the_same_sample_however_one_comes_there() -> None:
    forwards = [Order(7, seed=0)[place] for place in range(30)]
    order = Order(7, seed=0)
    assert [order[place] for place in reversed(range(30))] == forwards[::-1]
    assert [Order(7, seed=1)[place] for place in range(30)] != forwards


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_takes_the_same_places_however_it_is_shared_out(ranks: int, accumulate: int) -> None:
    shares = [Batches(8, 3 * accumulate, accumulate=accumulate, rank=rank, ranks=ranks) for rank in range(ranks)]
    taken = [list(share) for share in shares]
    for step in range(3):
        portions = [taken[rank][step * accumulate + n] for n in range(accumulate) for rank in range(ranks)]
        assert sorted(itertools.chain(*portions)) == list(range(8 * step, 8 * step + 8))


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch_size=6 .* 2 ranks in 2 portions; needed a multiple of 4"):
        Batches(6, 1, accumulate=2, ranks=2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [4, 5, 7, 12, 13])
@pytest.mark.parametrize("batch_size", [1, 4, 6])
def test_validation_takes_every_sample_once_in_as_many_batches_on_each_process(
    ranks: int, count: int, batch_size: int
) -> None:
    """Sharded models gather their weights in each batch: a process with one batch more would wait for the others."""
    shares = [validation_batches(count, batch_size, rank, ranks) for rank in range(ranks)]
    assert sorted(itertools.chain(*itertools.chain(*shares))) == list(range(count))
    assert len({len(batches) for batches in shares}) == 1
    sizes = [len(batch) for batches in shares for batch in batches]
    assert min(sizes) >= 1
    assert max(sizes) <= max(1, batch_size // ranks) + (ranks > 1)


def test_too_few_samples_to_validate_on_are_refused() -> None:
    with pytest.raises(ValueError, match="2 samples to validate on cannot be divided among 3 ranks"):
        validation_batches(2, 8, 0, 3)


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_resumes_after_the_batches_that_its_state_has_seen(allen_cahn_splits: Splits, workers: int) -> None:
    def loader() -> ResumableLoader:
        samples = OrderedSamples(allen_cahn_splits.dataset("train"), Order(12, seed=0))
        return ResumableLoader(samples, Batches(5, 7), collate=collate_places, num_workers=workers)

    whole = list(loader())
    stopped = loader()
    seen = list(itertools.islice(stopped, 3))
    assert stopped.state_dict() == {"batches": 3}
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    rest = list(resumed)
    assert len(resumed) == len(whole) == 7
    assert [batch["places"] for batch in (*seen, *rest)] == [batch["places"] for batch in whole]
    assert all(torch.equal(a["x"], b["x"]) for a, b in zip((*seen, *rest), whole, strict=True))


def test_a_loader_that_is_resumed_twice_knows_all_batches_before(allen_cahn_splits: Splits) -> None:
    state, places = {"batches": 0}, []
    for taken in (2, 3, 2):
        samples = OrderedSamples(allen_cahn_splits.dataset("train"), Order(12, seed=0))
        loader = ResumableLoader(samples, Batches(5, 7), collate=collate_places)
        loader.load_state_dict(state)
        places += [place for batch in itertools.islice(loader, taken) for place in batch["places"]]
        state = loader.state_dict()
    assert state == {"batches": 7}
    assert places == list(range(35))


def test_generators_differ_by_every_word() -> None:
    words = [(0, "noise", 1), (0, "noise", 2), (1, "noise", 1), (0, "symmetry", 1)]
    drawn = [float(torch.rand((), generator=generator_of(*word))) for word in words]
    assert len(set(drawn)) == 4
    assert drawn[0] == float(torch.rand((), generator=generator_of(*words[0])))
