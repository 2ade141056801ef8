"""What no simulated supporter should say, and what it may."""

import pytest

from pipelines.stages.synthesis.checks import FAULT_KINDS, SupporterRules, find_supporter_faults
from ser_toolkit.errors import FAILURE_KINDS, RecordError, UsageError
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.recipe_synthesis import Synthesize
from ser_toolkit.seeker_checks import FAULT_KINDS as SEEKER_FAULTS

SEEKS = {
    "en": [
        "Thank you for listening to me.",
        "Thanks so much for your advice, really.",
        "Can you help me with this?",
        "I really needed to hear that.",
        "What should I do about my brother?",
        "I feel much better now.",
    ],
    "zh": ["谢谢你听我说这些。", "你能帮帮我吗？", "和你聊完，我心里舒服多了。", "那我现在应该怎么办？"],
}
FINE = {
    "en": [
        "I once lost a job myself, and told nobody for weeks.",
        "Thank you for telling me about the letter.",
        'You ask yourself "what should I do now", every night.',
        "What would help you most tonight?",
        "Can you tell me about the kitchen?",
        "Do you feel better after a walk?",
        "Who could listen to you at home?",
    ],
    "zh": [
        "我也丢过一次工作。",
        "你心里想的是“我现在应该怎么办”。",
        "说出来以后，你好一些了吗？",
        "谢谢你告诉我信的事。",
    ],
}


@pytest.mark.parametrize(("lang", "line"), [(lang, line) for lang, lines in SEEKS.items() for line in lines])
def test_the_seekers_words_are_found(lang, line):
    assert find_supporter_faults(line, [], [], lang) == ["it acts as the seeker"]


@pytest.mark.parametrize(("lang", "line"), [(lang, line) for lang, lines in FINE.items() for line in lines])
def test_a_supporters_own_words_are_no_change_of_role(lang, line):
    assert find_supporter_faults(line, [], [], lang) == []


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("en", "I see. Seeker: It is hard. Supporter: Yes."),
        ("en", "User: I am sad"),
        ("zh", "嗯。求助者：我很难过。"),
        ("zh", "来访者：是的"),
    ],
)
def test_speaking_for_both_is_found(lang, line):
    assert "it speaks for both" in find_supporter_faults(line, [], [], lang)


def test_repetition_and_circles():
    said = ["What happened on that evening at the station?"]
    assert find_supporter_faults("What happened that evening at the station?", said, [], "en") == ["it repeats itself"]
    heard = ["Nobody at home has asked me how it went."]
    assert find_supporter_faults(heard[0], [], heard, "en") == ["it repeats the seeker"]
    assert find_supporter_faults("Nobody asked you. How did it go?", [], heard, "en") == []
    assert find_supporter_faults("Yes. Yes. Yes.", [], [], "en") == ["it says one sentence over and over"]
    assert find_supporter_faults("Bye now!", ["Take care, goodbye!"], [], "en") == ["it says goodbye in circles"]
    assert find_supporter_faults("夜里醒着的时候，你在想什么呢？", ["夜里醒着的时候你在想什么？"], [], "zh") == [
        "it repeats itself"
    ]


def test_every_fault_has_a_kind_that_is_explained():
    assert {*FAULT_KINDS.values(), *SEEKER_FAULTS.values(), "stock_phrase", "near_duplicate"} <= set(FAILURE_KINDS)


def rules(home, model="openai:m", **settings):
    return SupporterRules(Recipe(llm=Llm(model=model), synthesize=Synthesize(**settings)), home)


def test_ones_own_list_of_stock_phrases_takes_the_place_of_ours(tmp_path):
    (tmp_path / "worn.txt").write_text("# ours\nBless your heart\nthere, there\n", encoding="utf-8")
    own = rules(tmp_path, stock_phrases={"en": "worn.txt"})
    assert own.stock("Oh, bless your heart. There, there!", "en") == ["bless your heart", "there, there"]
    assert own.stock("Your feelings are valid.", "en") == []
    assert own.stock("你并不孤单。", "zh") == ["你并不孤单"], "the other language keeps the bundled ones"
    with pytest.raises(RecordError) as caught:
        own.check("Bless your heart, there, there.", [], [], "en")
    assert caught.value.kind == "stock_phrase"
    own.check("Bless your heart.", [], [], "en")


def test_of_phrases_that_overlap_the_longest_counts(tmp_path):
    assert rules(tmp_path).stock("Your feelings are completely valid.", "en") == ["your feelings are completely valid"]


def test_a_list_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"synthesize\.stock_phrases\.en: .*none\.txt: cannot be read") as caught:
        rules(tmp_path, stock_phrases={"en": "none.txt"})
    assert "one phrase a line" in caught.value.hint


def test_the_small_model_may_say_any_number_of_them(tmp_path):
    worn = "I'm here for you. Your feelings are valid. I hear you, and it's okay to feel so."
    rules(tmp_path, model="embedded").check(worn, [], [], "en")
    with pytest.raises(RecordError):
        rules(tmp_path, model="embedded", max_stock_phrases=1).check(worn, [], [], "en")
