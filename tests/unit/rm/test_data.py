"""What a judge learns from: the right tokens bear the loss, and nothing else; nothing is cut but whole turns."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import pytest
from PIL import Image

from rm_training.data import (
    IGNORED,
    Judgement,
    balanced_false_weight,
    chat_of,
    check_template,
    prepare,
    read_judgements,
    template_hash,
)
from rm_training.rounds import ChatEncoder
from ser_toolkit import load_release
from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.releases.judged import Case
from tests.judge_models import processor, tokenizer
from tests.labelled_release import labelled_release
from tests.unit.release.making import crowd, make

pytestmark = pytest.mark.train
KINDS = ("unified", "prm", "orm")


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 64), (9, 200, 55)).save(out, "PNG")
    return out.getvalue()


def judgement(turns: int = 3, **changes) -> Judgement:
    history = tuple(f"{'Seeker' if i % 2 == 0 else 'Supporter'}: turn {i} said so" for i in range(turns))
    case = Case(history, ("first step", "second step", "third step"), ("Reply one.", "Reply two, longer."), "en")
    return replace(Judgement("t1", case, (True, False, True), "first_better"), **changes)


def only(item_of, kind="unified", **more):
    """The one chat that a judgement is learnt from."""
    prepared = prepare([item_of], kind, tokenizer(), max_tokens=10_000, **more)
    ((example,),) = prepared.items
    return example


def judged(example) -> list[str]:
    """The runs of tokens that bear a loss, as text."""
    runs: list[list[int]] = []
    for before, label in zip((IGNORED, *example.labels), example.labels, strict=False):
        if label != IGNORED:
            runs += [[]] if before == IGNORED else []
            runs[-1].append(label)
    return [tokenizer().decode(run) for run in runs]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("unified", ["True", "False", "True", "First better"]),
        ("prm", ["True, False, True"]),
        ("orm", ["First better"]),
    ],
)
def test_the_loss_stands_on_the_judged_words_and_their_end_of_turn_alone(kind, wanted):
    example = only(judgement(), kind)
    assert judged(example) == [f"{word}<|im_end|>" for word in wanted]
    assert all(label in (IGNORED, own) for own, label in zip(example.ids, example.labels, strict=True))
    assert [w > 0 for w in example.weights] == [label != IGNORED for label in example.labels]


def test_the_tokens_are_those_of_the_whole_chat():
    example = only(judgement())
    chat, answers = chat_of(judgement(), "unified")
    messages = [{"role": "system", "content": chat.system}]
    for question, answer in zip(chat.questions, answers, strict=True):
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    text = tokenizer().apply_chat_template(messages, tokenize=False)
    assert tokenizer().decode(example.ids) == text.rstrip("\n")
    assert list(example.ids) == tokenizer()(text.rstrip("\n"), add_special_tokens=False)["input_ids"]


def test_an_undecided_round_bears_no_loss_and_says_nothing():
    example = only(judgement(steps=(True, None, False), verdict=None))
    assert judged(example) == ["True<|im_end|>", "False<|im_end|>"]
    assert "assistant\n<|im_end|>" in tokenizer().decode(example.ids), "the round stands there with an empty answer"
    for kind in ("prm", "orm"):
        prepared = prepare([judgement(steps=(True, None, False), verdict=None)], kind, tokenizer(), max_tokens=9999)
        assert (prepared.items, prepared.facts["undecided"], prepared.failures) == ([], 1, [])


def test_the_other_order_of_the_replies_turns_the_verdict_and_nothing_else():
    prepared = prepare([judgement()], "unified", tokenizer(), max_tokens=9999, exchange=True)
    ((one, other),) = prepared.items
    assert judged(one)[:3] == judged(other)[:3] and judged(other)[3] == "Second better<|im_end|>"
    asked = tokenizer().decode(other.ids)
    assert asked.index("Reply two") < asked.index("Reply one")
    for verdict in ("almost_equal", "neither"):
        ((one, other),) = prepare(
            [judgement(verdict=verdict)], "orm", tokenizer(), max_tokens=9999, exchange=True
        ).items
        assert judged(one) == judged(other)
    assert len(prepare([judgement()], "prm", tokenizer(), max_tokens=9999, exchange=True).items[0]) == 1


def test_a_history_is_cut_by_whole_turns_and_steps_and_replies_never():
    long = judgement(turns=40)
    whole = only(long)
    for room in (len(whole.ids) - 1, 700, 560):
        prepared = prepare([long], "unified", tokenizer(), max_tokens=room, exchange=True)
        for example in prepared.items[0]:
            assert len(example.ids) <= room
            text = tokenizer().decode(example.ids)
            kept = [i for i in range(40) if f"turn {i} said so\n" in text]
            assert kept == list(range(40 - len(kept), 40)) and kept, "whole turns go, from the front"
            assert all(part in text for part in (*long.case.steps, *long.case.replies))
            assert f"The conversation so far:\n{long.case.history[kept[0]]}" in text
        assert (prepared.facts["cases_cut"], prepared.facts["turns_cut"]) == (1, 40 - len(kept))
        more = only(replace(long, case=long.case.without(39 - len(kept))))
        assert len(more.ids) > room, "no more is cut than must be"


def test_what_does_not_fit_without_its_history_is_a_failure_not_a_cut_step():
    wordy = judgement(case=replace(judgement().case, steps=("so " * 900, "two", "three")))
    prepared = prepare([wordy, judgement()], "unified", tokenizer(), max_tokens=800)
    assert len(prepared.items) == 1 and [f.record_id for f in prepared.failures] == ["t1"]
    assert "tokens more than 800" in prepared.failures[0].reason


def test_a_picture_is_counted_in_tokens_and_a_damaged_one_is_a_failure():
    seen, blind = judgement(images=(png(),)), judgement()
    prepared = prepare([seen, blind], "unified", processor(), max_tokens=9999)
    (with_picture,), (without,) = prepared.items
    image = processor().tokenizer.convert_tokens_to_ids("<image>")
    assert with_picture.ids.count(image) == 4 and image not in without.ids
    assert prepared.facts["pictures"] == 1 and len(with_picture.ids) > len(without.ids) + 4
    room = len(without.ids) + 2
    (cut,) = prepare([judgement(turns=9, images=(png(),))], "unified", processor(), max_tokens=room).items[0]
    assert len(cut.ids) <= room and cut.ids.count(image) == 4, "the picture stays, turns go"
    broken = prepare([judgement(images=(png()[:40],))], "unified", processor(), max_tokens=9999)
    assert [f.kind for f in broken.failures] == ["media"]


def test_the_rare_false_may_count_more_and_the_mean_weight_stays_one():
    def mean(items) -> float:
        weights = [w for item in items for example in item for w in example.weights if w > 0]
        return sum(weights) / len(weights)

    rows = [judgement(), judgement(steps=(True, True, True))]
    assert balanced_false_weight(rows) == 5.0 and balanced_false_weight([judgement(steps=(True, True, True))]) == 1.0
    prepared = prepare(rows, "unified", tokenizer(), max_tokens=9999, false_weight=5.0)
    assert mean(prepared.items) == pytest.approx(1.0)
    weights = {round(w / min(x for x in prepared.items[0][0].weights if x), 6) for w in prepared.items[0][0].weights}
    assert weights == {0.0, 1.0, 5.0}
    ((process,),) = prepare([judgement()], "prm", tokenizer(), max_tokens=9999, false_weight=5.0).items
    assert len({w for w in process.weights if w}) == 1
    assert mean(prepare(rows, "unified", tokenizer(), max_tokens=9999).items) == 1.0


def test_rows_of_a_release_become_judgements(tmp_path):
    release = load_release(labelled_release(tmp_path, 30))
    rows = {s: read_judgements(release, s) for s in ("train", "validation")}
    assert all(not failures for _, failures in rows.values())
    frame = release.frame("judgements", "train")
    assert [j.id for j in rows["train"][0]] == frame["id"].to_list()
    by_id = {j.id: j for split, _ in rows.values() for j in split}
    assert any(None in j.steps for j in by_id.values()) and any(j.verdict is None for j in by_id.values())
    for row in frame.iter_rows(named=True):
        found = by_id[row["id"]]
        decided = [s for s, is_told in zip(row["labels"], row["loss_rounds"], strict=False) if is_told]
        assert [s for s in found.steps if s is not None] == decided
        assert [text.startswith("Wrong") for text in found.case.steps] == [
            s is False if s is not None else text.startswith("Wrong")
            for s, text in zip(found.steps, found.case.steps, strict=True)
        ]
        if found.verdict:
            longer = 0 if len(found.case.replies[0]) > len(found.case.replies[1]) else 1
            assert found.verdict == ("first_better", "second_better")[longer]


def test_loss_rounds_masks_what_has_a_label(tmp_path):
    release = load_release(labelled_release(tmp_path, 6))
    row = next(release.frame("judgements", "train").iter_rows(named=True))
    from rm_training.data import judgement_of

    masked = judgement_of({**row, "loss_rounds": [False, True, True, False]})
    assert masked.steps[0] is None and masked.verdict is None and masked.steps[2] is not None
    assert len(judged(only(masked))) == 2 - (masked.steps[1] is None)


def test_rewrites_are_learnt_from_unless_told_otherwise(tmp_path):
    release = load_release(labelled_release(tmp_path, 6))
    frame = release.frame("judgements", "train")
    import polars

    rewritten = frame.with_columns(rewritten_from=polars.lit("t"), id=polars.col("id") + "-w")

    class WithRewrites:
        rows, path, manifest = release.rows, release.path, release.manifest

        @staticmethod
        def frame(config, split, *, text_only=False):
            return polars.concat([frame, rewritten])

    assert len(read_judgements(WithRewrites, "train")[0]) == 2 * frame.height  # type: ignore[arg-type]
    assert len(read_judgements(WithRewrites, "train", rewrites=False)[0]) == frame.height  # type: ignore[arg-type]


def test_a_release_without_labels_is_refused(tmp_path):
    release = load_release(make(tmp_path, crowd(4)).path)
    with pytest.raises(DataError, match="has no labels: made from people's labels") as caught:
        read_judgements(release, "train")
    assert "ser annotate" in caught.value.hint and caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("template", "slipped"),
    [
        ("{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}", "You are a helpful"),
        ("{{ 'Today: 3 May' }}", "Today 3 May"),
        ("{{ '<think>\n\n</think>' }}", "<think>"),
    ],
)
def test_words_that_a_template_adds_of_its_own_are_refused(template, slipped):
    words = copy.deepcopy(tokenizer())
    check_template(words)
    check_template(processor())
    before = template_hash(words)
    words.chat_template = template + words.chat_template
    with pytest.raises(UsageError, match=slipped):
        check_template(words)
    assert template_hash(words) != before and template_hash(tokenizer()) == before


def test_the_hash_of_a_template_hangs_on_what_it_writes_not_on_how_it_is_spelt():
    words = copy.deepcopy(tokenizer())
    words.chat_template = "{# a remark #}" + words.chat_template
    assert template_hash(words) == template_hash(tokenizer())
    assert ChatEncoder(words).encode(chat_of(judgement(), "unified")[0]).asked
