"""Models from folders: what is trained, what is frozen, what is refused, and that what is saved comes back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from ser_toolkit.errors import CheckpointError, UsageError
from ser_toolkit.training.models import Lora, load, merged, save, vision_tower
from tests.training_models import text_model, vision_model

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return text_model(tmp_path_factory.mktemp("text") / "tiny-text")


@pytest.fixture(scope="module")
def vision(tmp_path_factory) -> Path:
    return vision_model(tmp_path_factory.mktemp("vision") / "tiny-vision")


def trained(model) -> set[str]:
    return {n for n, p in model.named_parameters() if p.requires_grad}


def logits(loaded) -> torch.Tensor:
    ids = loaded.tokenizer("Is this step sound?", return_tensors="pt").input_ids
    with torch.no_grad():
        return loaded.model.eval()(input_ids=ids).logits


def shaken(loaded) -> None:
    """Adapters begin as zero; make them count."""
    torch.manual_seed(3)
    for name, parameter in loaded.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)


def test_a_text_model_whole(text):
    loaded = load(str(text))
    assert (loaded.is_vision, loaded.has_adapter, loaded.identity) == (False, False, "tiny-text")
    assert trained(loaded.model) == {n for n, _ in loaded.model.named_parameters()}
    assert loaded.model.dtype == torch.float32


def test_lora_stands_on_every_linear_layer_but_the_head(text):
    loaded = load(str(text), lora=Lora(r=4, alpha=8))
    settings = loaded.model.peft_config["default"]
    assert set(settings.target_modules) == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"
    }  # fmt: skip
    assert (settings.r, settings.lora_alpha) == (4, 8) and trained(loaded.model)
    assert all("lora_" in name for name in trained(loaded.model))


def test_lora_leaves_the_vision_tower_alone_and_takes_the_aligner(vision):
    loaded = load(str(vision), lora=Lora())
    assert loaded.is_vision and (loaded.model.peft_config["default"].r, Lora().alpha) == (16, 64)
    names = trained(loaded.model)
    assert any("connector" in n for n in names) and not any("vision_model" in n for n in names)


def test_the_vision_tower_is_frozen_unless_told_otherwise(vision):
    frozen, free = load(str(vision)), load(str(vision), freeze_vision=False)
    assert not any("vision_model" in n for n in trained(frozen.model)) and any(
        "connector" in n for n in trained(frozen.model)
    )
    assert trained(free.model) - trained(frozen.model) == {
        n for n, _ in free.model.named_parameters() if "vision_model" in n
    }
    tower = vision_tower(free.model)
    assert tower is not None and tower[0] == "model.vision_model"
    assert not load(str(vision), text_only=True).is_vision


@pytest.mark.parametrize("kind", ["text", "vision"])
def test_an_adapter_and_what_it_merges_to_come_back_equal(kind, text, vision, tmp_path):
    folder = text if kind == "text" else vision
    loaded = load(str(folder), lora=Lora(r=4, alpha=8))
    shaken(loaded)
    wanted = logits(loaded)
    assert not torch.allclose(wanted, logits(load(str(folder))), atol=1e-3)
    save(loaded, tmp_path / "adapter")
    save(merged(loaded), tmp_path / "model")
    for came in ("adapter", "model"):
        again = load(str(tmp_path / came))
        assert not again.has_adapter and torch.allclose(logits(again), wanted, atol=1e-5), came
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert torch.allclose(logits(load(str(tmp_path))), wanted, atol=1e-5), "a run's folder means its model"


def test_what_is_no_model_is_told(text, tmp_path):
    with pytest.raises(UsageError, match="no such model"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="Unrecognized model"):
        load(str(tmp_path))
    half = shutil.copytree(text, tmp_path / "half")
    (half / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load(str(half))
    broken = shutil.copytree(text, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes((text / "model.safetensors").read_bytes()[:2000])
    with pytest.raises(CheckpointError, match="damaged"):
        load(str(broken))
    mute = shutil.copytree(text, tmp_path / "mute")
    (mute / "chat_template.jinja").unlink()
    with pytest.raises(UsageError, match="no chat template"):
        load(str(mute))
    template = tmp_path / "own.jinja"
    template.write_text((text / "chat_template.jinja").read_text())
    assert load(str(mute), chat_template=template).tokenizer.chat_template


def test_a_model_that_lacks_weights_is_refused_and_never_filled_with_random_ones(text, tmp_path):
    from safetensors.torch import load_file, save_file

    cut = shutil.copytree(text, tmp_path / "cut")
    weights = load_file(cut / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, cut / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"1 weights are missing.*up_proj"):
        load(str(cut))


def test_an_unknown_architecture_is_a_usage_error(text, tmp_path):
    strange = shutil.copytree(text, tmp_path / "strange")
    config = json.loads((strange / "config.json").read_text())
    (strange / "config.json").write_text(json.dumps({**config, "model_type": "never_heard_of"}))
    with pytest.raises(UsageError, match="never_heard_of"):
        load(str(strange))
