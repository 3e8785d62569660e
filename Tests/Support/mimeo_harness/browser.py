"""Headless Chromium, driven over its DevTools protocol: `chromium` or `chromium-headless-shell` of Debian, if there is one."""

import base64
import json
import os
import re
import shutil
import threading
import time
import urllib.request

from .until import until
from .websocket import CLOSE, TEXT, WebSocket

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
EXECUTABLE = next((path for path in map(shutil.which, NAMES) if path), None)
"""Path of the browser; None where none is installed."""

STEP_SECONDS = 20
"""How long a page may take for one step."""

KEYS = {
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, None), "Tab": ("Tab", 9, None),
    "ArrowDown": ("ArrowDown", 40, None), "ArrowUp": ("ArrowUp", 38, None), "ArrowLeft": ("ArrowLeft", 37, None),
    "ArrowRight": ("ArrowRight", 39, None), "End": ("End", 35, None), "Home": ("Home", 36, None),
}
CONTROL = 2


class PageError(AssertionError):
    """A script of the page has failed, or an element is missing."""


class Browser:
    """One browser with one page. `complaints` has the page's console errors, exceptions and policy violations."""

    def __init__(self, workspace, width=1280, height=800):
        self._data = workspace.directory / "browser"
        arguments = [
            EXECUTABLE, "--headless", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", "--hide-scrollbars",
            f"--user-data-dir={self._data}", f"--window-size={width},{height}", "--disable-background-networking",
            "--disable-dev-shm-usage",
        ]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        self.process = workspace.start("browser", arguments + ["about:blank"])
        port_file = self._data / "DevToolsActivePort"
        until(port_file.exists, STEP_SECONDS, self.process.log_tail)
        port = until(lambda: re.match(r"(\d+)\n", port_file.read_text()), STEP_SECONDS, "no port")[1]
        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        path = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page").split(str(port), 1)[1]
        self._socket = WebSocket(("127.0.0.1", int(port)), path, seconds=3600)
        self._number = 0
        self._answers = {}
        self._arrived = threading.Condition()
        self.complaints = []
        self.requested = []
        self._traced = []
        self._traced_whole = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        """Ends the browser with all its processes, so that none writes into its folder any more."""
        try:
            self.send("Browser.close")
            until(lambda: not self.process.is_running, STEP_SECONDS, "the browser goes on")
        except (PageError, OSError, TimeoutError):
            pass

    def _read(self):
        try:
            while True:
                opcode, payload = self._socket.receive()
                if opcode == CLOSE:
                    return
                message = json.loads(payload)
                if "id" in message:
                    with self._arrived:
                        self._answers[message["id"]] = message
                        self._arrived.notify_all()
                else:
                    self._note(message["method"], message["params"])
        except (OSError, ValueError):
            return

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Tracing.dataCollected":
            self._traced += params["value"]
        elif method == "Tracing.tracingComplete":
            self._traced_whole.set()

    def _post(self, method, params):
        """Sends a command without waiting for its answer; returns its number."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}).encode(), TEXT)
        return self._number

    def send(self, method, seconds=STEP_SECONDS, **params):
        """A command of the protocol, and its result."""
        number = self._post(method, params)
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers, seconds):
                raise PageError(f"no answer to {method} in {seconds} s")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def forget(self, origin):
        """An empty page without cookies and stored texts, as in a new browser."""
        self.open("about:blank")
        self.send("Network.clearBrowserCookies")
        self.send("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self.resize(1280, 800)
        self.prefer("light")
        self.complaints.clear()
        self.requested.clear()

    def open(self, url):
        self.send("Page.navigate", url=url)
        until(lambda: self.run("document.readyState === 'complete'"), STEP_SECONDS, url)

    def run(self, script):
        """The value of an expression; a promise is awaited."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise PageError(f"{script[:200]}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    @property
    def text(self):
        return self.run("document.body.innerText")

    def await_text(self, text, seconds=STEP_SECONDS):
        until(lambda: text in self.text, seconds, lambda: f"{self.text[:3000]}\n{self.complaints}\n{text!r} is not on the page")

    def await_true(self, script, seconds=STEP_SECONDS):
        until(lambda: self.run(script), seconds, lambda: f"{self.text[:2000]}\n{self.complaints}\nnever true: {script}", pause=0.01)

    def _find(self, text, tags):
        """The script of the one visible element with this accessible name or text."""
        return f"""(() => {{
            const wanted = {json.dumps(text)};
            const named = (one) => (one.getAttribute("aria-label") ?? one.innerText ?? "").trim();
            const roots = [...document.querySelectorAll("dialog[open]")].slice(-1);
            const all = [...(roots[0] ?? document).querySelectorAll({json.dumps(tags)})].filter((one) => one.offsetParent !== null || one.closest("dialog"));
            return all.find((one) => named(one) === wanted) ?? all.find((one) => named(one).startsWith(wanted));
        }})()"""

    def click(self, text, tags="button, a, [role=tab], [role=option], summary, label"):
        """Clicks the element with this name, as a person does: it comes into view and must not be disabled."""
        found = self._find(text, tags)
        # One script: between two the page could take the element away.
        self.await_true(f"""(() => {{
            const one = {found};
            if (!one || one.disabled) return false;
            one.scrollIntoView({{block: 'center'}});
            one.click();
            return true;
        }})()""")

    def fill(self, label, text):
        """Types into the field with this label or name, in place of its content."""
        script = f"""(() => {{
            const wanted = {json.dumps(label)};
            const root = [...document.querySelectorAll("dialog[open]")].pop() ?? document;
            const fields = [...root.querySelectorAll("input, textarea, select")];
            const name = (one) => one.getAttribute("aria-label") ?? one.labels?.[0]?.innerText.trim() ?? "";
            const field = fields.find((one) => name(one) === wanted) ?? fields.find((one) => name(one).startsWith(wanted));
            if (!field) return false;
            const editor = field.closest(".editor")?.querySelector(".CodeMirror")?.CodeMirror ?? field.parentElement?.CodeMirror;
            if (editor) {{ editor.setValue({json.dumps(text)}); return true; }}
            const proto = Object.getPrototypeOf(field);
            Object.getOwnPropertyDescriptor(proto, "value").set.call(field, {json.dumps(text)});
            field.dispatchEvent(new Event("input", {{bubbles: true}}));
            field.dispatchEvent(new Event("change", {{bubbles: true}}));
            return true;
        }})()"""
        self.await_true(script)

    def press(self, key, control=False):
        """A key press, as the keyboard sends it."""
        name, code, text = KEYS[key] if key in KEYS else (key, ord(key.upper()), key)
        common = {"key": name, "windowsVirtualKeyCode": code, "modifiers": CONTROL if control else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text and not control else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text, pause=0.005):
        """Types characters at a pace that no page sets: the next one comes also if the last is not shown yet."""
        numbers = []
        for character in text:
            numbers.append(self._post("Input.dispatchKeyEvent", {"type": "char", "text": character}))
            time.sleep(pause)
        with self._arrived:
            if not self._arrived.wait_for(lambda: all(one in self._answers for one in numbers), STEP_SECONDS):
                raise PageError(f"the page does not take {text[:80]!r}")
            for one in numbers:
                del self._answers[one]

    def mouse(self, script, by=None):
        """Presses the mouse in the middle of an element, moves it by so many pixels where wanted, and lets it go."""
        self.await_true(f"Boolean({script})")
        x, y = self.run(f"(({{left, top, width, height}}) => [left + width / 2, top + height / 2])({script}.getBoundingClientRect())")
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **button)
        for step in range(1, 5) if by else ():
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + by * step / 4, y=y, button="left", buttons=1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x + (by or 0), y=y, **button)

    def busiest_tasks(self, act, count=3):
        """Does something, and tells of the page's main thread meanwhile: the tasks that took most of its processor time, in
        milliseconds. Work of other programs makes a task late, and takes no processor time of it."""
        self._traced.clear()
        self._traced_whole.clear()
        self.send("Tracing.start", transferMode="ReportEvents", traceConfig={"includedCategories": ["toplevel", "devtools.timeline", "__metadata"]})
        act()
        self.send("Tracing.end")
        if not self._traced_whole.wait(STEP_SECONDS):
            raise PageError("the trace does not end")
        threads = {(one["pid"], one["tid"]) for one in self._traced if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"}
        tasks = [one["tdur"] / 1000 for one in self._traced if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in threads and "tdur" in one]
        return sorted(tasks)[-count:]

    def resize(self, width, height, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, scheme):
        """`light` or `dark`, as the system would say."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        time.sleep(0.3)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
