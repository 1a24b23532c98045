"""Make the pictures of the README: the terminal and the HTML report of the demonstration.

make screenshots

Needs chromium and chromium-driver. The pictures show what `gradproof demo` shows.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import time
from pathlib import Path

from rich.console import Console
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from gradproof.demo.transformer import audited, checked
from gradproof.render.audit import coloured
from gradproof.render.html import write_html

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1000, 1980


def terminal() -> None:
    """The terminal as an SVG, with the reader's own monospaced font: no font is fetched from anywhere."""
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ gradproof demo[/bold]")
    console.print(coloured(audited()))
    svg = console.export_svg(title="gradproof demo", unique_id="gradproof")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (IMAGES / "terminal.svg").write_text(svg, encoding="utf-8")


def page() -> None:
    """The top of the HTML report, light and dark."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "report.html"
        write_html(path, [("rms_norm", checked())])
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.get(path.as_uri())
            while browser.execute_script("return !document.querySelector('figure.drawn[data-kind=ladder]')"):
                time.sleep(0.1)
            time.sleep(1)
            browser.save_screenshot(str(IMAGES / f"report-{scheme}.png"))
    browser.quit()


if __name__ == "__main__":
    terminal()
    page()
