"""The console where something has gone wrong, or might: concurrent values, peers that miss documents, services that are away."""

import base64
import io
import json
import random
import tarfile
import unittest
import urllib.parse

from console_pages import ConsolePages
from mimeo_harness import CHROMIUM, SEED, Browser, FourProcesses, Peer, pick, until
from system_test import SystemTest

MODULE = "import(document.querySelector('script[type=module]').src.replace('main.js', '{}'))"


class Troubles(ConsolePages):
    def test_concurrent_values_are_told_with_their_authors_and_one_is_chosen(self):
        ship = {"_id": "gjoa", "name": "Gjøa", "crew": {"cook": "Lindstrøm"}, "masts": 1, "port": ""}
        self.server.execute("INSERT INTO ships DOCUMENTS (:d)", {"d": ship})
        peer, second = (Peer(self.workspace, name, self.server, subscribe=["SELECT * FROM ships"]) for name in "ab")
        for one in (peer, second):
            until(lambda: one.count("ships") == 1, 30, "the peer has no document")
            one.stop_sync()
        # Two devices that are offline write one field, of which the server knows nothing.
        theirs = second.execute("UPDATE ships SET port = 'Nome' WHERE _id = 'gjoa'")["commitID"]
        peer.execute("UPDATE ships SET port = 'Oslo' WHERE _id = 'gjoa'")
        commit = peer.execute("UPDATE ships SET name = 'peer''s name', crew.cook = 'peer''s cook' WHERE _id = 'gjoa'")["commitID"]
        self.server.execute("UPDATE ships SET name = 'server''s name', crew.cook = 'server''s cook', masts = 2 WHERE _id = 'gjoa'")
        self.enter()
        self.go("data/ships")
        self.browser.await_text("1 of 1")
        self.assertNotIn("Conflicts", self.browser.text)
        peer.start_sync()
        peer.wait_for_commit(commit)
        second.start_sync()
        second.wait_for_commit(theirs)
        self.go("data")
        self.go("data/ships")
        self.browser.await_text("Conflicts (1)")
        self.browser.click("Conflicts (1)")
        self.browser.click("gjoa", "main a")
        self.browser.await_text("3 fields with concurrent values")
        self.assert_accessible("a document with concurrent values")
        told = self.browser.run("document.querySelector('.conflicts').innerText")
        for text in ("peer's name", "server's name", "peer's cook", "server's cook", "shows now", "pk", "HTTP", "Oslo", "Nome"):
            self.assertIn(text, told)
        # Who and when, of each value: the two devices by their keys.
        ports = self.browser.run("[...document.querySelectorAll('.conflict-field')].find((one) => one.innerText.startsWith('port')).querySelectorAll('time').length")
        self.assertEqual(ports, 2)
        self.assertNotIn("masts", told)
        # The story does not tell the later ones as answers to what their devices never saw.
        self.browser.click("History")
        self.browser.await_text("at the same time as offset ")
        # Also that which does not show: what was written, and beside which value.
        story = "[...document.querySelectorAll('.story ins')].map((one) => one.innerText)"
        self.assertLessEqual({"Nome", "Oslo", "peer's name", "server's name"}, set(self.browser.run(story)))
        self.browser.click("Value")
        self.browser.click("Keep server's name in name")
        self.browser.await_text("2 fields with concurrent values")
        self.browser.click("Keep Oslo in port")
        self.browser.await_text("1 field with concurrent values")
        self.browser.click("Keep peer's cook in crew.cook")
        self.browser.await_true("!document.querySelector('.conflicts')")
        expected = [{"name": "server's name", "cook": "peer's cook", "masts": 2, "port": "Oslo"}]
        query = "SELECT name, crew.cook AS cook, masts, port FROM ships"
        self.assertEqual(self.server.query(query), expected)
        for one in (peer, second):
            until(lambda: one.query(query) == expected, 30, "the peer has another choice")
        self.go("data/ships?view=conflicts")
        self.browser.await_text("No concurrent values")
        self.assert_sound()

    def test_a_session_shows_its_subscriptions_and_why_it_misses_a_document(self):
        self.insert("cars", [{"_id": "small", "seats": 2}, {"_id": "large", "seats": 7}])
        peer = Peer(self.workspace, "a", self.server, subscribe=["SELECT * FROM cars WHERE seats > 4"])
        until(lambda: peer.count("cars") == 1, 30, "the peer has no document")
        self.enter()
        self.go("sync")
        self.browser.await_text("1 session")
        self.browser.await_true("document.querySelectorAll('.presence .peer').length === 1")
        self.assert_accessible("sync with a session")
        self.browser.run("document.querySelector('.presence .peer').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        self.browser.await_text("SELECT * FROM cars WHERE seats > 4")
        self.browser.await_text("Token ends")
        self.browser.click("Why not this document?")
        self.browser.await_text("does it get it?")
        self.browser.await_true("[...document.querySelectorAll('.tester select')].some((one) => one.value.includes('-'))")
        for identifier, verdict in (("large", "Gets it"), ("small", "does not fit its WHERE"), ("never", "there is no such document")):
            self.browser.fill("Id", identifier)
            self.browser.click("Test")
            self.browser.await_text(verdict)
        self.browser.fill("Id", "large")
        self.browser.fill("Sync scope on the device", "SmallPeersOnly")
        self.browser.click("Test")
        self.browser.await_text("keeps the collection from servers")
        self.browser.fill("Subscription", "SELECT seats FROM cars")
        self.browser.click("Test")
        self.browser.await_text("DQL-")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('.tester input')].find((one) => one.value.startsWith('SELECT')).value"), "SELECT seats FROM cars")
        self.assert_sound()

    def test_choices_are_sent_large_operations_do_not_hide_later_ones_and_the_deleted_comes_back(self):
        self.insert("cars", [{"_id": "a", "seats": 4}])
        self.server.execute("INSERT INTO cars DOCUMENTS (:large)", {"large": {"_id": "large", "text": "x" * (4 << 20)}})
        for number in range(3):
            self.server.execute("UPDATE cars SET seats = :n WHERE _id = 'a'", {"n": number})
        self.server.execute("DELETE FROM cars WHERE _id = 'a'")
        self.enter()
        self.go("operations/log")
        last = self.head()
        self.browser.await_true(f"[...document.querySelectorAll('[role=row]')].some((row) => row.innerText.startsWith('{last}'))")
        self.go("access")
        self.browser.click("Revoke")
        self.browser.fill("User, peer key", "nobody")
        self.browser.click("Revoke", tags="dialog button[type=submit], dialog button.main")
        self.browser.await_text("Revoked in every service")
        self.go("data/cars/%22a%22")
        self.browser.click("Past")
        self.browser.await_true("Boolean(document.querySelector('input[type=range]'))")
        self.browser.run("(() => { const one = document.querySelector('input[type=range]'); one.value = '0'; one.dispatchEvent(new Event('input', { bubbles: true })); })()")
        self.browser.click("Bring this document back")
        until(lambda: self.server.query("SELECT seats FROM cars WHERE _id = 'a'") == [{"seats": 4}], 10, "it is not back")
        self.assert_sound()

    def head(self):
        """The last offset of the database's log."""
        answer = self.server.post_statement("SELECT * FROM cars LIMIT 1")
        return answer.json["transactionId"]

    def test_rows_of_a_large_table_follow_every_change_to_its_place(self):
        chance = random.Random(SEED)
        self.insert("t", [{"_id": index if index % 9 == 0 else f"k{index:03}", "n": chance.randrange(40)} for index in range(60)])
        self.enter()
        followed = {"_id": "", "n DESC": "WHERE n < 30", "`n`": "", "n * 2": "WHERE n > 5"}
        for number, (sort, condition) in enumerate(followed.items()):
            statement = f"SELECT * FROM t {condition} ORDER BY {sort}, _id LIMIT 55" if "n" in sort else f"SELECT * FROM t {condition} ORDER BY {sort} LIMIT 500"
            wanted = json.dumps({"collection": "t", "condition": condition, "statement": statement, "sort": sort, "most": 55 if "n" in sort else 500})
            self.browser.run(MODULE.format("parts/followed.js") + f""".then(async ({{ followed }}) => {{
                (window.followed ??= [])[{number}] = null;
                for await (const {{ rows }} of followed({json.dumps(self.server.database)}, {{ ...{wanted}, signal: new AbortController().signal }})) window.followed[{number}] = JSON.stringify(rows);
            }}), 0""")
            followed[sort] = statement
        self.browser.await_true(f"(window.followed ?? []).filter(Boolean).length === {len(followed)}")
        for step in range(pick(12, 200)):
            key = chance.choice([9 * chance.randrange(7), f"k{chance.randrange(60):03}"])
            statement = chance.choice([
                "INSERT INTO t DOCUMENTS ({'_id': :key, 'n': :n}) ON ID CONFLICT DO UPDATE", "UPDATE t SET n = :n WHERE _id = :key",
                "DELETE FROM t WHERE _id = :key", "UPDATE t SET n = n + 1 WHERE n = :n", "UPDATE t SET other = :n WHERE _id >= :key"])
            self.server.execute(statement, {"key": key, "n": chance.randrange(40)})
            for number, (sort, select) in enumerate(followed.items()):
                truth = self.server.query(select)
                until(lambda: json.loads(self.browser.run(f"window.followed[{number}]")) == truth, 10,
                      lambda: f"step {step}, {statement}, by {sort}:\n{self.browser.run(f'window.followed[{number}]')}\n{truth}")
        self.assert_sound()

    def test_a_session_that_ends_in_the_midst_leaves_the_page_and_goes_on_by_itself(self):
        self.insert("cars", [{"_id": "a", "seats": 4}])
        self.enter()
        self.go("data/cars?most=10000")
        self.browser.await_text("1 of 1")
        self.browser.fill("Condition in DQL", "seats > 1")
        bearer = {"Authorization": f"Bearer {self.admin}"}
        path = f"/admin/auth/databases/{self.server.database}/api-keys"
        for key in self.server.request("GET", path, None, bearer).json["apiKeys"]:
            self.server.request("DELETE", f"{path}/{key['id']}", None, bearer)
        self.browser.await_text("Sign in again", 40)
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'b', 'seats': 5})")
        self.browser.fill("Admin credential or API key", self.admin)
        self.browser.click("Sign in")
        self.browser.await_text("2 of 2", 30)
        self.assertEqual(self.browser.run("document.querySelector('main form input').value"), "seats > 1")
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'c', 'seats': 6})")
        self.browser.await_text("3 of 3")
        self.assert_sound()

    def test_an_administrator_with_a_small_role_is_offered_what_he_may(self):
        self.insert("cars", [{"_id": "a"}])
        bearer = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        made = {role: self.server.request("POST", "/admin/auth/credentials", json.dumps({"name": role, "role": role}).encode(), bearer).json["credential"]
                for role in ("read", "operate")}
        for role, buttons in (("read", []), ("operate", ["Snapshot now", "Truncate"])):
            self.browser.forget(self.server.origin)
            self.browser.open(f"{self.server.origin}/#/db/{self.server.database}/operations/log")
            self.browser.fill("Admin credential or API key", made[role])
            self.browser.click("Sign in")
            self.browser.await_text("Last offset")
            shown = self.browser.run("[...document.querySelectorAll('main button')].map((one) => one.innerText)")
            self.assertEqual([text for text in shown if text in ("Snapshot now", "Truncate")], buttons, role)
            offered = self.browser.run("[...document.querySelectorAll('nav[aria-label=Pages] li a')].map((one) => one.firstChild.data)")
            self.assertEqual(offered, ["Overview", "Sync", "People", "Access", "Operations", "API"], role)
            self.go("access")
            self.browser.await_text("Nobody is revoked")
            self.assertNotIn("New API key", self.browser.text)
            for place, text in (("sync", "No peer"), ("operations/statements", "None at the moment"), ("operations/storage", "Stored"),
                                ("operations/settings", "auth-gateway"), ("operations/events", "Lines of the log"), ("overview", "Collections"), ("api", "Filter")):
                self.go(place)
                self.browser.await_true(f"document.querySelector('main').innerText.includes({json.dumps(text)}) || document.querySelector('main [aria-label={json.dumps(text)}]') !== null || document.querySelector('main input[placeholder^={json.dumps(text)}]') !== null")
                self.assertEqual(self.browser.run("[...document.querySelectorAll('main .problem')].map((one) => one.innerText)"), [], f"{place} as {role}")
            self.go("data/cars")
            self.browser.await_text("Its contents are closed")
            self.assert_sound()

    def test_settings_events_storage_and_a_support_bundle(self):
        self.insert("cars", [{"_id": index, "text": "x" * 200} for index in range(50)])
        self.enter()
        # Lags and sizes, which nobody has scraped.
        self.go("operations/health")
        self.browser.await_text("Projection behind the log", 40)
        self.browser.await_text("Size of the log")
        self.go("operations/settings?service=replicator&set=changed")
        self.browser.await_text("flag")
        self.assertNotIn("not set", self.browser.text)
        self.browser.fill("Level", "debug")
        self.browser.await_text("back to the setting in")
        bearer = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        path = "/admin/replicator/log-level"
        until(lambda: self.server.request("GET", path, None, bearer).json["level"] == "debug", 10, "the level is not set")
        self.server.request("PUT", path, b'{"level": "info", "seconds": 1}', bearer)
        self.server.request("GET", "/admin/auth/databases", None, {"Authorization": "Bearer wrong"})
        self.go("operations/events?service=auth-gateway")
        self.browser.await_true("document.querySelectorAll('.table-row').length > 0")
        self.browser.fill("Filter lines", "nothing is like this")
        self.browser.await_text("No line of the latest ones fits")
        self.browser.await_true("document.querySelectorAll('section[aria-label=Audit] time').length > 0")
        self.go("operations/storage")
        self.browser.await_true("document.querySelector('section[aria-label=Collections]')?.innerText.includes('cars')")
        self.browser.click("Verify all")
        self.browser.await_text("0 damaged ones")
        archive = self.browser.run(MODULE.format("parts/bundle.js") + """.then(async ({ bundle, tar }) => {
            const bytes = new Uint8Array(await new Blob(tar(await bundle())).arrayBuffer());
            return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
        })""")
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as files:
            members = {one.name: files.extractfile(one).read() for one in files}
        self.assertEqual(json.loads(members["health.json"])["checks"]["replicator"]["status"], "ok")
        self.assertIn(b"mimeo_build_info", members["metrics.txt"])
        self.assertIn("settings", json.loads(members["query-service/settings.json"]))
        self.assertFalse(any(self.admin.encode() in content for content in members.values()))
        self.assert_sound()


@unittest.skipUnless(CHROMIUM, "neither chromium nor chromium-headless-shell is installed")
class ServiceAway(SystemTest):
    def test_a_service_that_is_away_is_told_where_it_is_missed_and_the_others_go_on(self):
        cluster = FourProcesses(self.workspace).start()
        cluster.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'seats': 4})")
        browser = Browser(self.workspace)
        self.addCleanup(browser.close)
        browser.open(f"{cluster.origin}/#/db/{cluster.database}/overview")
        browser.fill("Admin credential or API key", (cluster.data / "auth" / "admin.token").read_text().strip())
        browser.click("Sign in")
        browser.await_text("The last hour")
        go = lambda place: browser.run(f"location.hash = {json.dumps(f'#/db/{cluster.database}/{place}')}")
        go("sync")
        browser.await_text("No peer is connected")
        cluster.processes["replicator"].kill()
        browser.await_true("Boolean(document.querySelector('main .problem'))")
        self.assertIn("Try again", browser.text)
        go("data/cars")
        browser.await_text("1 of 1")
        self.assertEqual(browser.run("document.querySelectorAll('main .problem').length"), 0)
        # Streams pass nginx as they come, and names that paths do not like as well.
        odd = "`..`", "`a/b#c%25`"
        for name in odd:
            cluster.execute(f"INSERT INTO {name} DOCUMENTS ({{'_id': '.', 'n': 1}})")
        cluster.execute("INSERT INTO cars DOCUMENTS ({'_id': 'b', 'seats': 5})")
        browser.await_text("2 of 2", 3)
        for name in odd:
            go(f"data/{urllib.parse.quote(name[1:-1], safe='')}/%22.%22")
            browser.await_text("2 fields")
            browser.click("History")
            browser.await_true("document.querySelectorAll('.story > ol > li').length === 1")
        go("data/cars")
        browser.await_text("2 of 2")
        browser.fill("Condition in DQL", "seats = 5")
        cluster.processes["query-service"].kill()
        browser.await_text("connecting again …")
        cluster.start_service("query-service")
        browser.await_true("document.querySelector('.live')?.innerText === 'live'", 40)
        self.assertEqual(browser.run("document.querySelector('main form input').value"), "seats = 5")
        cluster.execute("INSERT INTO cars DOCUMENTS ({'_id': 'c', 'seats': 6})")
        browser.await_text("3 of 3")
        go("operations/log")
        browser.await_true("Boolean(document.querySelector('main .problem'))")
        go("operations/settings?service=query-service")
        browser.await_text("projection")
        self.assertEqual([text for text in browser.complaints if "Failed to load resource" not in text], [])
