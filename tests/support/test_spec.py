"""Specs stand in JSON as plainly as in Python, and reading JSON builds nothing else."""

import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, make_dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch

import mondrian
from mondrian import (
    GlobalAttention,
    Grid,
    Midpoint,
    Mixture,
    NeighborhoodAttention,
    Rotary,
    SeparableMixture,
    Spec,
    TransformerSpec,
    WindowedAttention,
)
from mondrian.models.unet import UNetSpec
from mondrian.support.spec import decode, encode
from tests.support.examples import EXAMPLES


def kinds(kind: type[Spec]) -> list[type[Spec]]:
    """The specs of the core that no other is derived from."""
    children = [child for child in kind.__subclasses__() if child.__module__.startswith("mondrian.")]
    below = [each for child in children for each in kinds(child)]
    return below if children else [kind]


def test_every_spec_of_the_core_has_an_example_here() -> None:
    beyond = ("mondrian.data", "mondrian.explore", "mondrian.models.baselines", "mondrian.train")
    beyond += ("mondrian.models.factories", "mondrian.models.points.factory")  # abbreviations of others
    core = {kind for kind in kinds(Spec) if not kind.__module__.startswith(beyond)}
    assert core <= {type(example) for example in EXAMPLES}


def test_the_examples_leave_no_argument_at_its_default() -> None:
    for kind in {type(example) for example in EXAMPLES}:
        for field in fields(kind):
            values = [getattr(example, field.name) for example in EXAMPLES if type(example) is kind]
            assert any(field.default is MISSING or value != field.default for value in values), (kind, field.name)


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: type(spec).__name__)
def test_a_spec_survives_the_way_through_a_json_text(spec: Spec) -> None:
    text = json.dumps(spec.to_json(), allow_nan=False)
    read = Spec.from_json(json.loads(text))
    assert read == spec
    assert type(read) is type(spec)
    assert hash(read) == hash(spec)
    assert repr(read) == repr(spec)


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: type(spec).__name__)
def test_the_json_of_a_spec_is_its_name_and_its_arguments(spec: Spec) -> None:
    described = spec.to_json()
    assert described.pop("spec") == type(spec).__name__
    left_out = [field for field in fields(spec) if field.name not in described]
    assert len(described) + len(left_out) == len(fields(spec))
    assert all(getattr(spec, field.name) == field.default for field in left_out)


def test_nested_specs_are_nested_in_json() -> None:
    described = TransformerSpec(1, 1, subdomains=(2,), operator=Mixture(terms=3)).to_json()
    assert described["operator"] == {"spec": "Mixture", "terms": 3, "hidden": 8, "skip": True, "tolerance": 1e-5}
    assert described["positions"] == [{"spec": "LearnedPosition", "degree": 0, "tile": []}]
    assert described["grid"] is None


def test_arguments_left_out_of_json_take_their_defaults() -> None:
    assert Spec.from_json({"spec": "Mixture"}) == Mixture()
    assert Spec.from_json({"spec": "Mixture", "terms": 5}) == Mixture(terms=5)


def test_reading_json_does_not_change_it() -> None:
    described = Grid(extent=(1.0,)).to_json()
    Spec.from_json(described)
    assert described == Grid(extent=(1.0,)).to_json()


def test_a_spec_written_with_lists_equals_the_one_with_tuples() -> None:
    assert WindowedAttention(window=[2, 2], shift=[1, 0]) == WindowedAttention(window=(2, 2), shift=(1, 0))


def test_numbers_of_numpy_are_pythons_own() -> None:
    model = TransformerSpec(
        np.int64(1),
        1,
        subdomains=np.array([2, 4]),
        stagger=np.True_,
        branch_scale=np.float32(0.5),
        grid=Grid(extent=tuple(np.array([1.0, 2.0])), periodic=np.array([True, False]), origin=[np.float32(0.5), 0]),
    )
    grid = Grid(extent=(1.0, 2.0), periodic=(True, False), origin=(0.5, 0))
    expected = TransformerSpec(1, 1, subdomains=(2, 4), stagger=True, branch_scale=0.5, grid=grid)
    assert repr(model) == repr(expected)
    assert Spec.from_json(json.loads(json.dumps(model.to_json()))) == expected


def test_sequences_within_sequences_become_tuples_too() -> None:
    @dataclass(frozen=True)
    class Nested(Spec):
        rows: tuple[tuple[int, ...], ...] = ()

    nested = Nested([[1, 2], torch.Size([3])])
    assert repr(nested.rows) == "((1, 2), (3,))"
    assert Spec.from_json(nested.to_json()) == nested


@pytest.mark.parametrize("value", [0, 1.5, -1e-300, True, None, "text", (), (1, (2.0, "x")), Midpoint(), (Rotary(),)])
def test_decoding_is_the_inverse_of_encoding(value: Any) -> None:
    read = decode(json.loads(json.dumps(encode(value))))
    assert read == value
    assert type(read) is type(value)


def test_a_spec_of_ones_own_is_read_like_the_others() -> None:
    @dataclass(frozen=True)
    class OwnSpecOfThisTest(Spec):
        size: tuple[int, ...] = (1,)

    assert Spec.from_json({"spec": "OwnSpecOfThisTest", "size": [2, 3]}) == OwnSpecOfThisTest(size=(2, 3))


def test_a_whole_number_in_json_may_stand_for_any_number() -> None:
    assert Spec.from_json({"spec": "Rotary", "base": 10}) == Rotary(base=10.0)


# What is refused


@pytest.mark.parametrize(
    "name",
    [
        *("Mixtur", "mixture", "", None, "Spec", "TransformerOperator", "Decomposition", "FunctionAttention"),
        *("Module", "os.system", "builtins.eval", "mondrian.Grid", "__import__"),
    ],
)
def test_a_name_that_is_no_spec_is_refused(name: str | None) -> None:
    with pytest.raises(ValueError, match=rf"spec={name!r} is not known;"):
        Spec.from_json({"spec": name})


def test_the_spec_that_may_have_been_meant_is_named() -> None:
    with pytest.raises(ValueError, match="spec='Mixtur' is not known; did you mean Mixture"):
        Spec.from_json({"spec": "Mixtur"})


def test_of_a_class_that_is_defined_again_the_last_counts() -> None:
    for size in (1, 2):

        @dataclass(frozen=True)
        class Again(Spec):
            number: int = size

        assert Spec.from_json({"spec": "Again"}) == Again(size)


def test_a_spec_without_a_name_is_refused_whatever_target_it_names() -> None:
    with pytest.raises(ValueError, match="spec=None is not known"):
        Spec.from_json({"_target_": "os.system", "command": "true"})


def test_an_unknown_name_is_refused_inside_another_spec_too() -> None:
    described = TransformerSpec(1, 1, subdomains=(2,)).to_json()
    described["positions"] = [{"spec": "eval"}]
    with pytest.raises(ValueError, match="spec='eval' is not known"):
        Spec.from_json(described)


def test_an_unknown_argument_is_refused_with_those_it_takes() -> None:
    with pytest.raises(ValueError, match=r"Mixture has no argument 'term'; needed one of \['terms', 'hidden', 'skip'"):
        Spec.from_json({"spec": "Mixture", "term": 4})


def test_a_bad_value_in_json_is_refused_as_in_python() -> None:
    with pytest.raises(ValueError, match=r"extent=\(0\.0,\)"):
        Spec.from_json({"spec": "Grid", "extent": [0.0]})
    with pytest.raises(ValueError, match="terms=0 must be at least 1"):
        Spec.from_json({"spec": "Mixture", "terms": 0})


@pytest.mark.parametrize(
    "described, message",
    [
        ({"spec": "Grid"}, "does not describe a Grid: .* missing .*'extent'"),
        ({"spec": ["Grid"]}, r"spec=\['Grid'\] is not known"),
        ({"spec": "Grid", "extent": "wide"}, r"Grid has extent='wide'; needed tuple\[float, ...\]"),
        ({"spec": "Grid", "extent": 2.0}, r"Grid has extent=2\.0; needed tuple"),
        ({"spec": "Grid", "extent": [1.0, None]}, r"Grid has extent=\(1\.0, None\)"),
        ({"spec": "Mixture", "terms": "many"}, "Mixture has terms='many'; needed int"),
        ({"spec": "Mixture", "terms": 1.5}, r"Mixture has terms=1\.5; needed int"),
        ({"spec": "Mixture", "terms": True}, "Mixture has terms=True; needed int"),
        ({"spec": "Mixture", "skip": 1}, "Mixture has skip=1; needed bool"),
        ({"spec": "TransformerSpec", "operator": 7}, "TransformerSpec has operator=7; needed .*OperatorSpec"),
        (
            {"spec": "TransformerSpec", "operator": {"spec": "Midpoint"}},
            r"operator=Midpoint\(\); needed .*OperatorSpec",
        ),
        ({"spec": "TransformerSpec", "positions": [{"spec": "Midpoint"}]}, r"positions=\(Midpoint\(\),\); needed"),
        ({"spec": "TransformerSpec", "grid": [2]}, r"grid=\(2,\); needed .*Grid | None"),
        (5, "5 is not a spec; needed a mapping"),
        (None, "None is not a spec"),
        ([], "is not a spec"),
    ],
    ids=str,
)
def test_a_missing_argument_or_one_of_a_wrong_type_is_a_value_error(described: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec.from_json(described)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Mixture(terms=2.5), r"Mixture has terms=2\.5; needed int"),
        (lambda: Mixture(terms=True), "Mixture has terms=True; needed int"),
        (lambda: Mixture(terms=np.True_), "Mixture has terms=True; needed int"),
        (lambda: Mixture(terms=torch.tensor(3)), r"Mixture has terms=tensor\(3\); needed int"),
        (lambda: SeparableMixture(skip=1), "SeparableMixture has skip=1; needed bool"),
        (lambda: SeparableMixture(tolerance="small"), "tolerance='small'; needed float"),
        (lambda: GlobalAttention(n_heads=2.0), r"n_heads=2\.0; needed int"),
        (lambda: NeighborhoodAttention(radius=1.5), r"radius=1\.5; needed int"),
        (lambda: Grid(extent=(1.0, 1.0), periodic=(1, 1)), r"periodic=\(1, 1\); needed tuple\[bool, ...\]"),
        (lambda: TransformerSpec(1, 1, subdomains=2), r"subdomains=2; needed tuple\[int, ...\]"),
        (lambda: TransformerSpec(1, 1, subdomains=(2.5, 2)), r"subdomains=\(2\.5, 2\); needed tuple"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), hidden_channels=8.0), r"hidden_channels=8\.0; needed int"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), stagger=1), "stagger=1; needed bool"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), positions=("rotary",)), r"positions=\('rotary',\); needed"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), positions=Rotary()), r"positions=Rotary\(.*\); needed tuple"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), operator=Mixture), r"operator=<class .*>; needed .*Spec"),
        (lambda: TransformerSpec(1, 1, subdomains=(2,), norm=["cell"]), r"norm=\('cell',\); needed str"),
        (lambda: UNetSpec(1, 1, subdomains=(4,), levels=2.0), r"levels=2\.0; needed int"),
    ],
)
def test_what_a_file_could_not_hold_is_refused_in_python_too(make: Callable[[], Spec], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_spec_that_leaves_out_our_checks_is_not_written_if_it_could_not_be_read() -> None:
    @dataclass(frozen=True)
    class Careless(Spec):
        size: int = 1

        def __post_init__(self) -> None:
            pass

    with pytest.raises(ValueError, match="Careless has size='large'; needed int"):
        Careless("large").to_json()


@pytest.mark.parametrize(
    "hint, good, bad",
    [
        (tuple[float, float], (1.0, 2), (1.0,)),
        (tuple[int, str], (1, "x"), (1, 2)),
        (tuple[()], (), (1,)),
        (Literal["a", "b"], "b", "c"),
        (Literal["a"] | None, None, "b"),
        (Sequence[int], (1, 2), 3),
        (Any, object(), MISSING),
        (Callable[[int], int], print, 3),
    ],
    ids=["pair", "mixed", "empty", "words", "word or none", "sequence", "any", "callable"],
)
def test_annotations_that_ours_do_not_use_are_understood_as_far_as_they_can_be(hint: Any, good: Any, bad: Any) -> None:
    own = make_dataclass("Own", [("value", hint)], bases=(Spec,), frozen=True)
    assert own(good).value == good
    if bad is not MISSING:
        with pytest.raises(ValueError, match=r"Own has value=.*; needed"):
            own(bad)


def test_an_annotation_that_names_what_is_not_there_checks_nothing() -> None:
    own = make_dataclass("Later", [("value", "WhatComesLater")], bases=(Spec,), frozen=True)
    assert own([1]).value == (1,)


@pytest.mark.parametrize("value", [{"a": 1}, {1, 2}, object(), print, 1j, b"bytes", mondrian.Grid])
def test_what_json_cannot_hold_cannot_be_stored(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be stored; needed a spec, number, string"):
        encode((1, value))
