"""An unchanged import is taken as it stands; whatever could change it makes it anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines import build, importing
from pipelines.withdrawing import withdraw
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.schema import Dialogue, Failure
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import write_dialogues

TABLES = ("imported", "scenarios", "import_failures", "failures", "dialogues", "traces")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eleven dialogues and a line that is none."""
    path = write_dialogues(tmp_path / "in.jsonl", 11)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"id": "bad", "messages": [\n')
    return path


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each record that goes through protection."""
    seen: list[int] = []
    protect = importing.protect

    def counted(record: Any, policy: Any) -> Any:
        seen.append(1)
        return protect(record, policy)

    monkeypatch.setattr(importing, "protect", counted)
    return seen


def tables(root: Path) -> dict[str, bytes]:
    return {name: Workspace(root).table(name).read_bytes() for name in TABLES}


def test_the_second_build_reads_nothing_and_all_tables_are_the_same(tmp_path, source, imports, llm):
    first = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    before, lineage = tables(tmp_path / "w"), (tmp_path / "w" / "tables" / "build.json").read_bytes()
    assert len(imports) == 12 and first.failures == {"unreadable": 1}
    again = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    assert len(imports) == 12, "no record was read again"
    assert (tables(tmp_path / "w"), again.failures, again.calls) == (before, first.failures, 0)
    assert (tmp_path / "w" / "tables" / "build.json").read_bytes() == lineage
    assert again.export.made.content_hash == first.export.made.content_hash
    build(tmp_path / "v", sources=[f"messages:{source}"], quiet=True, **llm)
    assert tables(tmp_path / "v") == before, "and as an import elsewhere makes them"


def test_what_an_import_hangs_on_makes_it_again(tmp_path, source, imports, llm):
    home = Workspace(tmp_path / "w")

    def made_again(**more: Any) -> bool:
        imports.clear()
        sets = [*llm["sets"], *more.pop("sets", ())]
        build(home.root, sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=sets, **more)
        return bool(imports)

    assert made_again() and not made_again()
    assert not made_again(sets=["llm.temperature=0.9"]), "a stage's setting is no concern of the import"
    assert made_again(fresh=True)
    assert made_again(limit=5) and made_again()
    assert made_again(sets=["protect.enabled=false"]) and made_again()
    stat = source.stat()
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    assert made_again(), "a touched file"
    (home.maps).mkdir()
    (home.maps / "messages.toml").write_text("[strategies]\n")
    assert made_again() and not made_again()
    withdraw(home, "messages-d3")
    assert made_again()
    assert "messages-d3" not in {d.id for d in read_table(home.table("imported"), Dialogue)}
    assert not made_again()


@pytest.mark.parametrize("name", ["imported", "scenarios", "import_failures"])
def test_a_table_that_is_not_whole_is_made_again(tmp_path, source, imports, llm, name):
    home = Workspace(tmp_path / "w")
    build(home.root, sources=[f"messages:{source}"], quiet=True, **llm)
    before = tables(home.root)
    path = home.table(name)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    build(home.root, sources=[f"messages:{source}"], quiet=True, **llm)
    assert len(imports) == 24 and tables(home.root) == before
    path.unlink()
    build(home.root, sources=[f"messages:{source}"], quiet=True, **llm)
    assert len(imports) == 36 and tables(home.root) == before


def test_the_failures_of_a_kept_import_still_count(tmp_path, source, imports, llm):
    strict = ["failures.max_share=0.05"]
    for _ in range(2):
        with pytest.raises(TooManyFailures, match="import: 1 of 12 failed"):
            build(
                tmp_path / "w", sources=[f"messages:{source}"], quiet=True, model=llm["model"],
                sets=[*llm["sets"], *strict],
            )  # fmt: skip
        kept = list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))
        assert [f.position for f in kept] == ["line 12"]
    assert len(imports) == 12
    with pytest.raises(DataError, match="line 12"):
        build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, strict=True, **llm)


def test_an_import_that_was_stopped_is_no_import(tmp_path, source, imports, llm, monkeypatch):
    build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    monkeypatch.setattr(importing, "first_words", None)
    twice = source.read_text(encoding="utf-8").splitlines()[0] + "\n"
    other = tmp_path / "other.jsonl"
    other.write_text(twice, encoding="utf-8")
    with pytest.raises(TypeError):
        build(tmp_path / "w", sources=[f"messages:{source}", f"messages:{other}"], quiet=True, **llm)
    assert not (tmp_path / "w" / "tables" / "imported.json").exists()


def test_the_same_id_in_two_sources_is_told_with_its_words(tmp_path, source, llm):
    other = tmp_path / "other.jsonl"
    other.write_text(source.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    build(tmp_path / "w", sources=[f"messages:{source}", f"messages:{other}"], quiet=True,
          model=llm["model"], sets=[*llm["sets"], "failures.max_share=0.5"])  # fmt: skip
    rows = list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))
    twice = next(f for f in rows if f.kind == "duplicate_id")
    assert twice.record_id == "messages-d0" and "day 0, part 0" in twice.text
    assert (twice.file, twice.position) == ("other.jsonl", "")


def test_the_manifest_s_recipe_names_the_sources_that_were_used(tmp_path, source, llm):
    result = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    manifest = json.loads((result.export.made.path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["lineage"]["recipe"]["sources"] == [{"format": "messages", "path": "in.jsonl"}]
    assert str(tmp_path) not in json.dumps(manifest)
