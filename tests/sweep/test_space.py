"""What an override with several values says, for Optuna and for a grid."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from mondrian.sweep.former import renewed
from mondrian.sweep.space import Numbers, combination, combinations, dimension, text


@pytest.mark.parametrize(
    "word, distribution",
    [
        ("seed=0,1", CategoricalDistribution(("0", "1"))),
        ("data.input=choice([u],[u,gamma])", CategoricalDistribution(("[u]", "[u,gamma]"))),
        ("model.n_layers=range(2,9,2)", IntDistribution(2, 8, step=2)),
        ("noise=range(0.0,0.3,0.1)", FloatDistribution(0.0, 0.2, step=0.1)),
        ("optimizer.lr=interval(1e-4,1e-2)", FloatDistribution(1e-4, 1e-2)),
        ("optimizer.lr=tag(log,interval(1e-4,1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("model.hidden_channels=int(interval(8,64))", IntDistribution(8, 64)),
        ("model.hidden_channels=tag(log,int(interval(8,64)))", IntDistribution(8, 64, log=True)),
    ],
)
def test_values_are_those_of_hydras_grammar(word: str, distribution: object) -> None:
    assert dimension(word).distribution() == distribution
    assert dimension(word).key == word.partition("=")[0]


@pytest.mark.parametrize(
    "word, message",
    [
        ("optimizer.lr=interval(1e-2,1e-4)", r"optimizer\.lr=interval\(1e-2,1e-4\) is no interval; needed low < high"),
        ("optimizer.lr=tag(log,interval(0,1))", r"optimizer\.lr=.* needed 0 < low < high"),
        ("model.n_layers=range(4,4)", r"model\.n_layers=range\(4,4\) is an empty range"),
        ("model.n_layers=tag(log,range(2,8,2))", r"model\.n_layers=.* a logarithmic range needs whole numbers"),
        ("seed=shuffle(0,1)", r"seed=shuffle\(0,1\): a shuffled order .* needed sampler=random"),
        ("experiment=glob(allen*)", r"experiment=glob\(allen\*\) cannot vary like this; needed choice"),
    ],
)
def test_a_bad_space_is_refused_by_its_key(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dimension(word)


def test_a_grid_has_every_combination_once_and_no_interval() -> None:
    dimensions = [dimension("a=1,2"), dimension("b=range(0,3)"), dimension("c=range(0.0,0.3,0.1)")]
    every = [tuple(combination(dimensions, number).values()) for number in range(combinations(dimensions))]
    assert len(set(every)) == len(every) == 2 * 3 * 3
    assert every[:4] == [("1", "0", "0.0"), ("1", "0", "0.1"), ("1", "0", "0.2"), ("1", "1", "0.0")]
    with pytest.raises(ValueError, match="a: an interval has no end of values; sampler=grid needs"):
        combinations([Numbers("a", 0.0, 1.0)])


def test_a_drawn_number_is_an_override_without_loss() -> None:
    assert float(text(0.1 + 0.2)) == 0.1 + 0.2
    assert text(8) == "8"
    assert text("[u,gamma]") == "[u,gamma]"


def test_overrides_of_hydras_sweeper_say_what_they_are_called_now() -> None:
    with pytest.warns(FutureWarning, match=r"hydra\.sweeper\.n_trials=8 is now trials=8; the former override goes"):
        assert renewed(["seed=0,1", "hydra.sweeper.n_trials=8"]) == ["seed=0,1", "trials=8"]
    with pytest.warns(FutureWarning, match="hydra/launcher=joblib is not needed any more"):
        assert renewed(["hydra/launcher=joblib"]) == []
    with pytest.raises(ValueError, match=r"hydra/launcher=submitit_slurm: sweeps do not use .* a job array"):
        renewed(["hydra/launcher=submitit_slurm"])
