"""The schema: migrations make what the code expects, and its constraints hold when code is wrong."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundReason, RefundStatus
from mailagent.store import audit, migration, schema
from mailagent.store.database import Database
from mailagent.store.mail import conversations, inbound
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.store.refunds import approvals, order_import, orders, refund_payments, refunds
from mailagent.store.refunds.approvals import RecordedDecision
from mailagent.store.schema import metadata
from tests.cast import ADA, MONA, NOW, order
from tests.store.parsed import parsed_mail

ROOT = Path(__file__).resolve().parent.parent.parent

ONLY_ON_POSTGRESQL = (
    "ix_inbound_mails_words",
    "ix_conversations_words",
    "ix_conversations_address",
    "ix_conversations_domain",
)


def _is_compared(name: str | None, kind: str, _parents: object) -> bool:
    # An index of an expression comes back from PostgreSQL in other words than it was made with.
    return name in metadata.tables if kind == "table" else name not in ONLY_ON_POSTGRESQL


def test_models_equal_migrations(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"include_name": _is_compared},
        )
        assert compare_metadata(context, metadata) == []


def test_there_is_one_head_and_the_code_knows_it() -> None:
    scripts = ScriptDirectory.from_config(Config(toml_file=str(ROOT / "pyproject.toml")))
    assert scripts.get_heads() == [migration.HEAD]


def test_an_empty_database_is_named_as_such(tmp_path: Path) -> None:
    from mailagent.store.database import open_database

    with pytest.raises(SchemaProblem, match="alembic upgrade head"):
        check_schema(open_database(f"sqlite:///{tmp_path}/empty.db"))


def dbos_table(connection: sa.Connection) -> str:
    prefix = "" if connection.dialect.name == "sqlite" else "dbos."
    return f"{prefix}dbos_migrations"


def test_the_code_knows_dbos_newest_migration(database: Database) -> None:
    with database.snapshot() as connection:
        version = connection.scalar(sa.text(f"SELECT version FROM {dbos_table(connection)}"))
        assert version == migration.DBOS_HEAD[connection.dialect.name]
    check_schema(database)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE alembic_version SET version_num = '0001'", "at migration 0001, this code needs"),
        ("UPDATE alembic_version SET version_num = 'e6e1f2c3'", "of another program: check DATABASE_"),
        ("DELETE FROM alembic_version", "is empty: run `alembic upgrade head`"),
        ("UPDATE {dbos} SET version = version - 1", "in DBOS's tables, is at migration 122, this code"),
        ("DROP TABLE {dbos}", "in DBOS's tables, is at migration 0, this code needs"),
    ],
)  # fmt: skip
def test_a_database_that_is_half_migrated_or_of_another_program_is_named(
    database: Database, change: str, told: str
) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text(change.format(dbos=dbos_table(connection))))
    with pytest.raises(SchemaProblem, match=told):
        check_schema(database)


@pytest.fixture
def kettle(database: Database) -> Database:
    """A database with the kettle's order and Ada's mail about it."""
    with database.transaction() as connection:
        order_import.save(connection, order(), NOW)
        thread = conversations.open_new(connection, ADA, "Kettle", NOW).conversation_id
        inbound.record(connection, parsed_mail(), thread, None, NOW)
    return database


def _refund(
    connection: sa.Connection,
    amount_minor: int,
    refund_id: str = "refund_1",
    status: RefundStatus = RefundStatus.APPROVED,
) -> Refund:
    mail = connection.execute(sa.select(schema.inbound_mails)).one()
    refund = Refund(
        refund_id=refund_id,
        order_id="W1001",
        conversation_id=mail.conversation_id,
        mail_id=mail.mail_id,
        amount=Money(amount_minor, "USD"),
        lines=(RefundLine(1, 1, Money(amount_minor, "USD")),),
        item_ids=("K1",),
        reason=RefundReason.DAMAGED,
        status=status,
        requested_at=NOW,
    )
    refunds.record(connection, refund, f"key-{refund_id}", {})
    return refund


def test_refunds_of_an_order_never_go_above_what_was_paid(kettle: Database) -> None:
    with kettle.transaction() as connection:
        _refund(connection, 30_00)
    with pytest.raises(sa.exc.IntegrityError), kettle.transaction() as connection:
        _refund(connection, 20_00, "refund_2")
    with kettle.transaction() as connection:
        _refund(connection, 19_99, "refund_3")
        assert orders.held_minor(connection, "W1001") == 49_99


def test_a_refund_that_ends_unpaid_gives_its_amount_back(kettle: Database) -> None:
    with kettle.transaction() as connection:
        waits = RefundStatus.AWAITING_APPROVAL
        refund = _refund(connection, 49_99, status=waits)
        refunds.move(connection, refund, RefundStatus.EXPIRED)
        assert orders.held_minor(connection, "W1001") == 0


def _pay(connection: sa.Connection, key: str, minor: int, state: str) -> None:
    """Record an intent of refund_1 and what became of it."""
    amount = Money(minor, "USD")
    refund_payments.intend_payment(connection, key, "refund_1", f"payment {key}", amount, NOW)
    if state != "asked":
        reference = "reference" if state == "done" else None
        refund_payments.record_payment(connection, key, state, reference=reference)


def _failed_refund(connection: sa.Connection, *payments: tuple[int, str]) -> None:
    """Record a refund of a kettle that has failed, with so much paid, refused or never settled."""
    refund = _refund(connection, 49_99)
    for number, (minor, state) in enumerate(payments):
        _pay(connection, f"key {number}", minor, state)
    refunds.move(connection, refund, RefundStatus.FAILED)


@pytest.mark.parametrize(
    ("payments", "held"),
    [
        ([], 0),
        ([(49_99, "refused")], 0),
        ([(49_99, "asked")], 0),
        ([(20_00, "done"), (29_99, "refused")], 20_00),
        ([(20_00, "refused"), (29_98, "done"), (1, "done")], 29_99),
    ],
)
def test_a_refund_that_failed_holds_what_was_paid_of_it(
    kettle: Database, payments: list[tuple[int, str]], held: int
) -> None:
    with kettle.transaction() as connection:
        _failed_refund(connection, *payments)
        assert orders.held_minor(connection, "W1001") == held
        loaded = refunds.load(connection, "refund_1")
        assert loaded.part_paid == (Money(held, "USD") if held else None)
        assert loaded.held.minor == held


def test_any_number_of_refunds_is_listed_with_what_was_paid_of_them(kettle: Database) -> None:
    """PostgreSQL takes 65,535 parameters in a statement."""
    numbers: list[int] = []
    with kettle.transaction() as connection:
        for number in range(1, 1_003):
            _refund(connection, 1, f"refund_{number}")
        _pay(connection, "key", 1, "done")
    with kettle.snapshot() as connection:
        sa.event.listen(
            connection, "before_cursor_execute", lambda *told: numbers.append(len(told[3]))
        )
        listed = refunds.list_all(connection)
    assert len(listed) == 1_002
    assert [each.refund_id for each in listed if each.part_paid] == ["refund_1"]
    assert max(numbers) < 600


def test_what_was_paid_of_a_failed_refund_cannot_be_given_again(kettle: Database) -> None:
    with kettle.transaction() as connection:
        _failed_refund(connection, (20_00, "done"), (29_99, "refused"))
    with pytest.raises(sa.exc.IntegrityError), kettle.transaction() as connection:
        _refund(connection, 30_00, "refund_2")
    with kettle.transaction() as connection:
        _refund(connection, 29_99, "refund_3")
        assert orders.held_minor(connection, "W1001") == 49_99


def test_a_payment_of_a_failed_refund_counts_whenever_it_comes_and_goes(
    kettle: Database,
) -> None:
    held = []
    with kettle.transaction() as connection:
        _failed_refund(connection, (20_00, "done"), (29_99, "refused"))
        refund_payments.record_payment(connection, "key 1", "done", reference="late")
        held.append(orders.held_minor(connection, "W1001"))
        connection.execute(
            sa.text("UPDATE refund_payments SET amount_minor = 5 WHERE reference = 'late'")
        )
        held.append(orders.held_minor(connection, "W1001"))
        connection.execute(sa.text("DELETE FROM refund_payments WHERE reference = 'late'"))
        held.append(orders.held_minor(connection, "W1001"))
        _pay(connection, "key 2", 1_00, "done")
        held.append(orders.held_minor(connection, "W1001"))
    assert held == [49_99, 20_05, 20_00, 21_00]


def test_payments_of_a_refund_that_is_not_over_count_once(kettle: Database) -> None:
    with kettle.transaction() as connection:
        refund = _refund(connection, 49_99)
        _pay(connection, "key", 49_99, "done")
        assert orders.held_minor(connection, "W1001") == 49_99
        refunds.move(
            connection, refund, RefundStatus.PAID, gateway_reference="reference", paid_at=NOW
        )
        assert orders.held_minor(connection, "W1001") == 49_99


@pytest.mark.parametrize(
    ("first", "then", "stands"),
    [
        ("asked", "done", "done"),
        ("asked", "refused", "refused"),
        ("done", "refused", "done"),
        ("done", "asked", "done"),
        ("refused", "asked", "refused"),
        ("refused", "done", "done"),
    ],
)
def test_that_money_was_given_back_is_never_unlearned(
    kettle: Database, first: str, then: str, stands: str
) -> None:
    with kettle.transaction() as connection:
        _refund(connection, 49_99)
        _pay(connection, "key", 49_99, first)
        reference = {"reference": "later"} if then == "done" else {"problem": "later"}
        refund_payments.record_payment(connection, "key", then, **reference)
        (row,) = refund_payments.list_payments(connection, "refund_1")
        assert row.state == stands


@pytest.mark.parametrize(
    ("reference", "paid_at", "is_taken"),
    [(None, None, False), ("entry_1", None, False), (None, NOW, False), ("entry_1", NOW, True)],
    ids=["neither", "no date", "no reference", "both"],
)
def test_paid_needs_the_gateways_reference_and_a_date(
    kettle: Database, reference: str | None, paid_at: datetime | None, is_taken: bool
) -> None:
    with kettle.transaction() as connection:
        _refund(connection, 1000, "r1", status=RefundStatus.APPROVED)
    paid = schema.refunds.update().values(
        status="paid", gateway_reference=reference, paid_at=paid_at
    )
    with kettle.engine.connect() as connection:
        if is_taken:
            connection.execute(paid)
            return
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(paid)


def test_a_raised_amount_is_refused_by_the_database(kettle: Database) -> None:
    with kettle.transaction() as connection:
        _refund(connection, 30_00)
    with pytest.raises(sa.exc.IntegrityError), kettle.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET amount_minor = 5000"))


def test_an_approval_has_one_decision(kettle: Database) -> None:
    with kettle.transaction() as connection:
        waits = RefundStatus.AWAITING_APPROVAL
        _refund(connection, 49_99, status=waits)
        approval = approvals.request(connection, "refund_1", NOW, NOW)
        first = RecordedDecision(approval.approval_id, "approve", MONA, NOW)
        second = RecordedDecision(approval.approval_id, "reject", "max@shop.example", NOW)
        assert approvals.record_decision(connection, first)
        assert not approvals.record_decision(connection, second)
        standing = approvals.find_standing(connection, approval.approval_id)
    assert standing is not None
    assert standing.first == first


@pytest.mark.parametrize("table", ["audit", "decisions", "ledger_entries"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = '2'", "DELETE FROM {}"])
def test_what_is_on_record_stays(kettle: Database, table: str, statement: str) -> None:
    column = {"audit": "actor", "decisions": "note", "ledger_entries": "order_id"}[table]
    with kettle.transaction() as connection:
        _put_something_on_record(connection)
    with (
        pytest.raises(sa.exc.DBAPIError, match="append-only"),
        kettle.transaction() as connection,
    ):
        connection.execute(sa.text(statement.format(table, column)))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decisions SET note = NULL, decided_by = 'max@shop.example'",
        "UPDATE decisions SET note = NULL, amount_minor = 1",
        "UPDATE audit SET details = '{}'",
        """UPDATE audit SET details = '{"amount":"2.00 USD"}'""",
        """UPDATE audit SET details = '{"amount":"1.00 USD"}', actor = 'nobody'""",
        """UPDATE audit SET details = '{"amount":"1.00 USD","note":"other words"}'""",
    ],
)
def test_words_may_be_taken_off_the_record_and_nothing_be_put_there(
    kettle: Database, statement: str
) -> None:
    with kettle.transaction() as connection:
        _put_something_on_record(connection)
    with (
        pytest.raises(sa.exc.DBAPIError, match="append-only"),
        kettle.transaction() as connection,
    ):
        connection.exec_driver_sql(statement)
    with kettle.transaction() as connection:
        connection.exec_driver_sql("UPDATE decisions SET note = NULL")
        connection.exec_driver_sql("""UPDATE audit SET details = '{"amount":"1.00 USD"}'""")


def _put_something_on_record(connection: sa.Connection) -> None:
    words = {"amount": "1.00 USD", "note": "Sorry, Ada", "why": "550 ada@example.com"}
    audit.record(connection, NOW, MONA, "dismissed", "refund_1", words)
    _refund(connection, 1_00, status=RefundStatus.AWAITING_APPROVAL)
    approval = approvals.request(connection, "refund_1", NOW, NOW)
    approvals.record_decision(
        connection, RecordedDecision(approval.approval_id, "approve", MONA, NOW)
    )
    connection.execute(
        sa.text(
            "INSERT INTO ledger_entries (idempotency_key, reference, refund_id, order_id, payment_id,"
            " amount_minor, currency, recorded_at) VALUES ('k', 'l', 'r', 'o', 'p', 1, 'USD', :now)"
        ),
        {"now": NOW.replace(tzinfo=None)},
    )
