"""What the benchmarks of models share: a small model of realistic proportions, its tokenizer, the machine's limit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

WIDTH, LAYERS, HEADS, KEY_HEADS, INNER = 1024, 2, 16, 4, 2816
"""Two layers as wide as those of a model of half a billion: the share of attention in all FLOPs hangs on the width."""
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def one_thread() -> None:
    torch.set_num_threads(1)


def make_tokenizer(texts: Sequence[str], pieces: int = 8192) -> Any:
    """A byte-level BPE tokenizer learnt from the texts, with ChatML's template."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts, vocab_size=pieces, min_frequency=1, show_progress=False)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = _CHATML
    return made


def make_model(tokenizer: Any, seed: int = 0, spread: float = 0.02) -> Any:
    """A llama with grouped queries, random weights (`spread` their standard deviation), float32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=8192,
        initializer_range=spread,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def gemm_peak(size: int = 1024, repeats: int = 8) -> float:
    """FLOP/s of a float32 matrix product on one thread, the best of some."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / best_of(lambda: left @ right, repeats)[0]


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest time of `repeats` runs, in seconds of this process' CPU, and what the last one gave."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return best, result


def forward_flops(spans: Sequence[tuple[int, int]], head_tokens: int, vocabulary: int) -> float:
    """FLOPs of a forward pass over spans of tokens (how many, after how many that they see), each token once.

    Two a weight; attention four a width and token seen, causal; the language head for `head_tokens` alone.
    """
    key_width = WIDTH * KEY_HEADS // HEADS
    weights = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * key_width + 3 * WIDTH * INNER)
    total = 2.0 * WIDTH * vocabulary * head_tokens
    for count, before in spans:
        total += 2 * weights * count + 4 * LAYERS * WIDTH * (count * before + count * (count + 1) / 2)
    return total


def words(count: int, seed: int) -> str:
    """Some of 400 made-up words, each one token of a tokenizer that has learnt `ALL_WORDS`."""
    drawn = random.Random(seed)
    return "".join(f" {_SYLLABLES[drawn.randrange(20)]}{_SYLLABLES[drawn.randrange(20)]}" for _ in range(count))


_SYLLABLES = [a + b for a in "bdfghklmnp" for b in "ai"]
ALL_WORDS = "".join(f" {a}{b}" for a in _SYLLABLES for b in _SYLLABLES)
