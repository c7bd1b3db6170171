"""The Postgres store on a real server: the suite of all stores, its addresses, its schema and its copies."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.ports import CommitFailed, JobQuery, StoreDamaged, StoreError, StoreTooNew, StoreUnavailable, live_job
from headgate.stores.postgres import PostgresStore, restore
from headgate.stores.postgres.address import parse_address
from headgate.stores.postgres.schema import LATEST
from headgate.testing.store_conformance import StoreConformance, Writer, job_row
from tests.stores.postgres_home import ActingChance, PostgresHome

SECRET = "s3cret-Pass"


class TestPostgresStore(StoreConformance):
    """Everything that any store has to do."""

    @pytest.fixture
    def home(self, postgres_home: PostgresHome) -> PostgresHome:
        return postgres_home


# -- addresses ----------------------------------------------------------------------------------------------------


def refusal(url: str) -> str:
    """What opening the store says."""
    with pytest.raises(StoreUnavailable) as caught:
        PostgresStore(url, ActingChance()).open()
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "must begin with postgresql://"),
        ("mysql://u:s3cret-Pass@h/db", "must begin with postgresql://"),
        ("postgresql:/u:s3cret-Pass@h/db", "must begin with postgresql://"),
        ("postgresql://u:s3cret-Pass@h:port/db", "not valid"),
        ("postgresql://u:s3cret-Pass/@h/db", "percent-encoded"),
        ("postgresql://u:s3cret@Pass@h/db", "percent-encoded"),
        ("postgresql://u:pa?s3cret@h/db", "percent-encoded"),
        ("postgresql://u:s3cret-Pass@h:1,2x/db", "not valid"),
        ("postgresql://u:s3cret-Pass:%zz@h/db", "percent-encoded"),
        ("postgresql://[::1/db", "not valid"),
        ("postgresql://h/db?colour=blue", 'invalid URI query parameter: "colour"'),
        ("postgresql://h/db?schema=No%20Good", "schema must be"),
        ("postgresql://h/db?schema=pg_mine", "schema must be"),
        ("postgresql://h/db?schema=", "schema must be"),
    ],
)
def test_a_bad_url_is_refused_in_one_line_without_its_secret(url: str, said: str) -> None:
    line = refusal(url)
    assert said in line
    assert "s3cret" not in line
    assert "\n" not in line


def test_wrong_places_are_refused_in_one_line_without_secrets(postgres_home: PostgresHome) -> None:
    right = postgres_home.server.tcp_url
    port = str(postgres_home.server.port)
    cases = {
        right.replace(port, "1"): "refused",
        right.replace(SECRET, "wr0ng-Pass"): "password authentication failed",
        right.replace("/postgres", "/nowhere").replace("//nowhere", "//postgres"): '"nowhere" does not exist',
        right.replace("127.0.0.1", "no-such-host.invalid"): "no-such-host.invalid",
        f"postgresql://postgres@/postgres?host={postgres_home.folder}&password=s3cret-Pass": "No such file",
    }
    for url, said in cases.items():
        line = refusal(url)
        assert said in line, line
        assert not any(secret in line for secret in (SECRET, "wr0ng-Pass")), line
        assert "\n" not in line


def test_a_role_that_may_not_create_tables_is_told_so(postgres_home: PostgresHome) -> None:
    postgres_home.sql("CREATE ROLE guest LOGIN")
    line = refusal(postgres_home.url.replace("postgres@", "guest@"))
    assert "permission denied" in line


def test_the_name_of_a_store_holds_no_password() -> None:
    address = parse_address("postgres://user:s3cret-Pass@host:5433/db?schema=mine&sslmode=disable")
    assert address.name == "postgresql://user@host:5433/db?schema=mine"
    assert address.options["password"] == SECRET
    assert address.redact("a\n line with s3cret-Pass") == "a line with ***"


def test_a_question_to_a_place_without_tables_says_so(postgres_home: PostgresHome) -> None:
    with pytest.raises(StoreUnavailable, match="holds no Headgate tables"):
        postgres_home.store().counts()


def test_without_psycopg_the_package_imports_and_the_store_names_the_extra() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
import headgate, headgate.stores, headgate.stores.postgres as postgres
from headgate.ports import StoreUnavailable
try:
    postgres.PostgresStore
except StoreUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "headgate[postgres]" in done.stdout
    assert done.stdout.count("\n") == 1


# -- schema -------------------------------------------------------------------------------------------------------


def test_tables_of_a_newer_version_are_refused_and_left_alone(postgres_home: PostgresHome) -> None:
    Writer(postgres_home.store()).store.close()
    postgres_home.sql("INSERT INTO migration (version) VALUES (%s)", LATEST + 1)
    before = postgres_home.sql("SELECT * FROM meta")
    with pytest.raises(StoreTooNew, match=f"version {LATEST + 1}"):
        postgres_home.store().open()
    assert postgres_home.sql("SELECT * FROM meta") == before


@pytest.mark.parametrize("damage", ["DELETE FROM meta", "DELETE FROM migration"])
def test_a_damaged_schema_is_refused_and_never_made_anew(postgres_home: PostgresHome, damage: str) -> None:
    writer = Writer(postgres_home.store())
    writer.commit(jobs=[job_row(1)])
    writer.store.close()
    postgres_home.sql(damage)
    with pytest.raises(StoreDamaged):
        postgres_home.store().open()
    assert postgres_home.sql("SELECT count(*) FROM job") == [(1,)]


def test_two_schemas_of_one_database_do_not_meet(postgres_home: PostgresHome) -> None:
    first = Writer(postgres_home.store())
    second = Writer(postgres_home.store(url=postgres_home.url + "_b"))
    first.commit(jobs=[job_row(1)])
    assert second.store.find_jobs(JobQuery()) == []


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"name": "a\0b"}, {"name": "\ud800"}, {"created_at": 2**63}, {"job_class": 2**31}])
def test_a_value_that_postgres_cannot_hold_fails_the_commit_and_changes_nothing(
    postgres_home: PostgresHome, change: dict[str, object]
) -> None:
    writer = Writer(postgres_home.store())
    writer.commit(jobs=[job_row(1)])
    with pytest.raises(CommitFailed):
        writer.commit(jobs=[job_row(2), job_row(3, **change)])
    again = Writer(postgres_home.store())
    assert [live.seq for live in again.store.live_jobs()] == [1]
    assert again.mark.number == 1


def test_numbers_at_their_limits_come_back(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    job = job_row(2**63 - 1, created_at=-(2**63), job_class=2**31 - 1)
    writer.commit(jobs=[job])
    assert list(writer.store.live_jobs()) == [live_job(job, None, None)]


# -- copies -------------------------------------------------------------------------------------------------------


def test_a_restored_store_is_far_beyond_the_epochs_of_the_original(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    writer.store.backup(postgres_home.backup_target())
    for _ in range(5):
        writer = writer.reopened(postgres_home)
    assert Writer(postgres_home.from_backup(postgres_home.backup_target())).mark.epoch > writer.mark.epoch + 100


def test_a_copy_is_restored_into_an_empty_schema_only(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    writer.store.backup(postgres_home.backup_target())
    with pytest.raises(StoreError, match="holds a store already"):
        restore(postgres_home.backup_target(), postgres_home.url)


def damaged_copies(sound: bytes) -> dict[str, bytes]:
    """Copies that gzip itself would read without complaint, and some that it would not."""
    text = gzip.decompress(sound)
    return {
        "cut short": sound[: len(sound) // 2],
        "a flipped bit": sound[:60] + bytes([sound[60] ^ 1]) + sound[61:],
        "something else": gzip.compress(b"hello\n"),
        "not compressed": text,
        "without its end": gzip.compress(text[: text.rindex(b"end ")]),
        "a row less": gzip.compress(text.replace(b"job-000002", b"job-000003\nx", 1)),
        "another table": gzip.compress(text.replace(b"\njob (", b"\npg_authid (", 1)),
        "empty": b"",
    }


def test_a_damaged_copy_is_refused_before_anything_is_changed(postgres_home: PostgresHome, tmp_path: Path) -> None:
    writer = Writer(postgres_home.store())
    writer.commit(jobs=[job_row(1), job_row(2)])
    writer.store.backup(postgres_home.backup_target())
    url = postgres_home.url + "_restored"
    for name, content in damaged_copies(Path(postgres_home.backup_target()).read_bytes()).items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(StoreDamaged, match=name):
            restore(str(path), url)
    assert postgres_home.sql("SELECT to_regnamespace(%s)", f"{postgres_home.schema}_restored") == [(None,)]
    with pytest.raises(StoreUnavailable, match="No such file"):
        restore(str(tmp_path / "none"), url)


def test_a_copy_of_a_newer_version_is_refused(postgres_home: PostgresHome, tmp_path: Path) -> None:
    writer = Writer(postgres_home.store())
    writer.store.backup(postgres_home.backup_target())
    text = gzip.decompress(Path(postgres_home.backup_target()).read_bytes())
    newer = tmp_path / "newer"
    newer.write_bytes(gzip.compress(text.replace(b"version %d" % LATEST, b"version %d" % (LATEST + 1), 1)))
    with pytest.raises(StoreTooNew):
        restore(str(newer), postgres_home.url + "_restored")


def test_a_copy_that_cannot_be_written_leaves_no_file(postgres_home: PostgresHome, tmp_path: Path) -> None:
    writer = Writer(postgres_home.store())
    with pytest.raises(StoreError, match="No such file"):
        writer.store.backup(str(tmp_path / "no" / "where"))
    target = tmp_path / "half"
    postgres_home.sql("ALTER TABLE journal RENAME TO journal_away")
    with pytest.raises(StoreError, match="failed"):
        writer.store.backup(str(target))
    assert not target.exists()
