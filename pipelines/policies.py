"""`ser train-sft` and `ser train-rl`: release, judges and model of embeddings are opened here and handed down.

A component of the reward is, by its name: `emotion` (the simulated seeker's last), a reward of the registry
(`unified`, `unified-local:RUN`, `perm`, or a package's own), or FILE.py:FUNCTION. What a judge says is kept in
RUN/journal.sqlite, so a resumed run hears it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import UsageError
from ser_toolkit.releases.load import load_release

if TYPE_CHECKING:
    from rl_training.multi_turn import SeekerModel
    from rl_training.running import RunResult
    from rl_training.settings import PresetName, RlSettings
    from ser_toolkit.metrics.repetition import Embedder
    from ser_toolkit.recipe import Llm
    from ser_toolkit.rewards.composition import Component

EMOTION = "emotion"
GROUPWISE = "unified-local"
"""It scores a whole group in one go. The others are asked for each completion alone: a slow one costs only itself."""


def train_sft(release: str, model: str, out: Path, sets: Sequence[str] = (), **options: Any) -> RunResult:
    """A model trained on the traces of a release (a folder or an id on the Hub)."""
    from rl_training.sft import train_sft as run

    return run(load_release(release), model, out, sets, **options)


def train_rl(
    release: str, model: str, out: Path, sets: Sequence[str] = (), *, preset: PresetName = "peer", **options: Any
) -> RunResult:
    """A policy trained on the prompts of a release, rewarded as its preset and `sets` say."""
    from rl_training.reinforce import train_rl as run

    with ExitStack() as held:
        served = _Served(out, held)
        return run(
            load_release(release),
            model,
            out,
            sets,
            preset=preset,
            open_rewards=lambda settings: open_rewards(settings, served),
            open_seeker=lambda settings: open_seeker(settings, served),
            **options,
        )


def open_rewards(settings: RlSettings, served: _Served) -> tuple[list[Component], Embedder | None]:
    """The components by name, and the model of embeddings where redundancy wants one. Raises UsageError."""
    from ser_toolkit.rewards.embeddings import CachedEmbedder, resolve

    from .embedding import open_embedder

    if unknown := sorted(set(settings.options) - set(settings.reward.components)):
        raise UsageError(f"options for {unknown[0]}, which is no component", _listed(settings))
    components = [_component(name, weight, settings, served) for name, weight in settings.reward.components.items()]
    if settings.reward.redundancy.kind == "off":
        return components, None
    embedder = CachedEmbedder(open_embedder(resolve(settings.embed), settings.embed_server))
    embedder.embed(
        ["."]
    )  # now: loaded in a step, it could draw from the random numbers that a resumed run goes on with
    return components, embedder


def _component(spec: str, weight: float, settings: RlSettings, served: _Served) -> Component:
    from ser_toolkit.rewards.composition import Component
    from ser_toolkit.rewards.open import open_reward
    from ser_toolkit.rewards.rules import EmotionReward, load_function

    if spec == EMOTION:
        return Component(EMOTION, EmotionReward(), weight)
    if ".py:" in spec:
        return Component(spec.rpartition(":")[2], load_function(spec), weight, alone=True)
    name = spec.partition(":")[0]
    chat = None if name == GROUPWISE else served.chat(settings.judge)
    return Component(name, open_reward(spec, chat, **settings.options.get(spec, {})), weight, alone=name != GROUPWISE)


def open_seeker(settings: RlSettings, served: _Served) -> SeekerModel:
    """Who plays the seekers of `simulate`, and the scenarios that it names. Raises UsageError, DataError."""
    from rl_training.multi_turn import SeekerModel
    from rl_training.suites import SUITES
    from ser_toolkit.prompting import Prompts
    from ser_toolkit.recipe import Recipe

    from .suites import read_suite

    simulate = settings.simulate
    if simulate is None:
        raise UsageError("no seeker is asked for", "--set simulate.seeker.model=SPEC")
    scenarios = None
    if simulate.profiles is not None:
        scenarios = read_suite(SUITES["sage"], simulate.profiles, settings.max_rows).items
    chat = served.chat(simulate.seeker, "seeker")
    return SeekerModel(chat, Recipe(llm=simulate.seeker), Prompts(), scenarios)


class _Served:
    """Chat models behind one journal, opened when the first one asks: what was said is said again by a resumed run."""

    def __init__(self, out: Path, held: ExitStack) -> None:
        self._out, self._held = out, held
        self._journal: Any = None
        self._chats: dict[Any, Any] = {}

    def chat(self, settings: Llm, place: str = "judge") -> Any:
        """The model of these settings; each place has its own, since its calls are made in a loop of its own."""
        from ser_toolkit.journal import Journal
        from ser_toolkit.llm.journaled import JournaledChat
        from ser_toolkit.llm.open import open_model

        if self._journal is None:
            self._journal = Journal(self._out / "journal.sqlite")
            self._held.callback(self._journal.close)
        if (place, settings) not in self._chats:
            self._chats[place, settings] = JournaledChat(open_model(settings), self._journal)
        return self._chats[place, settings]


def _listed(settings: RlSettings) -> str:
    return f"the components are: {', '.join(settings.reward.components) or 'none'}"
