"""Small models with random weights for tests of scoring: a text model, a VLM, and tokenizers with chat templates.

Weights are drawn wide, so that verdicts differ from chat to chat and errors are not lost in flat distributions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from rm_training.rounds import JudgeChat
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS, judge_questions
from ser_toolkit.schema import Turn

torch.set_num_threads(1)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TEXT = (
    "True False First better Second better Almost equally good Neither acceptable. Is this step sound, given the "
    "conversation? Answer True or False. Two replies to the person. The conversation so far: Seeker: Supporter: Step "
)


@cache
def tokenizer() -> Any:
    """A byte-level BPE tokenizer of 400 pieces with ChatML's template."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([_TEXT] * 4, vocab_size=400, min_frequency=1, show_progress=False)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = CHATML
    return made


@cache
def processor() -> Any:
    """A processor of pictures of 64 pixels, four tokens each; its template writes "Assistant: True"."""
    import trl
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor, PreTrainedTokenizerFast

    rows = [f"<row_{r}_col_{c}>" for r in (1, 2) for c in (1, 2)]
    own = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", "<|begin_of_text|>", *rows]
    base = PreTrainedTokenizerFast(tokenizer_object=tokenizer()._tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>")
    base.add_special_tokens({"additional_special_tokens": own})
    template = (Path(trl.__file__).parent / "chat_templates/idefics3.jinja").read_text()
    pictures = Idefics3ImageProcessorPil(
        do_image_splitting=False, size={"longest_edge": 64}, max_image_size={"longest_edge": 64}
    )
    return Idefics3Processor(image_processor=pictures, tokenizer=base, image_seq_len=4, chat_template=template)


@cache
def text_model(kind: str = "llama", seed: int = 0, **changes: Any) -> Any:
    """A causal LM of three layers; `changes` go into its configuration."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        kind,
        **{
            "vocab_size": len(tokenizer()),
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "max_position_embeddings": 4096,
            "initializer_range": 0.5,
            "pad_token_id": tokenizer().pad_token_id,
            "eos_token_id": tokenizer().eos_token_id,
            "bos_token_id": None,
            **changes,
        },
    )
    return AutoModelForCausalLM.from_config(config).eval()


@cache
def vision_model(seed: int = 0) -> Any:
    """A VLM of two layers that sees pictures (Idefics3)."""
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration

    torch.manual_seed(seed)
    words = processor().tokenizer
    config = Idefics3Config(
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 64, "patch_size": 16, "initializer_range": 0.2,
        },
        text_config={
            "model_type": "llama", "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(words), "initializer_range": 0.5,
            "pad_token_id": words.pad_token_id, "max_position_embeddings": 4096,
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=words.pad_token_id,
    )  # fmt: skip
    return Idefics3ForConditionalGeneration(config).eval()


def picture(shade: int = 200, width: int = 64) -> Any:
    from PIL import Image

    return Image.new("RGB", (width, 64), (9, shade, 255 - shade))


def turns(count: int = 3, words: str = "I keep losing sleep over it") -> tuple[Turn, ...]:
    return tuple(
        Turn(speaker="seeker" if i % 2 == 0 else "supporter", text=f"{words}, {i} times.") for i in range(count)
    )


def judge_chat(number: int, *, images: tuple[Any, ...] = (), history: int = 3) -> JudgeChat:
    """The unified judge's chat about reply `number`, whose parts have other lengths than those of its neighbours."""
    steps = [f"Step text {n} of case {number}" + " and more" * ((number * n) % 5) for n in (1, 2, 3)]
    pair = (f"Reply {number}" + " so" * number, "That sounds hard.")
    asked = judge_questions(turns(history), steps, pair, "en")
    return JudgeChat(JUDGE_INSTRUCTIONS["en"], tuple(asked), images=images)
