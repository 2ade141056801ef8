"""How fast a judge in process scores a group, beside the plain ways, on one CPU thread in float32.

    python -m benchmarks.scoring_speed [--repeats 2] [--parts 40 120] [--json]

G = 8 completions, a history of 1,024 tokens, parts (each step, each of the two replies) of 40 and of 120 tokens, the
real chat of the judge around them. Beside each other, in one run:

* plain: the G chats as one padded batch, a `generate` call a round (constrained to the allowed answers), nothing kept;
* kept:  the same, keys and values kept between rounds;
* ours:  `rm_training.speculation`, with every assumed verdict right, and with about 23 % of the steps judged False.

Guard, on two of the chats: the verdicts of `judge_plainly`, and no probability farther from its than 1e-5. Limit:
FLOPs of the tokens that are there once, over the measured peak of a matrix product. Aims: plain / ours 8x (40 tokens)
and 5x (120); kept / ours 70 % of G(P+R)/(P+GR).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import DynamicCache

from benchmarks.torch_common import (
    ALL_WORDS,
    best_of,
    forward_flops,
    gemm_peak,
    make_model,
    make_tokenizer,
    one_thread,
    words,
)
from rm_training.rounds import ChatEncoder, EncodedChat, JudgeChat
from rm_training.speculation import judge_together
from rm_training.verdicts import Judged, judge_plainly
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS, STEP_ANSWERS, judge_questions
from ser_toolkit.schema import Turn

GROUP, HISTORY, GUARDED = 8, 1024, 2
FALSE_SHARES = (0.0, 0.23)
"""None, and the share of False among the paper's labels."""
PARTS = (40, 120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--parts", type=int, nargs="+", default=PARTS, help="lengths of the parts, in tokens")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    one_thread()
    peak = gemm_peak()
    results = [row for part in options.parts for row in _measure(part, peak, options.repeats)]
    print(json.dumps(results, indent=1) if options.json else _table(results, peak))


def _measure(part: int, peak: float, repeats: int) -> list[dict[str, Any]]:
    """Rows for parts of `part` tokens, one a share of False; the plain ways do the same work whatever is judged."""
    history = (Turn(speaker="seeker", text=words(HISTORY - 60, 1)),)
    chats = [_chat(history, part, number) for number in range(GROUP)]
    tokenizer = make_tokenizer([ALL_WORDS] * 3 + [q for c in chats for q in (c.system, *c.questions)])
    model = make_model(tokenizer, spread=0.05)
    encoder = ChatEncoder(tokenizer)
    encoded = [encoder.encode(chat) for chat in chats]
    prompt = _shared(encoded)
    rounds = [sum(len(a) for a in encoded[0].asked[: n + 1]) for n in range(4)]
    rest = rounds[-1] - prompt
    limit = forward_flops([(prompt, 0)] + [(rest, prompt)] * GROUP, GROUP * 14, len(tokenizer)) / peak
    bound = GROUP * (prompt + rest) / (prompt + GROUP * rest)
    plain = kept = math.nan
    out: list[dict[str, Any]] = []
    for share in FALSE_SHARES:
        _lean(model, tokenizer, chats, share)
        ours, found = best_of(lambda: judge_together(model, tokenizer, chats), repeats)
        expected = judge_plainly(model, tokenizer, chats[:GUARDED])
        if not out:
            plain, _ = best_of(lambda f=found: _by_generate(model, encoded, f, chats), 1)
            kept, _ = best_of(lambda f=found: _with_kept_keys(model, encoded, f, chats), repeats)
        print(
            f"parts of {part} tokens, {share:.0%} False: {ours:.2f} s, plain {plain:.1f}, kept {kept:.2f}",
            file=sys.stderr,
        )
        out.append(
            {
                "part": part,
                "false": sum(v == "False" for j in found for v in j.verdicts[:3]),
                "tokens": [prompt, rest],
                "seconds": {"ours": ours, "plain": plain, "kept": kept, "limit": limit},
                "plain_over_ours": plain / ours,
                "bound_plain": GROUP * sum(rounds) / (prompt + GROUP * rest),
                "bound_bare": round(GROUP * (4 * HISTORY + 11 * part) / (HISTORY + GROUP * 5 * part), 1),
                "kept_over_ours": kept / ours,
                "bound_kept": bound,
                "share_of_bound": kept / ours / bound,
                "worst": _farthest(expected, found),
                "same": all(a.verdicts == b.verdicts for a, b in zip(expected, found, strict=False)),
            }
        )
    return out


def _chat(history: tuple[Turn, ...], part: int, number: int) -> JudgeChat:
    steps = [words(part, 100 * number + n) for n in (1, 2, 3)]
    pair = (words(part, 100 * number + 4), words(part, 5))
    asked = judge_questions(history, steps, pair, "en")
    return JudgeChat(JUDGE_INSTRUCTIONS["en"], tuple(asked))


def _lean(model: Any, tokenizer: Any, chats: list[JudgeChat], share: float) -> None:
    """A bias of the head by which about `share` of the steps are judged False, as the untrained judge ranks them."""
    true = tokenizer(STEP_ANSWERS[0], add_special_tokens=False)["input_ids"][0]
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(len(tokenizer)), requires_grad=False)
    found = judge_together(model, tokenizer, chats)
    odds = torch.tensor([[math.log(r["True"] / r["False"]) for r in j.rounds[:3]] for j in found])
    model.lm_head.bias[true] += float(-odds.quantile(share)) + (0 if share else 5)


def _shared(encoded: list[EncodedChat]) -> int:
    from ser_toolkit.training.layout import common_prefix

    return min(common_prefix(encoded[0].asked[0], e.asked[0]) for e in encoded[1:])


def _given(encoded: EncodedChat, judged: Judged, chat: JudgeChat, number: int) -> tuple[int, ...]:
    return encoded.answers[number][chat.allowed[number].index(judged.verdicts[number])]


def _by_generate(model: Any, encoded: list[EncodedChat], expected: list[Judged], chats: list[JudgeChat]) -> None:
    """A `generate` call a round over the whole chats so far; the answers of `expected` go into the next round."""
    paths: list[list[int]] = [[] for _ in encoded]
    for number in range(4):
        for path, e in zip(paths, encoded, strict=True):
            path += e.asked[number]
        width = max(map(len, paths))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in paths])
        seen = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in paths])
        answers = encoded[0].answers[number]
        model.generate(
            input_ids=ids,
            attention_mask=seen,
            max_new_tokens=max(map(len, answers)),
            do_sample=False,
            prefix_allowed_tokens_fn=lambda _, so_far, w=width, a=answers: _next_of(a, so_far[w:].tolist()),
        )
        for path, e, j, c in zip(paths, encoded, expected, chats, strict=True):
            path += _given(e, j, c, number)


def _next_of(answers: tuple[tuple[int, ...], ...], so_far: list[int]) -> list[int]:
    n = len(so_far)
    return sorted({a[n] for a in answers if list(a[:n]) == so_far and len(a) > n}) or [answers[0][-1]]


@torch.inference_mode()
def _with_kept_keys(model: Any, encoded: list[EncodedChat], expected: list[Judged], chats: list[JudgeChat]) -> None:
    """The same, token by token behind kept keys and values; shorter answers are padded, and the padding not seen."""
    cache = DynamicCache(config=model.config)
    seen = torch.zeros(len(encoded), 0, dtype=torch.long)

    def feed(rows: list[list[int]]) -> None:
        nonlocal seen
        width = max(map(len, rows))
        ids = torch.tensor([r + [0] * (width - len(r)) for r in rows])
        new = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
        before = seen.sum(1, keepdim=True)
        seen = torch.cat([seen, new], 1)
        positions = before + new.cumsum(1) - 1
        mask = seen if not bool(seen.all()) else None
        model(
            ids, attention_mask=mask, position_ids=positions.clamp(min=0), cache=cache, use_cache=True, logits_to_keep=1
        )

    for number in range(4):
        feed([list(e.asked[number]) for e in encoded])
        given = [_given(e, j, c, number) for e, j, c in zip(encoded, expected, chats, strict=True)]
        for step in range(max(map(len, given))):
            feed([[g[step]] if step < len(g) else [] for g in given])


def _farthest(left: list[Judged], right: list[Judged]) -> float:
    pairs = [(a, b) for x, y in zip(left, right, strict=False) for a, b in zip(x.rounds, y.rounds, strict=True)]
    return max(abs(a[k] - b[k]) for a, b in pairs for k in a)


def _table(results: list[dict[str, Any]], peak: float) -> str:
    columns = (
        "part", "false", "P, R tokens", "ours s", "of the limit", "plain s", "plain / ours", "bound (bare)", "kept s",
        "kept / ours", "bound", "of it", "same", "max diff",
    )  # fmt: skip
    lines = [
        f"one thread, float32; peak of a matrix product {peak / 1e9:.1f} GFLOP/s",
        f"| {' | '.join(columns)} |",
        "|" + "---|" * len(columns),
    ]
    for r in results:
        s = r["seconds"]
        cells = (
            r["part"], r["false"], f"{r['tokens'][0]}, {r['tokens'][1]}", f"{s['ours']:.2f}",
            f"{s['limit'] / s['ours']:.0%}", f"{s['plain']:.1f}", f"{r['plain_over_ours']:.1f}x",
            f"{r['bound_plain']:.1f}x ({r['bound_bare']}x)", f"{s['kept']:.2f}", f"{r['kept_over_ours']:.2f}x",
            f"{r['bound_kept']:.2f}x", f"{r['share_of_bound']:.0%}", "yes" if r["same"] else "NO", f"{r['worst']:.0e}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
