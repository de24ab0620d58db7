"""The tables of a server's database, the same on SQLite and PostgreSQL. Alembic's migrations make them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

# SQLite counts its rows by itself only in a column of this very type.
_SEQUENCE = BigInteger().with_variant(Integer, "sqlite")

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("client_id", Text),
    Column("workspace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("body_digest", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("needs", Text, nullable=False),
    Column("need_bytes", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("position", Float, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("attempt", Integer, nullable=False),
    Column("kills", Integer, nullable=False),
    Column("worker", Text),
    Column("device", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("failure", Text),
    Column("run", Text),
    Column("why", Text, nullable=False),
    Column("record", Text, nullable=False),
    UniqueConstraint("workspace", "client_id", name="jobs_by_client_id"),
    Index("jobs_in_order", "state", "priority", "position"),
    Index("jobs_by_end", "ended"),
)

events = Table(
    "events",
    metadata,
    Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("job", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("time", Float, nullable=False),
    Index("events_by_job", "job", "sequence"),
    sqlite_autoincrement=True,
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("device", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("heartbeat", Float, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("facts", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created", Float, nullable=False),
)

switches = Table(
    "switches", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)
