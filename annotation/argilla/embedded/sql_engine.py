"""Argilla's search engine over Argilla's own SQLite tables: what Elasticsearch would index is there already.

Runs in the server's environment, not in ours. Differs from Elasticsearch in this: a text query finds the records that
hold all of its words, as parts of words too; and there is no search by vectors.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import re
from typing import Any

from argilla_server.database import AsyncSessionLocal
from argilla_server.enums import ResponseStatus
from argilla_server.errors.future import UnprocessableEntityError
from argilla_server.models import Question, Record, Response, Suggestion
from argilla_server.search_engine import base
from argilla_server.settings import settings
from sqlalchemy import String, and_, cast, exists, func, not_, or_, select, true

NAME = settings.search_engine


@base.SearchEngine.register(engine_name=NAME)
class SqlSearchEngine(base.SearchEngine):
    """Every question is answered by a query; there is no index to keep."""

    @classmethod
    async def new_instance(cls) -> SqlSearchEngine:
        return cls()

    async def close(self) -> None: ...

    async def ping(self) -> bool:
        return True

    async def info(self) -> dict:
        return {"name": NAME, "version": {"number": "1"}}

    async def _nothing(self, *_: Any, **__: Any) -> None: ...

    create_index = delete_index = configure_metadata_property = configure_index_vectors = _nothing
    index_records = partial_record_update = delete_records = _nothing
    update_record_response = delete_record_response = _nothing
    update_record_suggestion = delete_record_suggestion = _nothing

    async def get_dataset_progress(self, dataset) -> dict:
        counts = await _counts(
            select(Record.status, func.count()).where(Record.dataset_id == dataset.id), Record.status
        )
        return {"total": sum(counts.values()), **counts}

    async def get_dataset_user_progress(self, dataset, user) -> dict:
        mine = (Record.dataset_id == dataset.id, Response.user_id == user.id)
        counts = await _counts(select(Response.status, func.count()).join(Record).where(*mine), Response.status)
        return {"total": sum(counts.values()), **counts}

    async def search(
        self, dataset, query=None, filter=None, sort=None, offset=0, limit=100, user_id=None
    ) -> base.SearchResponses:
        found = select(Record.id).where(Record.dataset_id == dataset.id)
        if query is not None:
            found = found.where(await _has_words(dataset, query))
        if filter is not None:
            found = found.where(_condition(filter))
        order = [getattr(_sorted_by(o.scope), str(o.order))().nulls_last() for o in sort or ()]
        async with AsyncSessionLocal() as db:
            total = (await db.execute(select(func.count()).select_from(found.subquery()))).scalar_one()
            page = found.order_by(*order, Record.inserted_at, Record.id).offset(offset).limit(limit)
            ids = (await db.execute(page)).scalars().all()
        return base.SearchResponses(items=[base.SearchResponseItem(record_id=i, score=1.0) for i in ids], total=total)

    async def compute_metrics_for(self, metadata_property) -> base.MetadataMetrics:
        entry = _entries(Record.metadata_, metadata_property.name)
        mine = select().select_from(Record).join(entry, true()).where(Record.dataset_id == metadata_property.dataset_id)
        async with AsyncSessionLocal() as db:
            if metadata_property.is_terms:
                value = cast(entry.c.value, String)
                rows = (
                    await db.execute(
                        mine.add_columns(value, func.count()).group_by(value).order_by(func.count().desc(), value)
                    )
                ).all()
                values = [base.TermsMetrics.TermCount(term=term, count=count) for term, count in rows]
                return base.TermsMetrics(total=sum(v.count for v in values), values=values)
            least, most = (await db.execute(mine.add_columns(func.min(entry.c.value), func.max(entry.c.value)))).one()
        kind = base.IntegerMetadataMetrics if metadata_property.is_integer else base.FloatMetadataMetrics
        return kind(min=least, max=most)

    async def similarity_search(self, *_: Any, **__: Any) -> base.SearchResponses:
        raise UnprocessableEntityError("this Argilla has no search by vectors")


async def _counts(query, by) -> dict[str, int]:
    async with AsyncSessionLocal() as db:
        return {str(status): count for status, count in (await db.execute(query.group_by(by))).all()}


async def _has_words(dataset, query):
    """All words of the query are in the field that it names, or each in some field that holds text."""
    text, name = (query, None) if isinstance(query, str) else (query.q, query.field)
    fields = [name] if name else [f.name for f in await dataset.awaitable_attrs.fields if not f.is_image]
    parts = [func.lower(cast(func.json_extract(Record.fields, _path(f)), String)) for f in fields]
    # A chat comes as JSON, with what is not ASCII escaped; a text as it is.
    return and_(
        *(
            or_(*(func.instr(part, spelt) > 0 for part in parts for spelt in {word, json.dumps(word)[1:-1]}))
            for word in re.findall(r"\w+", text.lower())
        )
    )


def _condition(filter):
    """A filter as a condition on Record."""
    if isinstance(filter, base.AndFilter):
        return and_(*map(_condition, filter.filters))
    scope = filter.scope
    if isinstance(scope, base.RecordFilterScope):
        return _test(filter, getattr(Record, str(scope.property)))
    if isinstance(scope, base.MetadataFilterScope):
        return _any_entry(filter, Record.metadata_, scope.metadata_property)
    if isinstance(scope, base.SuggestionFilterScope):
        own = (Suggestion.record_id == Record.id, Question.name == scope.question)
        is_list = scope.property in ("value", "score")
        test = (
            _any_entry(filter, getattr(Suggestion, scope.property))
            if is_list
            else _test(filter, getattr(Suggestion, scope.property))
        )
        return exists().where(*own, Suggestion.question_id == Question.id, test)
    own = [Response.record_id == Record.id, *([Response.user_id == scope.user.id] if scope.user else [])]
    if scope.question:
        return exists().where(*own, _any_entry(filter, Response.values, scope.question, "value"))
    wanted = {str(v) for v in filter.values}
    answered = exists().where(*own, Response.status.in_([ResponseStatus(v) for v in wanted - {"pending"}]))
    return or_(answered, not_(exists().where(*own))) if "pending" in wanted else answered


def _test(filter, value, is_text: bool = False):
    if isinstance(filter, base.TermsFilter):
        return (cast(value, String) if is_text else value).in_([str(v) for v in filter.values])
    bounds = [value >= filter.ge] if filter.ge is not None else []
    return and_(True, *bounds, *([value <= filter.le] if filter.le is not None else []))


def _any_entry(filter, column, *path: str):
    """Whether what stands at this path of a JSON column, or an entry of it where it is a list, passes."""
    entry = _entries(column, *path)
    return exists(select(1).select_from(entry).where(_test(filter, entry.c.value, is_text=True)))


def _entries(column, *path: str):
    return func.json_each(column, _path(*path)).table_valued("value", joins_implicitly=True)


def _sorted_by(scope):
    if isinstance(scope, base.RecordFilterScope):
        return getattr(Record, str(scope.property))
    if isinstance(scope, base.MetadataFilterScope):
        return func.json_extract(Record.metadata_, _path(scope.metadata_property))
    if isinstance(scope, base.SuggestionFilterScope):
        own = (Suggestion.record_id == Record.id, Question.name == scope.question)
        found = (
            select(getattr(Suggestion, scope.property))
            .join(Question, Suggestion.question_id == Question.id)
            .where(*own)
        )
        return found.limit(1).scalar_subquery()
    own = [Response.record_id == Record.id, *([Response.user_id == scope.user.id] if scope.user else [])]
    value = func.json_extract(Response.values, _path(scope.question, "value")) if scope.question else Response.status
    return select(value).where(*own).limit(1).scalar_subquery()


def _path(*keys: str) -> str:
    return "$" + "".join(f'."{key}"' for key in keys)
