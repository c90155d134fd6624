"""The inbox on MongoDB: one document for each key, each verb one atomic update, retention by a TTL index, the server's time."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, PyMongoError

from pillarbox.errors import Unavailable
from pillarbox.inbox.model import (
    BUSY,
    LEASE_LOST,
    MARKED,
    MISMATCH,
    RELEASED,
    UNKNOWN,
    Begun,
    LeaseAnswer,
    Sighting,
    check_retention,
    differ,
    digest_of,
    result_text,
    result_value,
)

Document = Mapping[str, Any]


class MongoInbox:
    """An `InboxStore` in a collection, whose client is its owner's to close; `prepare` makes the TTL index.

    Give the collection a majority write concern: what one node alone has taken can be lost in a failover.
    """

    def __init__(
        self, collection: AsyncCollection[dict[str, Any]], *, retention: timedelta = timedelta(days=7)
    ) -> None:
        self._collection = collection
        self._retention = int(check_retention(retention).total_seconds() * 1000)

    async def prepare(self) -> None:
        """Make the index that forgets keys; making it again changes nothing."""
        try:
            await self._collection.create_index("forget_at", expireAfterSeconds=0)
        except PyMongoError as error:
            raise _away(error) from error

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        name = lease_id or uuid.uuid4().hex
        found = await self._update(
            {"_id": digest_of(key)},
            _begin(key, name, int(lease * 1000), owner, fingerprint, self._retention),
            upsert=True,
        )
        assert found is not None, "an upsert answers with the document it left"
        if found["status"] != "free" and differ(found["fingerprint"], fingerprint):
            return MISMATCH
        if found["status"] == "leased" and found["lease_id"] == name:
            return Begun("Acquired", name, _instant(found["lease_until"]))
        return Begun("Processed", result=result_value(found.get("result"))) if found["status"] == "processed" else BUSY

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        found = await self._update(
            {"_id": digest_of(key), "lease_id": lease_id, "status": "leased"},
            {"lease_until": _later(int(lease * 1000)), "last_seen": "$$NOW", "forget_at": _later(self._retention)},
        )
        return LEASE_LOST if found is None else LeaseAnswer("Extended", _instant(found["lease_until"]))

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        first = {"$eq": ["$status", "leased"]}
        found = await self._update(
            {"_id": digest_of(key), "lease_id": lease_id, "status": {"$ne": "free"}},
            {
                "status": "processed",
                "lease_until": None,
                "result": _either(first, {"$literal": result_text(result)}, "$result"),
                "forget_at": _either(first, _later(self._retention), "$forget_at"),
            },
        )
        return LEASE_LOST if found is None else MARKED

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        found = await self._update(
            {"_id": digest_of(key), "lease_id": lease_id, "status": {"$ne": "processed"}},
            {"status": "free", "lease_until": None},
        )
        return LEASE_LOST if found is None else RELEASED

    async def look(self, key: str) -> Sighting:
        steps = [{"$match": {"_id": digest_of(key)}}, {"$set": {"now": "$$NOW"}}]
        try:
            found = await (await self._collection.aggregate(steps)).to_list(1)
        except PyMongoError as error:
            raise _away(error) from error
        if not found:
            return UNKNOWN
        (row,) = found
        seen = (row["attempts"], _instant(row["first_seen"]), _instant(row["last_seen"]))
        if row["status"] == "leased" and row["lease_until"] > row["now"]:
            return Sighting("Leased", *seen, _instant(row["lease_until"]))
        return Sighting("Processed" if row["status"] == "processed" else "Free", *seen)

    async def close(self) -> None:
        """The client is its owner's to close."""

    async def _update(self, match: Document, change: Document, *, upsert: bool = False) -> dict[str, Any] | None:
        try:
            try:
                return await self._apply(match, change, upsert)
            except DuplicateKeyError:
                # Two callers inserted the same new key at once; the second one finds it there.
                return await self._apply(match, change, upsert)
        except PyMongoError as error:
            raise _away(error) from error

    async def _apply(self, match: Document, change: Document, upsert: bool) -> dict[str, Any] | None:
        return await self._collection.find_one_and_update(
            match, [{"$set": change}], upsert=upsert, return_document=ReturnDocument.AFTER
        )


def _begin(
    key: str, name: str, lease: int, owner: str | None, fingerprint: str | None, retention: int
) -> dict[str, Any]:
    """Every field is computed from the document as it was before: all of them stand in one stage."""
    lease_id, given = {"$literal": name}, {"$literal": fingerprint}
    status = {"$ifNull": ["$status", "free"]}
    known = {"$ifNull": ["$fingerprint", None]}
    free = {"$eq": [status, "free"]}
    differs = {"$and": [{"$ne": [known, None]}, {"$ne": [given, None]}, {"$ne": [known, given]}]}
    over = {"$and": [{"$eq": [status, "leased"]}, {"$lte": ["$lease_until", "$$NOW"]}, {"$not": [differs]}]}
    taken = {"$or": [{"$and": [free, {"$ne": ["$lease_id", lease_id]}]}, over]}
    return {
        "key": {"$literal": key},
        "status": _either(taken, "leased", status),
        "lease_id": _either(taken, lease_id, "$lease_id"),
        "owner": _either(taken, {"$literal": owner}, "$owner"),
        "lease_until": _either(taken, _later(lease), "$lease_until"),
        "fingerprint": _either(taken, _either(free, given, {"$ifNull": [given, known]}), known),
        "attempts": {"$add": [{"$ifNull": ["$attempts", 0]}, _either(taken, 1, 0)]},
        "first_seen": {"$ifNull": ["$first_seen", "$$NOW"]},
        "last_seen": "$$NOW",
        "forget_at": _either({"$eq": [status, "processed"]}, "$forget_at", _later(retention)),
    }


def _either(condition: Any, then: Any, otherwise: Any) -> dict[str, Any]:
    return {"$cond": [condition, then, otherwise]}


def _later(milliseconds: int) -> dict[str, Any]:
    return {"$add": ["$$NOW", milliseconds]}


def _instant(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _away(error: PyMongoError) -> Unavailable:
    return Unavailable(f"MongoDB cannot be asked ({type(error).__name__}); check that it runs and has a primary.")
