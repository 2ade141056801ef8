"""How a release was made, as its manifest tells: what failed, what was dropped, rewriting, crisis content, licences.

A manifest says nothing of a stage that did not run: that is a missing measure with its reason, not a zero. May import:
the vocabulary, the ground's releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ser_toolkit.errors import FAILURE_KINDS
from ser_toolkit.releases.licences import objection
from ser_toolkit.schema import RISK_LEVELS
from ser_toolkit.taxonomy import DISC

from .composition import Corpus
from .measure import Figure, Table, share, table

FORMAT_KINDS = ("format", "schema", "truncated")
"""Failures of a reply's form: a step is missing, its JSON is broken, it was cut."""
_QUALITY = "semantic_consistency contextual_rationality role_consistency language_fluency"
UNTOLD = "the manifest does not tell"


def failures(corpus: Corpus) -> Iterator[Figure | Table]:
    """Replies of unusable form, and every record that could not be used, by kind and crisis level."""
    counts: Mapping[str, int] | None = corpus.release.manifest.get("failures")
    title, over = "Replies of unusable form", "source traces + failures of form (format, schema, truncated)"
    if counts is None:
        yield Figure("making.format_failures", title, None, "share", over, UNTOLD)
    else:
        failed = sum(n for kind, n in counts.items() if kind.partition(",")[0] in FORMAT_KINDS)
        made = len(corpus.originals) + _left_out_traces(corpus)
        yield share("making.format_failures", title, failed, made + failed, over, "no trace was made, and none failed")
    rows = []
    for kind, n in sorted((counts or {}).items(), key=lambda item: (-item[1], item[0])):
        name, _, risk = kind.partition(", ")
        rows.append((name, risk.removesuffix(" risk") or None, n, FAILURE_KINDS.get(name, "")))
    none = UNTOLD if counts is None else "nothing failed"
    columns = ("kind", "crisis level", "records", "what it means")
    yield table("making.failures", "Records that could not be used", columns, rows, "all stages of the build", none)


def _left_out_traces(corpus: Corpus) -> int:
    """Traces that were made and are not released, by themselves or with their dialogue."""
    items = corpus.release.manifest.get("left_out", [])
    return sum(int(item.get("traces", item.get("kind") == "trace")) for item in items)


def filtering(corpus: Corpus) -> Iterator[Figure | Table]:
    """What the judge of the filter said, and what the export left out."""
    verdicts: Mapping[str, int] = corpus.release.manifest.get("verdicts") or {}
    judged = verdicts.get("judged")
    none = "no judge looked at the dialogues of this release"
    over = "dialogues judged"
    if judged and not verdicts.get("enforced"):
        over = "dialogues judged (recorded, not enforced: they stayed in)"
    yield share(
        "making.filter_dropped", "Dialogues that the filter rejects", verdicts.get("rejected", 0), judged, over, none
    )
    rows = [(k.removeprefix("rejected: "), n) for k, n in sorted(verdicts.items()) if k.startswith("rejected: ")]
    reason = none if not judged else "the judge rejected none"
    yield table("making.filter", "Why the filter rejects", ("check", "dialogues"), rows, over, reason)
    left_out: list[dict[str, Any]] | None = corpus.release.manifest.get("left_out")
    reason = UNTOLD if left_out is None else ""
    title = "Records that the export left out"
    yield Figure("making.left_out", title, None if left_out is None else len(left_out), reason=reason)
    reasons = Counter((str(i["kind"]), str(i["reason"])) for i in left_out or ())
    rows = [(kind, why, n) for (kind, why), n in reasons.most_common()]
    yield table("making.left_out", title, ("record", "why", "records"), rows, "", reason or "nothing was left out")


def rewriting(corpus: Corpus) -> Iterator[Figure | Table]:
    """The judge's scores of the rewrites, and the clusters of personalities with the curve that chose their number."""
    told: dict[str, Any] = corpus.release.manifest.get("lineage", {}).get("rewriting") or {}
    none = "no rewriting in this release"
    yield Figure("rewriting.kept", "Rewritten dialogues", told.get("kept"), reason="" if told else none)
    quality = told.get("quality", {})
    mean = quality.get("mean", {})
    rows = [(d.replace("_", " "), mean[d]) for d in sorted(mean, key=_QUALITY.find)]
    over = f"{quality.get('scored', 0):,} rewrites, scored 0 to 3 by a judge"
    reason = none if not told else "no rewrite was scored (rewrite.quality)"
    yield table("rewriting.quality", "Quality of rewriting", ("dimension", "mean"), rows, over, reason)
    clusters = told.get("clusters", [])
    reason = none if not told else "rewritten without personality: there are no clusters"
    curve = [(c["role"], c["lang"], p["k"], p["sse"], p["k"] == c["k"]) for c in clusters for p in c["curve"]]
    columns = ("role", "language", "k", "SSE", "chosen")
    yield table(
        "rewriting.curve", "Sum of squared errors by number of clusters", columns, curve, "descriptions", reason
    )
    centres = [
        (c["role"], c["lang"], centre["cluster"] + 1, centre["size"], *(centre[d.lower()] for d in DISC))
        for c in clusters
        for centre in c["centres"]
    ]
    columns = ("role", "language", "cluster", "profiles", *DISC)
    yield table("rewriting.centres", "Clusters by DISC", columns, centres, "mean scores, 0 to 10", reason)
    verdicts: Mapping[str, int] = told.get("verdicts", {})
    reason = none if not told else "no rewrite was compared"
    title = "Rewrites that the comparison rejects"
    yield share("rewriting.rejected", title, verdicts.get("rejected", 0), verdicts.get("judged"), "rewrites", reason)
    rows = sorted(told.get("left_out", {}).items())
    reason = none if not told else "every dialogue was rewritten"
    yield table("rewriting.left_out", "Dialogues not rewritten", ("why", "dialogues"), rows, "dialogues", reason)


def crisis(corpus: Corpus) -> Iterator[Figure | Table]:
    """Dialogues and utterances with crisis content, by level."""
    recipe = corpus.release.manifest.get("lineage", {}).get("recipe", {})
    looked: bool | None = recipe.get("protect", {}).get("enabled")
    dialogues = corpus.scan("dialogues")
    title, over = "Dialogues with crisis content", "dialogues"
    if not looked or dialogues is None:
        reason = (
            "protect.enabled was off: nobody looked"
            if looked is False
            else "the manifest does not tell whether anybody looked"
        )
        yield Figure("safety.crisis", title, None, "share", over, reason)
        yield table("safety.crisis", "Crisis content by level", (), (), over, reason)
        return
    levels = dict(dialogues.group_by("risk").len().collect().rows())
    marked = sum(n for level, n in levels.items() if level)
    yield share("safety.crisis", title, marked, sum(levels.values()), over)
    by = {(s, r): n for s, r, n in corpus.turns.group_by("speaker", "risk").len().rows()}
    rows = [
        (level, levels.get(level, 0), by.get(("seeker", level), 0), by.get(("supporter", level), 0))
        for level in RISK_LEVELS
    ]
    columns = ("level", "dialogues", "utterances of seekers", "utterances of supporters")
    yield table("safety.crisis", "Crisis content by level", columns, rows, over, "")


def licences(corpus: Corpus) -> Iterator[Figure | Table]:
    """The sources with their licences, and the dialogues that may not simply be made public."""
    sources: list[dict[str, Any]] | None = corpus.release.manifest.get("sources")
    rows = [(s["format"], s["licence"], s["dialogues"], s["traces"], objection(s["licence"])) for s in sources or ()]
    columns = ("source", "licence", "dialogues", "traces", "objection to publishing")
    yield table("licences", "Sources and licences", columns, rows, "", UNTOLD)
    held = sum(int(r[2]) for r in rows if r[4]) if sources else None
    whole = sum(int(r[2]) for r in rows)
    yield share("licences.held", "Dialogues that may not simply be published", held, whole, "dialogues", UNTOLD)


def languages(corpus: Corpus) -> Table:
    """Dialogues by language."""
    rows = sorted(corpus.release.manifest.get("languages", {}).items())
    return table("size.languages", "Languages", ("language", "dialogues"), rows, "dialogues", UNTOLD)
