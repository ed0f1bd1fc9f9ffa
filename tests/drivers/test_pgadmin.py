"""pgAdmin 4 in headless Chromium: register, browse, ask, be refused.

pgAdmin asks some hundred statements about catalogs. Each works on the facade or is among REFUSED, and the user
interface lives on: a dashboard without curves, a dialog to close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from pgadmin_browser import NODE, Browser, Server, pgadmin_at_work, wait

from fix_drivers import CHANCE, NEAR, DriversStack

pytestmark = [pytest.mark.timeout(900), pytest.mark.chance(CHANCE)]  # the browser starts in the first test's time

COUNTED = "SELECT count(*) FROM samples WHERE whole > 250"
# What pgAdmin asks that the facade closes (facade-and-channel.md §5): other sessions' activity, shared dependencies.
REFUSED = {
    "permission denied for function pg_stat_get_activity",  # dashboard
    "permission denied for table pg_shdepend",  # tabs Dependencies and Dependents
    "permission denied for table pg_db_role_setting",  # SQL of a database
}


@pytest.fixture(scope="module")
def pgadmin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pgadmin_at_work(tmp_path_factory.mktemp("pgadmin")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(pgadmin: Server, drivers_stack: DriversStack) -> Iterator[Browser]:
    """Logged in, the published tables in sight."""
    browser = Browser(pgadmin.port)
    try:
        port = drivers_stack.recorded("pgadmin")
        facts = {"user": drivers_stack.user, "password": drivers_stack.password, "dbname": drivers_stack.dbname}
        browser.register("recorded", port=port, **facts)
        path = ["recorded", "Databases", "facade", "Schemas", "public", "Tables", "samples"]
        for node, child in pairwise(path):
            browser.expand(node, child)
        yield browser
    finally:
        browser.close()


def test_a_published_table_is_found_with_its_columns(browser: Browser) -> None:
    assert {"customers", "items", "orders", "people", "samples"} <= set(browser.tree())
    browser.expand("samples", "Columns")
    browser.expand("Columns", "whole")
    assert {"id", "yes", "small", "whole", "big", "exact", "single", "double", "word", "code"} <= set(browser.tree())


def test_what_pgadmin_tells_of_a_table(browser: Browser) -> None:
    browser.press(NODE, "samples")
    browser.tab("SQL")
    wait(lambda: "CREATE TABLE IF NOT EXISTS public.samples" in browser.text)
    assert "exact numeric(12,3)" in browser.text and "FORCE ROW LEVEL SECURITY" in browser.text
    browser.tab("Properties")
    wait(lambda: "dp_facade" in browser.text)
    browser.tab("Statistics")
    wait(lambda: "Sequential scans" in browser.text)


def test_a_refused_tab_says_so_and_the_rest_lives_on(browser: Browser) -> None:
    browser.tab("Dependencies")
    wait(lambda: "Failed to retrieve data" in browser.text)
    browser.press("[role=dialog] button", "OK")
    browser.tab("SQL")
    wait(lambda: "CREATE TABLE IF NOT EXISTS public.samples" in browser.text)
    browser.press(NODE, "facade")
    wait(lambda: "permission denied for table pg_db_role_setting" in browser.text)
    browser.press("[role=dialog] button", "OK")
    browser.press(NODE, "samples")
    wait(lambda: "CREATE TABLE IF NOT EXISTS public.samples" in browser.text)


def test_the_query_tool_answers_and_refuses(browser: Browser, drivers_stack: DriversStack) -> None:
    browser.open_query_tool()
    try:
        browser.ask(COUNTED)
        header, value = wait(lambda: cells if len(cells := browser.cells()) == 2 else None)
        assert header.split() == ["count", "bigint"]
        assert abs(int(value) - drivers_stack.exact(COUNTED)) <= NEAR
        browser.ask("SELECT * FROM samples")
        wait(lambda: "SQL state: DP002" in browser.text)
        assert "rows of samples are private" in browser.text and "HINT:  Ask for aggregates" in browser.text
        browser.ask("SELECT yes, count(*) FROM samples GROUP BY yes ORDER BY yes")
        grid = wait(lambda: cells if len(cells := browser.cells()) == 6 else None)
        assert grid[0].split() == ["yes", "boolean"] and grid[2::2] == ["false", "true"]
        browser.press("button[aria-label=Explain]")
        wait(lambda: "DP Blocks" in "".join(browser.cells()))
    finally:
        browser.leave_frame()


def test_counting_rows_from_the_menu(browser: Browser, drivers_stack: DriversStack) -> None:
    """pgAdmin sends SELECT COUNT(*), which is a question like any other."""
    browser.press(NODE, "samples")
    browser.menu("Object", "Count Rows")
    found = wait(lambda: re.search(r"rows counted: (-?[\d,]+)", browser.text))
    assert abs(int(found[1].replace(",", "")) - drivers_stack.exact("SELECT count(*) FROM samples")) <= NEAR


def test_every_other_statement_of_pgadmin_worked(browser: Browser, pgadmin: Server) -> None:
    assert browser.tree()
    assert "permission denied for table pg_shdepend" in pgadmin.refusals()
    own = {error for error in pgadmin.refusals() if "rows of samples are private" not in error}
    assert own <= REFUSED


def test_tls_with_the_proxys_certificate_and_with_no_other(browser: Browser, drivers_stack: DriversStack) -> None:
    facts = {"host": "localhost", "port": drivers_stack.port, "db": drivers_stack.dbname}
    facts |= {"username": drivers_stack.user, "password": drivers_stack.password}
    trusted, other = str(drivers_stack.certificate), "/etc/ssl/certs/ca-certificates.crt"
    status, said = browser.register_over_tls("trusted", facts, sslmode="verify-full", sslrootcert=trusted)
    assert status == 200 and '"connected":true' in said.replace(" ", ""), said
    status, said = browser.register_over_tls("other", facts, sslmode="verify-full", sslrootcert=other)
    assert status == 401 and "certificate verify failed" in said
    facts["password"] = "wrong"
    status, said = browser.register_over_tls("wrong", facts, sslmode="require")
    assert status == 401 and "password authentication failed" in said
