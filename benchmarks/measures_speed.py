"""How fast `ser eval dataset` and `ser report` are, and how much memory they take, as a release grows.

    python -m benchmarks.measures_speed [--traces 10000 50000 100000] [--json]

Each release is made here: three traces a dialogue of ten turns, texts of Zipf-drawn words, no two alike. Each run has a
process of its own; its time counts from the start of Python to the written page, its memory is the peak resident set.
Aims: 100,000 traces in under 60 s and 2 GB on two cores, near linear.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TURNS, TRACES = 10, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, nargs="+", default=[10_000, 50_000, 100_000])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--release", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.release:
        print(json.dumps(_measure(options.release)))
        return
    results = [_run(n) for n in options.traces]
    print(json.dumps(results, indent=1) if options.json else _table(results))


def _run(traces: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        release = make_release(Path(folder), traces)
        start = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.measures_speed", "--release", str(release)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        seconds = time.perf_counter() - start
    parts = json.loads(done.stdout.splitlines()[-1])
    return {"traces": traces, "seconds": round(seconds, 2), "us_per_trace": round(seconds / traces * 1e6), **parts}


def _measure(release: Path) -> dict[str, Any]:
    from pipelines.reporting import report

    made = report([release], out=release.parent / "report.html")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_mb": round(peak / 1024), "page_kb": round(made.file.stat().st_size / 1024)}


def make_release(folder: Path, traces: int) -> Path:
    """A release of the layout, written as Parquet directly, so that making it takes less time than measuring it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ser_toolkit.releases.manifest import file_hash, write_manifest
    from ser_toolkit.releases.rows import CONFIGS
    from ser_toolkit.releases.splits import split_of

    draw = np.random.default_rng(7)
    sentences = _sentences(draw, 40_000)

    def text(count: int) -> str:
        return " ".join(sentences[i] for i in draw.integers(0, len(sentences), count))

    count = -(-traces // TRACES)
    splits: dict[str, list[int]] = {}
    for n in range(count):
        splits.setdefault(split_of(f"d{n}", (0.8, 0.1, 0.1)), []).append(n)
    files: dict[str, Any] = {}
    rows: dict[str, dict[str, int]] = {"dialogues": {}, "traces": {}}
    made = 0
    for split, members in splits.items():
        writers: dict[str, pq.ParquetWriter] = {}
        for config in rows:
            (folder / config).mkdir(exist_ok=True)
            schema = CONFIGS[config].schema(False)
            writers[config] = pq.ParquetWriter(folder / config / f"{split}.parquet", schema, compression="zstd")
        for at in range(0, len(members), 1000):
            batch = members[at : at + 1000]
            talks = [_dialogue(n, [text(1 + int(k)) for k in draw.integers(0, 3, TURNS)]) for n in batch]
            told = [t for d in talks for t in _traces(d, text, draw)][: traces - made]
            made += len(told)
            for config, made_rows in (("dialogues", talks), ("traces", told)):
                if made_rows:
                    writers[config].write_table(pa.Table.from_pylist(made_rows, schema=CONFIGS[config].schema(False)))
                rows[config][split] = rows[config].get(split, 0) + len(made_rows)
        for config, writer in writers.items():
            writer.close()
            path = folder / config / f"{split}.parquet"
            files[f"{config}/{split}.parquet"] = {"sha256": file_hash(path), "rows": rows[config][split]}
    write_manifest(
        folder,
        {
            "name": "bench", "version": "0.1.0", "schema_version": "1", "content_hash": "0" * 64, "files": files,
            "rows": rows,
            "absent": {}, "languages": {"en": count}, "totals": {"turns": count * TURNS, "synthetic_turns": 0},
            "sources": [], "left_out": [], "failures": {}, "verdicts": {},
            "lineage": {"recipe": {"protect": {"enabled": True}}},
        },
    )  # fmt: skip
    return folder


def _sentences(draw: Any, count: int) -> list[str]:
    syllables = [c + v for c in "bdfglmnprstvw" for v in "aeiou"]
    words = ["".join(syllables[i] for i in draw.integers(0, len(syllables), k)) for k in draw.integers(1, 5, 12_000)]
    picks = draw.zipf(1.3, (count, 11)) % len(words)
    return [" ".join(words[i] for i in row).capitalize() + "." for row in picks]


def _dialogue(n: int, said: list[str]) -> dict[str, Any]:
    turns = [{"speaker": "supporter" if i % 2 else "seeker", "text": t, "origin": "corpus"} for i, t in enumerate(said)]
    return {"id": f"d{n}", "root_id": f"d{n}", "lang": "en", "licence": "CC0-1.0", "turns": turns}


def _traces(dialogue: dict[str, Any], text: Any, draw: Any) -> list[dict[str, Any]]:
    from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS, STAGE_OF, STRATEGIES

    made = []
    for target in (3, 5, 9):
        strategy, reply = STRATEGIES[draw.integers(8)], text(2)
        made.append(
            {
                "id": f"{dialogue['id']}-{target}", "dialogue_id": dialogue["id"], "root_id": dialogue["id"],
                "lang": "en",
                "prompt": [{"role": "user", "content": t["text"]} for t in dialogue["turns"][:target]],
                "completion": [{"role": "assistant", "content": text(12)}],
                "round": target // 2 + 1, "target": target, "stage": STAGE_OF[strategy], "strategy": strategy,
                "sentiment": SENTIMENTS[draw.integers(3)], "intensity": INTENSITIES[draw.integers(3)],
                "emotions": [EMOTIONS[i] for i in draw.integers(0, 11, 2)], "reply": reply, "reference": text(2),
                "saw": "text",
            }
        )  # fmt: skip
    return made


def _table(results: list[dict[str, Any]]) -> str:
    lines = ["| traces | seconds | µs a trace | peak MB | page kB |", "|---|---|---|---|---|"]
    lines += ["| {traces:,} | {seconds} | {us_per_trace} | {peak_mb} | {page_kb} |".format(**r) for r in results]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
