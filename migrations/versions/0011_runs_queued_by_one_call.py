"""A function that queues a run and says what it is about: one call, where another statement can make it.

Only adds: code from before this does not call it. PostgreSQL only, whose DBOS has a function that queues.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    # By itself, so it must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute(QUEUE_RUN)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION IF EXISTS mailagent_queue_run")


# DBOS's tables and functions are looked for when it is called: they are made after this.
QUEUE_RUN = """
CREATE OR REPLACE FUNCTION mailagent_queue_run(
    the_workflow TEXT, the_queue TEXT, the_subject JSON, the_run TEXT, the_partition TEXT,
    the_application TEXT, the_attributes JSONB
) RETURNS BOOLEAN LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Nothing is touched of a run that is there: when it was changed last says for how long it has been quiet.
    IF EXISTS (SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = the_run) THEN
        RETURN false;
    END IF;
    PERFORM dbos.enqueue_workflow(
        workflow_name => the_workflow, queue_name => the_queue, positional_args => ARRAY[the_subject],
        workflow_id => the_run, queue_partition_key => the_partition, application_name => the_application
    );
    -- Of two that queue the same run at the same moment the first describes it.
    UPDATE dbos.workflow_status SET attributes = the_attributes
    WHERE workflow_uuid = the_run AND attributes IS NULL;
    RETURN true;
END
$$
"""
