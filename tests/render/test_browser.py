"""The report in a real browser: headless Chromium, if there is one.

`GRADPROOF_REQUIRE_BROWSER=1` makes a missing browser a failure; `GRADPROOF_SCREENSHOTS=directory` keeps the pictures.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
import torch
from functions import custom, numbers
from PIL import Image
from report_samples import report, wrong_jacobian

import gradproof
from gradproof.render.html import write_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def start() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        missing = "a browser" if browser is None else "chromedriver"
        if os.environ.get("GRADPROOF_REQUIRE_BROWSER"):
            pytest.fail(f"{missing} was not found, and GRADPROOF_REQUIRE_BROWSER asks for one")
        pytest.skip(f"{missing} was not found: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    driver = start()
    yield driver
    driver.quit()


class Tab:
    """One page in the browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, *, width: int = 1200, scheme: str = "light", scripts: bool = True) -> Tab:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.size(width, 900)
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        return self

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def js(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def wait(self, expression: str, seconds: float = 20) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds).until(lambda _: self.js(expression))

    def draw_everything(self, width: int = 1200) -> None:
        """As high as the page, so that every figure comes into view."""
        for _ in range(2):
            self.size(width, min(int(self.js("document.documentElement.scrollHeight")) + 50, 12_000))
            self.wait("document.querySelectorAll('figure.plot:not(.drawn)').length === 0")

    def errors(self) -> list[str]:
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        messages = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def column(self, table: str, number: int) -> list[str]:
        rows = f"[...document.querySelectorAll('table.{table} tbody tr')].filter(r => !r.hidden)"
        return self.js(f"{rows}.map(r => r.cells[{number}].textContent.trim())")

    def click_header(self, table: str, number: int) -> None:
        self.driver.execute_script(f"document.querySelectorAll('table.{table} th button')[{number}].click()")

    def type(self, selector: str, text: str) -> None:
        field = self.driver.find_element("css selector", selector)
        field.clear()
        field.send_keys(text)

    def choose(self, selector: str, text: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(text)

    def hover(self, selector: str, number: int = 0) -> list[str]:
        """Move the pointer over the middle of an element, and read what the figure tells then."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).move_to_element(self.driver.find_elements("css selector", selector)[number]).perform()
        return self.js("[...document.querySelectorAll('.tip:not([hidden]) span')].map(s => s.textContent)")

    def keep(self, name: str, directory: Path) -> Path:
        path = Path(os.environ.get("GRADPROOF_SCREENSHOTS") or directory) / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))
        return path


@pytest.fixture
def tab(chromium: Any) -> Tab:
    return Tab(chromium)


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rule = custom(lambda x, w, b: x @ w.t() + b, lambda s, g: (g @ s[1], 2 * g.t() @ s[0], g.sum(0)))
    return rule(x, weight, bias)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report of a real mistake."""
    made = gradproof.check(product, (numbers(4, 3), numbers(2, 3, seed=1), numbers(2, seed=2)))
    path = tmp_path_factory.mktemp("page") / "report.html"
    made.to_html(path)
    return path


def test_it_opens_without_an_error_and_nothing_leaves_the_file(tab: Tab, page: Path) -> None:
    tab.open(page).draw_everything()
    assert tab.errors() == []
    assert [url for url in tab.requests() if not url.startswith(("data:", "blob:"))] == [page.as_uri()]
    assert tab.js("document.querySelector('h1').textContent").split() == ["FAIL", "product"]


def test_heat_maps_slices_and_ladders_are_drawn(tab: Tab, page: Path) -> None:
    tab.open(page).draw_everything()
    for kind, mark, least in [
        ("heat", "g rect.cell", 2),
        ("slice", "path.line.analytic", 1),  # pictures of entries take few evaluations: the worst one has them
        ("ladder", "path.bar", 1),
    ]:
        figures = f"[...document.querySelectorAll('figure[data-kind={kind}]')]"
        assert tab.js(f"{figures}.length") >= least, kind
        assert tab.js(f"{figures}.every(f => f.querySelector('{mark}'))"), kind
        assert tab.js(f"{figures}.every(f => f.querySelectorAll('.xtick').length > 1)"), f"labelled ticks of {kind}"
        assert tab.js(f"{figures}.every(f => f.querySelectorAll('.title').length > 1)"), f"titles of axes of {kind}"
    lines = "document.querySelector('figure[data-kind=slice]').querySelectorAll('g > path.line').length"
    assert tab.js(lines) == 3  # the function and both tangents


def test_tables_sort_by_number_and_by_name(tab: Tab, page: Path) -> None:
    tab.open(page)
    assert tab.column("pairs", 1)[0] == "input 1 `weight`"  # the wrong one first
    tab.click_header("pairs", 4)
    assert tab.column("pairs", 4) == ["16", "48", "96"]
    tab.click_header("pairs", 4)
    assert tab.column("pairs", 4) == ["96", "48", "16"]
    tab.click_header("pairs", 1)
    assert tab.column("pairs", 1) == ["input 0 `x`", "input 1 `weight`", "input 2 `bias`"]
    tab.click_header("pairs", 5)  # two of them have no difference: last, whichever way
    assert tab.column("pairs", 5)[0] != ""
    tab.click_header("pairs", 5)
    assert tab.column("pairs", 5)[0] != ""


def test_tables_filter_by_text_and_by_status(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.type(".filter", "BIAS")
    assert tab.column("pairs", 1) == ["input 2 `bias`"]
    assert tab.js("document.querySelector('.shown').textContent") == "1 of 3 rows"
    tab.type(".filter", " ")
    tab.choose(".status-filter", "RIGHT")
    assert tab.js("document.querySelector('.shown').textContent") == "2 of 3 rows"
    assert set(tab.column("pairs", 2)) == {"RIGHT"}
    assert len(tab.column("pairs", 2)) == 2


def test_many_reports_are_listed_and_a_link_opens_one(tab: Tab, tmp_path: Path) -> None:
    wrong = [(f"test_{k}", report(wrong_jacobian(), subject=f"f{k}")) for k in range(5)]
    write_html(tmp_path / "run.html", [*wrong, ("test_right", report())])
    tab.open(tmp_path / "run.html")
    assert len(tab.column("checks", 0)) == 6
    assert tab.js("document.querySelectorAll('details.report[open]').length") == 0
    tab.driver.find_element("link text", "test_3").click()
    tab.wait("document.querySelector('#report-4').open")
    tab.wait("document.querySelectorAll('#report-4 figure.drawn').length > 0")
    assert tab.js("document.querySelector('#report-4 summary h2').textContent").split() == ["FAIL", "test_3"]
    tab.choose(".status-filter", "PASS")
    assert tab.column("checks", 0) == ["test_right"]
    assert tab.errors() == []


@pytest.mark.parametrize("name", samples.HOSTILE)
def test_hostile_names_stay_text(tab: Tab, tmp_path: Path, name: str) -> None:
    x = replace(samples.X, name=name)
    at = samples.entry()
    shown = replace(at, input=replace(at.input, block=x))
    finding = wrong_jacobian(shown, hint=name, property=name, cause=ValueError(name))
    made = report(finding, subject=name, covered=(name,), not_covered=(name,), inputs=(x,))
    write_html(tmp_path / "hostile.html", [(name, made)])
    tab.open(tmp_path / "hostile.html").draw_everything()
    assert tab.js("document.title").startswith("FAIL · ")
    assert "owned" not in tab.js("document.title").removeprefix(f"FAIL · {name}")
    tab.hover("figure[data-kind=heat] g rect.cell")
    assert tab.js("document.querySelector('.tip:not([hidden])').textContent")
    assert tab.js("document.querySelectorAll('#owned, img, b').length") == 0
    assert tab.errors() == []
    assert len([url for url in tab.requests() if not url.startswith(("data:", "blob:"))]) == 1
    beginning = name.split()[0].replace("\x1b", "\\x1b")
    assert beginning in tab.js("document.querySelector('h1').textContent")


def test_without_javascript_the_tables_show(tab: Tab, page: Path) -> None:
    tab.open(page, scripts=False)
    try:
        rows = tab.driver.find_elements("css selector", "table.pairs tbody tr")
        assert len(rows) == 3
        assert all(row.is_displayed() for row in rows)
        assert tab.driver.find_element("css selector", "table.entries tbody tr").is_displayed()
        assert not tab.driver.find_element("css selector", ".tools").is_displayed()
    finally:
        tab.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def luminance(path: Path) -> float:
    with Image.open(path) as image:
        value = image.convert("L").resize((1, 1)).getpixel((0, 0))
    assert isinstance(value, int)
    return float(value)


@pytest.mark.parametrize(("scheme", "bright"), [("light", True), ("dark", False)])
def test_light_and_dark_follow_the_system(tab: Tab, page: Path, tmp_path: Path, scheme: str, bright: bool) -> None:
    tab.open(page, scheme=scheme).draw_everything()
    assert (luminance(tab.keep(scheme, tmp_path)) > 128) is bright
    ink = "getComputedStyle(document.querySelector('figure[data-kind=slice] .xtick')).fill"
    assert (sum(map(int, tab.js(ink)[4:-1].split(","))) < 384) is bright  # dark letters on light, light on dark


def test_figures_follow_when_the_scheme_changes(tab: Tab, page: Path) -> None:
    tab.open(page, scheme="light").draw_everything()
    line = "getComputedStyle(document.querySelector('figure[data-kind=slice] path.line')).stroke"
    before = tab.js(line)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    tab.wait(f"{line} !== '{before}'")


def test_at_phone_width_nothing_sticks_out(tab: Tab, page: Path, tmp_path: Path) -> None:
    tab.open(page, width=390).draw_everything(390)
    assert tab.js("document.documentElement.scrollWidth") == 390
    wide = "[...document.querySelectorAll('figure .canvas svg')].some(s => s.getBoundingClientRect().right > 390)"
    assert not tab.js(wide)
    with Image.open(tab.keep("phone", tmp_path)) as image:
        assert image.width == 390


def test_a_table_that_is_too_wide_shows_that_it_scrolls(tab: Tab, page: Path) -> None:
    tab.open(page, width=390)
    tab.wait("document.querySelectorAll('.scrolls.more').length >= 2")
    hint = "getComputedStyle(document.querySelector('.scrolls:has(table.pairs) .sideways')).display"
    assert tab.js(hint) == "block"
    tab.driver.execute_script("document.querySelector('.scroll:has(table.pairs)').scrollLeft = 10000")
    tab.wait(f"{hint} === 'none'")  # its end is in view
    tab.open(page, width=1280)
    assert tab.js(hint) == "none"


def test_the_pairs_fit_beside_the_contents(tab: Tab, page: Path) -> None:
    tab.open(page, width=1200)
    tab.wait("document.querySelector('nav.contents details').open")
    assert tab.js("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.scroll:has(table.pairs)'))")


def test_hovering_a_map_tells_the_elements_both_values_and_the_error_bar(tab: Tab, page: Path) -> None:
    tab.open(page).draw_everything()
    told = tab.hover("figure[data-kind=heat] g rect.cell")
    assert told[0].startswith("output 0, element [")
    assert told[1].startswith("input 1 `weight`, element [")
    assert "wrong, worst" in told[2]
    assert told[2].endswith("× allowed")
    cells = "[...document.querySelectorAll('figure[data-kind=heat]')][0].querySelectorAll('g rect.cell').length"
    texts = [tab.hover("figure[data-kind=heat] g rect.cell", k) for k in range(tab.js(cells))]
    valued = [text for text in texts if any(line.startswith("numeric ") for line in text)]
    assert len(valued) == 5, "the entries that a finding lists"
    assert all("±" in text[3] and text[4].startswith("analytic ") for text in valued)


def test_hovering_a_slice_and_a_ladder_tells_both_values_and_the_bar(tab: Tab, page: Path) -> None:
    tab.open(page).draw_everything()
    of_slice = tab.hover("figure[data-kind=slice] .canvas")
    assert [line.rsplit(" ", 1)[0] for line in of_slice] == ["at", "function", "numerical tangent", "analytic tangent"]
    of_ladder = tab.hover("figure[data-kind=ladder] .canvas")
    assert of_ladder[0].startswith("step ")
    assert "±" in of_ladder[1]
    assert of_ladder[2].startswith("analytic ")


def test_figures_are_read_with_the_keyboard(tab: Tab, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    tab.open(page).draw_everything()
    canvas = tab.driver.find_element("css selector", "figure[data-kind=ladder] .canvas")
    canvas.send_keys(Keys.ARROW_RIGHT)
    first = tab.js("document.querySelector('figure[data-kind=ladder] .tip').textContent")
    canvas.send_keys(Keys.ARROW_RIGHT)
    second = tab.js("document.querySelector('figure[data-kind=ladder] .tip').textContent")
    assert first.startswith("step ")
    assert second.startswith("step ")
    assert first != second
    canvas.send_keys(Keys.ESCAPE)
    assert tab.js("document.querySelector('figure[data-kind=ladder] .tip').hidden")


def test_dragging_zooms_and_a_double_click_shows_everything_again(tab: Tab, page: Path) -> None:
    from selenium.webdriver import ActionChains

    tab.open(page).draw_everything()
    figure = "document.querySelector('figure[data-kind=slice]')"
    ticks = f"[...{figure}.querySelectorAll('.xtick')].map(t => t.textContent)"
    before = tab.js(ticks)
    canvas = tab.driver.find_element("css selector", "figure[data-kind=slice] .canvas")
    chain = ActionChains(tab.driver).move_to_element_with_offset(canvas, -60, -40).click_and_hold()
    chain.move_by_offset(90, 70).release().perform()
    tab.wait(f"{figure}.classList.contains('zoomed')")
    assert tab.js(ticks) != before
    ActionChains(tab.driver).double_click(canvas).perform()
    tab.wait(f"!{figure}.classList.contains('zoomed')")
    assert tab.js(ticks) == before
    tab.driver.find_element("css selector", "figure[data-kind=slice] .zoom button").click()
    assert tab.js(ticks) != before


def test_the_contents_lead_to_a_finding_and_open_it(tab: Tab, tmp_path: Path) -> None:
    findings = [wrong_jacobian(samples.entry(row), hint="one cause") for row in range(3)]
    write_html(tmp_path / "many.html", [("f", report(*findings))])
    tab.open(tmp_path / "many.html", width=390)
    assert not tab.js("document.querySelector('nav.contents details').open")
    tab.driver.find_element("css selector", "nav.contents summary").click()
    tab.driver.find_elements("css selector", "nav.contents a[href='#finding-3']")[0].click()
    tab.wait("document.querySelector('#finding-3').open")
    tab.wait("Math.abs(document.querySelector('#finding-3').getBoundingClientRect().top) < 200")
    tab.wait("document.querySelectorAll('#finding-3 figure.drawn').length > 0")
    tab.open(tmp_path / "many.html", width=1280)
    assert tab.js("document.querySelector('nav.contents details').open"), "beside the page there is room for them"
    assert tab.js("document.querySelector('nav').getBoundingClientRect().right <= "
                  "document.querySelector('main').getBoundingClientRect().left")  # fmt: skip
    assert tab.errors() == []


def test_terms_explain_themselves_on_hover(tab: Tab, page: Path) -> None:
    tab.open(page)
    title = "[...document.querySelectorAll('table.pairs abbr')].find(a => a.textContent === 'would notice').title"
    assert "would have been noticed" in tab.js(title)
