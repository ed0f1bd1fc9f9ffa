"""Every setting is documented, with its default; the example file is the defaults; reload is told as it is."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon_proxy.config import Config, ConfigError, Listen, Metrics, Private, checked, from_document, load
from pg_epsilon_proxy.lifecycle import adopted, reloadable
from pg_epsilon_proxy.metrics import KINDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "packaging" / "proxy.toml"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()

SETTINGS = {
    f"{section.name}.{key.name}": getattr(getattr(Config(), section.name), key.name)
    for section in fields(Config)
    for key in fields(getattr(Config(), section.name))
}


def documented() -> dict[str, tuple[str, bool]]:
    """Setting → (default as shown, reload) of the table in docs/operations.md; several settings may share a row."""
    found = {}
    for line in OPERATIONS.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`([a-z]+\.[a-z_]+)`", cells[0]) if line.startswith("| `") else []
        if names and len(cells) == 4 and names[0].partition(".")[0] in {item.name for item in fields(Config)}:
            defaults = [part.strip().strip("`") for part in cells[1].split(",")]
            defaults += [""] * (len(names) - len(defaults))
            found.update({name: (shown, cells[2] == "reload") for name, shown in zip(names, defaults, strict=True)})
    return found


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_every_setting_is_in_the_table_with_its_default() -> None:
    assert {name: default for name, (default, _) in documented().items()} == {
        name: shown(value) for name, value in SETTINGS.items()
    }


def test_what_reloads_is_told_as_it_is() -> None:
    told = {name for name, (_, reload) in documented().items() if reload}
    assert told == {name for name in SETTINGS if reloadable(*name.split("."))}


def test_the_example_file_holds_every_setting_and_changes_none() -> None:
    held = {f"{section}.{key}" for section, table in tomllib.loads(EXAMPLE.read_text()).items() for key in table}
    assert held == set(SETTINGS)
    assert load(str(EXAMPLE), {}) == Config()


def test_every_setting_can_come_from_the_environment() -> None:
    environment = {}
    for name, value in SETTINGS.items():
        variable = f"PG_EPSILON_{name.replace('.', '_')}".upper()
        environment[variable] = shown(value) or ("a,b" if isinstance(value, tuple) else "")
    assert load(None, environment) == replace(Config(), facade=replace(Config().facade, names=("a", "b")))


def test_every_metric_is_documented() -> None:
    shortened = OPERATIONS.replace("`_left`", "`pg_epsilon_budget_epsilon_left`")
    shortened = shortened.replace("`_used_ratio`", "`pg_epsilon_budget_used_ratio`")
    assert set(re.findall(r"`(pg_epsilon_[a-z_]+)`", shortened)) - {"pg_epsilon_proxy"} == set(KINDS)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(metrics=Metrics(host="0.0.0.0", port=9187)), "metrics.host must be a loopback address"),  # noqa: S104
        (Config(metrics=Metrics(host="10.0.0.1", port=9187)), "metrics.host must be a loopback address"),
        (Config(metrics=Metrics(host="localhost", port=9187)), "metrics.host must be a loopback address"),
        (Config(listen=Listen(tls_required=True)), "listen.tls_required needs"),
        (Config(listen=Listen(tls_cert="x")), "belong together"),
        (Config(listen=Listen(host="", unix_socket="")), "where clients connect"),
        (Config(listen=Listen(port=70000)), "listen.port must be between"),
        (Config(private=Private(pool_size=0)), "private.pool_size must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(config: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(config)


@pytest.mark.parametrize("metrics", [Metrics("127.0.0.2", 9187), Metrics("::1", 1), Metrics("10.0.0.1", 9187, True)])
def test_a_metrics_address_that_is_allowed(metrics: Metrics) -> None:
    assert checked(Config(metrics=metrics)).metrics == metrics


def test_settings_survive_their_journey_to_a_worker() -> None:
    config = load(
        None, {"PG_EPSILON_FACADE_NAMES": "a,b", "PG_EPSILON_PRIVATE_PASSWORD": "p", "PG_EPSILON_LOG_LEVEL": "debug"}
    )
    assert from_document(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_a_reload_takes_over_what_it_may() -> None:
    old = Config()
    new = replace(
        old,
        listen=replace(old.listen, tls_cert="c", port=1),
        limits=replace(old.limits, max_sessions=3, parser_threads=2),
        log=replace(old.log, level="debug"),
    )
    config, changed, waiting = adopted(old, new)
    assert changed == ["listen.tls_cert", "limits.max_sessions", "log.level"]
    assert waiting == ["listen.port", "limits.parser_threads"]
    assert (config.listen.tls_cert, config.listen.port, config.limits.max_sessions) == ("c", old.listen.port, 3)


def test_the_unit_file_waits_longer_than_a_drain() -> None:
    unit = (ROOT / "packaging" / "pg-epsilon-proxy.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert stop is not None and int(stop[1]) > Config().process.drain_timeout + 10
    assert "Type=notify" in unit and "KillMode=mixed" in unit and "-HUP" in unit
