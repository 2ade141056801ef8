"""Verdicts by likelihood: the right tokens, the right sums, and nothing that hangs on how a batch is made."""

from __future__ import annotations

import copy

import pytest
import torch

from rm_training.rounds import UNIFIED_ROUNDS, ChatEncoder, JudgeChat, chat_of_row
from rm_training.verdicts import Judged, judge_plainly, softmax
from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.llm.chat import Image
from tests.judge_models import judge_chat, picture, processor, text_model, tokenizer, vision_model

pytestmark = pytest.mark.train
ANSWERS = ("True", "False", "True", "Neither acceptable")


def whole_chat(chat: JudgeChat, answers: tuple[str, ...]) -> list[dict[str, str]]:
    asked = [{"role": "system", "content": chat.system}]
    for question, answer in zip(chat.questions, answers, strict=True):
        asked += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return asked


def test_the_rounds_tokens_are_those_of_the_whole_text() -> None:
    chat = judge_chat(2)
    encoded = ChatEncoder(tokenizer()).encode(chat)
    own: list[int] = []
    for asked, answers, allowed, given in zip(encoded.asked, encoded.answers, chat.allowed, ANSWERS, strict=True):
        own += [*asked, *answers[allowed.index(given)]]
    text = tokenizer().apply_chat_template(whole_chat(chat, ANSWERS), tokenize=False)
    assert own == tokenizer()(text.rstrip("\n"), add_special_tokens=False)["input_ids"]
    ends = {answers[-1] for round_ in encoded.answers for answers in round_}
    assert ends == {tokenizer().eos_token_id}


def test_the_rounds_tokens_are_those_of_the_processor_with_its_picture() -> None:
    chat = judge_chat(2, images=(picture(),))
    encoded = ChatEncoder(processor()).encode(chat)
    own: list[int] = []
    for asked, answers, allowed, given in zip(encoded.asked, encoded.answers, chat.allowed, ANSWERS, strict=True):
        own += [*asked, *answers[allowed.index(given)]]
    messages = [
        {"role": m["role"], "content": [{"type": "text", "text": m["content"]}]} for m in whole_chat(chat, ANSWERS)
    ]
    messages[1]["content"].insert(0, {"type": "image"})  # type: ignore[arg-type]
    text = processor().apply_chat_template(messages, tokenize=False)
    made = processor()(text=[text.rstrip("\n")], images=[[picture()]], add_special_tokens=False, return_tensors="pt")
    assert own == made["input_ids"][0].tolist()
    assert torch.equal(made["pixel_values"], encoded.media["pixel_values"])


def test_verdicts_are_the_softmax_of_the_answers_whole_log_probability() -> None:
    """The oracle: one sequence at a time, unpadded, and four dependent rounds written out."""
    chat, model, words = judge_chat(3), text_model(), tokenizer()
    (judged,) = judge_plainly(model, words, [chat])
    said: list[str] = []
    for number, (allowed, found) in enumerate(zip(chat.allowed, judged.rounds, strict=True)):
        sums = []
        for answer in allowed:
            part = JudgeChat(chat.system, chat.questions[: number + 1], chat.allowed[: number + 1])
            text = words.apply_chat_template(whole_chat(part, (*said, answer)), tokenize=False).rstrip("\n")
            ids = torch.tensor([words(text, add_special_tokens=False)["input_ids"]])
            # What all allowed answers share cannot matter: sum from the question's end on.
            start = len(words(text[: text.rindex("assistant\n") + 10], add_special_tokens=False)["input_ids"])
            logps = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
            sums.append(logps[start - 1 :].sum())
        expected = torch.stack(sums).softmax(0)
        assert torch.allclose(torch.tensor(list(found.values())), expected, atol=1e-5)
        said.append(allowed[int(expected.argmax())])
    assert judged.verdicts == tuple(said)


def test_chats_differ_in_their_verdicts() -> None:
    """Else the tests here would see nothing."""
    judged = judge_plainly(text_model(), tokenizer(), [judge_chat(n) for n in range(6)])
    assert len({j.verdicts for j in judged}) > 1


@pytest.mark.parametrize("images", [(), (picture(),)])
def test_a_score_does_not_hang_on_batch_padding_side_or_pad_token(images: tuple[object, ...]) -> None:
    model, words = (vision_model(), processor()) if images else (text_model(), tokenizer())
    chats = [judge_chat(n, images=images, history=1 + 2 * (n % 2)) for n in range(4)]
    alone = [judge_plainly(model, words, [c], batch_size=1)[0] for c in chats]
    other = copy.deepcopy(words)
    plain = getattr(other, "tokenizer", other)
    plain.padding_side, plain.pad_token = "left", plain.eos_token
    for processing, size, order in ((words, 8, 1), (words, 3, -1), (other, 8, 1)):
        together = judge_plainly(model, processing, chats[::order], batch_size=size)[::order]
        for one, many in zip(alone, together, strict=True):
            assert one.verdicts == many.verdicts
            for left, right in zip(one.rounds, many.rounds, strict=True):
                assert left == pytest.approx(right, abs=1e-5)


def test_a_picture_counts_and_chats_with_and_without_one_stand_in_one_call() -> None:
    chats = [judge_chat(1, images=(picture(s),) * n) for s, n in ((10, 1), (240, 1), (10, 0), (10, 2))]
    found = judge_plainly(vision_model(), processor(), chats)
    assert len({tuple(f.rounds[0].values()) for f in found}) == 4
    assert found[3] == pytest.approx(judge_plainly(vision_model(), processor(), chats[3:])[0])


def test_a_chat_that_cannot_be_judged_is_missing_and_the_others_are_not() -> None:
    long = JudgeChat("", ("a b c " * 500,), (("True", "False"),))
    mimic = JudgeChat("", ("SERanswer0mark7f3a",), (("True", "False"),))
    damaged = judge_chat(1, images=(Image(b"no picture", "image/png"),))
    good = judge_chat(1)
    found = judge_plainly(vision_model(), processor(), [long, good, mimic, damaged], max_tokens=1200)
    assert [bool(f.trouble) for f in found] == [True, False, True, True]
    assert "1200" in found[0].trouble and found[3].trouble.startswith("media") and found[0].verdicts == ()


def test_numbers_that_are_none_give_no_verdict() -> None:
    broken = copy.deepcopy(text_model())
    broken.lm_head.weight.data[:] = float("nan")
    (found,) = judge_plainly(broken, tokenizer(), [judge_chat(1)])
    assert found == Judged(trouble="round 1: the model's numbers are not finite")
    assert softmax([0.0, float("-inf")]) == [1.0, 0.0] and softmax([float("-inf")] * 2) is None


def test_rows_of_a_release_and_chats_of_one_round() -> None:
    chat = judge_chat(1)
    row = {"messages": whole_chat(chat, ANSWERS), "verdict": "neither", "images": [picture()]}
    assert chat_of_row(row).questions == chat.questions and len(chat_of_row(row).images) == 1
    assert chat_of_row(row).allowed == UNIFIED_ROUNDS
    with pytest.raises(RecordError, match="4 questions instead of 1"):
        chat_of_row(row, [("True", "False")])
    one = JudgeChat("", ("Sound?",), (("True", "False"),))
    first = JudgeChat("", ("Sound?", "And now?"), (("True", "False"),) * 2)
    found = judge_plainly(text_model(), tokenizer(), [one, first])
    assert found[0].rounds[0] == pytest.approx(found[1].rounds[0]) and len(found[1].rounds) == 2


def test_a_template_without_an_end_of_turn_is_refused() -> None:
    bare = copy.deepcopy(tokenizer())
    bare.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    with pytest.raises(UsageError, match="does not end an answer"):
        judge_plainly(text_model(), bare, [judge_chat(1)])


def test_the_models_mode_is_left_as_it_was() -> None:
    model = copy.deepcopy(text_model()).train()
    judge_plainly(model, tokenizer(), [judge_chat(1)])
    assert model.training
