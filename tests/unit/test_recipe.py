import pytest
import yaml

from pipelines.initializing import TEMPLATE, init
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import Llm, Recipe, load_recipe


def recipe(tmp_path, text, sets=(), flags=None):
    (tmp_path / "ser.yaml").write_text(text, encoding="utf-8")
    return load_recipe(tmp_path, sets, flags)


def test_no_file_means_all_defaults(tmp_path):
    assert load_recipe(tmp_path) == Recipe()


def test_defaults_file_set_and_flag_in_this_order(tmp_path):
    text = "llm: {temperature: 0.1, max_tokens: 5}\nseed: 3\n"
    made = recipe(tmp_path, text, ["llm.max_tokens=6", "llm.temperature=0.2"], {"llm.temperature": 0.3})
    assert (made.seed, made.llm.max_tokens, made.llm.temperature, made.llm.top_p) == (3, 6, 0.3, 1.0)


def test_one_base_url_or_several(tmp_path):
    assert load_recipe(tmp_path, ["llm.base_url=http://a/v1"]).llm.base_url == ("http://a/v1",)
    assert load_recipe(tmp_path, ["llm.base_url=[http://a, http://b]"]).llm.base_url == ("http://a", "http://b")


@pytest.mark.parametrize("word", ["auto", "true", "false"])
def test_vision_is_read_as_yaml_writes_it(tmp_path, word):
    assert recipe(tmp_path, f"llm: {{vision: {word}}}").llm.vision == word


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("llm:\n  temprature: 1\n", r"ser\.yaml, line 2: unknown key 'llm\.temprature'"),
        ("seed: 1\n\nllm:\n  concurrency: 0\n", r"ser\.yaml, line 4: llm\.concurrency: .*greater than or equal to 1"),
        ("sources:\n  - format: esconv\n    path: x\n    pth: y\n", r"line 4: unknown key 'sources\.0\.pth'"),
        ("split: {ratios: [0.5, 0.1, 0.1]}\n", r"line 1: split\.ratios: .*sum to 1"),
        ("llm: [1, 2\n", r"ser\.yaml, line \d: not valid YAML"),
        ("- a\n- b\n", r"line 1: a recipe is a mapping"),
        ("llm:\n  base_url: http://user:secret@host/v1\n", r"line 2: llm\.base_url"),
        ("llm:\n  base_url: user:secret@host/v1\n", r"line 2: llm\.base_url"),
        ("sample: {keep: all}\n", r"line 1: sample\.keep: must be one of: target, history"),
        ("sources:\n  - {format: jsonl, path: x, columns: {text: 3}}\n", r"line 2: sources\.0\.columns\.text"),
    ],
)
def test_a_wrong_recipe_is_told_with_file_and_line(tmp_path, text, says):
    with pytest.raises(UsageError, match=says) as caught:
        recipe(tmp_path, text)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("llm.temperature", "not of the form key=value"),
        ("llm.temprature=1", "--set llm.temprature=1: unknown key"),
        ("llm.temperature=warm", "--set llm.temperature=warm: llm.temperature"),
        ("seed.x=1", "'seed' is not a section"),
        ("llm.model=[", "not YAML"),
    ],
)
def test_a_wrong_set_is_told_by_itself(tmp_path, item, says):
    with pytest.raises(UsageError) as caught:
        recipe(tmp_path, "seed: 0\n", [item])
    assert says in str(caught.value)


def test_an_unknown_key_lists_the_known_ones(tmp_path):
    with pytest.raises(UsageError) as caught:
        recipe(tmp_path, "sampel: {}\n")
    assert "sample" in caught.value.hint


@pytest.mark.parametrize(
    "item",
    [
        "sample.rounds=true", "synthesize.count=yes", "synthesize.mix.problem={work: true}", "media.max_seconds=on",
        "rewrite.k_range=[true, 3]", "split.ratios=[true, false, 0]", "llm.temperature=no", "seed=false",
    ],
)  # fmt: skip
def test_yes_and_no_are_no_numbers(tmp_path, item):
    with pytest.raises(UsageError, match="must be a number"):
        load_recipe(tmp_path, [item, "synthesize.count=3"] if "mix" in item else [item])


@pytest.mark.parametrize("item", ["rewrite.k_range=[1, 1000000000]", "synthesize.count=10000000000"])
def test_what_no_memory_holds_is_refused(tmp_path, item):
    with pytest.raises(UsageError, match=item.partition("=")[0]):
        load_recipe(tmp_path, [item])


@pytest.mark.parametrize("value", ["[0, 3]", "[5, 4]", "[2]", "ten"])
def test_a_range_of_clusters_ascends_from_one(tmp_path, value):
    with pytest.raises(UsageError, match=r"--set rewrite\.k_range=.*rewrite\.k_range"):
        load_recipe(tmp_path, [f"rewrite.k_range={value}"])
    assert load_recipe(tmp_path, ["rewrite.k_range=[1, 1]"]).rewrite.k_range == (1, 1)


def test_the_commented_recipe_of_init_shows_the_true_defaults(tmp_path):
    assert load_recipe(init(tmp_path / "w").parent) == Recipe()
    shown = "\n".join(
        line.removeprefix("# ") for line in TEMPLATE.read_text(encoding="utf-8").splitlines() if line.startswith("# ")
    )
    keys = yaml.safe_load("\n".join(line for line in shown.splitlines() if _is_yaml(line)))
    for section, values in keys.items():
        if section in ("sources", "name", "seed"):
            continue
        default = getattr(Recipe(), section).model_dump(mode="json")
        for key, value in values.items():
            if isinstance(default[key], dict):
                assert value.items() <= default[key].items(), (section, key)
            elif key != "prices":
                assert default[key] == value or list(default[key]) == value, (section, key)
        assert set(values) == set(default), section


def _is_yaml(line: str) -> bool:
    head = line.split("#")[0].rstrip()
    return (
        bool(head)
        and (head[0].isalpha() or head[0] == " ")
        and ":" in head
        and not head.startswith(("The ", "A key", "What", "Without"))
    )


def test_init_never_overwrites(tmp_path):
    init(tmp_path)
    with pytest.raises(UsageError, match="there is a recipe already"):
        init(tmp_path)


def test_the_bundled_model_is_known_by_its_name_alone():
    assert Llm().is_builtin
    assert not Llm(model="embedded:mine.gguf").is_builtin and not Llm(model="openai:embedded").is_builtin
