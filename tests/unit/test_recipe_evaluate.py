"""The models of an evaluation, each as `llm` but for what it sets itself."""

from __future__ import annotations

import pytest

from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import load_recipe


def test_a_model_is_as_llm_but_for_its_own_keys(tmp_path):
    (tmp_path / "ser.yaml").write_text(
        "llm: {model: 'openai:a', base_url: http://a/v1, temperature: 0.2}\n"
        "evaluate:\n  seeker: {base_url: http://b/v1}\n  judges: [{model: 'openai:j'}, {temperature: 0.9}]\n"
    )
    recipe = load_recipe(tmp_path, (), {"evaluate.policy.model": "openai:p"})
    policy, seeker = recipe.evaluate.policy.over(recipe.llm), recipe.evaluate.seeker.over(recipe.llm)
    judges = [j.over(recipe.llm) for j in recipe.evaluate.judges]
    assert (policy.model, policy.base_url, policy.temperature) == ("openai:p", ("http://a/v1",), 0.2)
    assert (seeker.model, seeker.base_url) == ("openai:a", ("http://b/v1",))
    assert [(j.model, j.temperature) for j in judges] == [("openai:j", 0.2), ("openai:a", 0.9)]


def test_a_wrong_key_of_a_judge_is_told_with_its_line(tmp_path):
    (tmp_path / "ser.yaml").write_text("evaluate:\n  judges:\n    - {modle: x}\n")
    with pytest.raises(UsageError, match=r"line 3: unknown key 'evaluate\.judges\.0\.modle'"):
        load_recipe(tmp_path)
