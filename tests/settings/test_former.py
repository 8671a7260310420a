"""`_target_`, the former way to name models and operators: translated with a warning, in old runs without one."""

import json

import pytest

import mondrian
from mondrian.models import TransformerSpec
from mondrian.settings.former import FACTORIES, current_config, current_overrides, spec_name
from mondrian.settings.models import ModelSettings
from mondrian.support.spec import spec_class
from mondrian.training.record import refuse_changes
from mondrian.training.run import Run
from mondrian.training.settings import resolved_config


def test_every_former_factory_has_a_spec_now():
    for function, name in FACTORIES.items():
        assert spec_name(f"mondrian.models.{function}") == name
        assert spec_class(name).__name__ == name


def test_an_override_is_translated_with_a_warning_that_shows_the_new_one():
    with pytest.warns(FutureWarning, match=r"model\._target_=mondrian\.vit_no is now model\.spec=ViTNO; the former"):
        model = mondrian.build("allen_cahn/swin_mo", "model=vit", "model._target_=mondrian.vit_no", "model.n_layers=1")
    assert type(model.spec) is TransformerSpec


def test_values_are_translated_wherever_they_stand():
    former = {"model": {"spec": "NbrNO", "positions": [{"_target_": "mondrian.Gaze"}], "radius": 2}}
    current = {"model": {"spec": "NbrNO", "positions": [{"spec": "Gaze"}], "radius": 2}}
    with pytest.warns(FutureWarning, match="_target_: mondrian.Gaze is now spec: Gaze"):
        assert current_config(former) == current
    assert current_config(current) == current


def test_other_overrides_stay_as_they_are():
    overrides = ["seed=1", "+model.kernel=7", "resume"]
    assert current_overrides(overrides) == overrides


def test_a_class_of_ones_own_is_named_and_a_function_of_ones_own_is_called():
    assert spec_name("mondrian.models.TransformerSpec") == "TransformerSpec"
    assert spec_name("json.loads") == "json.loads"
    with pytest.raises(ValueError, match=r"builtins\.dict makes a dict; needed a ModelSpec, or its model"):
        ModelSettings({"spec": "builtins.dict", "in_channels": 1}).spec()


def test_a_run_of_before_is_the_same_run(tmp_path):
    overrides = ["experiment=allen_cahn/vit_sepmo", "scale=smoke", f"run={tmp_path}"]
    config = resolved_config(overrides)
    former = json.loads(json.dumps(config).replace('"spec": "ViTNO"', '"_target_": "mondrian.vit_no"'))
    assert former != config
    run = Run(tmp_path)
    run.write({"config": former})
    refuse_changes(run, config)
    config["model"]["n_layers"] = 7
    with pytest.raises(ValueError, match=r"model\.n_layers was 4 when .* began; it cannot resume with 7"):
        refuse_changes(run, config)
