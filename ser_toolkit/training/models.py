"""Models to train and to score with: any causal LM or vision-language model of transformers, whole or with LoRA.

    loaded = load("Qwen/Qwen3-VL-8B-Instruct", lora=Lora())
    loaded.model, loaded.processing, loaded.is_vision

SPEC is a folder (a model, an adapter, or a run of ours), an id on the Hugging Face Hub (`owner/name`, or
`owner/name@revision`), or `embedded`. Code that a model brings along is never run.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, RemoteError, SerError, UsageError
from .extra import require_train

RESULT = "model"
"""The folder of a run that holds the plain model which it came to."""
ADAPTER_CONFIG = "adapter_config.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
_ALIGNERS = r"merger|projector|connector|aligner|multi_modal|resampler"


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters on the language model and the aligner (PEER: r 16, alpha 64), never on the vision tower."""

    r: int = 16
    alpha: int = 64
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model and what turns chats into its input: a processor for a vision-language model, else a tokenizer.

    `is_vision`: whether it is given pictures. `identity` is what a card may call it, without a path of this machine.
    """

    model: Any
    processing: Any
    is_vision: bool
    spec: str
    identity: str

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processing, "tokenizer", self.processing)

    @property
    def has_adapter(self) -> bool:
        return hasattr(self.model, "merge_and_unload")


def load(
    spec: str,
    *,
    text_only: bool = False,
    lora: Lora | None = None,
    dtype: str | None = None,
    freeze_vision: bool = True,
    device: str | None = None,
    chat_template: Path | None = None,
) -> Loaded:
    """The model of `spec`; with `lora`, adapters on it are what is trained; else all of it but the vision tower.

    `text_only` gives a vision-language model no pictures. `dtype`: "float32", "bfloat16" or "float16"; default bfloat16
    for frozen weights on a GPU, else float32. `device`: None leaves it where it was loaded (a trainer moves it), "auto"
    takes a GPU where there is one. An adapter is merged into its base first. Raises UsageError (no such model, of no
    kind that can be used, [train] missing), CheckpointError (damaged, incomplete), RemoteError (the Hub refuses).
    """
    require_train()
    import torch

    where, revision = _place(spec)
    on_gpu = torch.cuda.is_available()
    chosen = getattr(torch, dtype or ("bfloat16" if on_gpu and (lora or device) else "float32"))
    with _plain_errors(spec):
        adapter = Path(where) if (Path(where) / ADAPTER_CONFIG).is_file() else None
        if adapter is None:
            model, processing, sees = _whole(where, revision, chosen)
        else:
            model, processing, sees = _merged(adapter, chosen)
    if chat_template is not None:
        processing.chat_template = _template(chat_template)
    _complete(processing, spec)
    if freeze_vision and (tower := vision_tower(model)) is not None:
        _freeze(tower[1])
    if lora is not None:
        model = with_lora(model, lora, spec)
    if device is not None:
        model.to(("cuda" if on_gpu else "cpu") if device == "auto" else device)
    return Loaded(model, processing, sees and not text_only, spec, _identity(spec))


def with_lora(model: Any, lora: Lora, spec: str = "") -> Any:
    """The model with fresh adapters, its own weights frozen."""
    import peft

    tower = vision_tower(model)
    outside = rf"{re.escape(tower[0])}\.(?!.*({_ALIGNERS})).*" if tower else None
    config = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=sorted(_adapted(model, outside)),
        exclude_modules=outside,
        task_type="CAUSAL_LM",
    )
    adapted = peft.get_peft_model(model, config)
    if spec:
        for settings in adapted.peft_config.values():
            settings.base_model_name_or_path = _base_name(spec)
    return adapted


def merged(loaded: Loaded) -> Loaded:
    """The same model with its adapters added to its weights: what needs no PEFT to be used. Changes `loaded.model`."""
    return replace(loaded, model=loaded.model.merge_and_unload()) if loaded.has_adapter else loaded


def save(loaded: Loaded, folder: Path) -> None:
    """The model (or its adapters alone) and its tokenizer or processor: whole or not at all."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    loaded.model.save_pretrained(part)
    loaded.processing.save_pretrained(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def vision_tower(model: Any) -> tuple[str, Any] | None:
    """The name and the module of what encodes pictures; `None` for a text model. The aligner may stand inside it."""
    if not _is_multimodal(model.config):
        return None
    tower = model.get_encoder(modality="image")
    name = next((n for n, module in model.named_modules() if module is tower), "")
    return (name, tower) if name else None


def _whole(where: str, revision: str | None, dtype: Any) -> tuple[Any, Any, bool]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = AutoConfig.from_pretrained(where, revision=revision)
    sees = _is_multimodal(config)
    auto: Any = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    model, told = auto.from_pretrained(where, revision=revision, config=config, dtype=dtype, output_loading_info=True)
    if lacking := sorted(told["missing_keys"]) + sorted(map(str, told["mismatched_keys"])):
        raise CheckpointError(
            f"{where}: {len(lacking)} weights are missing, or of another shape: {', '.join(lacking[:3])} ...",
            "the model is incomplete: fetch or save it again",
        )
    processing = (AutoProcessor if sees else AutoTokenizer).from_pretrained(where, revision=revision)
    return model, processing, sees


def _merged(adapter: Path, dtype: Any) -> tuple[Any, Any, bool]:
    """The base of an adapter with the adapter merged in, and the tokenizer that was saved beside the adapter."""
    import peft
    from transformers import AutoProcessor, AutoTokenizer

    base = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
    model, processing, sees = _whole(*_place(base), dtype)
    model = peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    if (adapter / "tokenizer_config.json").is_file():
        processing = (AutoProcessor if sees else AutoTokenizer).from_pretrained(adapter)
    return model, processing, sees


def _place(spec: str) -> tuple[str, str | None]:
    """The folder or Hub id behind a SPEC, and the revision. Raises UsageError where it is neither."""
    if spec == "embedded":
        from .embedded import embedded_folder

        return str(embedded_folder()), None
    folder = Path(spec).expanduser()
    if folder.is_dir():
        inner = folder / RESULT
        return str(inner if not (folder / "config.json").is_file() and inner.is_dir() else folder), None
    if _HUB_ID.fullmatch(spec) and not spec.startswith(("~", ".", "/")):
        name, _, revision = spec.partition("@")
        return name, revision or None
    raise UsageError(f"{spec}: no such model", "name a folder, an id owner/name on the Hub, or `embedded`")


def _identity(spec: str) -> str:
    folder = Path(spec).expanduser()
    return (folder.parent.name if folder.name == RESULT else folder.name) if folder.is_dir() else spec


def _base_name(spec: str) -> str:
    """What an adapter calls its base: the id on the Hub, `embedded`, or a folder's whole path."""
    where = Path(spec).expanduser()
    return str(Path(_place(spec)[0]).resolve()) if where.is_dir() else spec


@contextmanager
def _plain_errors(spec: str) -> Iterator[None]:
    """What transformers and its helpers raise, as errors that say what to do."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from safetensors import SafetensorError

    try:
        yield
    except SerError:
        raise
    except (HfHubHTTPError, OfflineModeIsEnabled, ConnectionError) as exc:
        raise RemoteError(f"{spec}: the Hub does not give it: {exc}", "check the id, HF_TOKEN and the network") from exc
    except OSError as exc:
        if Path(spec).expanduser().is_dir():
            raise CheckpointError(f"{spec}: cannot be loaded: {_first_line(exc)}", "is it a whole model?") from exc
        raise RemoteError(f"{spec}: {_first_line(exc)}", "check the id, HF_TOKEN and the network") from exc
    except (SafetensorError, RuntimeError, EOFError, KeyError, json.JSONDecodeError) as exc:
        raise CheckpointError(f"{spec}: is damaged: {_first_line(exc)}", "fetch or save it again") from exc
    except ValueError as exc:
        raise UsageError(
            f"{spec}: {_first_line(exc)}", "take a causal LM or vision-language model of transformers' own"
        ) from exc


def _first_line(exc: Exception) -> str:
    return str(exc).strip().partition("\n")[0][:300]


def _is_multimodal(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and hasattr(config, "vision_config")


def _template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{file}: cannot be read: {exc}", "name a Jinja file with a chat template") from exc


def _complete(processing: Any, spec: str) -> None:
    """A pad token where there is none. Raises UsageError for a model that knows no chats."""
    tokenizer = getattr(processing, "tokenizer", processing)
    if not (getattr(processing, "chat_template", None) or tokenizer.chat_template):
        raise UsageError(
            f"{spec}: has no chat template, so it cannot be given a chat",
            "take an instruction-tuned model, or give a template: --set chat_template=FILE.jinja",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token


def _freeze(tower: Any) -> None:
    for name, parameter in tower.named_parameters():
        if not re.search(_ALIGNERS, name):
            parameter.requires_grad_(False)


def _adapted(model: Any, outside: str | None) -> set[str]:
    """The last names of the linear layers that get an adapter: all but the head, and but what `outside` matches."""
    import torch

    head = model.get_output_embeddings()
    return {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head and not (outside and re.fullmatch(outside, name))
    }
