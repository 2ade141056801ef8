import sys

import pytest

from pipelines.embedding import open_embedder
from ser_toolkit.errors import RemoteError, UsageError
from ser_toolkit.recipe import Endpoint


def test_a_local_model_without_the_extra_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError) as told:
        open_embedder("local:some-model", Endpoint())
    assert "ser-toolkit[train]" in told.value.hint


def test_a_server_that_is_not_there_is_a_remote_error():
    embedder = open_embedder("openai:m", Endpoint(base_url=("http://127.0.0.1:9/v1",), max_retries=0, timeout_s=2))
    with pytest.raises(RemoteError, match="does not answer"):
        embedder.embed(["a"])
