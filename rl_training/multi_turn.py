"""Rollouts of many turns: the policy talks with a simulated seeker, and is rewarded by how that one feels in the end.

`Simulation` is TRL's `rollout_func` (1.16.0, experimental there; a test holds what is used of it). A completion is the
whole talk after the prompt: what the policy wrote, and between it the seeker's lines, which `env_mask` keeps out of the
loss. All talks of a batch go on in step: one generation a round, then all seekers at once.

Beside the tokens come, for the rewards: `emotion`, the last feeling (0 where the policy gave no reply, `None` where the
seeker failed: missing); `said`, the policy's first answer, which is what a reward that reads the prompt's scene can
judge; `tokens`, how many are the policy's; `end`. In later rounds the policy reads all that it wrote before, its steps
too. Source: RLVER (METHOD 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ser_toolkit.errors import DataError, RecordError, UsageError
from ser_toolkit.llm.chat import ChatModel
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.releases.prompting import policy_prompt
from ser_toolkit.schema import Scenario, Source, Speaker, Turn, canonical_json
from ser_toolkit.seeker import Seeker
from ser_toolkit.talks import Talk
from ser_toolkit.training.plain_text import PlainText

from .policy import read_answer, talk_dialogue
from .prompts import Fitted, with_photos
from .settings import SimulateSettings

if TYPE_CHECKING:
    import datasets

STAGE = "simulate"
EMOTION = "emotion"
"""The reward that the last feeling is."""
Messages = Sequence[Mapping[str, Any]]
Generate = Callable[[list[list[int]]], tuple[list[list[int]], list[list[float]] | None]]
"""Prompts in tokens -> completions in tokens, and their log-probabilities where the sampler gives them."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a talk begins: the scenario, and what was said before the policy's first answer."""

    scenario: Scenario
    before: tuple[Turn, ...]


@dataclass(slots=True)
class _Rollout:
    """One talk as the trainer sees it: tokens after the prompt, 1 for those of the policy."""

    talk: Talk
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    room: int = 0
    first: str = ""
    failure: str = ""

    def add(self, ids: Sequence[int], mark: int, logprobs: Sequence[float] | None = None) -> None:
        """Go on by these tokens; `mark` is 1 for the policy's."""
        self.tokens += ids
        self.mask += [mark] * len(ids)
        self.logprobs += logprobs or [0.0] * len(ids)

    @property
    def emotion(self) -> float | None:
        return None if self.failure else self.talk.final_feeling


class Simulation:
    """Talks from `starts` (by `prompt_key`), as a rollout_func.

    `max_tokens` bounds a talk's completion, as does what the model can read; a talk without room for another round
    ends. Raises UsageError for a prompt that it does not know, and where vLLM serves several processes, which would
    wait for one another.
    """

    def __init__(
        self,
        starts: Mapping[bytes, Start],
        chat: ChatModel,
        recipe: Recipe,
        prompts: Prompts,
        *,
        rounds: int,
        start_feeling: int = 30,
        max_tokens: int = 8192,
    ) -> None:
        self._starts, self._chat, self._recipe, self._prompts = starts, chat, recipe, prompts
        self._rounds, self._start_feeling, self._max_tokens = rounds, start_feeling, max_tokens
        self._loop = asyncio.Runner()

    def __call__(self, prompts: list[Messages], trainer: Any) -> dict[str, Any]:
        """A talk for each prompt, as TRL wants it."""
        if trainer.use_vllm and trainer.accelerator.num_processes > 1:
            raise UsageError("talks of many turns with vLLM run in one process", "start without accelerate launch")
        template = _Template(trainer.processing_class, getattr(trainer, "chat_template_kwargs", None) or {})
        rollouts = [_Rollout(self._talk(p), template.opening(p)) for p in prompts]

        def generate(ids: list[list[int]]) -> tuple[list[list[int]], list[list[float]] | None]:
            return trainer._generate_single_turn(ids, None, {}, 1)

        ends, turn_tokens = set(trainer.eos_token_ids), trainer.max_completion_length
        context = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None)
        for r in rollouts:
            r.room = self._max_tokens if context is None else min(self._max_tokens, context - len(r.prompt))
        self._loop.run(self._play(rollouts, template, generate, ends, turn_tokens))
        note_talks(trainer, rollouts)
        return {
            "prompt_ids": [r.prompt for r in rollouts],
            "completion_ids": [r.tokens for r in rollouts],
            "logprobs": [r.logprobs for r in rollouts] if trainer.use_vllm else None,
            "env_mask": [r.mask for r in rollouts],
            "emotion": [r.emotion for r in rollouts],
            "said": [r.first for r in rollouts],
            "tokens": [sum(r.mask) for r in rollouts],
            "end": [r.failure or r.talk.end for r in rollouts],
        }

    def close(self) -> None:
        """End the loop that the seekers speak in."""
        self._loop.close()

    def _talk(self, prompt: Messages) -> Talk:
        start = self._starts.get(prompt_key(prompt))
        if start is None:
            raise UsageError("a prompt has no scenario to be played", "train on the rows that the simulation gave")
        seeker = Seeker(start.scenario, self._chat, self._recipe, self._prompts, STAGE)
        return Talk(seeker, self._rounds, self._start_feeling, start.before)

    async def _play(
        self, rollouts: Sequence[_Rollout], template: _Template, generate: Generate, ends: set[int], turn_tokens: int
    ) -> None:
        while going := [r for r in rollouts if r.talk.end is None and not r.failure]:
            written, logprobs = generate([r.prompt + r.tokens for r in going])
            heard: list[Any] = []
            for place, (rollout, ids) in enumerate(zip(going, written, strict=True)):
                rollout.add(ids, 1, logprobs[place] if logprobs else None)
                heard.append(self._hear(rollout, template, ids, ids[-1] in ends))
            await asyncio.gather(*heard)
            for rollout in going:
                if rollout.talk.end is None and not rollout.failure:
                    line = template.line(rollout.talk.turns[-1].text)
                    if len(rollout.tokens) + len(line) + turn_tokens <= rollout.room:
                        rollout.add(line, 0)
                    else:
                        rollout.talk.end = "limit"

    async def _hear(self, rollout: _Rollout, template: _Template, ids: list[int], is_whole: bool) -> None:
        text = template.text(ids)
        rollout.first = rollout.first or text
        reply = read_answer(text).reply if is_whole else None  # what was cut is no reply
        if reply is None:
            rollout.talk.fall_silent()
            return
        try:
            await rollout.talk.hear(reply)
        except RecordError as exc:
            rollout.failure = exc.kind


@dataclass(frozen=True, slots=True)
class SeekerModel:
    """Who plays the seekers; `scenarios` are those to begin with, `None`: the rows of a release are gone on with."""

    chat: ChatModel
    recipe: Recipe
    prompts: Prompts
    scenarios: Sequence[Scenario] | None = None

    def play(self, rows: Fitted, settings: SimulateSettings) -> Simulation:
        """The rollouts over these rows."""
        raw = cast(Sequence[dict[str, Any]], rows.raw)
        fitted = cast(Iterable[dict[str, Any]], rows.dataset)
        starts = starts_of((r["prompt"], raw[r["row"]], rows.scene(r["row"]).turns) for r in fitted)
        return Simulation(
            starts, self.chat, self.recipe, self.prompts, rounds=settings.rounds, max_tokens=settings.max_tokens,
            start_feeling=settings.start_feeling,
        )  # fmt: skip


def prompt_key(prompt: Messages) -> bytes:
    """What a prompt is known by: its messages' roles and texts."""
    return canonical_json([[m["role"], m["content"]] for m in prompt])


def opening_messages(scenario: Scenario) -> list[dict[str, str]]:
    """The policy's prompt after the scenario's opening."""
    return policy_prompt(talk_dialogue([Turn(speaker="seeker", text=scenario.opening)], scenario.lang), 1).messages


def opening_rows(scenarios: Iterable[Scenario]) -> list[dict[str, Any]]:
    """Rows as of `prompts/`, of the scenarios that bring an opening; the others have nothing to answer."""
    return [
        {
            "id": s.id,
            "lang": s.lang,
            "prompt": opening_messages(s),
            "scenario": s.situation,
            "persona": next((p.persona for p in s.speakers if p.role == "seeker"), ""),
            "hidden_intention": s.hidden_intention,
            "reference": "",
            "opening_added": False,
        }
        for s in scenarios
        if s.opening.strip()
    ]


def opening_dataset(scenarios: Iterable[Scenario]) -> datasets.Dataset:
    """The same as a dataset. Raises DataError where no scenario brings an opening."""
    import datasets

    rows = opening_rows(scenarios)
    if not rows:
        raise DataError("no profile brings an opening, so there is nothing to answer", "SAGE's and RLVER's do")
    return datasets.Dataset.from_list(rows)


def starts_of(rows: Iterable[tuple[Messages, Mapping[str, Any], Sequence[Turn]]]) -> dict[bytes, Start]:
    """The starts of rows of `prompts/` (or of `opening_rows`); of each comes the prompt as the policy gets it, the row,
    and the turns before the answer.
    """
    found: dict[bytes, Start] = {}
    for prompt, row, before in rows:
        scenario = Scenario(
            id=row["id"],
            lang=row["lang"],
            source=Source(format="prompts"),
            situation=row.get("scenario") or "",
            speakers=(Speaker(role="seeker", persona=row.get("persona") or ""),),
            hidden_intention=row.get("hidden_intention") or "",
            opening=next((t.text for t in before if t.speaker == "seeker"), ""),
        )
        found.setdefault(prompt_key(prompt), Start(scenario, tuple(before)))
    return found


def note_talks(trainer: Any, rollouts: Sequence[_Rollout]) -> None:
    """How the talks of a step went, among the trainer's metrics."""
    mode = "train" if trainer.model.training else "eval"
    emotions = [r.emotion for r in rollouts if r.emotion is not None]
    found = {
        "talks/rounds": sum(r.talk.rounds for r in rollouts) / len(rollouts),
        "talks/emotion": sum(emotions) / len(emotions) if emotions else float("nan"),
        "talks/failed": sum(bool(r.failure) for r in rollouts) / len(rollouts),
        **{f"talks/{end}": sum(r.talk.end == end for r in rollouts) / len(rollouts) for end in ENDS},
    }
    for name, value in found.items():
        trainer._metrics[mode][name].append(value)


ENDS = ("relieved", "gave_up", "goodbye", "no_reply")


class _Template:
    """A chat template in tokens: an opening with its generation prompt, and a user's line behind an assistant's."""

    def __init__(self, processing: Any, options: Mapping[str, Any]) -> None:
        self._processing, self._options = processing, options
        self._tokenizer = getattr(processing, "tokenizer", processing)
        self._plain = PlainText(processing)
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        before = self._ids(talk, last=False)
        ends = [i for i, token in enumerate(before) if token == self._tokenizer.eos_token_id]
        self._talk, self._size = talk, ends[-1] + 1 if ends else len(before)
        self._before = before[: self._size]

    def opening(self, messages: Messages) -> list[int]:
        return self._ids(messages)

    def line(self, text: str) -> list[int]:
        """What comes after the end of the assistant's turn: the user's line, and the opening of the next answer.

        Raises UsageError for a template that writes earlier turns anew, so that tokens cannot be put together.
        """
        whole = self._ids([*self._talk, {"role": "user", "content": self._plain(text)}])
        if whole[: self._size] != self._before:
            raise UsageError(
                "the chat template changes earlier turns, so talks of many turns cannot be put together",
                "give a plain one: --set chat_template=FILE.jinja",
            )
        return whole[self._size :]

    def text(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _ids(self, messages: Messages, *, last: bool = True) -> list[int]:
        is_processor = self._processing is not self._tokenizer
        chat = with_photos(messages, 0) if is_processor else list(messages)
        found = self._processing.apply_chat_template(
            [chat] if is_processor else chat,
            tokenize=True, add_generation_prompt=last, return_dict=True, **self._options,
        )["input_ids"]  # fmt: skip
        return found[0] if is_processor else found
