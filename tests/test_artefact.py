"""A model in a folder: the same numbers after loading, a clear error for everything else, no code in it."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

import mondrian
from mondrian import (
    CrossAttentionTransfer,
    EndCorrected,
    FewerPoints,
    GlobalAttention,
    Grid,
    LowRank,
    PointAttention,
    RelativeBias,
    Rotary,
    SeparableMixture,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.artefact import OperatorModel, write_atomically

SMALL = {"hidden_channels": 16, "n_layers": 2, "subdomains": (4, 4)}
MODELS: dict[str, Callable[[], OperatorModel]] = {
    "vit": lambda: vit_no(2, 1, operator=SeparableMixture(terms=4), stagger=True, **SMALL),
    "swin": lambda: swin_no(2, 1, operator=LowRank(rank=2, hidden=4), window=(2, 2), **SMALL),
    "nbr": lambda: nbr_no(
        2,
        1,
        operator=PointAttention(),
        attention_operator=LowRank(rank=2, hidden=4),
        radius=1,
        positions=(RelativeBias(hidden=4), Rotary()),
        quadrature=EndCorrected(),
        grid=Grid(extent=(2.0, 1.0), periodic=(True, False)),
        **SMALL,
    ),
    "unet": lambda: unet_no(
        2,
        1,
        operator=SeparableMixture(terms=4),
        levels=3,
        coarsening=FewerPoints(),
        transfer=CrossAttentionTransfer(),
        coarse_attention=(GlobalAttention(), GlobalAttention(n_heads=2)),
        widening=2,
        **SMALL,
    ),
}
FILES = ["config.json", "model.safetensors"]


@pytest.fixture
def model() -> OperatorModel:
    return build("nbr", seed=0)


@pytest.fixture
def folder(tmp_path: Path, model: OperatorModel) -> Path:
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def build(name: str, seed: int) -> OperatorModel:
    torch.manual_seed(seed)
    model = MODELS[name]()
    with torch.no_grad():  # away from the zeros that some parameters start from
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def sample(seed: int = 1) -> Tensor:
    return torch.randn(2, 2, 16, 16, generator=torch.Generator().manual_seed(seed))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite_config(folder: Path, **changes: object) -> None:
    """Change the description and its checksum with it, as an attacker would."""
    config = json.loads((folder / "config.json").read_text()) | changes
    config["model_sha256"] = hashlib.sha256(json.dumps(config["model"], sort_keys=True).encode()).hexdigest()
    (folder / "config.json").write_text(json.dumps(config))


# What is kept


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_has_the_same_spec_weights_and_outputs_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model = build(name, seed=0)
    model.save_pretrained(tmp_path)
    torch.manual_seed(17)  # new weights that were not overwritten would show
    loaded = mondrian.from_pretrained(tmp_path)
    assert loaded.spec == model.spec
    ours, theirs = model.state_dict(), loaded.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert torch.equal(outputs(loaded), outputs(model))


def test_a_loaded_model_is_in_evaluation_mode_and_can_be_trained_on(folder: Path) -> None:
    loaded = mondrian.from_pretrained(folder)
    assert not loaded.training
    loaded(sample()).square().mean().backward()
    assert all(parameter.grad is not None for parameter in loaded.parameters())


def test_loading_depends_on_nothing_but_the_folder(folder: Path, tmp_path: Path) -> None:
    moved = folder.rename(tmp_path / "elsewhere")
    first, second = mondrian.from_pretrained(moved), mondrian.from_pretrained(str(moved))
    assert torch.equal(outputs(first), outputs(second))


def test_saving_a_loaded_model_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    mondrian.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(folder)


def test_saving_over_another_model_replaces_it(folder: Path) -> None:
    other = build("vit", seed=3)
    other.save_pretrained(folder)
    assert torch.equal(outputs(mondrian.from_pretrained(folder)), outputs(other))


def test_the_folder_holds_json_and_safetensors_and_nothing_else(folder: Path, model: OperatorModel) -> None:
    assert sorted(contents(folder)) == FILES
    config = json.loads((folder / "config.json").read_text())
    assert set(config) == {"format", "weights_sha256", "model_sha256", "model"}
    raw = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    assert set(header) == set(model.state_dict())
    numbers = sum(end - start for start, end in (entry["data_offsets"] for entry in header.values()))
    assert len(raw) == 8 + length + numbers  # header, numbers, no room for anything more
    assert set(load_file(folder / "model.safetensors")) == set(model.state_dict())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_of_another_dtype_keeps_its_dtype_and_bits(dtype: torch.dtype, tmp_path: Path) -> None:
    model = build("vit", seed=0).to(dtype)
    with torch.no_grad():
        model.lift.first.bias.fill_(1 / 3)  # a number that float32 does not hold
    model.save_pretrained(tmp_path)
    loaded = mondrian.from_pretrained(tmp_path)
    for ours, theirs in zip(model.parameters(), loaded.parameters(), strict=True):
        assert theirs.dtype == dtype
        assert torch.equal(ours, theirs)
    with torch.no_grad():
        assert torch.equal(loaded(sample().to(dtype)), model(sample().to(dtype)))


def test_a_model_of_several_dtypes_keeps_them_all(tmp_path: Path) -> None:
    model = build("vit", seed=0)
    model.lift.to(torch.float64)
    model.save_pretrained(tmp_path)
    loaded = mondrian.from_pretrained(tmp_path).state_dict()
    assert all(loaded[key].dtype == tensor.dtype for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_files_have_the_permissions_of_any_new_file(
    umask: int, mode: int, tmp_path: Path, model: OperatorModel
) -> None:
    before = os.umask(umask)
    try:
        model.save_pretrained(tmp_path)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES] == [mode] * 2


# What is refused


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name(folder: Path, name: str, kept: float) -> None:
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[: int(kept * len(raw)) - 2])
    with pytest.raises(ValueError, match=name):
        mondrian.from_pretrained(folder)


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.7, 0.9999])
def test_one_flipped_bit_in_the_weights_is_refused_by_name(folder: Path, place: float) -> None:
    raw = bytearray((folder / "model.safetensors").read_bytes())
    raw[int(place * len(raw))] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(raw))
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or belongs to another model"):
        mondrian.from_pretrained(folder)


def test_one_flipped_bit_in_the_description_is_refused_with_the_name_of_a_file(folder: Path) -> None:
    path = folder / "config.json"
    raw = path.read_bytes()
    for place in range(0, len(raw) - 1, 2):  # but for the line break at the end
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(ValueError, match=re.escape(str(folder))):
            mondrian.from_pretrained(folder)


def test_a_description_that_was_damaged_into_another_valid_one_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    text = path.read_text()
    assert '"radius": 1' in text
    path.write_text(text.replace('"radius": 1', '"radius": 3'))  # one bit of one byte
    with pytest.raises(ValueError, match=r"config\.json is damaged or was edited"):
        mondrian.from_pretrained(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name} does not exist; needed a folder written by save_pretrained"):
        mondrian.from_pretrained(folder)


def test_a_missing_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere/model\.safetensors does not exist"):
        mondrian.from_pretrained(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ["not json", "[]", "3", '"text"', "{}", '{"format": 1}', '{"architectures": ["Bert"]}']
)
def test_a_foreign_description_is_refused_by_name(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json (is not JSON|was not written by mondrian)"):
        mondrian.from_pretrained(folder)


def test_a_binary_description_is_refused_by_name(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\x80\x04\x95\xff\xfe")
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        mondrian.from_pretrained(folder)


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_another_format_is_refused_with_both_numbers(folder: Path, number: object) -> None:
    rewrite_config(folder, format=number)
    with pytest.raises(ValueError, match=rf"config\.json has format {number}; this version reads format 1"):
        mondrian.from_pretrained(folder)


def test_a_spec_that_is_no_model_is_refused_by_name(folder: Path) -> None:
    rewrite_config(folder, model=Grid(extent=(1.0,)).to_json())
    with pytest.raises(ValueError, match="does not describe a model that can be built: a Grid is not a model"):
        mondrian.from_pretrained(folder)


@pytest.mark.parametrize(
    "described", [{"spec": "ModelSpec"}, 5, None, {"spec": "GlobalAttention", "n_heads": 0}], ids=str
)
def test_a_description_of_no_model_at_all_is_refused_by_name(folder: Path, described: object) -> None:
    rewrite_config(folder, model=described)
    with pytest.raises(
        ValueError, match=r"config\.json does not describe a model that can be built: .*(NotImplemented|5|None|heads)"
    ):
        mondrian.from_pretrained(folder)


def test_a_pickle_in_place_of_the_weights_is_refused_and_not_run(folder: Path, tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(tmp_path / "was_run"),)

    torch.save(Harmful(), folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    rewrite_config(folder, weights_sha256=digest)  # even with the right checksum
    with pytest.raises(ValueError, match=r"model\.safetensors does not hold the weights of this model"):
        mondrian.from_pretrained(folder)
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize("change", ["other model", "missing", "extra", "shape"])
def test_weights_of_another_model_are_refused_by_name_even_with_their_checksum(folder: Path, change: str) -> None:
    weights = load_file(folder / "model.safetensors")
    first = next(iter(weights))
    if change == "other model":
        weights = build("vit", seed=0).state_dict()
    elif change == "missing":
        del weights[first]
    elif change == "extra":
        weights["smuggled"] = torch.zeros(3)
    else:
        weights[first] = torch.zeros(*weights[first].shape, 2)
    raw = save(weights)
    (folder / "model.safetensors").write_bytes(raw)
    rewrite_config(folder, weights_sha256=hashlib.sha256(raw).hexdigest())
    with pytest.raises(ValueError, match=r"model\.safetensors does not hold the weights of this model"):
        mondrian.from_pretrained(folder)


def test_weights_of_a_model_with_the_same_shapes_are_refused_by_their_checksum(folder: Path, tmp_path: Path) -> None:
    build("nbr", seed=5).save_pretrained(tmp_path / "other")
    (folder / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or belongs to another model"):
        mondrian.from_pretrained(folder)


# Writing


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("call, name", [(0, ".config"), (1, "model.safetensors"), (2, "config.json")])
def test_a_full_disk_is_an_error_that_names_the_file(folder: Path, function: str, call: int, name: str) -> None:
    full = OSError(28, "No space left on device")
    with stopped(function, call, full), pytest.raises(OSError, match=f"cannot write .*/{name}.*: No space left"):
        build("vit", seed=9).save_pretrained(folder)
    assert not [path for path in folder.iterdir() if path.suffix != ".json" and path.name not in FILES]  # no litter


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_a_save_that_is_killed_at_any_moment_leaves_the_old_model_or_the_new_one(
    folder: Path, function: str, call: int, after: bool
) -> None:
    new = build("vit", seed=9)
    with stopped(function, call, Killed(), after=after), pytest.raises(Killed):
        new.save_pretrained(folder)
    arrived = call == 2 or (function, call, after) == ("replace", 1, True)
    expected = outputs(new if arrived else build("nbr", seed=0))
    assert torch.equal(outputs(mondrian.from_pretrained(folder)), expected)

    with stopped("fsync", 1, Killed()), pytest.raises(Killed):  # and a second time
        build("swin", seed=2).save_pretrained(folder)
    assert torch.equal(outputs(mondrian.from_pretrained(folder)), expected)

    last = build("swin", seed=3)
    last.save_pretrained(folder)
    assert torch.equal(outputs(mondrian.from_pretrained(folder)), outputs(last))


@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_first_save_that_is_killed_leaves_no_model_or_all_of_it(tmp_path: Path, call: int) -> None:
    new = build("vit", seed=9)
    with stopped("replace", call, Killed()), pytest.raises(Killed):
        new.save_pretrained(tmp_path)
    if call < 2:
        with pytest.raises(ValueError, match=r"model\.safetensors does not exist"):
            mondrian.from_pretrained(tmp_path)
    else:
        assert torch.equal(outputs(mondrian.from_pretrained(tmp_path)), outputs(new))


class Killed(BaseException):
    """The end of the process."""


@contextmanager
def stopped(function: str, call: int, error: BaseException, *, after: bool = False) -> Iterator[None]:
    """Stop at a call of a function of `os`, before or after it has done its work. The killed clean nothing up."""
    genuine, calls = getattr(os, function), count()
    call = 2 * call if function == "fsync" else call  # the sync of a file is followed by that of its folder

    def stop(*arguments: object) -> None:
        last = next(calls) == call
        if last and not after:
            raise error
        genuine(*arguments)
        if last:
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, function, stop)
        if isinstance(error, Killed):
            patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
        yield


def outputs(model: OperatorModel) -> Tensor:
    with torch.no_grad():
        return model(sample())


def test_a_write_that_is_interrupted_leaves_no_litter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(folder)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(folder / "config.json", b"half")
    assert contents(folder) == before


def test_what_is_written_atomically_is_what_is_read(tmp_path: Path) -> None:
    for content in (b"", b"one", bytes(range(256)) * 1000):
        write_atomically(tmp_path / "file", content)
        assert contents(tmp_path) == {"file": content}


def test_a_file_in_place_of_the_folder_is_an_error_that_names_it(tmp_path: Path, model: OperatorModel) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match="taken"):
        model.save_pretrained(tmp_path / "taken")
