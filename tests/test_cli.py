"""The command: exit codes, one line for bad input, help that explains by examples."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mondrian.commands
from mondrian.cli import COMMANDS, main
from mondrian.commands import models
from mondrian.models import TransformerOperator, TransformerSpec
from mondrian.settings.recipes import recipe_names

FEW = "allen_cahn/vit"


@pytest.fixture(autouse=True)
def _explaining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)


def start(*words: str) -> subprocess.Popen[str]:
    """The command as a shell starts it, its output buffered."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        [sys.executable, "-m", "mondrian.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


# Help


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_the_overview_names_every_command_with_its_summary(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name in COMMANDS:
        module = __import__(f"mondrian.commands.{name}", fromlist=["run"])
        summary = module.__doc__.strip().splitlines()[0]
        assert re.search(rf"^  mondrian {name} +{re.escape(summary)}$", out, re.MULTILINE)
    assert "mondrian COMMAND --help" in out


@pytest.mark.process
@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"], ["tain"]])
def test_help_does_not_wait_for_torch(words: list[str]) -> None:
    program = f"import sys, mondrian.cli; mondrian.cli.main({words}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_every_module_of_the_commands_is_a_command() -> None:
    folder = Path(mondrian.commands.__path__[0])
    assert set(COMMANDS) == {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_of_a_command_shows_examples_and_does_nothing(
    name: str, flag: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = __import__(f"mondrian.commands.{name}", fromlist=["run"])
    monkeypatch.setattr(module, "run", lambda words: pytest.fail("help ran the command"))
    assert main([name, "something", flag]) == 0
    out, err = capsys.readouterr()
    assert (out.strip(), err) == (module.__doc__.strip(), "")
    assert f"  mondrian {name}" in out
    assert max(map(len, out.splitlines())) <= 120


def test_every_example_in_the_help_of_models_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--help"]) == 0
    examples = re.findall(r"^  mondrian models(.*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert [example.split() for example in examples] == [[], ["navier_stokes"], ["--json"]]


# mondrian models


def test_the_table_of_models_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", FEW]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, *rows = out.splitlines()
    names = [name for name in recipe_names() if FEW in name]
    assert [row.split()[0] for row in rows] == names
    number_ends = head.index("parameters") + len("parameters")
    width_ends = head.index("width") + len("width")
    for row in rows:
        assert row[: head.index("parameters")].rstrip() in names
        assert re.fullmatch(r" *[\d,]+", row[number_ends - 10 : number_ends])  # right-aligned under its head
        assert row[number_ends] == " "
        assert row[width_ends - 1].isdigit()
        assert row[head.index("subdomains") :].startswith("8 x 8 ")
        assert row[head.index("model") - 1] == " "
        assert re.fullmatch(r"ViTNO, [A-Z]\w+", row[head.index("model") :])
        assert row == row.rstrip()
    assert "6,954,850" in next(row for row in rows if "vit_mo " in row)


def test_the_json_of_models_holds_names_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", FEW]) == 0
    rows = json.loads(capsys.readouterr().out)
    counts = {row["name"]: row["parameters"] for row in rows}
    assert list(counts) == [name for name in recipe_names() if FEW in name]
    assert counts["allen_cahn/vit_sepmo"] == 1_331_363
    assert counts["allen_cahn/vit_mo"] == 6_954_850


def test_several_words_choose_the_recipes_that_contain_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", "swin", "low_rank"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert names == ["allen_cahn/swin_low_rank", "navier_stokes/swin_low_rank"]


def test_listing_fills_no_model_with_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = set()
    genuine = TransformerSpec.build

    def watched(spec: TransformerSpec) -> TransformerOperator:
        model = genuine(spec)
        devices.update(parameter.device.type for parameter in model.parameters())
        return model

    monkeypatch.setattr(TransformerSpec, "build", watched)
    assert main(["models", "allen_cahn/vit_attention"]) == 0
    assert devices == {"meta"}


# Bad input


@pytest.mark.parametrize(
    "words, message",
    [
        (["modles"], r"mondrian: no command 'modles'; needed one of models, .*"),
        (["--json"], r"mondrian: no command '--json'; needed one of .*"),
        (["models", "--jsn"], r"mondrian models: unknown option --jsn; needed --json, --help or .*"),
        (["models", "burgers"], r"mondrian models: no recipe contains 'burgers'"),
        (["models", "vit", "burgers"], r"mondrian models: no recipe contains 'vit' and 'burgers'"),
    ],
)
def test_bad_input_is_one_line_on_standard_error_and_exit_code_two(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(message + r"\n", err)


@pytest.mark.parametrize("error", [ValueError("n=0 is too small"), OSError(28, "No space left on device", "file")])
def test_errors_of_input_and_of_files_are_told_without_a_traceback(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str]) -> None:
        raise error

    monkeypatch.setattr(models, "run", fail)
    assert main(["models"]) == 2
    assert capsys.readouterr().err == f"mondrian models: {error}\n"


def test_errors_of_the_program_itself_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(words: list[str]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(models, "run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["models"])


def test_debugging_raises_instead_of_explaining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONDRIAN_DEBUG", "1")
    with pytest.raises(ValueError, match="no recipe contains 'burgers'"):
        main(["models", "burgers"])


@pytest.mark.parametrize("value", ["", "0"])
def test_debugging_is_off_unless_it_is_one(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONDRIAN_DEBUG", value)
    assert main(["models", "burgers"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_leaves_with_the_exit_code_of_a_signal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "run", interrupt)
    assert main(["models"]) == 130
    assert capsys.readouterr().err == "mondrian models: stopped\n"


@pytest.mark.parametrize(
    "word, message",
    [
        ("sede=3", r"no setting 'sede'; did you mean seed\?"),
        ("seed=[", r"seed=\[ cannot be read: no viable alternative at input '\['; quotes keep .*: \"seed='\['\""),
        ("seed", r"'seed' is no setting; needed key=value"),
    ],
)
def test_a_mistyped_setting_is_one_line_too(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", word]) == 2
    assert re.fullmatch(f"mondrian generate: {message}\n", capsys.readouterr().err)


# As a process


@pytest.mark.process
def test_the_process_leaves_with_the_code_and_the_line_of_the_command() -> None:
    process = start("models", "burgers")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (2, "", "mondrian models: no recipe contains 'burgers'\n")


@pytest.mark.process
@pytest.mark.parametrize("words", [["models", "allen_cahn/vit_attention"], ["--help"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(words: list[str]) -> None:
    process = start(*words)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=120)
    assert err == ""
    assert process.returncode == 0


class ClosedPipe(io.StringIO):
    """Standard output whose reader has gone; what `main` puts in its place goes to `handle`."""

    def __init__(self, handle: int) -> None:
        super().__init__()
        self.handle = handle

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def fileno(self) -> int:
        return self.handle


@pytest.mark.parametrize(
    "words",
    [["models", "allen_cahn/vit_attention"], ["--help"], ["models", "-h"]],
    ids=" ".join,
)
def test_a_pipe_that_breaks_in_the_middle_is_no_error(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "instead").open("w") as file:
        monkeypatch.setattr(sys, "stdout", ClosedPipe(file.fileno()))
        assert main(words) == 0
    assert capsys.readouterr().err == ""
