"""Small models to train in tests: a text model and a VLM of two layers, on the real tokenizer of SmolLM2.

Folders, as a user has them: `load(str(text_model(tmp_path)))`. Seconds to make once the embedded model is converted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ser_toolkit.training.embedded import embedded_folder

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}"
    "{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def smol_tokenizer() -> Any:
    """SmolLM2's tokenizer, with ChatML's template and no default system text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def text_model(folder: Path, *, seed: int = 0, hidden: int = 32, context: int = 4096) -> Path:
    """A llama of two layers with random weights, saved in `folder`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    tokenizer = smol_tokenizer()
    LlamaForCausalLM(LlamaConfig(**_language(len(tokenizer), hidden, context), bos_token_id=1)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def vision_model(folder: Path, *, seed: int = 0, hidden: int = 32) -> Path:
    """An Idefics3 of two layers that sees pictures of 64 pixels, 4 tokens each, saved in `folder`."""
    import torch
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    torch.manual_seed(seed)
    tokenizer = smol_tokenizer()
    rows = [f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2)]
    own = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *rows]
    tokenizer.add_special_tokens({"additional_special_tokens": own})
    pictures = Idefics3ImageProcessorPil(
        do_image_splitting=False, size={"longest_edge": 64}, max_image_size={"longest_edge": 64}
    )
    processor = Idefics3Processor(
        image_processor=pictures, tokenizer=tokenizer, image_seq_len=4, chat_template=TEMPLATE
    )
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = Idefics3Config(
        vision_config={
            "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 64, "patch_size": 16,
        },
        text_config={"model_type": "llama", **_language(len(tokenizer), hidden, 4096)},
        image_token_id=image_token,
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _language(words: int, hidden: int, context: int) -> dict[str, Any]:
    return {
        "vocab_size": words, "hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": context, "pad_token_id": 2,
        "eos_token_id": 2, "tie_word_embeddings": True,
    }  # fmt: skip
