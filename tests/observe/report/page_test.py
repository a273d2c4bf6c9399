#!/usr/bin/env python3
"""Opens reports in headless Chromium, as somebody who reads them would:   page_test.py ACCRUE

At 390 and 1,440 pixels, light and dark: nothing in the console, no request, every chart drawn and with its table,
nothing serious found by axe-core; smoothing, zoom, axes, runs that are put out, by mouse and by keyboard; text of a run is text.
"""
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "support")]
import skips  # noqa: E402
from browser import chromium  # noqa: E402
from synthetic_runs import HOSTILE, Shape, run_json, write_run  # noqa: E402

try:
    from playwright.sync_api import expect
    from axe_playwright_python.sync_playwright import Axe
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")
MEGABYTE = 1_000_000
# Whether a canvas has anything but its ground.
IS_DRAWN = """(card) => {
  const canvas = card.querySelector("canvas");
  if (!canvas || canvas.width === 0) return false;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200) colours.add(pixels[i] * 65536 + pixels[i + 1] * 256 + pixels[i + 2]);
  return colours.size > 2;
}"""


def write_report(folder: pathlib.Path, runs: list[pathlib.Path], name: str = "page.html") -> pathlib.Path:
    out = folder / name
    subprocess.run([ACCRUE, "report", *map(str, runs), "--out", str(out)], check=True, capture_output=True)
    return out


class Opened:
    """A page of a file URL, and what it asked for and complained of."""

    def __init__(self, page, file: pathlib.Path):
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]", timeout=60_000)
        self.own = file.as_uri()

    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if not url.startswith((self.own, "data:"))]

    def undrawn(self) -> list[str]:
        cards = self.page.query_selector_all("article.card")
        return [card.get_attribute("id") for card in cards if not card.evaluate(IS_DRAWN)]

    def serious(self) -> list[str]:
        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")]


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)  # also where the set-up fails: a browser that is left open hangs the test
        cls.folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="accrue_report_")))
        cls.browser = cls.stack.enter_context(chromium())
        cls.runs = [write_run(cls.folder, Shape(index, 240, 2)) for index in range(3)]
        cls.one = write_report(cls.folder, cls.runs[:1], "one.html")
        cls.three = write_report(cls.folder, cls.runs, "three.html")

    @contextlib.contextmanager
    def opened(self, file, width=1440, scheme="light", init=""):
        with self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
            page = context.new_page()
            if init:
                page.add_init_script(init)
            yield Opened(page, file)

    def test_opens_soundly_at_every_width_and_in_every_theme(self):
        for file in (self.one, self.three):
            for width in WIDTHS:
                for scheme in SCHEMES:
                    with self.subTest(file=file.name, width=width, scheme=scheme), self.opened(file, width, scheme) as shown:
                        self.assertEqual(shown.undrawn(), [])
                        self.assertGreater(len(shown.page.query_selector_all("article.card")), 15)
                        self.assertEqual(shown.serious(), [])
                        self.assertEqual(shown.complaints, [])
                        self.assertEqual(shown.foreign_requests(), [])
                        overflow = shown.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                        self.assertLessEqual(overflow, 0, "the page itself does not scroll sideways")

    def test_the_checks_see_what_they_look_for(self):
        broken = self.folder / "broken.html"
        broken.write_text(self.one.read_text().replace("const RELOAD_SECONDS = 10;", """
          fetch("https://example.org/x").catch(() => 0);
          const image = document.createElement("img");
          image.className = "control";
          document.body.append(image);
          document.addEventListener("click", () => { document.querySelector("canvas").width = 50; });
          const RELOAD_SECONDS = 10;"""))
        with self.opened(broken) as shown:
            self.assertTrue(any("Content Security Policy" in one for one in shown.complaints), shown.complaints)
            self.assertTrue(any("control" in one for one in shown.serious()), "an image without text is serious")
            shown.page.click("h1")
            self.assertEqual(len(shown.undrawn()), 1)

    def test_every_chart_has_its_table(self):
        with self.opened(self.one) as shown:
            for card in shown.page.query_selector_all("article.card:not(#chart-events)"):
                card.query_selector("summary").click()
                rows = card.wait_for_selector("details table tbody tr")
                self.assertIsNotNone(rows)
                self.assertTrue(card.query_selector(".plot").get_attribute("aria-label"))
            self.assertGreater(len(shown.page.query_selector_all(".events-table tbody tr")), 4)
            self.assertEqual(shown.serious(), [])

    def test_text_of_a_run_is_text(self):
        with self.opened(self.one) as shown:
            self.assertIn(HOSTILE, shown.page.inner_text(".events-table"))
            self.assertEqual(shown.page.title(), "run-0 - accrue")
            self.assertEqual(len(shown.page.query_selector_all("img")), 0)
            self.assertEqual(len(shown.page.query_selector_all("script")), 3)

    def test_a_script_without_the_nonce_does_not_run(self):
        forged = self.folder / "forged.html"
        forged.write_text(self.one.read_text().replace("</body>", "<script>document.title = 'taken'</script></body>"))
        with self.opened(forged) as shown:
            self.assertEqual(shown.page.title(), "run-0 - accrue")

    def test_the_reader_chooses_axis_smoothing_and_zoom(self):
        with self.opened(self.one) as shown:
            page = shown.page
            loss = page.locator("#chart-loss")
            self.assertIn("against steps", loss.locator(".plot").get_attribute("aria-label"))
            page.check("input[value=tokens]")
            self.assertIn("against tokens", loss.locator(".plot").get_attribute("aria-label"))
            page.check("input[value=seconds]")
            self.assertIn("against time", loss.locator(".plot").get_attribute("aria-label"))
            page.check("input[value=steps]")
            legend = loss.locator(".value").first
            last = legend.inner_text()
            self.assertEqual(page.locator(".tile", has_text="Training loss").locator(".figure").inner_text(), last)
            box = loss.locator(".u-over").bounding_box()
            page.mouse.move(box["x"] + 200, box["y"] + 50)
            under_crosshair = legend.inner_text()
            page.mouse.move(box["x"] + 200, box["y"] - 100)
            page.locator("#smoothing").focus()
            page.keyboard.press("End")
            self.assertEqual(legend.inner_text(), last, "smoothing does not change what the run has come to")
            page.mouse.move(box["x"] + 200, box["y"] + 50)
            self.assertNotEqual(legend.inner_text(), under_crosshair)
            page.mouse.move(box["x"] + 100, box["y"] + 50)
            page.mouse.down()
            page.mouse.move(box["x"] + 300, box["y"] + 60, steps=5)
            page.mouse.up()
            whole = page.get_by_role("button", name="Show all", exact=True)
            self.assertTrue(whole.is_enabled())
            whole.click()
            self.assertTrue(whole.is_disabled())
            page.get_by_role("button", name="Logarithmic axis of Loss", exact=True).click()
            self.assertIn("log=loss", page.url)
            page.reload()
            page.wait_for_selector("html[data-drawn]")
            self.assertEqual(page.get_by_role("button", name="Logarithmic axis of Loss", exact=True).get_attribute("aria-pressed"), "true")
            self.assertEqual(shown.complaints, [])

    def test_charts_answer_the_keyboard(self):
        with self.opened(self.one) as shown:
            page = shown.page
            page.locator("#chart-loss .plot").focus()
            page.keyboard.press("Home")
            self.assertTrue(page.inner_text("#spoken").startswith("steps 1: training "))
            page.keyboard.press("ArrowRight")
            self.assertTrue(page.inner_text("#spoken").startswith("steps 2: "))
            page.keyboard.press("End")
            self.assertTrue(page.inner_text("#spoken").startswith("steps 240: "))
            page.keyboard.press("+")
            self.assertTrue(page.get_by_role("button", name="Show all", exact=True).is_enabled())
            page.keyboard.press("0")
            self.assertTrue(page.get_by_role("button", name="Show all", exact=True).is_disabled())

    def test_the_crosshair_is_in_all_charts(self):
        with self.opened(self.one) as shown:
            box = shown.page.locator("#chart-loss .u-over").bounding_box()
            shown.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
            for chart in ("loss", "lr", "memory"):
                self.assertIn("steps 1", shown.page.inner_text(f"#chart-{chart} .place"))

    def test_runs_are_put_out_and_what_differs_is_said(self):
        with self.opened(self.three) as shown:
            page = shown.page
            self.assertEqual(len(page.query_selector_all(".results tbody tr")), 3)
            differs = page.inner_text(".differences")
            self.assertIn("optim.lr", differs)
            self.assertNotIn("model.width", differs)
            self.assertEqual(len(page.query_selector_all("#chart-lr .value:not(:empty)")), 3)
            page.locator(".results button").nth(1).click()
            self.assertEqual(page.locator(".results button").nth(1).get_attribute("aria-pressed"), "false")
            page.locator("#chart-lr").scroll_into_view_if_needed()
            expect(page.locator("#chart-lr .value:not(:empty)")).to_have_count(2)
            self.assertEqual(shown.undrawn(), [])

    def test_what_is_absent_does_not_appear(self):
        plain = write_run(self.folder / "plain", Shape(0, 30, 1, tokens=False, plain=True))
        with self.opened(write_report(self.folder, [plain])) as shown:
            ids = {card.get_attribute("id") for card in shown.page.query_selector_all("article.card")}
            self.assertIn("chart-samples_per_second", ids)
            for absent in ("chart-tokens_per_second", "chart-memory", "chart-noise_scale", "chart-trouble", "chart-joules", "chart-share_of_ceiling"):
                self.assertNotIn(absent, ids)
            self.assertEqual(len(shown.page.query_selector_all("#plan, input[value=tokens]")), 0)
            self.assertEqual(shown.complaints, [])

    def test_a_run_without_steps_says_so(self):
        empty = self.folder / "empty" / "run"
        empty.mkdir(parents=True)
        (empty / "run.json").write_text(json.dumps(run_json(Shape())))
        with self.opened(write_report(self.folder, [empty])) as shown:
            self.assertIn("No step of this run has been written yet", shown.page.inner_text("main"))
            self.assertEqual(shown.complaints, [])

    def test_ten_runs_of_100000_steps_stay_below_20_megabytes(self):
        first = write_run(self.folder / "long", Shape(0, 100_000, 2))
        runs = [first]
        for index in range(1, 10):
            other = first.with_name(f"run-{index}")
            other.mkdir()
            (other / "metrics.jsonl").hardlink_to(first / "metrics.jsonl")
            (other / "run.json").write_text(json.dumps(run_json(Shape(index, 100_000, 2))))
            runs.append(other)
        self.assertLess(write_report(self.folder, runs[:1]).stat().st_size, 2 * MEGABYTE)
        page = write_report(self.folder, runs)
        self.assertLess(page.stat().st_size, 20 * MEGABYTE)
        with self.opened(page) as shown:
            self.assertEqual(shown.undrawn(), [])
            self.assertEqual(shown.complaints, [])
            self.assertIn("buckets of up to", shown.page.inner_text("footer"))


if __name__ == "__main__":
    ACCRUE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
