"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make all tables."""
    _jobs()
    _events()
    _workers()


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client_id", sa.Text),
        sa.Column("workspace", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("body_digest", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("needs", sa.Text, nullable=False),
        sa.Column("need_bytes", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("position", sa.Float, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("started", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("kills", sa.Integer, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("device", sa.Text),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("run", sa.Text),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.UniqueConstraint("workspace", "client_id", name="jobs_by_client_id"),
    )
    op.create_index("jobs_in_order", "jobs", ["state", "priority", "position"])
    op.create_index("jobs_by_end", "jobs", ["ended"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("sequence", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("job", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("time", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("events_by_job", "events", ["job", "sequence"])


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("heartbeat", sa.Float, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "switches", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
