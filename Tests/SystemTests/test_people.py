"""The five minutes of a team of three: somebody is invited and signs in, a device joins by its code, one is removed; with
the verbs of `mimeo admin`, two peers, and in a browser. And what strangers try at logins."""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import struct
import time

from console_pages import ConsolePages
from mimeo_harness import OneProcess, Peer, binary, mimeo, until
from system_test import SystemTest, report

PASSWORD = "correct horse battery"
CREW = {"read": {"everything": True}, "write": {"queriesByCollection": {"reports": ["true"]}}}


def one_time_code(secret, at=None):
    """A code of RFC 6238."""
    counter = struct.pack(">Q", int((time.time() if at is None else at) // 30))
    mac = hmac.new(base64.b32decode(secret), counter, hashlib.sha1).digest()
    place = mac[-1] & 15
    return f"{(struct.unpack('>I', mac[place:place + 4])[0] & 0x7fffffff) % 1_000_000:06}"


class AccountPeer(Peer):
    """A peer that logs in with a token of another provider, or joins with a code."""

    def __init__(self, workspace, name, server, login, subscribe=()):
        self.login = login
        super().__init__(workspace, name, server, subscribe)

    def start(self, offline=False):
        command = [
            binary("mimeo"), "peer", "--store", self.store, "--database", self._server.database, *self.login,
            *(part for select in self._subscribe for part in ("--subscribe", select))]
        with self._asking:
            self._next_line = 0
            self.events = []
            self.process = self._workspace.start(f"peer-{self.name}", command, self._environment)
        return self

    def asks_to_join(self):
        """The event with the code, once there is one."""
        def look():
            self.ask(".status")
            return next((one for one in self.events if one.get("event") == "join"), None)
        return until(look, 60, "the device shows no code")


class PeopleTest(SystemTest):
    arguments = ()

    def setUp(self):
        super().setUp()
        self.server = self.started()
        self.credential = (self.server.data / "auth" / "admin.token").read_text().strip()
        self.server.database = "fleet"
        self.admin("databases", "create", "--id", "fleet")
        self.admin("providers", "create", "--name", "staff", "--accounts", "{}")

    def started(self):
        return OneProcess(self.workspace, extra_arguments=self.arguments).start()

    def admin(self, *words, code=0):
        """Runs `mimeo admin` and returns its answer."""
        done = mimeo(
            "admin", *words, "--url", self.server.origin, "--admin-credential-file",
            self.server.data / "auth" / "admin.token", "--database", "fleet", "--format", "json", "--yes")
        self.assertEqual(done.returncode, code, f"{words} {done.stdout} {done.stderr}")
        return json.loads(done.stdout)

    def call(self, method, path, body=None, token=None, origin=None):
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        if origin:
            fields["X-Forwarded-For"] = origin
        return self.server.request(method, f"/_ditto/auth/{path}", body, fields)

    def log_in(self, name, password=PASSWORD, origin=None, **more):
        token = json.dumps({"name": name, "password": password, **more})
        return self.call("POST", "login", {"databaseID": "fleet", "provider": "staff", "token": token}, origin=origin)

    def accept(self, link, **more):
        answer = self.call("POST", "link/use", {"token": link.rsplit("/", 1)[1], "password": PASSWORD, **more})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["name"]


class Team(PeopleTest):
    def test_a_team_of_three_is_invited_signs_in_joins_a_phone_and_loses_one(self):
        began = time.monotonic()
        self.admin("sets", "put", "crew", "--permissions", json.dumps(CREW))
        self.assertEqual([one["name"] for one in self.admin("sets", "list")["sets"]], ["crew"])
        for name in ("ann", "bob"):
            made = self.admin("invitations", "create", "--provider", "staff", "--name", name, "--set", "crew")
            self.assertEqual(self.accept(made["link"]), name)
        self.admin("accounts", "create", "--provider", "staff", "--name", "cleo@example.org", "--password", PASSWORD,
                   "--permissions", json.dumps({"read": {"everything": True}}))
        accounts = self.admin("accounts", "list")["accounts"]
        self.assertEqual([one["name"] for one in accounts], ["ann", "bob", "cleo@example.org"])
        self.assertEqual(self.admin("accounts", "show", "cleo@example.org")["mail"], "cleo@example.org")

        select = "SELECT * FROM reports"
        url = ["--url", self.server.origin]
        ann = AccountPeer(self.workspace, "ann", self.server, [*url, "--provider", "staff", "--token", f"ann:{PASSWORD}"], [select])
        ann.execute("INSERT INTO reports DOCUMENTS ({'_id': 'r1'})")
        phone = AccountPeer(self.workspace, "phone", self.server, ["--join", self.server.origin, "--device-name", "phone"], [select])
        event = phone.asks_to_join()
        self.assertEqual(event["qrText"], f"{self.server.origin}/#/join/fleet/{event['code']}")
        (waiting,) = self.admin("joins", "list")["joins"]
        self.assertEqual((waiting["code"], waiting["name"]), (event["code"], "phone"))
        bob = self.log_in("bob").json["accessToken"]
        seen = self.call("GET", f"account/joins/{event['code']}", token=bob)
        self.assertEqual(seen.json["name"], "phone")
        self.assertEqual(self.call("POST", f"account/joins/{event['code']}", {"name": "Bob's phone"}, bob).status, 204)
        self.assert_refused(self.call("POST", f"account/joins/{event['code']}", {}, bob), 409)
        until(lambda: [one["_id"] for one in phone.query(select)] == ["r1"], 60, "the phone has nothing")
        phone.execute("INSERT INTO reports DOCUMENTS ({'_id': 'r2'})")
        until(lambda: len(ann.query(select)) == 2, 60, "the phone's report does not come")
        self.assertEqual(phone.ask(".status")["userID"], "bob")
        (device,) = self.admin("devices", "list")["devices"]
        self.assertEqual((device["name"], device["user"], device["approvedBy"]), ("Bob's phone", "bob", "bob"))
        # The device keeps its credential.
        phone.stop()
        phone.start()
        until(lambda: phone.ask(".status")["connected"], 60, "the phone does not come back")
        self.assertEqual([one for one in phone.events if one.get("event") == "join"], [])
        report(f"invited, signed in and joined in {time.monotonic() - began:.1f} s")

        self.admin("accounts", "delete", "bob")
        until(lambda: not phone.ask(".status")["connected"], 60, "the phone of a removed person stays connected")
        self.assert_refused(self.call("GET", "account", token=bob), 401)
        self.assert_refused(self.log_in("bob"), 401)
        self.assertEqual(self.admin("devices", "list")["devices"], [])
        ann.execute("INSERT INTO reports DOCUMENTS ({'_id': 'r3'})")
        self.assertTrue(ann.ask(".status")["authenticated"])
        # It asks to join again, and gets nothing meanwhile.
        phone.asks_to_join()
        self.assertEqual(len(phone.query(select)), 2)
        acts = {one["action"] for one in self.admin("audit", "list", "--limit", "1000")["entries"]}
        for action in ("login", "link use", "join", "join answer", "join key", "DELETE /admin/auth/databases/:database/accounts/:account"):
            self.assertIn(action, acts)

    def test_the_other_verbs_do_what_they_say(self):
        """Each is run as an operator runs it."""
        self.admin("sets", "put", "crew", "--permissions", json.dumps(CREW))
        made = self.admin("accounts", "create", "--provider", "staff", "--name", "ann", "--set", "crew", "--mail", "ann@example.org")
        self.assertFalse(made["mailed"])
        self.accept(made["link"])
        session = self.log_in("ann").json["accessToken"]
        (listed,) = self.admin("account-sessions", "list", "ann")["sessions"]
        self.admin("account-sessions", "end", "ann", listed["id"])
        self.assert_refused(self.call("GET", "account", token=session), 401)
        changed = self.admin("accounts", "change", "ann", "--mail", "ann@example.com", "--expires-at", "2099-01-01")
        self.assertEqual((changed["mail"], changed["set"], changed["expiresAt"]), ("ann@example.com", "crew", 4070908800))
        session = self.log_in("ann").json["accessToken"]
        self.accept(self.admin("accounts", "reset", "ann")["link"])
        self.assert_refused(self.call("GET", "account", token=session), 401)
        look = self.admin("accounts", "view", "ann")
        verdict = self.admin("access", "explain", "--account", "ann", "--collection", "reports", "--id", "r1")
        self.assertTrue(verdict["read"]["allowed"])
        statement = {"statement": "INSERT INTO reports DOCUMENTS ({'_id': 1})"}
        bearer = {"Authorization": f"Bearer {look['accessToken']}"}
        self.assert_refused(self.server.request("POST", "/api/v5/store/execute", statement, bearer), 403)
        made = self.admin("invitations", "create", "--provider", "staff")
        (listed,) = self.admin("invitations", "list")["invitations"]
        self.admin("invitations", "delete", listed["id"])
        self.assert_refused(self.call("POST", "link", {"token": made["link"].rsplit("/", 1)[1]}), 410)
        for deny in (False, True):
            asked = self.call("POST", "join", {"databaseID": "fleet", "name": "gate"}).json
            words = ["--deny", "true"] if deny else ["--set", "crew", "--name", "gate 1"]
            self.admin("joins", "answer", asked["userCode"], *words)
            answer = self.call("POST", "join/key", {"deviceCode": asked["deviceCode"]})
            self.assertEqual(answer.status, 403 if deny else 200, answer.body)
        (device,) = self.admin("devices", "list")["devices"]
        self.assertEqual(device["user"], "device:gate 1")
        self.admin("devices", "delete", device["id"])
        self.admin("accounts", "change", "ann", "--set", "null", "--end-sessions", "true", code=1)
        self.admin("accounts", "change", "ann", "--body", '{"set": null, "endSessions": true}')
        self.admin("sets", "delete", "crew")
        self.assertEqual(self.admin("sets", "list")["sets"], [])

    def test_a_peer_logs_in_with_an_api_key_and_ends_with_it(self):
        made = self.admin("api-keys", "create", "--name", "gate", "--permissions", json.dumps(CREW))
        login = ["--url", self.server.origin, "--provider", "api-key", "--token", made["key"]]
        peer = AccountPeer(self.workspace, "gate", self.server, login, ["SELECT * FROM reports"])
        until(lambda: peer.ask(".status")["connected"], 60, "the peer does not connect")
        peer.execute("INSERT INTO reports DOCUMENTS ({'_id': 'r1'})")
        (listed,) = self.admin("api-keys", "list")["apiKeys"]
        self.assertEqual(len(listed["peers"]), 1)
        self.admin("api-keys", "delete", made["id"])
        until(lambda: not peer.ask(".status")["connected"], 60, "the peer of a deleted key stays connected")
        until(lambda: any("AUTH-0404" in json.dumps(one) for one in peer.events) or peer.ask(".status") is None, 60, "not told")


    def test_a_program_with_the_sdk_joins_and_keeps_its_credential(self):
        """In a process of its own, as an application is."""
        key = self.admin("api-keys", "create", "--name", "writer", "--permissions", json.dumps(CREW))["key"]

        def insert(name):
            statement = {"statement": "INSERT INTO reports DOCUMENTS ({'_id': :id})", "args": {"id": name}}
            bearer = {"Authorization": f"Bearer {key}"}
            self.assertEqual(self.server.request("POST", "/api/v5/store/execute", statement, bearer).status, 200)

        def start():
            return self.workspace.start("probe", [
                binary("sdk-probe"), "join", self.workspace.directory / "probe", "fleet", self.server.origin, "tablet"])

        def lines(process, wanted, value=None):
            """The lines up to the first one with this member, and this value where one is given."""
            found = []
            while not found or wanted not in found[-1] or value not in (None, found[-1][wanted]):
                line = process.line(len(found), 60)
                self.assertIsNotNone(line, process.log_tail())
                found.append(json.loads(line))
            return found

        insert("r1")
        probe = start()
        shown = lines(probe, "code")[-1]
        self.assertEqual(shown["qrText"], f"{self.server.origin}/#/join/fleet/{shown['code']}")
        self.assertEqual(shown["url"], f"{self.server.origin}/#/join")
        self.admin("joins", "answer", shown["code"], "--permissions", json.dumps(CREW))
        self.assertEqual(lines(probe, "user")[-1]["user"], "device:tablet")
        lines(probe, "reports", 1)
        probe.kill()
        # Another run shows no code.
        again = start()
        insert("r2")
        self.assertNotIn("code", [key for line in lines(again, "reports", 2) for key in line])
        (device,) = self.admin("devices", "list")["devices"]
        self.admin("devices", "delete", device["id"])
        # It asks anew, with another code, and is denied.
        code = lines(again, "code")[-1]["code"]
        self.assertNotEqual(code, shown["code"])
        self.admin("joins", "answer", code, "--deny", "true")
        self.assertIn("AUTH-0422", lines(again, "failed")[-1]["failed"])


class Attacks(PeopleTest):
    arguments = ("--behind-proxy", "--development-login")

    def test_who_floods_or_guesses_hinders_nobody_else(self):
        for name in ("ann", "bob"):
            self.admin("accounts", "create", "--provider", "staff", "--name", name, "--password", PASSWORD)
        self.assertEqual(self.log_in("ann", origin="10.0.0.1").status, 200)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            guesses = [pool.submit(self.log_in, "ann" if at % 4 < 2 else "nobody", f"guess {at}", f"10.1.{at % 2}.1") for at in range(60)]
            honest = [self.log_in(name, origin=f"10.0.0.{at}") for at, name in enumerate(("ann", "bob"), 1)]
            refused = [one.result() for one in guesses]
        self.assertEqual([one.status for one in honest], [200, 200])
        codes = {one.error["code"] for one in refused}
        self.assertLessEqual(codes, {"AUTH-0404", "AUTH-0414", "AUTH-0410", "AUTH-0413"})
        self.assertTrue({"AUTH-0414", "AUTH-0410"} & codes, codes)
        # A guess that had to wait counted as none.
        until(lambda: self.log_in("ann", "guess", "10.1.1.1").error["code"] in ("AUTH-0414", "AUTH-0410"), 60,
              "guesses are answered for ever", pause=0)
        locked = self.log_in("ann", origin="10.1.1.1")
        self.assertIn(locked.error["code"], ("AUTH-0414", "AUTH-0410"))
        self.assertIn("Retry-After", locked.headers)

    def test_an_unknown_name_is_answered_like_a_wrong_password(self):
        self.admin("accounts", "create", "--provider", "staff", "--name", "ann", "--password", PASSWORD)
        times, answers = {"ann": [], "nobody": []}, {}
        for at in range(3):
            for name in times:
                began = time.monotonic()
                answer = self.log_in(name, "wrong password", f"10.2.{at}.1")
                times[name].append(time.monotonic() - began)
                answers[name] = (answer.status, answer.json["error"])
        self.assertEqual(answers["ann"], answers["nobody"])
        began = time.monotonic()
        hashlib.scrypt(PASSWORD.encode(), salt=b"s" * 16, n=1 << 15, r=8, p=3, maxmem=1 << 27)
        bare = time.monotonic() - began
        least = {name: min(found) for name, found in times.items()}
        report(f"a refused login: known {least['ann'] * 1000:.0f} ms, unknown {least['nobody'] * 1000:.0f} ms, bare scrypt {bare * 1000:.0f} ms")

    def test_a_second_factor_is_needed_and_each_code_counts_once(self):
        self.admin("accounts", "create", "--provider", "staff", "--name", "ann", "--password", PASSWORD)
        token = self.log_in("ann").json["accessToken"]
        secret = self.call("POST", "account/second-factor", {"password": PASSWORD}, token).json["secret"]
        now = time.time()
        confirmed = self.call("POST", "account/second-factor", {"password": PASSWORD, "code": one_time_code(secret, now - 30)}, token)
        self.assertEqual(confirmed.status, 204, confirmed.body)
        self.assertEqual(self.log_in("ann").error["code"], "AUTH-0416")
        code = one_time_code(secret, now)
        self.assertEqual(self.log_in("ann", code=code).status, 200)
        self.assertEqual(self.log_in("ann", code=code).error["code"], "AUTH-0404")

    def test_secrets_stand_in_no_list_and_no_log(self):
        made = self.admin("invitations", "create", "--provider", "staff", "--name", "ann")
        self.accept(made["link"])
        token = self.log_in("ann").json["accessToken"]
        secret = self.call("POST", "account/second-factor", {"password": PASSWORD}, token).json["secret"]
        asked = self.call("POST", "join", {"databaseID": "fleet"}).json
        texts = [json.dumps(self.admin(*words)) for words in (
            ("accounts", "list"), ("account-sessions", "list", "ann"), ("invitations", "list"), ("joins", "list"),
            ("audit", "list", "--limit", "1000"))]
        texts += [path.read_text(errors="replace") for path in self.workspace.directory.rglob("*.log")]
        for hidden in (PASSWORD, made["link"][-24:], token, secret, asked["deviceCode"][-24:], "scrypt$"):
            for text in texts:
                self.assertNotIn(hidden, text)
        stored = b"".join(path.read_bytes() for path in self.server.data.rglob("*") if path.is_file())
        for hidden in (PASSWORD, made["link"][-24:], secret):
            self.assertNotIn(hidden.encode(), stored)


class TeamInBrowser(ConsolePages):
    """The same five minutes, on the pages of the console."""

    def invite(self, name):
        """Invites somebody on the page People; returns the link."""
        self.browser.click("Invite", "button")
        self.browser.fill("Name", name)
        self.browser.click("Make the link")
        self.browser.await_text("It works once")
        link = self.browser.run("document.querySelector('dialog[open] pre.secret').innerText")
        self.browser.click("Done")
        return link

    def sign_out(self):
        self.browser.click("Sign out")
        self.browser.await_text("Name and password")

    def test_a_team_of_three(self):
        database = self.server.database
        self.enter()
        self.go("people")
        self.browser.click("Let people have accounts")
        self.browser.click("New set")
        self.browser.fill("Name", "crew")
        self.browser.click("Keep it")
        self.browser.await_text("reads everything; writes nothing")
        links = {name: self.invite(name) for name in ("ann", "bob")}
        self.browser.click("Set limits")
        self.browser.fill("Limits as JSON", '{"whole": {"requestsPerSecond": 0}}')
        self.browser.click("Keep them")
        self.browser.await_text("whole.requestsPerSecond must be a whole number from 1")
        self.browser.fill("Limits as JSON", '{"whole": {"requestsPerSecond": 10000}, "users": {"ann": {"sessions": 3}}}')
        self.browser.click("Keep them")
        self.browser.await_true("/10,000[^]*ann[^]*3/.test(document.body.innerText)")
        self.assert_accessible_in_both("people")
        self.sign_out()

        self.browser.open("about:blank")
        self.browser.open(links["ann"])
        self.browser.await_text("Welcome, ann")
        self.browser.fill("A password", PASSWORD)
        self.browser.fill("The same again", PASSWORD)
        self.assert_accessible_in_both("welcome")
        self.browser.click("Join", "button")
        self.browser.await_text("Account")
        self.go("account")
        self.browser.await_text("this one")
        self.assert_accessible_in_both("account")

        asked = self.server.request("POST", "/_ditto/auth/join", {"databaseID": database, "name": "tablet"}).json
        self.browser.run(f"location.hash = '#/join/{database}/{asked['userCode'].lower()}'")
        self.browser.await_text("calls itself tablet")
        self.assert_accessible_in_both("join")
        self.browser.fill("Name", "Ann's tablet")
        self.browser.click("Approve")
        self.browser.await_text("Ann's tablet joins.")
        key = self.server.request("POST", "/_ditto/auth/join/key", {"deviceCode": asked["deviceCode"]}).json["apiKey"]
        read = {"statement": "SELECT * FROM reports"}
        execute = lambda: self.server.request("POST", "/api/v5/store/execute", read, {"Authorization": f"Bearer {key}"}).status
        self.assertEqual(execute(), 200)
        self.go("account")
        self.browser.await_text("Ann's tablet")
        # The other pages as somebody sees them who is no administrator.
        for place, text in (("overview", "ann"), ("data", "Data"), ("query", "Run"), ("people", "People is for administrators"), ("api", "Statements")):
            self.go(place)
            self.browser.await_text(text)
            self.assert_accessible_in_both(f"{place}, for ann")
        self.sign_out()
        self.browser.fill("Name", "ann")
        self.browser.fill("Password", "wrong password")
        self.browser.click("Sign in")
        self.browser.await_text("The name or the password is wrong")
        self.browser.fill("Password", PASSWORD)
        self.browser.click("Sign in")
        self.browser.await_text("Sign out")
        self.sign_out()

        self.browser.click("Open this machine's server")
        self.go("people")
        self.browser.click("ann", "button.link")
        self.assert_accessible_in_both("a person")
        self.browser.click("See what ann sees")
        self.browser.await_text("sees what ann sees")
        self.assert_accessible_in_both("a look as somebody else")
        self.browser.click("End the look")
        self.browser.await_true("!document.body.innerText.includes('sees what ann sees')")
        self.go("people")
        self.browser.click("ann", "button.link")
        self.browser.click("Remove", "dialog button")
        self.browser.click("Remove ann")
        self.browser.await_true("!document.querySelector('.people table')?.innerText.includes('ann')")
        self.assertEqual(execute(), 401)
        self.browser.open("about:blank")
        self.browser.open(links["ann"])
        self.browser.await_text("A link works once")
        self.assert_sound()
