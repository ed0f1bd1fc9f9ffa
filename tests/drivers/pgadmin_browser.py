"""pgAdmin 4 in desktop mode, and a hand that clicks in it: headless Chromium by WebDriver."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import ElementNotInteractableException, StaleElementReferenceException
from selenium.common.exceptions import WebDriverException as Trouble
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from fix_cluster import ROOT, free_port

PATIENCE = 120.0  # seconds; two cores are shared by browser, pgAdmin, proxy and servers
NODE = ".file-entry .file-name"  # a line of the object explorer
# Tall: the tree renders only what can be seen.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,2200")


POST = """
const [path, body, done] = arguments;
const headers = {"Content-Type": "application/json", "X-pgA-CSRFToken": pgAdmin.csrf_token};
fetch(path, {method: "POST", headers, body}).then(reply => reply.text().then(text => done([reply.status, text])));
"""


@dataclass
class Server:
    """A pgAdmin of its own folder. log: what it wrote to stderr, the errors of its statements among it."""

    folder: Path
    port: int

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def refusals(self) -> set[str]:
        """The errors that PostgreSQL gave to pgAdmin's own statements and to those typed into it."""
        marker = "Error Message:"
        return {line.partition(marker)[2].strip() for line in self.log.splitlines() if marker in line}


def _configuration(folder: Path, port: int) -> str:
    settings: dict[str, Any] = {
        "SERVER_MODE": False,
        "DATA_DIR": str(folder / "data"),
        "DEFAULT_SERVER": "127.0.0.1",
        "DEFAULT_SERVER_PORT": port,
        "MASTER_PASSWORD_REQUIRED": False,
        "USE_OS_SECRET_STORAGE": False,
        "UPGRADE_CHECK_ENABLED": False,  # would ask the network
        "AUTO_DISCOVER_SERVERS": False,
        "LLM_ENABLED": False,
    }
    return "".join(f"{name} = {value!r}\n" for name, value in settings.items())


@contextmanager
def pgadmin_at_work(folder: Path) -> Iterator[Server]:
    """pgAdmin, started; stopped at the end."""
    python = ROOT / ".venv-drivers/pgadmin/bin/python"
    (program,) = (ROOT / ".venv-drivers/pgadmin/lib").glob("python3*/site-packages/pgadmin4/pgAdmin4.py")
    server = Server(folder, free_port())
    configuration = folder / "config.py"
    configuration.write_text(_configuration(folder, server.port))
    environment = {**os.environ, "HOME": str(folder), "CONFIG_DISTRO_FILE_PATH": str(configuration)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), str(program)], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait(lambda: process.poll() is not None or _answers(server.port), 2 * PATIENCE)
        assert process.poll() is None, server.log
        yield server
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/misc/ping", timeout=PATIENCE) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def wait(found: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `found` gives as soon as it is true; elements may come, go and move meanwhile."""
    end = time.monotonic() + seconds
    while True:
        try:
            if result := found():
                return result
        except (StaleElementReferenceException, ElementNotInteractableException):
            pass
        except Trouble as trouble:
            if "click intercepted" not in str(trouble):
                raise
        if time.monotonic() > end:
            raise TimeoutError(f"not in {seconds} s")
        time.sleep(0.05)


def _clicked(elements: list[WebElement]) -> bool:
    for element in elements[:1]:
        element.click()
    return bool(elements)


class Browser:
    """One window. Everything waits until it can be done."""

    def __init__(self, port: int) -> None:
        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.binary_location = "/usr/bin/chromium"
        service = Service("/usr/bin/chromedriver", log_output=subprocess.DEVNULL)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.get(f"http://127.0.0.1:{port}/browser/")

    def close(self) -> None:
        self.driver.quit()

    def shown(self, css: str, text: str | None = None) -> list[WebElement]:
        """Visible elements, with that text if one is given."""
        found = [e for e in self.driver.find_elements(By.CSS_SELECTOR, css) if e.is_displayed()]
        return [e for e in found if text is None or e.text.strip() == text]

    def one(self, css: str, text: str | None = None) -> WebElement:
        try:
            return wait(lambda: self.shown(css, text))[0]  # type: ignore[no-any-return]
        except TimeoutError:
            raise TimeoutError(f"no {css} {text or ''} in: {self.text[-2000:]}") from None

    def press(self, css: str, text: str | None = None) -> None:
        self.one(css, text)
        wait(lambda: _clicked(self.shown(css, text)))

    def fill(self, name: str, value: str) -> None:
        field = self.one(f"input[name={name}]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(value)
        wait(lambda: field.get_attribute("value") == value)

    def tree(self) -> list[str]:
        return wait(lambda: [e.text.strip() for e in self.shown(NODE)])  # type: ignore[no-any-return]

    def expand(self, node: str, until: str) -> None:
        """Open a node, unless its child `until` can be seen."""
        if until not in self.tree():
            ActionChains(self.driver).double_click(self.one(NODE, node)).perform()
            self.one(NODE, until)

    def register(self, name: str, *, port: int, user: str, password: str, dbname: str) -> None:
        """Add a server by the dialog: pgAdmin connects to it at once."""
        self.press("button, a, div", "Add New Server")
        self.fill("name", name)
        self.press("button[data-test=Connection]")
        facts = {"host": "127.0.0.1", "port": str(port), "db": dbname, "username": user, "password": password}
        for field, value in facts.items():
            self.fill(field, value)
        self.press("button[data-test=Save]:enabled")
        self.one(NODE, name)

    def register_over_tls(self, name: str, facts: dict[str, Any], **tls: str) -> tuple[int, str]:
        """What pgAdmin's own endpoint says to a server of these TLS parameters: its dialog has a grid for them."""
        parameters = [{"name": key, "value": value} for key, value in tls.items()]
        wanted = {"gid": 1, "name": name, **facts, "connect_now": True, "connection_params": parameters}
        return tuple(self.driver.execute_async_script(POST, "/browser/server/obj/1/", json.dumps(wanted)))

    def tab(self, name: str) -> None:
        self.press("[role=tab]", name)

    def menu(self, name: str, item: str) -> None:
        self.press("button", name)
        wait(lambda: _clicked([e for e in self.shown("[role=menuitem]") if e.text.startswith(item)]))

    def open_query_tool(self) -> None:
        """Further commands go to the query tool's frame."""
        self.menu("Tools", "Query Tool")
        self.driver.switch_to.frame(self.one("iframe"))
        self.one(".cm-content")

    def leave_frame(self) -> None:
        self.driver.switch_to.default_content()

    def ask(self, sql: str) -> None:
        """Type a statement over the last one and run it."""
        self.press(".cm-content")
        keys = ActionChains(self.driver)
        keys.key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys(sql).perform()
        wait(lambda: self.one(".cm-content").text.strip() == sql)
        self.press("button[data-label='Execute script'], button[aria-label='Execute script']")

    def cells(self) -> list[str]:
        """The data grid, without its row numbers: headers (name and type) first."""
        return [e.text for e in self.shown(".rdg-cell") if "rdg-cell-frozen" not in (e.get_attribute("class") or "")]

    @property
    def text(self) -> str:
        return str(self.driver.find_element(By.TAG_NAME, "body").text)
