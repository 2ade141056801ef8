"""vLLM's asynchronous engine inside this process, for a machine with a GPU (extra `vllm`).

Written against vLLM 0.30 by its source: the engine's own renderer turns messages and images into a prompt with the
model's chat template, `SamplingParams` and `StructuredOutputsParams` say the rest. The mapping is tested everywhere;
the engine itself has not run yet: its contract tests wait for a machine with vllm and a GPU.
"""

# The extra is absent where the types are checked.
# pyright: reportMissingImports=false

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RecordError, RemoteError, UsageError
from ..recipe import Llm
from .chat import Reply, Request, Usage
from .meter import UsageMeter
from .openai_wire import data_url


class VllmChat:
    """One model on this machine's GPU. vLLM batches what is under way; `llm.concurrency` bounds that."""

    languages: frozenset[str] = frozenset()

    def __init__(self, model: str, settings: Llm) -> None:
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as exc:
            raise UsageError(f"vllm:{model}: vllm is not installed", "pip install 'ser-toolkit[vllm]'") from exc
        arguments: dict[str, Any] = {"model": model, "disable_log_stats": True}
        if settings.context_tokens is not None:
            arguments["max_model_len"] = settings.context_tokens
        try:
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        except (ValueError, OSError, RuntimeError) as exc:
            raise UsageError(
                f"vllm:{model}: the engine does not start: {exc}", "is there a GPU, and is the model's name right?"
            ) from exc
        config = self._engine.model_config
        self.identity = settings.identity or "vllm"
        self.model = model
        self.vision = settings.vision == "true" or (settings.vision == "auto" and config.is_multimodal_model)
        self.context_tokens: int | None = config.max_model_len
        self.meter = UsageMeter()
        self._numbers = itertools.count()

    async def complete(self, request: Request) -> Reply:
        """Answer once. Raises RecordError (refused_request) or RemoteError (the engine is dead)."""
        from vllm.exceptions import VLLMClientError
        from vllm.renderers.params import ChatParams
        from vllm.utils.mistral import is_mistral_tokenizer
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        renderer = self._engine.renderer
        as_tokens = is_mistral_tokenizer(renderer.tokenizer)  # its template knows no other way
        template = ChatParams(chat_template_kwargs={"add_generation_prompt": True, "tokenize": as_tokens})
        tokens = renderer.default_chat_tok_params.with_kwargs(add_special_tokens=False)
        try:
            _, (prompt,) = await renderer.render_chat_async([messages(request, self.vision)], template, tokens)
            stream = self._engine.generate(prompt, self._sampling(request), f"ser-{next(self._numbers)}")
            outputs = [output async for output in stream]  # FINAL_ONLY: one
        except (VLLMClientError, ValueError) as exc:
            raise RecordError("refused_request", str(exc)[:500]) from exc
        except EngineGenerateError as exc:
            raise RecordError("unavailable", f"vllm could not answer: {exc.__cause__ or exc}") from exc
        except EngineDeadError as exc:
            raise RemoteError(
                "vllm's engine has died", "its log says why; out of GPU memory is the usual cause"
            ) from exc
        if not outputs or outputs[-1].outputs[0].finish_reason in ("abort", "error"):
            raise RecordError("unavailable", "vllm ended the request without a reply")
        reply = to_reply(outputs[-1], request)
        self.meter.add(reply.usage)
        return reply

    def _sampling(self, request: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        arguments = sampling(request)
        wanted = arguments.pop("structured_outputs", None)
        if wanted is not None:
            arguments["structured_outputs"] = StructuredOutputsParams(**wanted)
        return SamplingParams(**arguments, output_kind=RequestOutputKind.FINAL_ONLY)

    async def aclose(self) -> None:
        """Stop the engine and free the GPU."""
        self._engine.shutdown()


def open_model(spec_arg: str, settings: Llm) -> VllmChat:
    """The model `spec_arg` (a Hub id or a folder). Raises UsageError where it is not named or cannot start."""
    if not spec_arg:
        raise UsageError("vllm: no model is named", "write vllm:MODEL, a Hub id or a folder")
    return VllmChat(spec_arg, settings)


def messages(request: Request, vision: bool) -> list[dict[str, Any]]:
    """The messages as vLLM's renderer takes them: OpenAI's parts, images as data URLs, before the text."""
    out: list[dict[str, Any]] = []
    for message in request.messages:
        parts: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": data_url(i.data, i.media_type)}}
            for i in (message.images if vision else ())
        ]
        content = [*parts, {"type": "text", "text": message.text}] if parts else message.said(with_images=vision)
        out.append({"role": message.role, "content": content})
    return out


def sampling(request: Request) -> dict[str, Any]:
    """SamplingParams' arguments; `structured_outputs` holds those of StructuredOutputsParams."""
    arguments: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
    }
    if request.seed is not None:
        arguments["seed"] = request.seed
    if request.stop:
        arguments["stop"] = list(request.stop)
    if request.logprobs is not None:
        arguments["logprobs"] = request.logprobs
    if request.choices:
        arguments["structured_outputs"] = {"choice": list(request.choices)}
    elif request.schema is not None:
        arguments["structured_outputs"] = {"json": dict(request.schema)}
    return arguments


def to_reply(output: Any, request: Request) -> Reply:
    """Our Reply from a finished RequestOutput."""
    one = output.outputs[0]
    usage = Usage(len(output.prompt_token_ids or ()), len(one.token_ids))
    logprobs = _entries(one.token_ids, one.logprobs) if request.logprobs is not None and one.logprobs else None
    return Reply(one.text, "length" if one.finish_reason == "length" else "stop", usage, logprobs)


def _entries(tokens: Sequence[int], table: Sequence[Mapping[int, Any]]) -> list[dict[str, Any]]:
    """vLLM's {token id: Logprob} per place, as OpenAI's list of {token, logprob, top_logprobs}, likeliest first."""

    def entry(logprob: Any) -> dict[str, Any]:
        return {"token": logprob.decoded_token, "logprob": logprob.logprob}

    return [
        {**entry(place[token]), "top_logprobs": [entry(p) for p in sorted(place.values(), key=lambda p: -p.logprob)]}
        for token, place in zip(tokens, table, strict=True)
    ]
