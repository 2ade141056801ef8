"""A model of transformers' in this process as a ChatModel: `local:SPEC`, where SPEC is what `models.load` takes.

It is for talking with what a run came to, and for small evaluations. Calls are answered one after the other, since a
batch would make a seeded text hang on its neighbours; `vllm:FOLDER` or a server is there for speed. A schema is asked
for in words, choices are told apart by their likelihood.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ..errors import RecordError, UsageError
from ..llm.chat import Message, Reply, Request, Usage
from ..llm.meter import UsageMeter
from ..recipe import Llm
from .models import ADAPTER_CONFIG, RESULT, Loaded, load
from .plain_text import PlainText

ENDS = 1 << 20
"""Bytes at either end of a weight file that its identity hangs on, beside its size."""


class LocalChat:
    """One model of transformers'. `identity` is a hash of its weights: another checkpoint is another model."""

    languages: frozenset[str] = frozenset()
    max_concurrency = 1

    def __init__(self, spec: str, settings: Llm) -> None:
        self._loaded = loaded = load(spec, text_only=settings.vision == "false", device="auto")
        loaded.model.eval()
        self._plain = PlainText(loaded.processing)
        self.model = loaded.identity
        self.identity = settings.identity or f"local:{weights_hash(Path(spec).expanduser()) or spec}"
        self.vision = loaded.is_vision
        self.context_tokens = settings.context_tokens or _positions(loaded)
        self.meter = UsageMeter()
        self._turn = asyncio.Lock()

    async def complete(self, request: Request) -> Reply:
        """Answer once. Raises RecordError (refused_request) where prompt and reply are too long."""
        given_up = threading.Event()
        async with self._turn:
            work = asyncio.create_task(asyncio.to_thread(self._answer, request, given_up))
            try:
                reply = await asyncio.shield(work)
            except asyncio.CancelledError:
                given_up.set()
                await asyncio.wait([work])  # the next call must not meet it
                raise
        self.meter.add(reply.usage)
        return reply

    async def aclose(self) -> None:
        """Nothing is held but memory."""

    def _answer(self, request: Request, given_up: threading.Event) -> Reply:
        import torch

        inputs = self._inputs(request)
        size = inputs["input_ids"].shape[1]
        if self.context_tokens is not None and size + request.max_tokens > self.context_tokens:
            raise RecordError(
                "refused_request",
                f"{size} tokens of prompt and {request.max_tokens} of reply are more than {self.context_tokens}",
            )
        with torch.inference_mode(), torch.random.fork_rng():
            if request.seed is not None:
                torch.manual_seed(request.seed)
            if request.choices:
                return self._choose(inputs, request.choices)
            out = self._loaded.model.generate(
                **inputs,
                **_sampling(request),
                **({"stop_strings": list(request.stop), "tokenizer": self._loaded.tokenizer} if request.stop else {}),
                return_dict_in_generate=True,
                output_logits=request.logprobs is not None,
                stopping_criteria=[lambda ids, _, **__: torch.full((len(ids),), given_up.is_set(), device=ids.device)],
            )
            return self._reply(out, size, request)

    def _inputs(self, request: Request) -> dict[str, Any]:
        """The chat as the model's own template renders it, on the model's device."""
        messages = _asked_for(request)
        renderer, more = self._loaded.processing, {}
        if self.vision:
            from PIL import Image as Pillow

            pictures = [Pillow.open(io.BytesIO(i.data)).convert("RGB") for m in messages for i in m.images]
            chat: list[dict[str, Any]] = [{"role": m.role, "content": _parts(m, self._plain(m.text))} for m in messages]
            text = renderer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            more = {"images": [pictures]} if pictures else {}
            found = renderer(text=[text], add_special_tokens=False, return_tensors="pt", **more)
        else:
            chat = [{"role": m.role, "content": self._plain(m.said(with_images=False))} for m in messages]
            found = renderer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        return {k: v.to(self._loaded.model.device) for k, v in found.items()}

    def _reply(self, out: Any, size: int, request: Request) -> Reply:
        tokenizer = self._loaded.tokenizer
        ids = out.sequences[0, size:].tolist()
        ends = _end_ids(self._loaded)
        has_ended = bool(ids) and ids[-1] in ends
        words = ids[:-1] if has_ended else ids
        text = tokenizer.decode(words, skip_special_tokens=True)
        at = min((p for stop in request.stop if (p := text.find(stop)) >= 0), default=None)
        logprobs = None
        if request.logprobs is not None:
            rows = [row[0].float().log_softmax(-1) for row in out.logits[: len(words)]]
            logprobs = [_entry(tokenizer, row, i, request.logprobs) for row, i in zip(rows, words, strict=True)]
        is_cut = at is None and not has_ended and len(ids) >= request.max_tokens
        return Reply(text[:at], "length" if is_cut else "stop", Usage(size, len(ids)), logprobs)

    def _choose(self, inputs: Mapping[str, Any], choices: Sequence[str]) -> Reply:
        """The likeliest of the choices, the end of the turn included."""
        import torch

        size, best = inputs["input_ids"].shape[1], (float("-inf"), "")
        for choice in choices:
            ids = self._loaded.tokenizer(choice, add_special_tokens=False)["input_ids"]
            ids = torch.tensor([[*ids, min(_end_ids(self._loaded))]], device=inputs["input_ids"].device)
            grown = dict(inputs)
            grown["input_ids"] = torch.cat([inputs["input_ids"], ids], 1)
            for name in inputs:  # marks that go with each token
                if name == "attention_mask" or name.endswith("token_type_ids"):
                    tail = torch.full_like(ids, int(name == "attention_mask"))
                    grown[name] = torch.cat([inputs[name], tail], 1)
            logits = self._loaded.model(**grown).logits[:, size - 1 : -1].float().log_softmax(-1)
            best = max(best, (logits.gather(2, ids.unsqueeze(2)).sum().item(), choice))
        return Reply(best[1], "stop", Usage(size, 0))


def open_model(spec_arg: str, settings: Llm) -> LocalChat:
    """The model of a folder (a run, a model, an adapter), a Hub id or `embedded`. Raises what `models.load` does."""
    if not spec_arg:
        raise UsageError("local: no model is named", "write local:FOLDER, the folder of a run or of a model")
    return LocalChat(spec_arg, settings)


def weights_hash(folder: Path) -> str | None:
    """What the weights of a folder are told by: names, sizes, and both ends of each file; `None` where it is none."""
    if not folder.is_dir():
        return None
    inner = folder / RESULT
    root = inner if inner.is_dir() and not (folder / "config.json").is_file() else folder
    digest = hashlib.sha256()
    for file in sorted(root.iterdir()):
        if file.suffix not in (".safetensors", ".bin", ".jinja") and file.name not in ("config.json", ADAPTER_CONFIG):
            continue
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(ENDS))
            stream.seek(max(0, file.stat().st_size - ENDS))
            digest.update(stream.read())
    return digest.hexdigest()[:16]


def _asked_for(request: Request) -> tuple[Message, ...]:
    """The messages, with a schema in words: no parameter says it here."""
    if request.schema is None:
        return request.messages
    schema = orjson.dumps(request.schema).decode()
    wish = f"Answer with one JSON value that follows this JSON schema, and nothing else:\n{schema}"
    *before, last = request.messages
    return (*before, Message(last.role, f"{last.text}\n\n{wish}", last.images, last.without_images))


def _parts(message: Message, text: str) -> list[dict[str, str]]:
    return [*({"type": "image"} for _ in message.images), {"type": "text", "text": text}]


def _sampling(request: Request) -> dict[str, Any]:
    if request.temperature == 0:
        return {
            "max_new_tokens": request.max_tokens,
            "do_sample": False,
            "temperature": None,
            "top_p": None,
            "top_k": None,
        }
    return {
        "max_new_tokens": request.max_tokens,
        "do_sample": True,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": 0,
    }


def _end_ids(loaded: Loaded) -> set[int]:
    """The tokens that end a turn."""
    known = loaded.model.generation_config.eos_token_id
    found = {loaded.tokenizer.eos_token_id} | set(known if isinstance(known, list) else [known])
    return {i for i in found if i is not None}


def _positions(loaded: Loaded) -> int | None:
    """How many tokens the model reads at once, as its configuration says."""
    return getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)


def _entry(tokenizer: Any, row: Any, chosen: int, count: int) -> dict[str, Any]:
    def one(token: int) -> dict[str, Any]:
        return {"token": tokenizer.decode([token]), "logprob": row[token].item()}

    return {**one(chosen), "top_logprobs": [one(t) for t in row.topk(max(1, count)).indices.tolist()]}
