"""Headless Chromium for tests in Python: the system's own, driven by playwright."""
import contextlib
import shutil

import skips

try:
    from playwright.sync_api import sync_playwright
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium():
    """A playwright Browser; the test is skipped where the system has none."""
    program = next((found for found in map(shutil.which, NAMES) if found), None)
    if program is None:
        skips.missing_in_build("there is no chromium; scripts/setup.sh test installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()
