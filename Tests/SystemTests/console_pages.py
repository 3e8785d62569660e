"""Pages of the console in headless Chromium, and what every one of them must be."""

import json
import unittest

from mimeo_harness import CHROMIUM, Browser, OneProcess, Workspace, package_file
from system_test import SystemTest

AXE = "axe-playwright-python==0.1.8", "axe_playwright_python/axe.min.js"
AXE_SECONDS = 120

NAMELESS = """[...document.querySelectorAll("button, a[href], input, select, textarea, [role=button], [role=grid], dialog, svg[role]")]
    .filter((one) => one.offsetParent !== null && !one.closest(".CodeMirror"))
    .filter((one) => !(one.getAttribute("aria-label") || one.innerText?.trim() || [...(one.labels ?? [])].some((label) => label.innerText.trim())))
    .map((one) => one.outerHTML.slice(0, 160))"""

CONTRAST = """(() => {
    const channel = (value) => { const part = value / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; };
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const color = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const ground = (one) => { for (; one; one = one.parentElement) { const found = color(getComputedStyle(one).backgroundColor); if (found[3] > 200) return found; } return color(getComputedStyle(document.documentElement).backgroundColor); };
    return [...document.querySelectorAll("button, a, p, b, h1, h2, th, td, label, .value, .count, .badge")]
        .filter((one) => one.offsetParent && one.innerText?.trim() && !one.disabled && !one.closest(".notes, .CodeMirror")).map((one) => {
            const [a, b] = [light(color(getComputedStyle(one).color)), light(ground(one))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.innerText.slice(0, 40), one.className];
        }).filter(([ratio]) => ratio < 4.5).slice(0, 5);
})()"""


@unittest.skipUnless(CHROMIUM, "neither chromium nor chromium-headless-shell is installed")
class ConsolePages(SystemTest):
    """One server and one browser for all tests of a class, and a database for each."""

    @classmethod
    def setUpClass(cls):
        shared = Workspace()
        cls.addClassCleanup(shared.close)
        cls.server = OneProcess(shared).start()
        cls.admin = (cls.server.data / "auth" / "admin.token").read_text().strip()
        cls.browser = Browser(shared)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        bearer = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        made = self.server.request("POST", "/admin/auth/databases", b"{}", bearer).json
        self.use(made["id"], made["developmentToken"])
        self.browser.forget(self.server.origin)

    def use(self, database, token):
        self.server.database, self.server.token, self.server._access_token = database, token, None

    def enter(self):
        """Signs in with one click, as after the first `make run`."""
        self.browser.open(self.server.origin + f"/#/db/{self.server.database}/overview")
        self.browser.click("Open this machine's server")
        self.browser.await_text("The last hour")

    def go(self, place):
        self.browser.run(f"location.hash = {json.dumps(f'#/db/{self.server.database}/{place}')}")

    def assert_sound(self):
        """No error of a script, no violation of the policy, nothing from elsewhere, a name for every control."""
        failed = [text for text in self.browser.complaints if "Failed to load resource" not in text]
        self.assertEqual(failed, [])
        elsewhere = {url for url in self.browser.requested if not url.startswith((self.server.origin, "blob:", "data:", "about:"))}
        self.assertEqual(elsewhere, set())
        self.assertNotEqual(self.browser.run("document.title"), "hacked")

    def insert(self, collection, documents):
        for at in range(0, len(documents), 1000):
            part = documents[at:at + 1000]
            statement = f"INSERT INTO {collection} DOCUMENTS " + ", ".join(f"(:d{index})" for index in range(len(part)))
            self.server.execute(statement, {f"d{index}": one for index, one in enumerate(part)})

    def assert_accessible(self, place):
        """What axe finds on the page as it is: names, roles, contrast, structure."""
        self.browser.run("globalThis.axe ? 0 : 1") and self.browser.run(package_file(*AXE).read_text() + "; 0")
        found = self.browser.send(
            "Runtime.evaluate", AXE_SECONDS, awaitPromise=True, returnByValue=True,
            expression="axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map((one) => "
            "`${one.id}: ${one.nodes.slice(0, 2).map(({ html }) => html.slice(0, 200)).join(' ')}`))")
        self.assertEqual(found["result"]["value"], [], place)

    def assert_accessible_in_both(self, place):
        """The same in light and in dark, with a name for every control and contrast for every text."""
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            self.assertEqual(self.browser.run(NAMELESS), [], f"{place} in {scheme}")
            self.assertEqual(self.browser.run(CONTRAST), [], f"{place} in {scheme}")
            self.assert_accessible(f"{place} in {scheme}")
