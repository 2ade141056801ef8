"""The four-part text: what parses, what renders, what labels are read."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ser_toolkit.errors import RecordError
from ser_toolkit.reasoning import (
    OUT_OF_ORDER,
    TITLES,
    format_ok,
    parse_trace,
    read_labels,
    render_trace,
)
from ser_toolkit.reasoning_parse import find_boxes

PLAIN = """Step 1. Conversation History Analysis
She lost her job and hides it from her wife. The talk is in the Exploration stage.

Step 2. Multimodal Emotional State Inference
Sentiment: Negative. Intensity: Moderate. Emotions: Shame, Anxiety.

Step 3. Strategy Selection
Strategy: Emotional Mapping.

Step 4. Response Generation
\\boxed{That sounds like a heavy thing to carry alone.}"""
STEPS = (
    "She lost her job and hides it from her wife. The talk is in the Exploration stage.",
    "Sentiment: Negative. Intensity: Moderate. Emotions: Shame, Anxiety.",
    "Strategy: Emotional Mapping.",
)
REPLY = "That sounds like a heavy thing to carry alone."


def test_plain_text_parses_into_its_parts():
    parsed = parse_trace(PLAIN)
    assert parsed.steps == STEPS
    assert parsed.titles == TITLES["en"]
    assert (parsed.reply, parsed.boxed, parsed.problems, parsed.complete) == (REPLY, True, (), True)


def test_render_writes_what_is_parsed():
    assert render_trace(STEPS, REPLY, "en") == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        "Sure, here is my analysis:\n\n" + PLAIN + "\n\nI hope that helps!",
        PLAIN.replace("Step ", "STEP "),
        PLAIN.replace("Step ", "### Step "),
        PLAIN.replace("\n\nStep ", "\n\n---\n\n### Step "),
        PLAIN.replace("Step 1. Conversation History Analysis", "**Step 1: Analysis of Dialogue History**"),
        PLAIN.replace("Step 2. Multimodal Emotional State Inference", "**Step 2:**"),
        PLAIN.replace("Step 2. Multimodal Emotional State Inference\n", "Step 2 - Feelings: "),
        PLAIN.replace("Step 3. Strategy Selection", "**Step 3** – Strategy"),
        PLAIN.replace("Step 3. Strategy Selection", "Step ３：Strategy"),
        PLAIN.replace("Step 3. Strategy Selection", "[Step 3] Strategy"),
        PLAIN.replace("Step 3. Strategy Selection", "Step Three: Strategy"),
        PLAIN.replace("Step 3. Strategy Selection\n", "- Step 3) Choice: "),
        PLAIN.replace("Step 4. Response Generation", "Step 4 Final Response"),
        PLAIN.replace("Step 4. Response Generation\n", "Step 4. "),
        PLAIN.replace("Step 4. Response Generation\n", "Step 4: Final Response: "),
        PLAIN.replace("\\boxed{", "$\\boxed {").replace("alone.}", "alone.}$"),
        PLAIN.replace("\\boxed{", "Either \\boxed{No.} or \\boxed{") + " \\boxed{ }",
        PLAIN.replace("\\boxed{", "\\boxed{\n  ").replace("alone.}", "alone.\n}"),
        PLAIN.replace("Step 1. ", "\u3000Step 1．"),
        PLAIN.replace("Step 1. ", "\ufeffStep 1. "),
    ],
)
def test_variants_give_the_same_parts(text):
    parsed = parse_trace(text)
    assert (parsed.steps, parsed.reply, parsed.boxed) == (STEPS, REPLY, True)


@pytest.mark.parametrize("heads", [
    ("步骤1：对话历史分析\n", "步骤2：情绪状态\n", "步骤3：策略选择\n", "步骤4：回复生成\n"),
    ("步骤一：", "步骤二：", "步骤三：", "步骤四："),
    ("第一步、", "第二步、", "第三步、", "第四步、"),
    ("第１步\n", "第２步\n", "第３步\n", "第４步\n"),
    ("**步骤 1：对话历史分析**\n", "## 步骤2 情绪推断\n", "【步骤3】策略选择\n", "步驟四——回复生成："),
    ("步骤1对话历史分析：", "步骤2情绪状态：", "第三步策略选择\n", "第四步\n"),
])  # fmt: skip
def test_chinese_headings(heads):
    parts = (
        "她失业了，瞒着家人，很羞愧。处于探索阶段。",
        "情感倾向：消极，强度：中等，情绪：羞愧、焦虑，她一直低着头没有说话。",
        "选择情感映射策略，让她感到被理解，因为此时她需要倾诉。",
        "\\boxed{这件事你一个人扛了很久吧。}",
    )
    parsed = parse_trace("好的。\n" + "\n".join(h + p for h, p in zip(heads, parts, strict=True)))
    assert parsed.complete and parsed.boxed
    assert parsed.reply == "这件事你一个人扛了很久吧。"
    # A short first phrase on a heading's line is a title by rule; nothing else may be lost.
    for step, title, part in zip(parsed.steps, parsed.titles[:3], parts[:3], strict=True):
        assert step and (step == part or (title and part.startswith(title) and part.endswith(step)))


@pytest.mark.parametrize(
    ("line", "title", "text"),
    [
        ("Step 1. Core problem\nShe is alone.", "Core problem", "She is alone."),
        ("Step 1. Core problem: she is alone.", "Core problem", "she is alone."),
        ("Step 1. She is alone. Nobody calls.", "She is alone", "Nobody calls."),
        ("Step 1. She is alone.", None, "She is alone."),
        ("Step 1: She is alone", None, "She is alone"),
        ("Step 1:\nShe is alone.\nNobody calls.", None, "She is alone.\nNobody calls."),
        ("Step 1: one two three four five six seven eight\nbody", "one two three four five six seven eight", "body"),
        (
            "Step 1: one two three four five six seven eight nine\nbody",
            None,
            "one two three four five six seven eight nine\nbody",
        ),
        ("步骤1：一二三四五六七八九十一二三四\n正文", "一二三四五六七八九十一二三四", "正文"),
        ("步骤1：一二三四五六七八九十一二三四五\n正文", None, "一二三四五六七八九十一二三四五\n正文"),
        ("**Step 1:** The **core** problem", None, "The **core** problem"),
        ("**Step 1. Title:** body", "Title", "body"),
        ("Step 1: **Title:** body", "Title", "body"),
        ("Step 1: It cost 3.5 years\nbody", "It cost 3.5 years", "body"),
    ],
)
def test_titles(line, title, text):
    parsed = parse_trace(line)
    assert (parsed.titles[0], parsed.steps[0]) == (title, text)


@pytest.mark.parametrize(
    "sentence",
    [
        "As Step 2 shows, she is sad.",
        "Step 2 is where her mood turns.",
        "Step 2, as ever, is the hardest.",
        "Step 2's mood matters.",
        "Step 2-based reading",
        "Step 2.1 Mood",
        "Step 2-4 follow",
        "Step 20. Far away",
        "Steps 2 and 3 follow",
        "A Step 2: no line start",
        "第二步是看她的情绪。",
        "第二步，我们看情绪。",
        "在步骤2：中间",
        "步骤2的分析显示她难过",
        "步骤十二：太远",
    ],
)
def test_a_step_inside_a_sentence_is_no_heading(sentence):
    parsed = parse_trace(f"Step 1. First\nbody\n{sentence}")
    assert parsed.steps == (f"body\n{sentence}", None, None)


def test_missing_parts_are_none_and_named():
    parsed = parse_trace("Step 1. A\na\nStep 3. C\n\nStep 4.\n")
    assert parsed.steps == ("a", None, "C")
    assert parsed.reply is None and not parsed.complete
    assert "step 2 is missing" in parsed.problems and "the reply is empty" in parsed.problems


@pytest.mark.parametrize(
    ("step4", "reply", "problem"),
    [
        ("Response Generation\nI hear you.", "I hear you.", "the box is missing"),
        ("Response Generation\n\\boxed{I hear you.", "I hear you.", "the box is not closed"),
        ("Response Generation\n\\boxed{I {hear you.}", "I {hear you.}", "the box is not closed"),
        ("Response Generation\n\\boxed{}\nI hear you.", "I hear you.", "the box is empty"),
        ("Response Generation\n\\boxed{ }", None, "the box is empty"),
    ],
)
def test_without_a_closed_box_step_4_is_the_reply_and_that_is_noted(step4, reply, problem):
    text = f"Step 1. a\nStep 2. b\nStep 3. c\nStep 4. {step4}"
    parsed = parse_trace(text)
    assert (parsed.reply, parsed.boxed) == (reply, False)
    assert problem in parsed.problems
    assert not format_ok(text)
    assert format_ok(text, require_box=False) == (reply is not None)


@pytest.mark.parametrize(
    ("box", "reply"),
    [
        ("\\boxed{a {b {c}} d}", "a {b {c}} d"),
        ("\\boxed{x} \\boxed{y \\boxed{z} w}", "y \\boxed{z} w"),
        ("\\boxed{lost \\boxed{found}", "found"),
        ("} { \\boxed{kept}", "kept"),
        ("\\boxed{Try this:\nStep 1: breathe\nStep 2: rest}", "Try this:\nStep 1: breathe\nStep 2: rest"),
    ],
)
def test_boxes(box, reply):
    parsed = parse_trace(f"Step 1. a\nStep 2. b\nStep 3. c\nStep 4. {box}")
    assert (parsed.steps, parsed.reply, parsed.boxed) == (("a", "b", "c"), reply, True)


def test_a_box_outside_step_4_is_no_reply():
    assert parse_trace("Step 1. a\nStep 2. b\nStep 3. c \\boxed{hi}").reply is None


def test_a_repeated_step_counts_once():
    text = "Step 1. a\nStep 2. b\nStep 3. c\nStep 4. \\boxed{d}\nStep 1. A\nStep 4. \\boxed{D}"
    parsed = parse_trace(text)
    assert (parsed.steps, parsed.reply) == (("a", "b", "c"), "d")
    assert parsed.problems == ("step 1 is repeated", "step 4 is repeated")
    assert format_ok(text)


def test_order_counts_for_the_format_alone():
    text = "Step 2. b\nStep 1. a\nStep 3. c\nStep 4. \\boxed{d}"
    parsed = parse_trace(text)
    assert parsed.complete and parsed.steps == ("a", "b", "c")
    assert OUT_OF_ORDER in parsed.problems
    assert not format_ok(text)
    assert not format_ok("Step 4. \\boxed{d}\nStep 1. a\nStep 2. b\nStep 3. c")


@pytest.mark.parametrize(
    ("steps", "reply", "lang"),
    [
        (("a\nStep 2. no", "b", "c"), "d", "en"),
        (("a", "**步骤3：** 不", "c"), "d", "zh"),
        (("a", "b", "c"), "d\nStep 1: breathe", "en"),
        (("a", "b", "c"), "an {open brace", "en"),
        (("a", "b", "c"), "}{", "en"),
        (("a", " \n", "c"), "d", "en"),
        (("a", "b", "c"), "", "en"),
        (("a\rb", "b", "c"), "d", "en"),
        (("a", "b"), "d", "en"),
    ],
)
def test_render_refuses_what_would_not_parse_back(steps, reply, lang):
    with pytest.raises(ValueError) as caught:
        render_trace(steps, reply, lang)
    assert isinstance(caught.value, RecordError) and caught.value.kind == "format"


FRAGMENTS = [
    *("Step 1", "step 2.", "Step 3: ", "Step 4 - ", "步骤", "第一步", "一", "：", "。", ".", "-", "—", "**", "#", "`"),
    *(
        "\\boxed{",
        "\\boxed",
        "{",
        "}",
        "\\",
        "$",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "\u3000",
        "\x0b",
        "\x0c",
        "\x1c",
    ),
    *(
        "\x85",
        "\u2028",
        "\ufeff",
        "\u200b",
        "Strategy",
        "she is",
        "悲伤",
        "1",
        "１",
        "[",
        "]",
        "【",
        "】",
        "(",
        ")",
        "---",
    ),
    *("\ud800", "\0", "🙂"),
]
hostile = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=25).map("".join)
part = hostile | st.text(max_size=60) | st.text(st.characters(max_codepoint=127), max_size=60)


@settings(max_examples=400)
@given(st.tuples(part, part, part), part, st.sampled_from(["en", "zh"]))
@example(("a\n---", "# b", "c **"), "{}", "en")
@example(("Title: x", "短。句", "**"), "\\boxed{}", "zh")
def test_what_render_accepts_parses_back(steps, reply, lang):
    try:
        text = render_trace(steps, reply, lang)
    except ValueError:
        return
    parsed = parse_trace(text)
    assert parsed.steps == tuple(s.strip() for s in steps)
    assert parsed.reply == reply.strip()
    assert (parsed.problems, parsed.boxed, parsed.titles) == ((), True, TITLES[lang])
    assert format_ok(text)


@settings(max_examples=400)
@given(hostile | st.text())
def test_any_text_parses(text):
    parsed = parse_trace(text)
    assert parsed.complete == (parsed.reply is not None and all(parsed.steps))
    assert all(s is None or (s and s == s.strip()) for s in (*parsed.steps, parsed.reply))
    assert parsed.complete or parsed.problems
    read_labels(parsed.steps, "en")
    format_ok(text)


@pytest.mark.parametrize(
    "hostile_text",
    [
        "#" * 10**6,
        "Step 1" + " " * 10**6,
        "Step 1" + "-" * 10**6,
        "Step 4:" + "\\boxed{" * 140_000,
        "Step 4:" + "\\boxed{" * 120_000 + "}" * 120_000,
        "Step 4:\\boxed{" + "{" * 500_000 + "}" * 500_000,
        "Step 4:\\boxed{" + "{}" * 500_000,
        "Step 4:\\boxed{" + "{ " * 300_000 + "\nStep 1: x" + "} " * 200_000,
        "Step 4: \\boxed" + " " * 10**6,
        "Step 4\n" + "\\" * 10**6,
        "Step 1:" + " \n" * 500_000,
        "Step 1. x\n" * 100_000,
        "**Step 1: " + "**" * 500_000,
        "步骤一" + "啊" * 330_000,
        "Step 2. " + "emotion: " * 110_000,
    ],
    ids=lambda t: repr(t[:16]),
)
def test_a_megabyte_of_hostile_text_is_read_in_linear_time(hostile_text):
    """A second on an ordinary machine; on any, eight times the text takes far less than 64 times as long."""

    def seconds(text: str) -> float:
        taken = []
        for _ in range(3):
            began = time.process_time()
            parse_trace(text)
            taken.append(time.process_time() - began)
        return min(taken)

    assert seconds(hostile_text) < max(1.0, 24 * seconds(hostile_text[: len(hostile_text) // 8]))
    parsed = parse_trace(hostile_text)
    assert parsed.problems


def outermost_boxes(text: str) -> list[str]:
    """By the book: for each \\boxed{ in turn, walk to its own brace; skip to its end where there is one."""
    found, at = [], 0
    while (at := text.find("\\boxed{", at)) >= 0:
        depth, end = 1, at + len("\\boxed{")
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if depth:
            at += 1
        else:
            found.append(text[at + len("\\boxed{") : end - 1])
            at = end
    return found


@settings(max_examples=400)
@given(st.lists(st.sampled_from(["\\boxed{", "{", "}", "a"]), max_size=30).map("".join))
def test_boxes_are_closed_by_their_own_brace(text):
    assert list(find_boxes(text).contents) == outermost_boxes(text)
