"""Wrong values are told in plain words, with what is allowed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ser_toolkit.plain import plain_error, plain_words


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: Literal["auto", "each"] = "auto"
    count: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    name: Annotated[str, Field(max_length=3)] = "a"
    flag: bool = False
    many: tuple[int, int] = (1, 2)
    part: dict[str, int] = {}
    must: int

    @field_validator("share")
    @classmethod
    def _no_half(cls, value: float) -> float:
        if value == 0.25:
            raise ValueError("a quarter will not do")
        return value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"word": "x"}, "must be one of: auto, each"),
        ({"count": "x"}, "must be a whole number"),
        ({"count": 1.5}, "must be a whole number"),
        ({"count": 0}, "must be greater than or equal to 1"),
        ({"share": 1}, "must be less than 1"),
        ({"share": 0.25}, "a quarter will not do"),
        ({"name": "long"}, "must have at most 3 characters"),
        ({"flag": "perhaps"}, "must be true or false"),
        ({"many": 3}, "must be a list"),
        ({"part": 3}, "must hold keys and values"),
        ({"more": 3}, "is not known here"),
    ],
)
def test_plain_words_for_each_kind_of_finding(given: dict[str, Any], says: str):
    with pytest.raises(ValidationError) as caught:
        Sample(must=1, **given)
    assert plain_error(caught.value.errors()[0]) == says


def test_what_is_missing():
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({})
    assert plain_error(caught.value.errors()[0]) == "is missing"


def test_a_phrase_that_is_not_known_loses_its_turn_of_phrase():
    assert plain_words("Input should be a valid URL") == "must be a valid URL"
