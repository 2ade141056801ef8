from ser_toolkit.llm.chat import Usage
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.recipe import Prices


def test_totals_and_cost():
    meter = UsageMeter()
    meter.add(Usage(1_000_000, 200_000))
    meter.add(Usage(500_000, 0))
    meter.retry("429")
    meter.retry("429")
    assert (meter.calls, meter.prompt_tokens, meter.completion_tokens) == (2, 1_500_000, 200_000)
    assert meter.retries == {"429": 2}
    assert meter.cost(Prices(prompt=0.15, completion=0.6)) == 0.345


def test_an_unknown_price_is_not_zero():
    meter = UsageMeter()
    meter.add(Usage(10, 10))
    assert meter.cost(None) is None
    assert meter.cost(Prices()) == 0.0
