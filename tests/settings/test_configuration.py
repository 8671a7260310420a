"""Words of a command: composed, taken apart, and read by kind."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mondrian
from mondrian.losses import Loss
from mondrian.operators import OperatorSpec
from mondrian.settings.compose import (
    check_setting,
    choices,
    composed,
    parsed,
    plain,
    quoted,
    scaled,
    scales,
    split_choices,
)
from mondrian.settings.values import (
    counts,
    flag,
    integer,
    number,
    numbers,
    per_split,
    resolution,
    resolutions,
    spec_of,
    string,
    strings,
)
from mondrian.training.optimiser import AdamW

CONF = Path(mondrian.__file__).parent / "conf"


def test_words_change_what_the_file_says() -> None:
    config = composed("league", ["league_scale=navier_stokes_cpu", "part=ablation", "jobs=3"])
    assert (config.part, config.jobs, config.batch_size) == ("ablation", 3, 8)


def test_a_word_that_fits_nothing_is_named_with_what_may_be_meant() -> None:
    with pytest.raises(ValueError, match=r"^no setting 'thread'; did you mean threads"):
        composed("league", ["jobs=3", "thread=2"])
    with pytest.raises(ValueError, match=r"^no setting 'zzz'$"):
        composed("league", ["zzz=2"])
    config = composed("train", ["experiment=allen_cahn/fno", "scale=allen_cahn_cpu"])
    check_setting(config, "optimizer.lr")
    with pytest.raises(ValueError, match=r"no setting 'optimizer.rl'; did you mean optimizer.lr"):
        check_setting(config, "optimizer.rl")


def test_words_alone_are_read_as_hydra_reads_them() -> None:
    assert parsed(["a=[1,2.5]", "b=true", "c='a, b'", "a=3", "d=null"]) == {"a": 3, "b": True, "c": "a, b", "d": None}
    with pytest.raises(ValueError, match=r"a=1,2 holds several values; needed one, or a list in brackets"):
        parsed(["a=1,2"])


@settings(deadline=None)
@given(st.text(alphabet=" ()[]{},=:'\"\\$#~%/.-_0189abeöß中\t\n"))
@example("1e3")
@example("null")
@example("true")
@example('it\'s "both"')
@example("back\\")
@example(" :")
@example("a${seed}")
@example("a\\${seed}\\")
def test_what_is_quoted_is_read_as_it_was(text: str) -> None:
    assert parsed([f"a={quoted(text)}", "seed=3"])["a"] == text


@pytest.mark.parametrize("text", ["runs/a", "a (1)", "a, b=c", "größe", "1000.0", "it's", "$HOME/${seed}"])
def test_what_is_quoted_goes_into_a_configuration_as_it_was(text: str) -> None:
    config = composed("train", [f"run={quoted(text)}", f"data.path={quoted(Path(text))}"])
    assert (config.run, config.data.path) == (text, text)


def test_only_what_needs_quotes_is_quoted() -> None:
    assert quoted("runs/allen_cahn/vit-2.5") == "runs/allen_cahn/vit-2.5"
    assert quoted("a (1)") == "'a (1)'"


@pytest.mark.parametrize("text", ["a (1)", "größe", "a=b", "it's (1)", "'open", "(", "~/runs"])
@pytest.mark.parametrize("read", [parsed, partial(composed, "train")])
def test_a_word_that_cannot_be_read_is_named_and_shown_with_quotes(read, text: str) -> None:
    with pytest.raises(ValueError, match=r"^run=.* cannot be read: .*; quotes keep its value as it is: ") as raised:
        read(["seed=1", f"run={text}"])
    message = str(raised.value)
    assert message.startswith(f"run={text} ")
    (shown,) = shlex.split(message.partition("as it is: ")[2])
    assert parsed([shown]) == {"run": text}


def test_a_word_whose_name_cannot_be_read_is_named_alone() -> None:
    with pytest.raises(ValueError, match=r"^a b=3 cannot be read: [^;]*$"):
        parsed(["a b=3"])


def test_the_last_word_counts_and_the_others_keep_their_order() -> None:
    said, others = split_choices(["seed=1", "scale=smoke", "a.b=x=y", "scale=paper"], {"scale": "cpu", "data": "files"})
    assert said == {"scale": "paper", "data": "files"}
    assert others == ["seed=1", "a.b=x=y"]
    with pytest.raises(ValueError, match="'repair' is no setting; needed key=value"):
        split_choices(["repair"], {})


def test_scales_are_those_of_the_problem_and_of_no_other_whose_name_begins_alike() -> None:
    assert set(choices("scale")) == {file.stem for file in (CONF / "scale").glob("*.yaml")}
    for problem in ("allen_cahn", "allen_cahn3d", "navier_stokes"):
        names = scales("generate_scale", problem)
        assert names
        assert all((CONF / "generate_scale" / f"{scaled('generate_scale', problem, s)}.yaml").exists() for s in names)
    assert not any("3d" in scale for scale in scales("generate_scale", "allen_cahn"))
    with pytest.raises(ValueError, match="scale=huge is not known; needed one of cpu, "):
        scaled("generate_scale", "allen_cahn", "huge")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (integer, "3", 3),
        (partial(integer, least=0), "0", 0),
        (number, "3", 3.0),
        (number, "1e-3", 1e-3),
        (flag, "false", False),
        (string, "valid", "valid"),
        (string, "3", "3"),
        (strings, "[u,v]", ("u", "v")),
        (strings, "[]", ()),
        (numbers, "[1,0.5]", (1.0, 0.5)),
        (resolution, "[32,48]", (32, 48)),
        (resolutions, "[[32,32],[64,48]]", ((32, 32), (64, 48))),
        (counts, "{train: 3, test: 0}", {"train": 3, "test": 0}),
        (partial(per_split, read=flag), "{train: true}", {"train": True}),
    ],
)
def test_what_fits_is_read(read, text: str, value: object) -> None:
    result = read(parsed([f"a={text}"]), "a")
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (integer, "0", "a=0 must be a whole number from 1 on"),
        (partial(integer, least=5), "4", "a=4 must be a whole number from 5 on"),
        (integer, "true", "a=True must be a whole number"),
        (integer, "2.0", "a=2.0 must be a whole number"),
        (integer, "null", "a=None must be a whole number"),
        (number, "true", "a=True must be a number"),
        (number, "fast", "a=fast must be a number"),
        (flag, "1", "a=1 must be true or false"),
        (string, "null", "a is empty; needed a value"),
        (string, "", "a is empty; needed a value"),
        (strings, "u", r"a=u must be a list of strings, for example a=\[u\]"),
        (strings, "[1]", r"a=\[1\] must be a list of strings"),
        (numbers, "0.5", r"a=0.5 must be a list of numbers, for example a=\[0\.7,0\.2,0\.1\]"),
        (numbers, "[0.5,u]", r"a=\[0.5, 'u'\] must be a list of numbers"),
        (numbers, "[true]", r"a=\[True\] must be a list of numbers"),
        (resolution, "32", r"a=32 must list the points of each axis, for example a=\[32,32\]"),
        (resolution, "[0,32]", r"a=\[0, 32\] must list the points of each axis"),
        (resolution, "[]", r"a=\[\] must list the points of each axis"),
        (resolutions, "[]", r"a=\[\] must list resolutions"),
        (resolutions, "[32,32]", r"a=\[32, 32\] must list resolutions, for example a=\[\[32,32\],\[64,64\]\]"),
        (resolutions, "[[32,0]]", r"a=\[\[32, 0\]\] must list resolutions"),
        (resolutions, "[[]]", r"a=\[\[\]\] must list resolutions"),
        (counts, "5", r"a=5 must give a value for each split, for example a.train=\.\.\."),
        (counts, "{train: -1}", "a.train=-1 must be a whole number from 0 on"),
    ],
)
def test_what_does_not_fit_is_named(read, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(parsed([f"a={text}"]), "a")


def test_a_spec_is_of_the_kind_that_was_asked_for() -> None:
    config = plain(composed("train", ["experiment=allen_cahn/fno", "scale=allen_cahn_cpu", "optimizer.lr=0.25"]))
    assert spec_of(config, "optimizer", AdamW).lr == 0.25
    assert isinstance(spec_of(config, "loss", Loss), Loss)
    with pytest.raises(ValueError, match=r"optimizer=AdamW\(.*\) is no OperatorSpec"):
        spec_of(config, "optimizer", OperatorSpec)
