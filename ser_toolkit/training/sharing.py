"""Whether a model gives tokens in a tree what it gives them in a sequence, and if not, why.

Known limits are read from its configuration (windows, rotary scaling that hangs on the length, kernels without masks);
all else (ALiBi, recurrence, models of tomorrow) shows in a probe: a small tree and the same sequences, once a model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from .pictures import Media, shape_of

_LOG = logging.getLogger(__name__)
_MASKED_KERNELS = ("sdpa", "eager")
_FULL = ("full_attention",)
_LENGTH_BOUND_ROPE = ("dynamic", "longrope")
PATCHES = ("pixel_values", "pixel_attention_mask", "image_grid_thw", "image_sizes")
"""The media of which it is known that they stand in for image tokens, in the order of the batch."""
_probed: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def unwrapped(model: Any) -> Any:
    """The transformers model inside DDP and PEFT; adapters act in place."""
    while True:
        if hasattr(model, "module"):
            model = model.module
        elif hasattr(model, "get_base_model"):
            model = model.get_base_model()
        else:
            return model


def reason_against(model: Any, longest: int, media: Mapping[int, Media]) -> str:
    """Why sequences of up to `longest` tokens cannot share their beginning in this model; "" where they can.

    What is found is logged once a model and reason.
    """
    inner = unwrapped(model)
    reason = _of_config(inner.config, longest) or _of_media(inner, media)
    if not reason:
        if inner not in _probed:
            _probed[inner] = _probe(model, inner)
        reason = _probed[inner]
    if reason and reason not in _told.setdefault(inner, set()):
        _told[inner].add(reason)
        _LOG.warning("prompts are not shared, each sequence is computed whole: %s", reason)
    return reason


def _of_config(config: Any, longest: int) -> str:
    text = config.get_text_config()
    kernel = getattr(text, "_attn_implementation", None)
    if kernel not in _MASKED_KERNELS:
        return f'the attention {kernel!r} takes no mask of its own; load the model with attn_implementation="sdpa"'
    window = getattr(text, "sliding_window", None) or getattr(text, "attention_chunk_size", None)
    kinds = sorted(set(getattr(text, "layer_types", None) or ()).difference(_FULL))
    if kinds and not (window and set(kinds) <= {"sliding_attention", "chunked_attention"} and longest <= window):
        return f"layers of kind {', '.join(kinds)}" + (f", window {window} tokens" if window else "")
    if not kinds and window and getattr(text, "use_sliding_window", True) and longest > window:
        return f"attention is limited to a window of {window} tokens"
    rope = getattr(text, "rope_parameters", None) or {}
    if isinstance(rope, Mapping) and rope.get("rope_type") in _LENGTH_BOUND_ROPE:
        return f"rotary positions of type {rope['rope_type']!r} hang on the length of the batch"
    return ""


def _of_media(inner: Any, media: Mapping[int, Media]) -> str:
    names = {name for one in media.values() for name in one}
    per_token = {"mm_token_type_ids"} if hasattr(base_of(inner), "get_rope_index") else set()
    unknown = sorted(names - set(PATCHES) - per_token)
    if unknown:
        return f"it takes {', '.join(unknown)} beside its pictures"
    if "image_grid_thw" in names and "mm_token_type_ids" not in names:
        return "where its image tokens stand in the picture is not told"
    if len({shape_of(one) for one in media.values() if one}) > 1:
        return "pictures of several shapes stand in one batch"
    return ""


def base_of(inner: Any) -> Any:
    """The model under the language head."""
    return getattr(inner, inner.base_model_prefix, inner)


def _probe(model: Any, inner: Any) -> str:
    """Whether a small tree gets the logits of its sequences, both as one row and behind kept keys and values."""
    import torch

    from .layout import tree_of
    from .shared_prefix import through_cache, through_plain, through_row

    vocabulary = inner.config.get_text_config().vocab_size
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(0, min(vocabulary, 1000), (20,), generator=drawn).tolist()
    tree = tree_of([ids[:12], ids[:8] + ids[12:17], ids[:8] + ids[12:14] + ids[17:]])
    wanted = range(1, len(tree.tokens))
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            plain = through_plain(model, tree, wanted)
            loose = next(model.parameters()).dtype != torch.float32
            for way in (through_row, through_cache):
                if not torch.allclose(way(model, tree, wanted), plain, atol=0.15 if loose else 1e-3):
                    return "a probe shows that its tokens feel more than their positions and a mask tell"
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError, NotImplementedError) as exc:
        return f"a probe fails: {type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"
    finally:
        model.train(was_training)
    return ""
