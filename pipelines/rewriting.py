"""The order of rewriting within a build: which tables it reads and writes, and what it came to.

    dialogues -> profiles (with rewrite.embed once more, with vectors) -> clusters, draws
    dialogues, draws -> rewritten -> rewrite_verdicts -> rewrites -> rewrite_quality
    traces and rewrites -> rewrite_traces

`rewritten` holds every rewrite that was made, `rewrites` those that the comparison lets stand: they and
`rewrite_traces` go into a release beside their sources. Labels are of no concern here: they belong to the source traces
and are joined on export, so a dialogue may be annotated before or after it is rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol, TypeVar

import orjson

from ser_toolkit.engine import Stage
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import ChatModel, Message, Request, usable
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.rewards.embeddings import resolve
from ser_toolkit.schema import Dialogue, Record, Role, Trace, Verdict
from ser_toolkit.store import TableWriter, read_table, write_table
from ser_toolkit.workspace import Workspace, writing

from .embedding import EmbeddingChat, open_embedder
from .stages.protect import supporter_may_be_imitated
from .stages.rewriting.carry import carry_trace
from .stages.rewriting.cluster import cluster_profiles
from .stages.rewriting.compare import DIMENSIONS, compare, rewrite_filter_is_enforced, score
from .stages.rewriting.describe import describe, speakers_of
from .stages.rewriting.records import Clustering, Draw, Profile, Quality
from .stages.rewriting.rewrite import rewrite

R = TypeVar("R", bound=Record)

TABLES: dict[str, type[Record]] = {
    "profiles": Profile,
    "clusters": Clustering,
    "draws": Draw,
    "rewritten": Dialogue,
    "rewrite_verdicts": Verdict,
    "rewrites": Dialogue,
    "rewrite_traces": Trace,
    "rewrite_quality": Quality,
}
"""The tables that rewriting writes. Only the last four tell what a release holds."""

IN_CRISIS = "crisis content (protect.imitate_crisis)"
OTHER_LANGUAGE = "a language that the model does not write"
NO_PROFILE = "a speaker has no description"
ALONE = "a speaker's cluster holds no other profile"


class RunStage(Protocol):
    """Run one stage of a build into its table."""

    async def __call__(
        self, name: str, records: Iterable[Any], stage: Stage[Any], table: TableWriter[Any], /
    ) -> None: ...


def profile_embedder(recipe: Recipe) -> EmbeddingChat | None:
    """The model of `rewrite.embed`, where the recipe has a use for one. Raises UsageError where it cannot be had."""
    asked = recipe.rewrite
    if not (asked.enabled and asked.personality and asked.embed):
        return None
    server = asked.embed_server if asked.embed_server.base_url else recipe.llm
    identity = server.identity or ",".join(sorted(server.base_url))
    embedder = open_embedder(resolve(asked.embed), server, "rewrite.embed")
    return EmbeddingChat(embedder, identity if asked.embed.startswith("openai:") else "local")


async def rewrite_dialogues(
    home: Workspace, recipe: Recipe, chat: ChatModel, prompts: Prompts, run: RunStage, embedder: ChatModel | None = None
) -> dict[str, Any] | None:
    """Rewrite what the filter kept, and write all tables of rewriting; their summary, for the lineage.

    With an `embedder` the descriptions' words count for the clusters, too. The tables of an earlier build go first;
    where the recipe has no rewriting, that is all, and the answer is `None`.
    """
    for name in TABLES:
        with writing(home.table(name)):
            home.table(name).unlink(missing_ok=True)
    if not recipe.rewrite.enabled:
        return None
    return await _Rewriting(home, recipe, chat, prompts, run, embedder).run()


def notes_of(summary: Mapping[str, Any] | None) -> list[str]:
    """What a person should know of the rewriting, a line each."""
    if summary is None:
        return []
    left = [f"{count} dialogues are not rewritten: {why}" for why, count in summary["left_out"].items()]
    judged, rejected = summary["verdicts"].get("judged", 0), summary["verdicts"].get("rejected", 0)
    if rejected:
        what = "left out" if summary["verdicts"].get("enforced") else "recorded, not enforced"
        left.append(f"the comparison said no to {rejected} of {judged} rewrites ({what})")
    return left


@dataclass(slots=True)
class _Rewriting:
    home: Workspace
    recipe: Recipe
    chat: ChatModel
    prompts: Prompts
    run_stage: RunStage
    embedder: ChatModel | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    """Dialogue id -> why it is not rewritten."""

    async def run(self) -> dict[str, Any]:
        drawn = await self._draw() if self.recipe.rewrite.personality else None
        await self.run_stage(
            "rewrite",
            (d for d in self._rewritable() if drawn is None or self._has_all(d, drawn)),
            lambda d: rewrite(d, (drawn or {}).get(d.id, {}), self.chat, self.recipe, self.prompts),
            self._writer("rewritten"),
        )
        originals: dict[str, Dialogue] = {}
        await self.run_stage(
            "compare",
            self._beside_originals("rewritten", originals),
            lambda r: compare(originals.pop(r.id), r, self.chat, self.recipe, self.prompts),
            self._writer("rewrite_verdicts"),
        )
        self._keep()
        await self.run_stage(
            "quality",
            self._beside_originals("rewrites", originals) if self.recipe.rewrite.quality else (),
            lambda r: score(originals.pop(r.id), r, self.chat, self.recipe, self.prompts),
            self._writer("rewrite_quality"),
        )
        self._carry()
        return self._summary()

    async def _draw(self) -> dict[str, dict[Role, Profile]]:
        """Dialogue id -> the profile that each of its speakers draws. All profiles are held in memory meanwhile."""
        await self.run_stage(
            "describe",
            self._rewritable(),
            lambda d: describe(d, self.chat, self.recipe, self.prompts),
            self._writer("profiles"),
        )
        if self.embedder is not None:
            embedder = self.embedder  # the rows are read from the old file while the new one is written
            await self.run_stage(
                "embed", self._read("profiles", Profile), lambda p: embed(p, embedder), self._writer("profiles")
            )
        profiles = {p.id: p for p in self._read("profiles", Profile)}
        clusterings, draws = cluster_profiles(profiles.values(), self.recipe.rewrite.k_range, self.recipe.seed)
        write_table(self.home.table("clusters"), Clustering, clusterings)
        write_table(self.home.table("draws"), Draw, draws)
        drawn: dict[str, dict[Role, Profile]] = {}
        for draw in draws:
            if draw.drawn is None:
                self.left_out[draw.dialogue_id] = ALONE
            else:
                drawn.setdefault(draw.dialogue_id, {})[draw.role] = profiles[draw.drawn]
        return drawn

    def _rewritable(self) -> Iterator[Dialogue]:
        for dialogue in self._read("dialogues", Dialogue):
            if not supporter_may_be_imitated(dialogue, self.recipe.protect):
                self.left_out[dialogue.id] = IN_CRISIS
            elif self.chat.languages and dialogue.lang not in self.chat.languages:
                self.left_out[dialogue.id] = OTHER_LANGUAGE
            else:
                yield dialogue

    def _has_all(self, dialogue: Dialogue, drawn: Mapping[str, Mapping[Role, Profile]]) -> bool:
        has = drawn.get(dialogue.id, {})
        if all(role in has for role in speakers_of(dialogue)):
            return True
        self.left_out.setdefault(dialogue.id, NO_PROFILE)
        return False

    def _beside_originals(self, table: str, originals: dict[str, Dialogue]) -> Iterator[Dialogue]:
        """The rewrites of a table, in order; the original of each stands in `originals` when it is handed out."""
        sources = self._read("dialogues", Dialogue)
        for rewritten in self._read(table, Dialogue):
            originals[rewritten.id] = next(d for d in sources if d.id == rewritten.rewritten_from)
            yield rewritten

    def _keep(self) -> None:
        """The table `rewrites`: all, or, where the comparison is enforced, those that it said yes to."""
        kept = {v.record_id for v in self._read("rewrite_verdicts", Verdict) if v.keep}
        enforced = rewrite_filter_is_enforced(self.recipe)
        rewritten = self._read("rewritten", Dialogue)
        write_table(self.home.table("rewrites"), Dialogue, (d for d in rewritten if not enforced or d.id in kept))

    def _carry(self) -> None:
        """The table `rewrite_traces`: each trace of a dialogue that has a rewrite, over the rewrite."""
        ids = [d.id for d in self._read("dialogues", Dialogue)]
        rewrites = _beside(ids, self._read("rewrites", Dialogue), "rewritten_from")
        traces = _beside(ids, self._read("traces", Trace), "dialogue_id")
        carried = (carry_trace(t, r) for rs, ts in zip(rewrites, traces, strict=True) for r in rs for t in ts)
        write_table(self.home.table("rewrite_traces"), Trace, carried)

    def _summary(self) -> dict[str, Any]:
        verdicts: Counter[str] = Counter()
        for v in self._read("rewrite_verdicts", Verdict):
            verdicts.update({"judged": 1, "rejected": int(v.keep is False), "enforced": int(v.enforced)})
            verdicts.update(f"rejected: {check}" for check in v.failed)
        quality = list(self._read("rewrite_quality", Quality))
        return {
            "personality": self.recipe.rewrite.personality,
            "rewritten": sum(1 for _ in self._read("rewritten", Dialogue)),
            "kept": sum(1 for _ in self._read("rewrites", Dialogue)),
            "traces": sum(1 for _ in self._read("rewrite_traces", Trace)),
            "left_out": dict(sorted(Counter(self.left_out.values()).items())),
            "verdicts": dict(verdicts),
            "quality": {
                "scored": len(quality),
                "scale": [0, 3],
                "mean": {d: round(sum(getattr(q, d) for q in quality) / len(quality), 4) for d in DIMENSIONS}
                if quality
                else {},
            },
            "features": ["scores", *([f"embeddings of {self.embedder.model}"] if self.embedder else [])],
            "clusters": [c.model_dump(mode="json") for c in self._read("clusters", Clustering)],
        }

    def _read(self, name: str, record: type[R]) -> Iterator[R]:
        return read_table(self.home.table(name), record)

    def _writer(self, name: str) -> TableWriter[Any]:
        return TableWriter(self.home.table(name), TABLES[name])


async def embed(profile: Profile, embedder: ChatModel) -> list[Profile]:
    """The profile with what its analyses say as a vector, one call. Raises RecordError, RemoteError."""
    said = "\n".join(f"{t.dimension}: {t.analysis}" for t in profile.traits)
    request = Request((Message("user", said),), temperature=0.0, stage="embed", record_id=profile.dialogue_id)
    reply = usable(await embedder.complete(request))
    try:
        vector = tuple(float(x) for x in orjson.loads(reply.text))
    except (ValueError, TypeError) as exc:
        raise RecordError("schema", "the reply is no vector", request_key=reply.request_key) from exc
    return [profile.model_copy(update={"embedding": vector})]


def _beside(ids: Iterable[str], rows: Iterable[R], key: str) -> Iterator[list[R]]:
    """For each id the rows whose field `key` is it; the rows come in the order of the ids."""
    groups = groupby(rows, key=lambda row: getattr(row, key))
    head = next(groups, None)
    for id in ids:
        found = list(head[1]) if head is not None and head[0] == id else []
        if found:
            head = next(groups, None)
        yield found
