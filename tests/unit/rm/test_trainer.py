"""The loss of a judge: the plain cross-entropy on the judged tokens, shared or not, in one batch or in pieces."""

from __future__ import annotations

import pytest
import torch

from rm_training.data import IGNORED, prepare
from rm_training.trainer import ItemSet, batch_loss, collate
from tests.judge_models import processor, text_model, tokenizer, vision_model
from tests.unit.rm.test_data import judgement, png

pytestmark = pytest.mark.train


def cases(count: int, images: tuple[bytes, ...] = ()):
    return [
        judgement(2 + n % 3, steps=(n % 2 == 0, True, None if n == 2 else n % 3 == 0), images=images if n % 2 else ())
        for n in range(count)
    ]


def batch(items, processing):
    data = ItemSet(items, processing)
    return collate([data[i] for i in range(len(data))])


def plain_loss(model, items, processing) -> torch.Tensor:
    """The oracle: each chat alone, unpadded, the textbook's cross-entropy with the weights."""
    total = torch.zeros(())
    data = ItemSet(items, processing)
    for n in range(len(data)):
        item, media = data[n]
        for example in item:
            ids = torch.tensor([example.ids])
            logits = model(input_ids=ids, **media).logits[0, :-1].float()
            each = torch.nn.functional.cross_entropy(
                logits, torch.tensor(example.labels[1:]), ignore_index=IGNORED, reduction="none"
            )
            total = total + (each * torch.tensor(example.weights[1:])).sum()
    return total


@pytest.mark.parametrize("way", ["auto", "plain"])
def test_the_loss_and_its_gradients_are_those_of_plain_cross_entropy(way):
    model = text_model(seed=5)
    items = prepare(cases(3), "unified", tokenizer(), max_tokens=9999, exchange=True, false_weight=3.0).items
    made = batch(items, tokenizer())
    assert made["labels"].ne(IGNORED).sum() == sum(label != IGNORED for i in items for e in i for label in e.labels)
    found = []
    for loss in (lambda: plain_loss(model, items, tokenizer()), lambda: batch_loss(model, made["batch"], way)):
        model.zero_grad()
        value = loss()
        value.backward()
        found.append((value.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}))
    (wanted, gradients), (value, ours) = found
    assert torch.allclose(value, wanted, rtol=1e-5)
    for name, gradient in gradients.items():
        assert torch.allclose(ours[name], gradient, rtol=1e-4, atol=1e-4 * float(gradient.abs().max())), name
    model.zero_grad()


def test_the_loss_of_chats_with_pictures():
    model = vision_model(seed=5)
    items = prepare(cases(4, (png(),)), "unified", processor(), max_tokens=9999, exchange=True).items
    made = batch(items, processor())
    assert len(made["batch"].media) == 2, "one picture a case, not a chat"
    with torch.no_grad():
        wanted = plain_loss(model, items, processor())
        for way in ("auto", "plain"):
            assert torch.allclose(batch_loss(model, made["batch"], way), wanted, rtol=1e-5)


def test_pieces_of_a_batch_add_up():
    items = prepare(cases(4), "unified", tokenizer(), max_tokens=9999, exchange=True).items
    with torch.no_grad():
        whole = batch_loss(text_model(), batch(items, tokenizer())["batch"], "auto")
        pieces = [batch_loss(text_model(), batch([i], tokenizer())["batch"], "auto") for i in items]
    assert torch.allclose(whole, torch.stack(pieces).sum(), rtol=1e-5)
