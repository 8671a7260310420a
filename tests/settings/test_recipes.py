"""The recipes of the paper: every printed parameter count, to the last digit."""

import re
from importlib.resources import files
from typing import Any

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

import mondrian
from mondrian import LowRank, PointAttention, TransformerOperator, WindowedAttention
from mondrian.settings.models import ModelSettings
from mondrian.settings.recipes import recipe, recipe_names, recipes

PRINTED = {
    "allen_cahn/vit_integral": 6_947_201,
    "allen_cahn/vit_low_rank": 3_078_641,
    "allen_cahn/vit_attention": 248_403,
    "allen_cahn/vit_spectral": 8_542_850,
    "allen_cahn/vit_interpolating": 3_458_178,
    "allen_cahn/vit_mo": 6_954_850,
    "allen_cahn/vit_sepmo": 1_331_363,
    "allen_cahn/swin_integral": 6_945_921,
    "allen_cahn/swin_low_rank": 3_077_361,
    "allen_cahn/swin_attention": 247_123,
    "allen_cahn/swin_spectral": 8_541_570,
    "allen_cahn/swin_mo": 6_953_570,
    "allen_cahn/swin_sepmo": 1_109_410,
    "navier_stokes/vit_low_rank": 3_091_970,
    "navier_stokes/vit_attention": 260_756,
    "navier_stokes/vit_interpolating": 3_483_396,
    "navier_stokes/vit_mo": 6_971_300,
    "navier_stokes/vit_sepmo": 1_136_676,
    "navier_stokes/swin_low_rank": 3_093_762,
    "navier_stokes/swin_attention": 247_188,
    "navier_stokes/swin_spectral": 2_568_580,
    "navier_stokes/swin_interpolating": 1_638_020,
    "navier_stokes/swin_mo": 6_973_092,
    "navier_stokes/swin_sepmo": 1_109_540,
}
OPERATORS = ("attention", "integral", "interpolating", "low_rank", "mo", "sepmo", "spectral")


def paper_names() -> list[str]:
    """The recipes of our own models, not of the baselines."""
    return [name for name in recipe_names() if name.split("/")[1].startswith(("vit_", "swin_", "nbr_"))]


@pytest.fixture(scope="module")
def configurations() -> dict[str, dict[str, Any]]:
    return recipes(paper_names())


@pytest.fixture(scope="module")
def models(configurations: dict[str, dict[str, Any]]) -> dict[str, TransformerOperator]:
    with torch.device("meta"):
        return {name: ModelSettings(config["model"]).spec().build() for name, config in configurations.items()}


def test_the_paper_prints_twenty_four_counts() -> None:
    assert len(PRINTED) == 24


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_has_exactly_the_number_of_parameters_that_the_paper_prints(
    name: str, models: dict[str, TransformerOperator]
) -> None:
    assert sum(parameter.numel() for parameter in models[name].parameters()) == PRINTED[name]


def test_there_is_a_recipe_for_every_problem_pattern_and_operator() -> None:
    expected = {
        f"{p}/{m}_{o}" for p in ("allen_cahn", "navier_stokes") for m in ("vit", "swin", "nbr") for o in OPERATORS
    }
    assert set(paper_names()) == expected
    assert recipe_names() == sorted(set(recipe_names()))


def test_every_recipe_builds_a_model_for_its_problem(models: dict[str, TransformerOperator]) -> None:
    assert set(models) == set(paper_names())
    for name, model in models.items():
        problem, _, kind = name.partition("/")
        channels = {"allen_cahn": (2, 1), "navier_stokes": (2, 2)}[problem]
        assert (model.spec.in_channels, model.spec.out_channels) == channels
        pattern = {"vit": "Global", "swin": "Windowed", "nbr": "Neighborhood"}[kind.split("_")[0]]
        assert type(model.spec.attention).__name__ == f"{pattern}Attention"
        assert model.spec.n_layers == 4
        assert model.spec.attention.n_heads == 4


def test_allen_cahn_lives_on_a_square_of_side_two_without_periodic_axes(models: dict[str, TransformerOperator]) -> None:
    for name, model in models.items():
        if name.startswith("allen_cahn/"):
            assert model.spec.default_grid.extent == (2.0, 2.0)
            assert model.spec.default_grid.periodic == (False, False)
            assert model.spec.subdomains == (8, 8)


def test_navier_stokes_lives_on_a_torus(models: dict[str, TransformerOperator]) -> None:
    for name, model in models.items():
        if name.startswith("navier_stokes/"):
            assert model.spec.default_grid.periodic == (True, True)


def test_windows_and_shifts_are_those_of_the_paper(models: dict[str, TransformerOperator]) -> None:
    assert models["allen_cahn/swin_mo"].spec.attention == WindowedAttention(window=(4, 4), shift=(2, 2))
    assert models["navier_stokes/swin_mo"].spec.attention == WindowedAttention(window=(16, 16), shift=(4, 4))
    assert models["navier_stokes/swin_mo"].spec.subdomains == (32, 32)
    assert models["allen_cahn/nbr_mo"].spec.attention.radius == 2


def test_the_count_in_the_comment_of_a_recipe_is_its_count(models: dict[str, TransformerOperator]) -> None:
    said = {}
    for name in paper_names():
        text = (files("mondrian.conf") / "experiment" / f"{name}.yaml").read_text()
        if match := re.search(r"([\d,]+) parameters in table", text):
            said[name] = int(match.group(1).replace(",", ""))
    assert said == PRINTED


def test_a_small_model_of_a_recipe_computes_finite_numbers_with_gradients_everywhere() -> None:
    torch.manual_seed(0)
    model = mondrian.build("allen_cahn/vit_attention", "model.hidden_channels=16", "model.n_layers=1")
    loss = model(torch.randn(2, 2, 32, 32)).square().mean()
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_building_a_recipe_is_deterministic_from_a_seed() -> None:
    first, second, other = (seeded(seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def seeded(seed: int) -> TransformerOperator:
    torch.manual_seed(seed)
    return mondrian.build("allen_cahn/vit_attention", "model.n_layers=1")


# Overrides


def test_overrides_change_the_model_that_is_built() -> None:
    with torch.device("meta"):
        model = mondrian.build(
            "allen_cahn/vit_mo",
            "model.hidden_channels=32",
            "model.n_layers=2",
            "model.subdomains=[4,2]",
            "model.stagger=true",
            "operator@model.operator=low_rank",
            "model.operator.rank=3",
        )
    assert model.spec.hidden_channels == 32
    assert len(model.blocks) == model.spec.n_layers == 2
    assert model.spec.subdomains == (4, 2)
    assert model.spec.stagger
    assert model.spec.operator == LowRank(rank=3)


def test_the_operator_of_attention_can_be_another_one() -> None:
    with torch.device("meta"):
        model = mondrian.build("allen_cahn/vit_mo", "+operator@model.attention_operator=attention")
    assert model.spec.attention.operator == PointAttention()


def test_a_recipe_composed_alone_is_the_one_composed_with_the_others(configurations: dict[str, dict[str, Any]]) -> None:
    assert recipe("allen_cahn/vit_sepmo") == configurations["allen_cahn/vit_sepmo"]


def test_composing_leaves_no_state_of_hydra_behind() -> None:
    recipe("allen_cahn/vit_mo")
    assert not GlobalHydra.instance().is_initialized()


# Errors


def test_an_unknown_recipe_of_a_known_problem_is_refused_with_those_of_the_problem() -> None:
    with pytest.raises(ValueError, match=r"no recipe 'allen_cahn/vit_mx'; needed one of .*allen_cahn/vit_mo") as error:
        mondrian.build("allen_cahn/vit_mx")
    assert "navier_stokes" not in str(error.value)


@pytest.mark.parametrize("name", ["vit_mo", "", "../recipe", "allen_cahn", "allen_cahn/base", "burgers/vit_mo"])
def test_what_is_no_recipe_is_refused_with_a_choice(name: str) -> None:
    with pytest.raises(ValueError, match=rf"no recipe '{re.escape(name)}'; needed one of .*allen_cahn/vit_mo"):
        mondrian.build(name)


@pytest.mark.parametrize(
    "override, message",
    [
        ("model.hidden_channels=30", "n_heads=4 does not divide hidden_channels=30"),
        ("model.hiden_channels=32", "hiden_channels"),
        ("+model.hiden_channels=32", "ViTNO has no hiden_channels; it has"),
        ("model.hidden_channels=many", "hidden_channels='many'"),
        ("model.hidden_channels=[", r"hidden_channels=\[: no viable alternative"),
        ("model.hidden_channels=${nowhere}", "Interpolation key 'nowhere' not found"),
        ("model.operator.n_heads=0", "n_heads=0 must be at least 1"),
        ("model.operator=7", "model.operator=7"),
        ("operator@model.operator=fourier", "Could not find 'operator/fourier' Available options .* low_rank mo .*"),
    ],
)
def test_a_bad_override_is_a_value_error_that_names_it(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        mondrian.build("allen_cahn/vit_attention", override)
    assert str(error.value).startswith(f"allen_cahn/vit_attention {override}: ")
    assert "\n" not in str(error.value)
