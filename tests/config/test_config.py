"""Configuration: later sources win, mistakes are named, and what is shown can be read again."""

from pathlib import Path

import msgspec
import pytest

from headgate.config import Config, ConfigError, load_config
from headgate.config.keys import RESERVED, known_keys
from headgate.config.schema import DURATIONS, HIDDEN, SECONDS, SIZES
from headgate.config.showing import as_data, as_yaml
from headgate.core import Settings, State, decide
from headgate.core.commands import SampleLoad
from headgate.core.retention import DAY, Retention
from headgate.core.settings import SIGNALS, Threshold
from headgate.policy.deciding import PolicySettings
from headgate.server.settings import ServerSettings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(here: Path, text: str) -> None:
    (here / "headgate.yaml").write_text(text, encoding="utf-8")


def plain() -> Config:
    """What nobody configured: the token is kept in the directory."""
    server = ServerSettings(token_file=".headgate/token")
    return Config(server=server)


def refusal(**given: object) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config(**given)  # type: ignore[arg-type]
    return str(refused.value)


def test_without_any_source_everything_is_a_default(here: Path) -> None:
    loaded = load_config()
    assert (loaded.config, loaded.origins, loaded.file) == (plain(), {}, None)


def test_later_sources_win_and_each_value_knows_where_it_came_from(here: Path) -> None:
    write(here, "server:\n  port: 1\n  host: a\nworkers:\n  count: 5\ncore: {lease_ttl: 1s, poll: 2s}\n")
    environment = {"HEADGATE_SERVER_PORT": "2", "HEADGATE_CORE_LEASE_TTL": "3s"}
    loaded = load_config({"server.port": ("--port", 4)}, environment, settings=["core.lease_ttl=5s"])
    config = loaded.config
    assert (config.server.port, config.server.host, config.workers.count) == (4, "a", 5)
    assert (config.core.lease_ttl, config.core.poll) == (5_000, 2_000)
    assert loaded.origins == {
        "server.port": "--port",
        "server.host": "headgate.yaml:3",
        "workers.count": "headgate.yaml:5",
        "core.lease_ttl": "--set core.lease_ttl",
        "core.poll": "headgate.yaml:6",
    }


def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_known_one(here: Path) -> None:
    write(here, "server:\n  prot: 9\ncore:\n  lease_tll: 10s\n")
    assert refusal().splitlines() == [
        "headgate.yaml:2:3: unknown key 'prot' in server; did you mean 'port'?",
        "headgate.yaml:4:3: unknown key 'lease_tll' in core; did you mean 'lease_ttl'?",
    ]


def test_a_key_at_the_wrong_place_is_found_where_it_belongs(here: Path) -> None:
    write(here, "lease_ttl: 10s\n")
    assert refusal() == "headgate.yaml:1:1: unknown key 'lease_ttl'; did you mean 'core.lease_ttl'?"


def test_an_unknown_variable_and_an_unknown_setting_are_refused_with_the_nearest() -> None:
    assert "did you mean 'HEADGATE_CORE_LEASE_TTL'?" in refusal(environment={"HEADGATE_CORE_LEAS_TTL": "1s"})
    assert "did you mean 'core.lease_ttl'?" in refusal(settings=["core.leas_ttl=1s"])
    assert refusal(settings=["core"]) == "--set core: must be KEY=VALUE"


def test_variables_of_clients_are_no_keys() -> None:
    assert load_config(environment=dict.fromkeys(RESERVED - {"HEADGATE_CONFIG"}, "x")).origins == {}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("server.port=70000", "must be between 0 and 65535"),
        ("server.port=http", "must be a whole number, got text (given: 'http')"),
        ("workers.count=-1", "must be a whole number >= 0 (given: -1)"),
        ("mode=lan", "must be one of home, lab, platform (given: 'lan')"),
        ("load.rating=banana", "must be one of measured, a number (given: 'banana')"),
        ("workers.resources={memory: lots}", "resources.memory: 'lots' is not a size"),
        ("core.lease_ttl=soon", "'soon' is not a duration; write for example 30, '30s' or '5m'"),
        ("core.lease_ttl=0", "must be greater than zero"),
        ("core.limits.payload=9XB", "'9XB' is not a size; write for example 512MB, 8GB or 2GiB"),
        ("load.rating=11", "must be between 0 and 10"),
        ("core.signals.cpu.low=2", "needs 0 <= low < high <= largest; they are 2, 1 and 10000"),
        ("core.signals.cpu.low=.nan", "must be finite"),
        ("core.signals.cpu.low=hot", "must be a number"),
        ("core.total_units=1.5", "must be a whole number"),
        ("core.total_units=true", "must be a whole number"),
        ("core.preempting_classes=[7]", "names a class that does not exist"),
        ("core.pool_offline=1s", "must not be shorter than pool_degraded"),
        ("core.limits.payload=0", "must be greater than zero"),
        ("core.points=[[1, 2", "not valid YAML"),
        ("server.auth=perhaps", "must be true or false, got text (given: 'perhaps')"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(setting: str, said: str) -> None:
    message = refusal(settings=[setting])
    assert said in message
    assert setting.partition("=")[0].removesuffix(".low") in message


def test_durations_and_sizes_may_carry_a_unit() -> None:
    given = ["core.lease_ttl=2m", "core.poll=1500", "core.limits.payload=2MiB", "core.time_of_day.utc_offset=-2h"]
    core = load_config(settings=given).config.core
    assert (core.lease_ttl, core.poll, core.limits.payload) == (120_000, 1_500, 2 << 20)
    assert core.time_of_day is not None
    assert core.time_of_day.utc_offset == -7_200_000


def test_ages_are_durations_and_may_be_for_ever(here: Path) -> None:
    (here / "headgate.yaml").write_text("core:\n  retention:\n    jobs: 30d\n    load: forever\n    audit: null\n")
    found = load_config({}, {"HEADGATE_CORE_RETENTION_EVENTS": "12h"}, None, ["core.retention.keys=0s"]).config
    assert found.core.retention == Retention(jobs=30 * DAY, keys=0, events=DAY // 2)
    assert load_config({}, {"HEADGATE_CORE_RETENTION_JOBS": "forever"}).config.core.retention.jobs is None
    for wrong, said in (("core.retention.keys=forever", "keys"), ("core.retention.jobs=-1d", "retention.jobs")):
        with pytest.raises(ConfigError, match=said):
            load_config({}, {}, None, [wrong])


def test_seconds_may_carry_a_unit_too() -> None:
    server = load_config(settings=["server.read_timeout=500ms", "server.max_wait=90"]).config.server
    assert (server.read_timeout, server.max_wait) == (0.5, 90.0)


def test_no_authentication_is_refused_off_loopback() -> None:
    said = refusal(settings=["server.auth=false", "server.host=192.0.2.1"])
    assert said == "--set server.auth: serving 192.0.2.1 without authentication is refused"


def test_one_threshold_can_be_moved_and_the_others_stay() -> None:
    core = load_config(settings=["core.signals.cpu.low=0.25"]).config.core
    plain = Settings().signals
    assert core.signals == {**plain, "cpu": msgspec.structs.replace(plain["cpu"], low=0.25)}


def test_lists_and_objects_may_be_given_as_yaml() -> None:
    given = ["core.points=[[0, 1], [8, 0]]", "server.hosts=[a.example, b.example]"]
    config = load_config(settings=given).config
    assert (config.core.points, config.server.hosts) == (((0.0, 1.0), (8.0, 0.0)), ("a.example", "b.example"))


def test_mode_and_rating_reach_the_parts_that_need_them() -> None:
    config = load_config(settings=["mode=lab", "load.rating=2.5"]).config
    assert (config.policy.mode, config.core.fixed_busy) == ("lab", 2.5)


def test_a_file_that_is_named_must_be_there(here: Path) -> None:
    assert refusal(file="other.yaml") == "other.yaml is not a file that can be read"
    assert refusal(environment={"HEADGATE_CONFIG": "third.yaml"}) == "third.yaml is not a file that can be read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server: [1]", "server: must be a mapping of keys"),
        ("- 1", "must be a mapping of keys"),
        ("a: &x 1\nb: *x", "anchors are not allowed"),
        ("mode: home\nmode: lab", "appears twice"),
        ("server: {port: 1", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(here: Path, text: str, said: str) -> None:
    write(here, text)
    message = refusal()
    assert message.startswith("headgate.yaml:")
    assert said in message


def test_an_alias_bomb_is_refused_at_once(here: Path) -> None:
    rows = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    write(here, "\n".join(rows))
    assert "anchors are not allowed" in refusal()


def test_an_empty_file_says_nothing(here: Path) -> None:
    write(here, "# nothing yet\n\n")
    assert load_config().config == plain()


@pytest.mark.parametrize("given", [[], ["core.time_of_day.learn=false", "load.rating=3", "policy.file=p.lua"]])
def test_what_is_shown_can_be_read_again(here: Path, given: list[str]) -> None:
    loaded = load_config(settings=given)
    write(here, as_yaml(loaded))
    assert load_config().config == loaded.config


def test_passwords_in_addresses_are_not_shown() -> None:
    loaded = load_config(settings=["database=postgresql://me:geheim@db/headgate"])
    shown = as_yaml(loaded) + str(as_data(loaded))
    assert "geheim" not in shown
    assert "postgresql://me:***@db/headgate" in shown


def test_every_setting_of_the_core_and_of_the_policies_is_a_key() -> None:
    names = {key.name for key in known_keys().values()}
    wanted = {f"core.{name}" for name in Settings.__struct_fields__}
    wanted |= {f"server.{name}" for name in ServerSettings.__struct_fields__}
    wanted |= {f"policy.{name}" for name in PolicySettings.__struct_fields__}
    missing = {want for want in wanted - HIDDEN if not any(f"{name}.".startswith(f"{want}.") for name in names)}
    assert missing == set()
    assert names >= DURATIONS | SECONDS | SIZES


def test_no_two_keys_share_a_variable() -> None:
    variables = [key.variable for key in known_keys().values()]
    assert len(variables) == len(set(variables))
    assert not RESERVED & set(variables)


# -- thresholds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIGNALS)
def test_the_thresholds_of_each_signal_are_configured_by_file_environment_and_flag(name: str, tmp_path: Path) -> None:
    default = SIGNALS[name]
    low, high = default.low + (default.high - default.low) / 2, default.high
    file = tmp_path / "headgate.yaml"
    file.write_text(f"core:\n  signals:\n    {name}: {{low: {low}}}\n", encoding="utf-8")
    by_file = load_config(file=str(file)).config.core
    by_environment = load_config(environment={f"HEADGATE_CORE_SIGNALS_{name.upper()}_LOW": str(low)}).config.core
    by_flag = load_config(settings=[f"core.signals.{name}.low={low}"]).config.core
    for core in (by_file, by_environment, by_flag):
        assert core.signals == SIGNALS | {name: Threshold(low, high, default.largest)}
    # what was half of the way by default counts as nothing now, and the other signals as before
    state = State(by_file)
    assert decide(state, SampleLoad("host", {name: low}), 0).reply == 0
    assert decide(State(Settings()), SampleLoad("host", {name: low}), 0).reply == pytest.approx(5)
    other = next(signal for signal in SIGNALS if signal != name)
    assert decide(state, SampleLoad("host", {other: SIGNALS[other].high}), 1).reply == 10


def test_a_signal_that_does_not_exist_is_refused_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "headgate.yaml"
    file.write_text("core:\n  signals:\n    memry: {low: 0.5}\n", encoding="utf-8")
    assert "did you mean 'memory'?" in refusal(file=str(file))
    file.write_text("core:\n  signals:\n    memory: {low: 0.99}\n", encoding="utf-8")
    assert refusal(file=str(file)).startswith(f"{file}:3: core.signals.memory: needs 0 <= low < high")


def test_an_empty_flag_is_refused_and_an_empty_variable_means_the_default(here: Path) -> None:
    assert refusal(flags={"database": ("--db", "")}) == "--db: must not be empty; leave it out for the default"
    assert load_config(environment={"HEADGATE_DATABASE": ""}).config.database_url == ".headgate/headgate.db"
    write(here, "database: ''\n")
    assert load_config().config.database_url == ""
