"""The web pages in a real browser: `suite.py BELLOWS OUT [NAME...]`, by `cargo xtask browser`.

`pages` opens every page at two widths, light and dark, and writes a screenshot to OUT. No page may have a violation that axe
finds, be wider than the window, or log an error in the console. `script` puts a script as row key, which must not run.
`unscripted` reads all pages without JavaScript and changes a table. The other names are faults (see faults.py): the first
screen of the overview must name the fault and its remedy, and one click must lead to the page that shows it. `regions` times
every page of a server with 10,000 regions.
"""

import os
import pathlib
import re
import shutil
import sys
import time
import traceback
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from faults import FAULTS, NotHere
from server import Server

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}
PAGES = ["/", "/tables", "/table/shop", "/keys?table=shop", "/memory", "/cache", "/slow", "/work", "/data/shop", "/clients",
         "/log", "/settings"]
SCRIPT = b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
# Time limit for the server to detect a fault, in seconds.
NOTICE = 60
# Number of regions of the part `regions`, and the time limit of a page with them, in ms: the median of some requests.
REGIONS, PAGE_MS, REQUESTS = 10_000, 50, 21


class Broken(AssertionError):
    """A page breaks an expectation of the suite."""


def expect(well, what):
    if not well:
        raise Broken(what)


class Suite:
    def __init__(self, browser, binary, out):
        self.browser, self.binary, self.out = browser, binary, pathlib.Path(out)

    def folder(self, name):
        """Returns the data folder of a part, without what an earlier run that was ended has left there."""
        folder = self.out / "data" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def page(self, **words):
        context = self.browser.new_context(**words)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (page.complaints.append("a dialog"), dialog.dismiss()))
        return page

    def shop(self, name):
        """Starts a server with a table of a few hundred rows."""
        server = Server(self.binary, self.folder(name))
        server.create("shop", {"COMPRESSION": "GZ", "VERSIONS": "3"}, [b"item3", b"item6"])
        for _ in range(3):
            server.put("shop", [(b"item%04d" % (n * 37 % 9000), b"a value of %d" % n) for n in range(400)])
        server.put("shop", [(SCRIPT, SCRIPT)])
        return server

    def pages(self):
        server = self.shop("pages")
        problems = []
        try:
            time.sleep(12)
            for (width, (w, h)) in WIDTHS.items():
                for theme in ("light", "dark"):
                    page = self.page(viewport={"width": w, "height": h}, color_scheme=theme)
                    for path in PAGES:
                        problems += self.look_at(page, server.web + path, f"{path} {width} {theme}", width, theme, path)
                    page.context.close()
        finally:
            server.remove()
        expect(not problems, "\n  ".join(["", *problems]))

    def look_at(self, page, address, name, width, theme, path):
        page.complaints.clear()
        answer = page.goto(address)
        page.wait_for_timeout(700)
        word = re.sub(r"\W+", "-", path).strip("-") or "overview"
        page.screenshot(path=self.out / f"{word}-{width}-{theme}.png", full_page=True)
        problems = [f"{name}: {answer.status}"] if answer.status != 200 else []
        problems += [f"{name}: console: {line}" for line in page.complaints]
        too_wide = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
        if too_wide > 0:
            problems.append(f"{name}: {too_wide} pixels wider than the window")
        for violation in Axe().run(page).response["violations"]:
            where = "; ".join(str(node["target"]) for node in violation["nodes"][:3])
            problems.append(f"{name}: axe: {violation['id']}: {violation['help']} ({where})")
        return problems

    def script(self):
        server = self.shop("script")
        try:
            page = self.page()
            for path in [*PAGES, "/data/shop?q=%3Cscript*", "/find?q=%3Cscript%3E", "/keys?table=%3Cscript%3Ealert(1)%3C/script%3E"]:
                page.goto(server.web + path)
                page.wait_for_timeout(300)
                expect("owned" not in page.title(), f"{path} ran a script of a row")
                expect(not page.complaints, f"{path}: {page.complaints}")
            page.goto(server.web + "/data/shop?q=%3Cscript*")
            expect("<script>document.title" in page.inner_text("main"), "the row is shown as what it is")
            page.context.close()
        finally:
            server.remove()

    def unscripted(self):
        server = self.shop("unscripted")
        try:
            page = self.page(java_script_enabled=False, viewport={"width": 390, "height": 844})
            for path in PAGES:
                page.goto(server.web + path)
                expect(page.locator("h1").count() == 1 and page.locator("#state").inner_text().strip(), f"{path} has no content")
            page.goto(server.web + "/")
            page.get_by_role("link", name="Tables", exact=True).click()
            page.get_by_role("link", name="shop", exact=True).click()
            said = lambda: page.locator("main").inner_text()  # noqa: E731
            self.act(page, "Flush", {"confirm": "shop"})
            expect("flush 'shop' is done" in said(), "the table was flushed")
            self.act(page, "Take a snapshot", {"snapshot": "before", "confirm": "shop"})
            expect("snapshot 'shop', 'before' is done" in said(), "the snapshot was taken")
            self.act(page, "Clone a snapshot", {"snapshot": "before", "table": "shop2", "confirm": "shop"})
            expect(page.url.endswith("/table/shop2"), f"the clone is shown: {page.url}")
            page.goto(server.web + "/table/shop")
            self.act(page, "Split", {"row": "item4", "confirm": "shop"})
            expect("split 'shop', \"item4\" is done" in said(), f"the table was split: {said()[:300]}")
            self.merge(page, server)
            expect("is done" in said() and "merge_region" in said(), f"the regions were merged: {said()[:300]}")
            self.act(page, "Restore a snapshot", {"snapshot": "before", "confirm": "shop"})
            expect("That did not work" in said(), "a table that is enabled is not restored")
            self.act(page, "Disable", {"confirm": "shop"})
            self.act(page, "Restore a snapshot", {"snapshot": "before", "confirm": "shop"})
            expect("restore_snapshot 'before' is done" in said(), f"the snapshot was restored: {said()[:300]}")
            self.act(page, "Enable", {"confirm": "shop"})
            self.act(page, "Delete a snapshot", {"snapshot": "before", "confirm": "shop"})
            expect("nothing was changed" in page.inner_text("body"), "the wrong name confirms nothing")
            page.goto(server.web + "/table/shop")
            self.act(page, "Delete a snapshot", {"snapshot": "before", "confirm": "before"})
            expect("delete_snapshot 'before' is done" in said(), "the snapshot was deleted")
            page.context.close()
        finally:
            server.remove()

    def regions(self):
        """Times every page, and two JSON twins, of a server with many regions. /metrics is for programs and not timed."""
        server = Server(self.binary, self.folder("regions"))
        try:
            began = time.monotonic()
            server.create("shop", splits=[b"item%05d" % n for n in range(1, REGIONS)])
            made = time.monotonic() - began
            server.put("shop", [(b"item00000%02d" % n, b"a value") for n in range(40)])
            time.sleep(12)
            medians = {}
            for path in [*PAGES, "/table/shop?from=9801", "/overview.json", "/tables.json"]:
                times = []
                for _ in range(REQUESTS):
                    began = time.monotonic()
                    with urllib.request.urlopen(server.web + path) as answer:
                        answer.read()
                    times.append((time.monotonic() - began) * 1000)
                medians[path] = sorted(times)[len(times) // 2]
            slow = {path: round(ms) for path, ms in medians.items() if ms > PAGE_MS}
            expect(not slow, f"the pages take longer than {PAGE_MS} ms: {slow}")
            worst = max(medians, key=medians.get)
            return f"{REGIONS} regions were made in {made:.0f} s; the slowest page is {worst}: {medians[worst]:.0f} ms"
        finally:
            server.remove()

    def act(self, page, title, fields):
        form = page.locator("details", has=page.locator("summary", has_text=re.compile(f"^{title}$")))
        form.locator("summary").click()
        for name, value in fields.items():
            form.locator(f"input[name={name}]").fill(value)
        form.locator("button").click()

    def merge(self, page, server):
        """Merges the two halves of the split, once the page shows them."""
        for _ in range(20):
            page.goto(server.web + "/table/shop")
            rows = page.locator("section[aria-labelledby=regions] tbody tr")
            keys = [rows.nth(at).locator("td").first.inner_text() for at in range(rows.count())]
            if "item4" in keys:
                at = keys.index("item4")
                names = [rows.nth(one).get_attribute("id") for one in (at - 1, at)]
                return self.act(page, "Merge regions", {"regions": " ".join(names), "confirm": "shop"})
            time.sleep(0.5)
        raise Broken("the page does not show the halves of a split")

    def fault(self, name):
        fault = FAULTS[name]
        with fault.plant(self.binary, self.folder(name)) as server:
            page = self.page(viewport={"width": 1280, "height": 900})
            found, began, text = None, time.monotonic(), ""
            while found is None and time.monotonic() - began < NOTICE:
                page.goto(server.web + "/")
                text = page.locator("main").inner_text()
                finding = page.locator("ol.findings li a", has_text=re.compile(fault.says))
                found = finding.first if finding.count() else None
                time.sleep(0 if found else 0.5)
            page.screenshot(path=self.out / f"fault-{name}.png")
            expect(found is not None, f"the overview does not name it after {NOTICE} s: {text[:600]}")
            box = found.bounding_box()
            expect(box["y"] + box["height"] < 900, f"it is not on the first screen: {box}")
            expect(fault.remedy in found.inner_text(), f"there is no remedy: {found.inner_text()}")
            found.click()
            expect(re.search(fault.page, page.url), f"it leads to {page.url}")
            page.wait_for_timeout(700)
            page.screenshot(path=self.out / f"fault-{name}-page.png", full_page=True)
            seconds = time.monotonic() - began
            page.context.close()
        return f"named {seconds:.0f} s after it was planted"


def main():
    binary, out, *names = sys.argv[1:]
    expect(CHROMIUM, "no Chromium was found: apt-get install chromium, or name it in $CHROMIUM")
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    failed = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        suite = Suite(browser, binary, out)
        for name in names or ["pages", "script", "unscripted", "regions", *FAULTS]:
            try:
                said = suite.fault(name) if name in FAULTS else getattr(suite, name)()
                print(f"{name:16} passed  {said or ''}", flush=True)
            except NotHere as why:
                print(f"{name:16} not run: {why}", flush=True)
            except Exception as error:  # every part is run
                failed.append(name)
                print(f"{name:16} FAILED  {error}", flush=True)
                if not isinstance(error, Broken):
                    traceback.print_exc()
        browser.close()
    sys.exit(1 if failed else 0)


main()
