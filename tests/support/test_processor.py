"""Which instructions oneDNN may use, on processors that report more than they execute: the processors are made up."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import pytest
import torch

from mondrian import from_pretrained
from mondrian.support import processor
from mondrian.support.processor import INSTRUCTIONS, LIMIT, ensure_half_precision, try_products
from mondrian.training.train import train_config
from tests.models.cases import small


class Processor:
    """Executes oneDNN's instructions up to `works`; None: not even the oldest."""

    def __init__(self, works: str | None) -> None:
        self.limits = INSTRUCTIONS[INSTRUCTIONS.index(works) :] if works in INSTRUCTIONS else ()
        self.unlimited = works == "all"
        self.trials: list[str | None] = []

    def __call__(self, environment: Mapping[str, str]) -> str | None:
        self.trials.append(environment.get(LIMIT))
        works = self.unlimited or environment.get(LIMIT) in self.limits
        return None if works else "ended with SIGILL"


def test_a_sound_processor_is_tried_once_and_nothing_is_said(capsys):
    environment, trial = {}, Processor("all")
    for _ in range(3):
        ensure_half_precision(environment, trial=trial)
    assert trial.trials == [None]
    assert LIMIT not in environment
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("works", INSTRUCTIONS)
def test_where_products_trap_the_newest_instructions_that_work_are_set_with_one_line(works, capsys):
    environment, trial = {"HOME": "here"}, Processor(works)
    for _ in range(2):
        ensure_half_precision(environment, trial=trial)
    assert environment[LIMIT] == works
    assert trial.trials == [None, *INSTRUCTIONS[: INSTRUCTIONS.index(works) + 1]]
    trap = "mondrian: a trial product in bfloat16 or float16 ended with SIGILL"
    assert capsys.readouterr().err == f"{trap}; {LIMIT}={works} is set, with which it works\n"


def test_a_processor_that_always_traps_is_refused_and_its_environment_left_alone():
    environment = {}
    with pytest.raises(ValueError, match=r"cannot compute in bfloat16 or float16: .* SIGILL even with .*=AVX2; needed"):
        ensure_half_precision(environment, trial=Processor(None))
    assert environment == {}


def test_what_the_user_sets_is_kept():
    environment, trial = {LIMIT: "SSE41"}, Processor(None)
    ensure_half_precision(environment, trial=trial)
    assert (environment, trial.trials) == ({LIMIT: "SSE41"}, [])


@pytest.mark.process
@pytest.mark.parametrize(
    "program, seconds, failure",
    [
        ("pass", 60.0, None),
        (f"import os; os.kill(os.getpid(), {signal.SIGILL.value})", 60.0, "ended with SIGILL"),
        (
            "raise RuntimeError('could not create a primitive')",
            60.0,
            "failed (RuntimeError: could not create a primitive)",
        ),
        ("import time; time.sleep(60)", 1.0, "took more than 1 s"),
    ],
)
def test_a_trial_that_passes_dies_fails_or_hangs(program, seconds, failure):
    assert try_products(os.environ, command=(sys.executable, "-S", "-c", program), seconds=seconds) == failure


@pytest.mark.process
def test_a_trial_that_dies_of_an_illegal_instruction_limits_this_process_and_its_children(monkeypatch, capsys):
    for name in (LIMIT, processor.TRIED):
        monkeypatch.setenv(name, "to be restored")
        monkeypatch.delenv(name)
    traps = f"import os; os.environ.get('{LIMIT}') == 'AVX512_CORE' or os.kill(os.getpid(), {signal.SIGILL.value})"
    command = (sys.executable, "-S", "-c", traps)
    ensure_half_precision(trial=lambda environment: try_products(environment, command=command))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"ended with SIGILL; {LIMIT}=AVX512_CORE is set" in said
    child = f"import os; print(os.environ['{LIMIT}'], os.environ['{processor.TRIED}'])"
    out = subprocess.run([sys.executable, "-S", "-c", child], capture_output=True, text=True, check=True).stdout
    assert out == "AVX512_CORE works\n"


@pytest.mark.process
def test_onednn_reads_the_limit_at_its_first_use_although_torch_is_imported():
    program = (
        f"import os, torch; os.environ['{LIMIT}'] = 'AVX2'; "
        "torch.nn.functional.conv2d(torch.ones(1, 16, 64, 64), torch.ones(16, 16, 3, 3))"
    )
    environment = {name: value for name, value in os.environ.items() if name != LIMIT} | {"ONEDNN_VERBOSE": "1"}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "isa:Intel AVX2" in said.stdout


@pytest.mark.parametrize("dtype, tried", [(torch.bfloat16, 1), (torch.float16, 1), (torch.float32, 0)])
def test_a_model_in_half_precision_is_opened_on_a_processor_that_was_tried(dtype, tried, tmp_path, monkeypatch):
    monkeypatch.delenv(processor.TRIED, raising=False)
    monkeypatch.delenv(LIMIT, raising=False)
    trial = Processor("all")
    monkeypatch.setattr(processor, "try_products", trial)
    small("vit").to(dtype).save_pretrained(tmp_path)
    from_pretrained(tmp_path)
    assert len(trial.trials) == tried


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "16-mixed"])
def test_training_in_half_precision_is_refused_where_every_product_traps(precision, tmp_path, monkeypatch):
    monkeypatch.delenv(processor.TRIED, raising=False)
    monkeypatch.delenv(LIMIT, raising=False)
    monkeypatch.setattr(processor, "try_products", Processor(None))
    words = ["experiment=allen_cahn/vit_sepmo", "scale=smoke", "trainer.accelerator=cpu"]
    with pytest.raises(ValueError, match="this processor cannot compute in bfloat16"):
        train_config([*words, f"trainer.precision={precision}", f"run={tmp_path / 'run'}"])
