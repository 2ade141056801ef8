"""Log-probabilities and entropies of a batch of completions, each prompt computed once, gradients included.

The prompts that differ go through the model first, and their keys and values are kept; then all completions go through
behind them. Positions and masks are those of TRL's padded rows, so the figures are TRL's up to rounding; the head is
TRL's own chunked one, and sees completions alone. Bound of sharing: G(P+R)/(P+GR).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch  # noqa: TID253  (this module is imported only by what trains)
from transformers import DynamicCache  # noqa: TID253
from trl.kernels import ChunkedLogProbFunction  # noqa: TID253
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE  # noqa: TID253

from ser_toolkit.training.sharing import base_of, reason_against, unwrapped

_PER_ROW = ("pixel_values", "pixel_attention_mask")
_SCALES = ("logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")


def reason_against_sharing(model: Any, rows: int, length: int, media: Mapping[str, Any]) -> str:
    """Why a batch of `rows` of `length` tokens is better computed whole; "" where its prompts can be shared."""
    inner = unwrapped(model)
    text = inner.config.get_text_config()
    if hasattr(model, "module"):
        return "several processes synchronise their gradients in the model's own forward pass"
    if getattr(inner, "is_gradient_checkpointing", False) and torch.is_grad_enabled():
        return "gradient checkpointing keeps no keys and values (--set gradient_checkpointing=false)"
    if any(getattr(text, name, None) not in (None, 1.0) for name in _SCALES):
        return "the model scales its logits"
    odd = [k for k, v in media.items() if k not in (*_PER_ROW, "num_images") or (k in _PER_ROW and len(v) != rows)]
    if odd:
        return f"its positions or pictures hang on {', '.join(sorted(odd))}"
    return reason_against(model, length, {})


def shared_logps(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    keep: int,
    *,
    temperature: float,
    media: Mapping[str, Any],
    with_entropy: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """log p, and entropies where asked for, of the last `keep` tokens: (B, keep) each, 0 where the mask is 0.

    `input_ids` (B, P + keep): left-padded prompts, right-padded completions; `media` by row of the batch.
    """
    inner = unwrapped(model)
    width = input_ids.size(1) - keep
    completions = input_ids[:, width:]
    pictures = {k: media[k] for k in _PER_ROW if k in media}
    last, said = shared_hidden(base_of(inner), input_ids[:, :-1], attention_mask[:, :-1], width, pictures)
    hidden = torch.cat([last[:, None], said], dim=1)
    mask = attention_mask[:, width:].bool()
    head = inner.get_output_embeddings()
    logps, entropy, *_ = ChunkedLogProbFunction.apply(  # pyright: ignore[reportGeneralTypeIssues]
        hidden[mask],
        head.weight,
        head.bias,
        completions[mask],
        temperature,
        _CHUNKED_LOGPROB_CHUNK_SIZE,
        getattr(inner.config.get_text_config(), "final_logit_softcapping", None),
        1.0,
        ("log_probs", "entropy") if with_entropy else ("log_probs",),
    )
    return _placed(logps, mask), _placed(entropy, mask) if with_entropy else None


def shared_hidden(
    base: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    width: int,
    pictures: Mapping[str, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The last hidden states of a batch (B, P + R) whose prompts are the first `width` tokens, each different prompt
    computed once: those of the prompts' last tokens (B, h), and of what stands behind them (B, R, h).
    """
    pictures = pictures or {}
    first, owner = _distinct(input_ids[:, :width], attention_mask[:, :width], pictures)
    cache = DynamicCache()
    seen = base(
        input_ids=input_ids[first, :width],
        attention_mask=attention_mask[first, :width],
        past_key_values=cache,
        use_cache=True,
        **{k: v[first] for k, v in pictures.items()},
    ).last_hidden_state
    last = seen[:, -1][owner]
    if input_ids.size(1) == width:
        return last, last.new_zeros(len(last), 0, last.size(-1))
    kept = DynamicCache([tuple(t[owner] for t in layer[:2]) for layer in cache])  # pyright: ignore[reportOptionalSubscript]
    positions = torch.arange(width, input_ids.size(1), device=input_ids.device).expand(len(owner), -1)
    said = base(
        input_ids=input_ids[:, width:],
        attention_mask=attention_mask,
        position_ids=positions,
        past_key_values=kept,
        use_cache=True,
    ).last_hidden_state
    return last, said


def _placed(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return values.new_zeros(mask.shape).masked_scatter(mask, values)


def _distinct(
    prompts: torch.Tensor, mask: torch.Tensor, pictures: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the first row of each different prompt, by row which of them it has), pictures told apart."""
    first: list[int] = []
    owner: list[int] = []
    told = [prompts, mask, *pictures.values()]
    for row in range(len(prompts)):
        same = (n for n, f in enumerate(first) if all(torch.equal(t[f], t[row]) for t in told))
        found = next(same, None)
        if found is None:
            found = len(first)
            first.append(row)
        owner.append(found)
    return torch.tensor(first, device=prompts.device), torch.tensor(owner, device=prompts.device)
