"""How large the HTML pages are, and what they look like: a small failure, a large one, 30 findings, a run of 60 tests.

    python benchmarks/pages.py                      # prints the sizes
    python benchmarks/pages.py --pictures build     # and takes pictures: wide and narrow, light and dark

The pictures need chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gradproof
from gradproof import Report
from gradproof.render.html import write_html
from gradproof.results.run import Checked, Run

WIDTHS = (1280, 390)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def custom(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A function with this backward, which gets the saved inputs and the cotangent."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
            return backward(ctx.saved_tensors, cotangent)

    return Custom.apply


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The gradient of the weight is twice what it should be."""
    rule = custom(lambda x, w, b: x @ w.t() + b, lambda s, g: (g @ s[1], 2 * g.t() @ s[0], g.sum(0)))
    return rule(x, weight, bias)


def tiled(x: torch.Tensor) -> torch.Tensor:
    """The last three rows are left out of the backward."""

    def backward(saved: Any, cotangent: torch.Tensor) -> torch.Tensor:
        gradient = cotangent * saved[0].cos()
        gradient[-3:] = 0
        return gradient

    return custom(torch.sin, backward)(x)


def many(*inputs: torch.Tensor) -> torch.Tensor:
    """Of 30 inputs, 20 have twice the gradient, five the wrong sign, five a term too many."""

    def backward(saved: Any, g: torch.Tensor) -> Any:
        right = [g * x.cos() for x in saved]
        return tuple(2 * d if k < 20 else -d if k < 25 else d + g * saved[k].square() for k, d in enumerate(right))

    return custom(lambda *xs: sum(x.sin() for x in xs), backward)(*inputs)


def small_failure() -> Run:
    return Run.of([("linear", gradproof.check(linear, (numbers(4, 3), numbers(2, 3, seed=1), numbers(2, seed=2))))])


def large_failure() -> Run:
    return Run.of([("tiled", gradproof.check(tiled, numbers(67, 61)))])


def thirty_findings() -> Run:
    inputs = tuple(numbers(3, 4, seed=k) for k in range(30))
    return Run.of([("many", gradproof.check(many, inputs, modes="reverse", strategy="entries"))])


def sixty_tests() -> Run:
    """52 tests that pass, five that fail, two that are expected to fail, one that is inconclusive; torch's verdicts."""
    functions = [torch.sin, torch.cos, torch.exp, torch.tanh]
    checks = [
        Checked(
            f"tests/test_activations.py::test_{functions[k % 4].__name__}[{k // 4}]",
            gradproof.check(functions[k % 4], numbers(3, seed=k)),
            torch="pass",
            torch_seconds=0.01,
        )
        for k in range(52)
    ]
    wrong = (numbers(4, 3), numbers(2, 3, seed=1), numbers(2, seed=2))
    for k in range(7):
        report: Report = gradproof.check(linear, wrong, seed=k)
        name = f"tests/test_linear.py::test_linear[{k}]"
        checks.append(Checked(name, report, expected=k >= 5, torch="fail", torch_seconds=0.05))
    unsure = gradproof.check(torch.sin, numbers(3), budget=2)
    checks.append(Checked("tests/test_activations.py::test_budget", unsure, torch="pass", torch_seconds=0.01))
    return Run(tuple(checks))


PAGES = {
    "small failure": small_failure,
    "large failure": large_failure,
    "30 findings": thirty_findings,
    "run of 60 tests": sixty_tests,
}


def take_pictures(pages: dict[str, Path], directory: Path) -> None:
    """Each page as high as it is, at both widths, light and dark."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    directory.mkdir(parents=True, exist_ok=True)
    for name, path in pages.items():
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
                _size(browser, width, 900)
                browser.get(path.as_uri())
                _size(browser, width, min(browser.execute_script("return document.documentElement.scrollHeight"), 8000))
                time.sleep(0.7)
                browser.save_screenshot(str(directory / f"{name.replace(' ', '-')}-{width}-{scheme}.png"))
    browser.quit()


def _size(browser: Any, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, metavar="DIRECTORY")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        pages: dict[str, Path] = {}
        print("| page | verdict | findings | figures | kB |")
        print("|---|---|--:|--:|--:|")
        for name, make in PAGES.items():
            run = make()
            path = pages[name] = Path(directory) / f"{name.replace(' ', '-')}.html"
            write_html(path, run)
            findings = sum(len(report.findings) for _, report in run.reports)
            figures = path.read_text(encoding="utf-8").count('<figure class="plot"')
            print(f"| {name} | {run.verdict.name} | {findings} | {figures} | {path.stat().st_size / 1000:.0f} |")
        if chosen.pictures is not None:
            take_pictures(pages, chosen.pictures)


if __name__ == "__main__":
    main()
