"""An installed Chromium, driven as a person would use it; tests are skipped where there is none."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="No Chromium with its driver is installed: apt-get install chromium chromium-driver.",
)


class Browser:
    """A window; files that are saved go to `downloads`."""

    def __init__(self, driver: Any, downloads: Path):
        self.driver, self.downloads = driver, downloads

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until a condition holds, and return its value."""
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + 60
        while True:
            try:
                if found := condition():
                    return found
            except WebDriverException:  # the page has changed meanwhile
                pass
            assert time.monotonic() < end, f"{what}: {self.errors()}"
            time.sleep(0.05)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        """Return the element, as soon as there is one."""
        return self.wait(lambda: self.all(selector), selector)[0]

    def text(self, selector: str) -> str:
        return self.one(selector).get_property("textContent")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """Return what the page reported since the last call: errors of scripts, and breaches of its policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def keys(self, *keys: str) -> None:
        """Press keys together, wherever the focus is."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def download(self, name: str) -> bytes:
        """Wait for a file, and return it."""
        path = self.downloads / name
        self.wait(path.exists, name)
        content = path.read_bytes()
        path.unlink()
        return content


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Open a window with a profile of its own in a folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,900"]
    arguments.append(f"--user-data-dir={folder / 'profile'}")
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    for argument in arguments:
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    (folder / "downloads").mkdir(exist_ok=True)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver, folder / "downloads")
    finally:
        driver.quit()
