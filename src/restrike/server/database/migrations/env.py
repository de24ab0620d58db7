"""Runs migrations on the connection that `connect.Database.migrate` hands over."""

from alembic import context

from restrike.server.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False
)
context.run_migrations()
