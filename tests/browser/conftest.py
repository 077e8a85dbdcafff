"""A real headless browser (Debian's chromium).

What a page asks of the network and what it logs are read from the browser's own logs, not from the page.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(slots=True)
class Browser:
    """A browser, and what it has to say of the page that is open."""

    driver: Chrome

    def open(self, page: Path, *, width: int = 1280, scheme: str = "light") -> Browser:
        """Open a file and wait until its script has drawn, or has failed to."""
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.prefer(scheme)
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self._log(log)
        self.driver.get(page.as_uri())
        return self

    def loaded(self) -> Browser:
        """Wait until the page is there and two frames have passed, whatever its script did."""
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(true)))"
        self.driver.execute_async_script(frames)
        return self

    def drawn(self) -> Browser:
        """Wait for the script's last line."""
        return self.until("return document.documentElement.dataset.ready == 'yes'")

    def until(self, script: str, *arguments: Any) -> Browser:
        """Wait until a script returns true; a browser answers some things only with its next frame."""
        WebDriverWait(self.driver, 30, poll_frequency=0.05).until(lambda _: self.run(script, *arguments))
        return self

    def prefer(self, scheme: str) -> None:
        """Light or dark, as a reader's system would say."""
        self._cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def on_paper(self, width: int) -> None:
        """As it would be laid out on paper, so many pixels wide; the next page is on the screen again."""
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        self._cdp("Emulation.setEmulatedMedia", media="print")

    def printed(self) -> bytes:
        """The page as a PDF."""
        made = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
        return base64.b64decode(made["data"])

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """Everything the page logged that is worse than a note."""
        return [entry["message"] for entry in self._log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Every address the page asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _log(self, name: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.get_log(name)  # type: ignore[no-untyped-call]  # selenium's has no types
        return entries

    def _cdp(self, command: str, **parameters: Any) -> None:
        self.driver.execute_cdp_cmd(command, parameters)


def browser_programs() -> tuple[str, str]:
    """Where chromium and its driver are."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.fail("no chromium and chromedriver on the path; `make browser` installs them", pytrace=False)
    return chromium, chromedriver


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One chromium for all tests; without one they fail: a page that nobody opened is not a tested page."""
    chromium, chromedriver = browser_programs()
    options = ChromeOptions()
    options.binary_location = chromium
    # A container's root has no sandbox, and its /dev/shm is small.
    for argument in ("--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(chromedriver))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
