"""Shared beginnings change what is computed, never what comes out: values, gradients, pictures, every way and model."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from ser_toolkit.training.layout import Tree, tree_of
from ser_toolkit.training.shared_prefix import group_logps, through_plain, tree_logps
from ser_toolkit.training.sharing import reason_against
from tests.judge_models import picture, processor, text_model, vision_model

pytestmark = pytest.mark.train
WAYS = ("row", "cache")


def drawn(count: int, seed: int = 0, top: int = 300) -> list[int]:
    return torch.randint(5, top, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def group(prompt: int = 90, lengths: Sequence[int] = (5, 17, 1, 9)) -> Tree:
    """Completions of other lengths behind one prompt; two of them begin alike."""
    start = drawn(prompt)
    ends = [drawn(n, seed) for seed, n in enumerate(lengths, 1)]
    return tree_of([start + e for e in (*ends, ends[1][:4] + drawn(6, 99))])


def alone(model: Any, tree: Tree, wanted: Sequence[int]) -> torch.Tensor:
    """The oracle: one unpadded sequence at a time, as anyone would write it."""
    found: dict[int, torch.Tensor] = {}
    for path in tree.paths:
        ids = torch.tensor([[tree.tokens[i] for i in path]])
        logps = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        found |= dict(zip(path[1:], logps, strict=True))
    return torch.stack([found[i] for i in wanted])


def gradients(model: Any, logps: Callable[[], torch.Tensor]) -> torch.Tensor:
    model.zero_grad()
    made = logps()
    (made * torch.linspace(-1, 1, len(made))).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


MODELS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("llama", {}),
    "eager": ("llama", {"attn_implementation": "eager"}),
    "qwen3": ("qwen3", {}),
    "learned positions": (
        "gpt2",
        {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 256, "initializer_range": 0.3},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_equal_the_plain_ones(name: str) -> None:
    kind, changes = MODELS[name]
    model, tree = text_model(kind, **changes), group()
    wanted = range(1, len(tree.tokens))
    expected = alone(model, tree, wanted)
    expected_gradients = gradients(model, lambda: alone(model, tree, wanted))
    assert reason_against(model, 120, {}) == ""
    for way in (*WAYS, "plain", "auto"):
        assert torch.allclose(tree_logps(model, tree, wanted, way=way), expected, atol=1e-5), way
        found = gradients(model, lambda w=way: tree_logps(model, tree, wanted, way=w))
        assert (found - expected_gradients).norm() < 1e-5 * expected_gradients.norm(), way


def test_any_forest_and_any_wanted_tokens() -> None:
    model = text_model()
    sequences = [drawn(30)[:n] + drawn(m, n) for n, m in ((30, 4), (12, 9), (30, 1), (3, 20), (0, 15))]
    tree = tree_of([*sequences, drawn(30)], [0, 0, 1, 1, 2, 0])
    wanted = [i for i in range(len(tree.tokens)) if tree.parents[i] >= 0][::3]
    for way in WAYS:
        assert torch.allclose(tree_logps(model, tree, wanted, way=way), alone(model, tree, wanted), atol=1e-5)


def test_a_group_is_told_by_completion_and_at_its_temperature() -> None:
    model, prompt = text_model(), drawn(80)
    completions = [drawn(7, 1), drawn(3, 2), drawn(7, 1)]  # two alike, as a policy may sample them
    for way in (*WAYS, "plain"):
        found = group_logps(model, prompt, completions, temperature=0.7, way=way)
        for told, completion in zip(found, completions, strict=True):
            ids = torch.tensor([prompt + completion])
            logps = (model(ids).logits[0, len(prompt) - 1 : -1] / 0.7).log_softmax(-1)
            assert torch.allclose(told, logps.gather(-1, torch.tensor(completion)[:, None])[:, 0], atol=1e-5)


def test_the_prompt_is_computed_once() -> None:
    model, seen = copy.deepcopy(text_model()), []
    model.register_forward_pre_hook(lambda _, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True)
    prompt, completions = drawn(400), [drawn(10, n) for n in range(1, 9)]
    group_logps(model, prompt, completions, way="cache")
    assert sum(seen) == 400 + 8 * 10
    seen.clear()
    group_logps(model, prompt, completions, way="row")
    assert seen == [400 + 8 * 10]


def test_the_language_head_sees_only_what_is_wanted() -> None:
    model, seen = copy.deepcopy(text_model()), []
    model.lm_head.register_forward_hook(lambda _, args, out: seen.append(out.shape[:2]))
    tree = group()
    tree_logps(model, tree, [100, 101], way="row")
    assert seen == [(1, 2)]


def test_gradient_checkpointing_goes_in_one_pass_with_the_same_gradients() -> None:
    model, tree = copy.deepcopy(text_model()), group()
    wanted = range(1, len(tree.tokens))
    expected = gradients(model, lambda: alone(model, tree, wanted))
    model.activation_checkpointing_enable()
    model.train()
    assert model.is_activation_checkpointing
    found = gradients(model, lambda: tree_logps(model, tree, wanted))
    assert (found - expected).norm() < 1e-5 * expected.norm()


def test_adapters_are_at_work() -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(r=4, lora_alpha=64, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = get_peft_model(copy.deepcopy(text_model()), config).eval()
    tree = group()
    wanted = range(1, len(tree.tokens))
    bare = alone(text_model(), tree, wanted)
    for way in (*WAYS, "auto"):
        found = tree_logps(model, tree, wanted, way=way)
        assert torch.allclose(found, alone(model, tree, wanted), atol=1e-5)
        assert not torch.allclose(found, bare, atol=1e-2)


def with_pictures(words: Any, shades: Sequence[int], image: str, shape: Any) -> tuple[Tree, dict[int, dict[str, Any]]]:
    """By shade a group: its picture's tokens, a prompt, and two endings."""
    sequences: list[list[int]] = []
    media: dict[int, dict[str, Any]] = {}
    for g, shade in enumerate(shades):
        made = words(text=[f"{image} is this?"], images=[[picture(shade, shape)]], return_tensors="pt")
        head = made.pop("input_ids")[0].tolist()
        made.pop("attention_mask")
        media[g] = dict(made)
        sequences += [head + drawn(70, 5) + drawn(4, n) for n in (1, 2)]
    return tree_of(sequences, [g for g in range(len(shades)) for _ in range(2)]), media


@pytest.mark.parametrize("shades", [(10,), (10, 240)])
def test_pictures_stand_with_their_own_group(shades: Sequence[int]) -> None:
    model = vision_model()
    tree, media = with_pictures(processor(), shades, "<image>", 64)
    wanted = [i for i in range(len(tree.tokens)) if tree.parents[i] >= 0]
    expected = through_plain(model, tree, wanted, media)
    # Plain is checked on one sequence by hand; the other ways against it.
    ids = torch.tensor([[tree.tokens[i] for i in tree.paths[-1]]])
    logps = model(ids, **media[len(shades) - 1]).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
    assert torch.allclose(expected[[wanted.index(i) for i in tree.paths[-1][1:]]], logps, atol=1e-5)
    assert reason_against(model, 200, media) == ""
    for way in (*WAYS, "auto"):
        assert torch.allclose(tree_logps(model, tree, wanted, media=media, way=way), expected, atol=1e-5), way


def qwen_vl() -> tuple[Any, Callable[..., Any]]:
    """A tiny model with positions in pictures (three axes), and its processor."""
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(0)
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": 320, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 12,
            "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.4,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2], "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 16,
            "out_hidden_size": 48, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1],
            "initializer_range": 0.3,
        },
        image_token_id=301,
        video_token_id=302,
        vision_start_token_id=303,
        vision_end_token_id=304,
    )  # fmt: skip
    see = Qwen2VLImageProcessorPil(patch_size=16, min_pixels=32 * 32, max_pixels=96 * 96)

    def process(images: Any, **_: Any) -> dict[str, Any]:
        seen = see(images=images[0], return_tensors="pt")
        count = int(seen["image_grid_thw"].prod()) // 4
        ids = torch.tensor([[303, *[301] * count, 304, *drawn(5, 8)]])
        kinds = (ids == 301).long()
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": kinds, **seen}

    return Qwen3VLForConditionalGeneration(config).eval(), process


@pytest.mark.parametrize("shades", [(10,), (10, 240)])
def test_positions_in_pictures_are_kept(shades: Sequence[int]) -> None:
    model, process = qwen_vl()
    tree, media = with_pictures(process, shades, "", 96)
    wanted = [i for i in range(len(tree.tokens)) if tree.parents[i] >= 0]
    expected = through_plain(model, tree, wanted, media)
    ids = torch.tensor([[tree.tokens[i] for i in tree.paths[0]]])
    kinds = (ids == 301).long()
    told = {k: v for k, v in media[0].items() if k != "mm_token_type_ids"}
    logps = model(ids, mm_token_type_ids=kinds, **told).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])
    assert torch.allclose(expected[[wanted.index(i) for i in tree.paths[0][1:]]], logps[:, 0], atol=1e-5)
    assert reason_against(model, 200, media) == ""
    for way in WAYS:
        assert torch.allclose(tree_logps(model, tree, wanted, media=media, way=way), expected, atol=1e-5), way


WINDOWS = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
UNFIT: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "ALiBi": ("bloom", {"n_layer": 2, "n_head": 4, "initializer_range": 0.3}, "a probe"),
    "a window": ("mistral", {"sliding_window": 40}, "window of 40 tokens"),
    "windows in some layers": ("gemma3_text", WINDOWS, "sliding_attention, window 40"),
    "recurrence": ("mamba", {"state_size": 8}, "attention|a probe"),
    "length-bound rotary": (
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, "max_position_embeddings": 64},
        "hang on the length",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_models_that_it_does_not_fit_are_asked_plainly_and_it_is_told_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind, changes, reason = UNFIT[name]
    model, tree = text_model.__wrapped__(kind, **changes), group()  # dicts cannot be kept by its cache
    wanted = range(1, len(tree.tokens))
    with caplog.at_level(logging.WARNING):
        found = [tree_logps(model, tree, wanted) for _ in range(2)]
    assert torch.equal(found[1], through_plain(model, tree, wanted))
    lines = [r.getMessage() for r in caplog.records if "not shared" in r.getMessage()]
    assert len(lines) == 1
    assert re.search(reason, lines[0])


def test_short_sequences_fit_into_a_window() -> None:
    model, tree = text_model("mistral", sliding_window=200), group()
    wanted = range(1, len(tree.tokens))
    assert reason_against(model, 120, {}) == "" and "window" in reason_against(model, 201, {})
    for way in WAYS:
        assert torch.allclose(tree_logps(model, tree, wanted, way=way), alone(model, tree, wanted), atol=1e-5)


def test_unknown_media_are_not_shared() -> None:
    assert "token_type_ids" in reason_against(text_model(), 10, {0: {"token_type_ids": torch.zeros(1, 3)}})


def test_pictures_of_several_shapes_go_group_by_group() -> None:
    model = vision_model()
    one, media = with_pictures(processor(), (10, 240), "<image>", 64)
    double = processor()(text=["<image><image>"], images=[[picture(10), picture(20)]], return_tensors="pt")
    head = double.pop("input_ids")[0].tolist()
    sequences = [[one.tokens[i] for i in path] for path in one.paths[:2]]
    tree = tree_of([*sequences, head + drawn(9)], [0, 0, 1])
    told = {0: media[0], 1: {k: v for k, v in double.items() if k != "attention_mask"}}
    wanted = [i for i in range(len(tree.tokens)) if tree.parents[i] >= 0]
    assert "several shapes" in reason_against(model, 100, told)
    found = dict(zip(wanted, tree_logps(model, tree, wanted, media=told), strict=True))
    for path, own in zip(tree.paths, (0, 0, 1), strict=True):
        ids = torch.tensor([[tree.tokens[i] for i in path]])
        logps = model(ids, **told[own]).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        assert torch.allclose(torch.stack([found[i] for i in path[1:]]), logps, atol=1e-5)
