"""A suite of many small cases: time, memory, and how its page behaves in a browser.

    python benchmarks/suites.py
    python benchmarks/suites.py --cases 2000 --kills 10

`gradproof suite` runs so many cases of sin and of a wrong square on two workers. Its own peak memory and that of its
largest worker are printed; then the page is opened in headless Chromium: how long until it is loaded and laid out, and
how long a filter takes until the next frame. With `--kills`, a run is killed so many times at random moments, resumed,
and every case must be in the result exactly once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = """
import torch

def wrong(x):
    return x * x.detach()

def case_many():
    for number in range({count}):
        x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
        yield (wrong if number % 50 == 49 else torch.sin), (x,)
"""


def command(folder: Path, *options: str) -> list[str]:
    suite = [sys.executable, "-m", "gradproof", "suite", str(folder / "many.py"), "--workers", "2"]
    return [*suite, "--results", str(folder / "run.jsonl"), *options]


def run(folder: Path, count: int) -> None:
    started = time.perf_counter()
    done = subprocess.run(command(folder, "--html", str(folder / "run.html")), capture_output=True, text=True)
    seconds = time.perf_counter() - started
    assert done.returncode == 1, done.stderr
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    size = (folder / "run.html").stat().st_size / 1e6
    print(f"{done.stdout.strip().splitlines()[-1]} in {seconds:.0f} s ({1000 * seconds / count:.1f} ms a case)")
    print(f"peak memory of a process: {peak:.0f} MiB; page {size:.1f} MB, lines of JSON "
          f"{(folder / 'run.jsonl').stat().st_size / 1e6:.1f} MB")  # fmt: skip


def look(folder: Path) -> None:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        started = time.perf_counter()
        browser.get((folder / "run.html").as_uri())
        browser.execute_script("return document.body.offsetHeight")
        print(f"page loaded and laid out in {time.perf_counter() - started:.2f} s")
        times = [
            browser.execute_async_script(
                "const done = arguments[1], field = document.getElementById('filter'), since = performance.now();"
                "field.value = arguments[0]; field.dispatchEvent(new Event('input'));"
                "requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - since)));",
                text,
            )
            for text in ("9", "99", "999", "factor", "")
        ]
        print(f"a filter until the next frame: {', '.join(f'{each:.0f}' for each in times)} ms")
    finally:
        browser.quit()


def kill(folder: Path, kills: int, count: int) -> None:
    chance = random.Random(0)
    done = 0
    while done < kills:
        process = subprocess.Popen(command(folder, "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(3.0, 8.0))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        done += 1
    subprocess.run(command(folder, "--resume"), capture_output=True)
    names = [json.loads(line)["case"] for line in (folder / "run.jsonl").read_text().splitlines()[1:]]
    print(f"killed {done} times and resumed: {len(names)} rows of {count} cases, {len(set(names))} of them different")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "many.py").write_text(CASES.format(count=asked.cases))
        if asked.kills:
            kill(folder, asked.kills, asked.cases)
        else:
            run(folder, asked.cases)
            look(folder)


if __name__ == "__main__":
    main()
