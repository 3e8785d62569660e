"""The console under the habits of people: who types fast, clicks elsewhere, forgets a quote, asks for too much."""

import json
import urllib.parse

from console_pages import ConsolePages
from mimeo_harness import Peer, pick, until

STATEMENT = "SELECT c._id, count_of AS n FROM cars AS c WHERE c.price > 12.5 AND make = 'a' ORDER BY n LIMIT 10"
MODULE = "import(document.querySelector('script[type=module]').src.replace('main.js', '{}'))"
EDITOR = "document.querySelector('dialog .CodeMirror, main .CodeMirror').CodeMirror"


def pick_one(rows):
    """The only row."""
    [row] = rows
    return row


class Typing(ConsolePages):
    """Keys that come faster than the page draws."""

    def type_into_editor(self, text):
        """Types in place of the editor's content, and sees that the text is in it as it was typed."""
        self.browser.fill("Statement" if "query" in self.browser.run("location.hash") else "Document as JSON", "")
        self.browser.run(f"{EDITOR}.focus()")
        self.browser.type(text)
        self.browser.await_true(f"{EDITOR}.getValue() === {json.dumps(text)}")

    def test_a_statement_typed_at_five_milliseconds_a_key_is_whole_and_kept(self):
        self.enter()
        self.go("query")
        self.browser.await_true("Boolean(document.querySelector('.CodeMirror'))")
        kept = f"JSON.parse(localStorage['mimeo.draft.{self.server.database}'])"
        for turn in range(pick(5, 50)):
            text = f"{STATEMENT} OFFSET {turn}"
            self.type_into_editor(text)
            self.browser.await_true(f"{kept} === {json.dumps(text)}")
        # A text that comes from elsewhere still takes the place of what was typed, also one that was typed before.
        self.browser.click("Save")
        self.type_into_editor("SELECT 1")
        self.browser.click("Saved")
        self.browser.click(STATEMENT, "dialog button")
        self.browser.await_true(f"{EDITOR}.getValue() === {json.dumps(text)}")
        self.assert_sound()

    def test_a_document_typed_fast_into_a_dialog_is_the_one_inserted(self):
        self.enter()
        self.go("data")
        self.browser.click("New collection")
        self.browser.await_true("Boolean(document.querySelector('dialog .CodeMirror'))")
        self.browser.fill("Collection", "cars")
        # The editor closes braces and quotes by itself, and types over them.
        self.type_into_editor('{"_id": "typed", "list": [1, 2.5, {"deep": "x"}], "price": 3}')
        self.browser.click("Insert", "dialog button")
        self.browser.await_text("1 of 1")
        self.assertEqual(self.server.query("SELECT * FROM cars"), [{"_id": "typed", "list": [1, 2.5, {"deep": "x"}], "price": 3}])
        self.assert_sound()


class Statements(ConsolePages):
    """Statements that find or change much."""

    def run_statement(self, statement):
        self.browser.await_true("Boolean(document.querySelector('main .CodeMirror'))")
        self.browser.fill("Statement", statement)
        self.browser.click("Run")

    def test_a_thousand_rows_come_at_first_and_more_when_they_are_wanted(self):
        self.insert("rows", [{"_id": index, "n": index} for index in range(2_500)])
        self.enter()
        self.go("query")
        for statement, shown in (("SELECT * FROM rows", "2,500"), ("SELECT * FROM rows LIMIT 1200", "1,200"), ("SELECT RAW n FROM rows ORDER BY n", "2,500")):
            self.run_statement(statement)
            self.browser.await_text("The first 1,000 rows in")
            self.assertEqual(self.browser.run(f"{EDITOR}.getValue()"), statement)
            self.browser.click("Show more")
            self.browser.await_text(f"{shown} rows")
            self.assertNotIn("there are more", self.browser.text)
        # Exactly as many as are read are all.
        self.run_statement("SELECT * FROM rows LIMIT 1000")
        self.browser.await_text("1,000 rows")
        self.browser.await_text("at offset")
        self.assertNotIn("there are more", self.browser.text)
        self.run_statement("SELECT * FROM rows LIMT 3")
        self.browser.await_text("found LIMT (did you mean LIMIT?) Line 1, column 20.")
        self.assert_sound()

    def test_what_changes_more_than_one_document_is_asked_and_can_be_undone(self):
        rows = [{"_id": index, "n": index, "text": f"it's {index}", "deep": {"a": [1.5, index]}} for index in range(700)]
        self.insert("rows", rows)
        self.enter()
        self.go("query")
        everything = lambda: self.server.query("SELECT * FROM rows ORDER BY _id")
        self.run_statement("DELETE FROM rows")
        self.browser.await_text("Delete 700 documents of rows?")
        self.assert_accessible("the question before a statement")
        self.browser.press("Escape")
        self.browser.await_true("!document.querySelector('dialog')")
        self.assertEqual(everything(), rows)
        for statement, count, act in (
            ("DELETE FROM rows;", 700, "Delete"), ("UPDATE rows SET n = n + 1, deep.b = 'WHERE' UNSET text WHERE _id >= 200 -- WHERE false", 500, "Change"),
            ("UPDATE rows SET n = -1 WHERE n < 600 ORDER BY _id LIMIT 3", 3, "Change"),
        ):
            self.run_statement(statement)
            self.browser.await_text(f"{act} {count} documents of rows?")
            self.browser.click(f"{act} {count}", "dialog button")
            self.browser.await_text(f"{count} documents changed")
            self.assertNotEqual(everything(), rows)
            self.browser.click("Undo")
            self.browser.await_text(f"Undone: {count} documents")
            self.assertEqual(everything(), rows, statement)
        # One document is not asked about. What others have written meanwhile stays.
        self.run_statement("UPDATE rows SET n = 1000 WHERE _id = 5")
        self.browser.await_text("1 document changed")
        self.server.execute("UPDATE rows SET n = 1001 WHERE _id = 5")
        self.browser.click("Undo")
        self.browser.await_text("Undone: 0 documents; 1 changed by others meanwhile")
        self.assertEqual(self.server.query("SELECT RAW n FROM rows WHERE _id = 5"), [1001])
        # An insertion is taken back, but for the document that somebody has added to; large documents come back as well.
        self.run_statement("INSERT INTO rows DOCUMENTS ({'_id': 'new'}), ({'_id': 'newer'})")
        self.browser.await_text("2 documents changed")
        self.server.execute("UPDATE rows SET more = 1 WHERE _id = 'newer'")
        self.browser.click("Undo")
        self.browser.await_text("Undone: 1 document; 1 changed by others meanwhile")
        self.assertEqual(self.server.query("SELECT RAW _id FROM rows WHERE _id IN ['new', 'newer']"), ["newer"])
        # A document that comes back refers to its attachment as before: a plain object with the same members would not.
        stored = self.server.request("POST", "/api/v5/attachments/upload", b"bytes", {**self.server.authorization(), "Content-Type": "text/plain"}).json
        token = {**stored, "metadata": {"name": "plan.txt"}}
        self.server.execute("INSERT INTO COLLECTION plans (file ATTACHMENT, deep MAP(file ATTACHMENT)) DOCUMENTS (:d)", {"d": {"_id": 1, "file": token, "deep": {"file": token}}})
        self.run_statement("DELETE FROM plans")
        self.browser.await_text("1 document changed")
        self.browser.click("Undo")
        self.browser.await_text("Undone: 1 document")
        self.assertEqual(self.server.query("SELECT file, deep FROM COLLECTION plans (file ATTACHMENT, deep MAP(file ATTACHMENT))"), [{"file": token, "deep": {"file": token}}])
        self.assertEqual(self.server.request("GET", "/api/v5/attachments?collection=plans", None, self.server.authorization()).json["count"], 1)
        self.assert_sound()

    def undo(self, text="Undone: 1 document"):
        self.browser.click("Undo")
        self.browser.await_text(text)

    def test_undo_counts_counters_back_and_writes_other_kinds_as_they_were(self):
        kinds = "COLLECTION sums (n COUNTER, deep MAP(n COUNTER), whole REGISTER)"
        first = {"_id": 1, "n": 5, "deep": {"n": 7, "x": 1}, "whole": {"a": [1]}}
        self.server.execute(f"INSERT INTO {kinds} DOCUMENTS (:d)", {"d": first})
        shown = lambda: pick_one(self.server.query("SELECT * FROM sums"))
        as_kinds = lambda: pick_one(self.server.query(f"SELECT * FROM {kinds}"))
        self.enter()
        self.go("query")
        # Others go on counting while an increment is undone: their part stays.
        self.run_statement("UPDATE sums APPLY n INCREMENT BY 10, deep.n PN_INCREMENT BY 2.5 SET deep.x = 2")
        self.browser.await_text("1 document changed")
        self.server.execute("UPDATE sums APPLY n INCREMENT BY 100")
        self.undo()
        self.assertEqual(shown(), {**first, "n": 105, "deep": {"n": 7.0, "x": 1}})
        self.server.execute("UPDATE sums APPLY n INCREMENT BY -100")
        # A restart is undone, too, and a plain value over a counter goes: the counter below it counts on.
        for statement in ("UPDATE sums APPLY n RESTART", "UPDATE sums SET n = 50", "UPDATE sums UNSET n, deep, whole", "DELETE FROM sums"):
            before = (shown(), as_kinds())
            self.run_statement(statement)
            self.browser.await_text("1 document changed")
            self.undo()
            self.assertEqual((shown(), as_kinds()), before, statement)
            self.server.execute("UPDATE sums APPLY n INCREMENT BY 1, deep.n INCREMENT BY 1")
            self.assertEqual([as_kinds()[key]["n"] if key == "deep" else as_kinds()[key] for key in ("n", "deep")], [before[0]["n"] + 1, before[0]["deep"]["n"] + 1], statement)
        # Where others have written a plain value over the counter since, nothing is counted beneath it.
        self.run_statement("UPDATE sums APPLY n INCREMENT BY 10")
        self.browser.await_text("1 document changed")
        self.server.execute("UPDATE sums SET n = 'closed'")
        self.undo("Undone: 0 documents; 1 changed by others meanwhile")
        self.assertEqual(shown()["n"], "closed")
        self.assert_sound()

    def test_an_operation_is_undone_once_in_however_many_tabs_and_by_whoever(self):
        self.server.execute("INSERT INTO COLLECTION sums (n COUNTER) DOCUMENTS ({'_id': 1, 'n': 5})")
        self.enter()
        self.go("query")
        self.run_statement("UPDATE sums APPLY n INCREMENT BY 10")
        self.browser.await_text("1 document changed")
        offset = self.server.execute("SELECT _id FROM sums")["transactionId"]
        elsewhere = MODULE.format("parts/undo.js") + f".then(({{ undo }}) => undo({json.dumps(self.server.database)}, {offset}))"
        self.assertEqual(self.browser.run(elsewhere), {"done": 1, "left": 0, "before": 0})
        self.undo("Undone: 0 documents; 1 undone before")
        self.assertEqual(self.browser.run(elsewhere), {"done": 0, "left": 0, "before": 1})
        self.assertEqual(self.server.query("SELECT n FROM sums"), [{"n": 5}])
        # Others may undo it without the console: their key names the same operation.
        undone = self.server.post_statement("UPDATE COLLECTION sums (n COUNTER) APPLY n INCREMENT BY -10 WHERE _id = 1", None, {"Idempotency-Key": f"undo/{offset}/0"})
        self.assertEqual((undone.status, undone.json["error"]["code"]), (409, "QUERY-0307"))
        self.assertEqual(self.server.query("SELECT n FROM sums"), [{"n": 5}])

    def test_undo_of_an_insertion_deletes_only_documents_that_are_as_they_were_inserted(self):
        self.enter()
        self.go("query")
        self.run_statement(
            "INSERT INTO COLLECTION kept (n COUNTER) DOCUMENTS ({'_id': 'as it was', 'n': 1, 'kept': [1.5, null, {'a': 'é'}]}), ({'_id': 'counted', 'n': 1}),"
            " ({'_id': 'more', 'a': 1}), ({'_id': 'less', 'a': 1, 'b': 2}), ({'_id': 'again', 'a': 1}), ({'_id': {'deep': 1}, 'a': null})")
        self.browser.await_text("6 documents changed")
        for change in ("UPDATE COLLECTION kept (n COUNTER) APPLY n INCREMENT BY 1 WHERE _id = 'counted'", "UPDATE kept SET b = null WHERE _id = 'more'",
                       "UPDATE kept UNSET b WHERE _id = 'less'", "UPDATE kept SET a = 2 WHERE _id = 'again'", "UPDATE kept SET a = 1 WHERE _id = 'again'"):
            self.server.execute(change)
        self.undo("Undone: 3 documents; 3 changed by others meanwhile")
        self.assertEqual(self.server.query("SELECT * FROM kept ORDER BY _id"), [{"_id": "counted", "n": 2}, {"_id": "less", "a": 1}, {"_id": "more", "a": 1, "b": None}])
        self.assert_sound()

    def test_undo_leaves_a_document_whose_former_value_json_cannot_hold(self):
        self.server.execute("INSERT INTO wide DOCUMENTS ({'_id': 1, 'x': 1e308 * 10, 'y': 1})")
        self.enter()
        self.go("query")
        self.run_statement("UPDATE wide SET x = 2, y = 2")
        self.browser.await_text("1 document changed")
        self.undo("Undone: 0 documents; 1 changed by others meanwhile")
        self.assertEqual(self.server.query("SELECT x, y FROM wide"), [{"x": 2, "y": 2}])
        self.assert_sound()

    def test_large_documents_that_were_deleted_come_back(self):
        self.enter()
        self.go("query")
        large = [{"_id": index, "text": str(index) * 1_500_000} for index in range(10)]
        for one in large:
            self.insert("large", [one])
        self.run_statement("DELETE FROM large")
        self.browser.click("Delete 10", "dialog button")
        self.browser.await_text("10 documents changed")
        self.browser.click("Undo")
        # 15 MB in eight requests: on a busy machine that takes a while.
        self.browser.await_text("Undone: 10 documents", 120)
        self.assertEqual(self.server.query("SELECT * FROM large ORDER BY _id"), large)
        self.assert_sound()

    def test_a_statement_is_read_for_what_it_would_change(self):
        self.enter()
        counting = {
            "SELECT * FROM a WHERE x = 'DELETE FROM b'": None, "INSERT INTO a DOCUMENTS ({'_id': 1})": None, "": None, "DELETE": None,
            "delete from a": "SELECT RAW COUNT(*) FROM a", "DELETE FROM `where` WHERE x = ' LIMIT 3' ;": "SELECT RAW COUNT(*) FROM `where` WHERE x = ' LIMIT 3'",
            "/* all */ UPDATE COLLECTION a (p ATTACHMENT) SET x = (y), s = 'WHERE' WHERE z IN [1, 2] LIMIT 9": "SELECT RAW COUNT(*) FROM COLLECTION a (p ATTACHMENT) WHERE z IN [1, 2]",
            "UPDATE a SET a.`where` = 1 -- WHERE x\nWHERE y": "SELECT RAW COUNT(*) FROM a WHERE y", "PROFILE DELETE FROM a WHERE b": "SELECT RAW COUNT(*) FROM a WHERE b",
        }
        found = self.browser.run(MODULE.format("dql.js") + f".then(({{ changeOf }}) => {json.dumps(list(counting))}.map((text) => changeOf(text)?.count ?? null))")
        self.assertEqual(dict(zip(counting, found)), counting)


    def test_an_answer_that_breaks_off_is_no_whole_one(self):
        self.enter()
        rows = '{"_id":1}\\n{"_id":2}\\n'
        for end, code in (("controller.error(new TypeError('network error'))", "NETWORK"), ("controller.close()", "ANSWER")):
            found = self.browser.run(MODULE.format("api.js") + f""".then(async ({{ executeRows }}) => {{
                const own = window.fetch;
                window.fetch = async () => new Response(new ReadableStream({{ pull(controller) {{
                    if (this.isSent) return {end};
                    this.isSent = true;
                    controller.enqueue(new TextEncoder().encode('{rows}'));
                }} }}));
                try {{
                    return JSON.stringify(await executeRows('x', 'SELECT', {{}}, {{ most: 10, signal: new AbortController().signal }}));
                }} catch (error) {{ return error.code; }} finally {{ window.fetch = own; }}
            }})""")
            self.assertEqual(found, code)


class Tables(ConsolePages):
    """Filters, columns and menus of the page Data."""

    def header(self):
        return self.browser.run("[...document.querySelectorAll('[role=columnheader]')].map((one) => one.innerText.trim().replace(/ [↑↓]$/, ''))")

    def where(self):
        return self.browser.run("new URLSearchParams(location.hash.split('?')[1]).get('where') ?? ''")

    def test_a_menu_closes_by_a_press_elsewhere_and_a_dialog_by_escape_from_its_editor(self):
        self.insert("cars", [{"_id": f"c{index}", "make": "a"} for index in range(5)])
        self.enter()
        self.go("data/cars")
        self.browser.await_text("5 of 5")
        for elsewhere in ("document.querySelector('.documents h1')", "document.querySelector('.table-head')", "document.querySelector('.count')"):
            self.browser.mouse("document.querySelectorAll('.table-row .picks')[3]")
            self.browser.await_true("Boolean(document.querySelector('[role=menu]'))")
            self.browser.mouse(elsewhere)
            self.browser.await_true("!document.querySelector('[role=menu]')")
        self.browser.click("Insert")
        self.browser.await_true("document.activeElement.closest('dialog .CodeMirror') !== null")
        self.browser.press("Escape")
        self.browser.await_true("!document.querySelector('dialog')")
        # A press beside a dialog closes it, unless that would lose what was typed.
        beside = "document.querySelector('nav .version')"
        self.browser.press("?")
        self.browser.await_text("go to a page, collection or document")
        self.browser.mouse(beside)
        self.browser.await_true("!document.querySelector('dialog')")
        self.browser.click("Insert")
        self.browser.await_true("document.activeElement.closest('dialog .CodeMirror') !== null")
        self.browser.type("x")
        self.browser.mouse(beside)
        self.browser.click("Cancel", "dialog button")
        self.browser.await_true("!document.querySelector('dialog')")
        self.go("query")
        self.browser.await_true("Boolean(document.querySelector('main .CodeMirror'))")
        self.browser.run(f"{EDITOR}.focus()")
        self.browser.type(" WHER")
        self.browser.await_true("Boolean(document.querySelector('.CodeMirror-hints'))")
        self.browser.press("Escape")
        self.browser.await_true("!document.querySelector('.CodeMirror-hints')")
        self.assert_sound()

    def test_a_filter_is_made_without_dql_and_a_mistaken_one_is_explained(self):
        self.insert("orders", [{"_id": index, "status": "paid" if index % 2 else "it's open", "total": index * 1.5, "to": {"city": "berlin"}, "isLate": index < 3, "note": None} for index in range(20)])
        self.enter()
        self.go("data/orders")
        self.browser.await_text("20 of 20")
        self.browser.click("By field")
        self.browser.await_true("document.querySelectorAll('.filter-row select')[0].options.length >= 6")
        self.assert_accessible("a filter by fields")
        made = [
            ("status", "is", "paid", "10 of 10", "status = 'paid'"), ("status", "starts", "it's", "10 of 10", "starts_with(status, 'it''s')"),
            ("total", "least", "27", "2 of 2", "total >= 27"), ("to.city", "contains", "erl", "20 of 20", "contains(`to`.city, 'erl')"),
            ("isLate", "is", "true", "3 of 3", "isLate = true"), ("status", "in", "paid, it's open", "20 of 20", "status IN ['paid', 'it''s open']"),
            ("total", "missing", None, "No document fits", "total IS MISSING"), ("note", "null", None, "20 of 20", "note IS NULL"),
        ]
        for field, how, value, text, condition in made:
            self.browser.fill("Field", json.dumps(field.split("."), separators=(",", ":")))
            self.browser.fill("Comparison", how)
            if value is not None:
                self.browser.fill("Value", value)
            self.browser.click("Add")
            self.browser.await_text(text)
            self.assertEqual(self.where(), condition)
            self.browser.click("Clear")
            self.browser.await_text("20 of 20")
        self.browser.fill("Field", '["total"]')
        self.browser.fill("Comparison", "is")
        self.browser.fill("Value", "many")
        self.browser.click("Add")
        self.browser.await_text("“many” is no number")
        for typed, told, click, then in (
            ("statu = 'paid'", "No document of the sample has a field statu.", "Take status", "10 of 10"),
            ("status = paid", "A text stands in quotes", "Take 'paid'", "10 of 10"), ("berlin", "A condition compares a field with a value", None, None),
        ):
            self.go("data/orders?where=" + urllib.parse.quote(typed))
            self.browser.await_text(told)
            if click:
                self.browser.click(click)
                self.browser.await_text(then)
        # A condition whose fields are all known, and which finds nothing, has no such hint.
        self.go("data/orders?where=" + urllib.parse.quote("total > 1000 AND `status` = 'a' AND lower(status) = 'b'"))
        self.browser.await_text("No document fits the condition")
        self.assertNotIn("of the sample", self.browser.text)
        self.assert_sound()

    def test_columns_are_widened_hidden_and_ordered_and_stay_so(self):
        self.insert("cars", [{"_id": f"{index:08}-0000-0000-0000-000000000000", "created": f"2026-01-01T00:{index:02}:00Z", "make": "citroen", "n": index} for index in range(30)])
        self.enter()
        self.go("data/cars")
        self.browser.await_text("30 of 30")
        self.assertEqual(self.header(), ["Chosen", "_id", "created", "make", "n"])
        cut = "[...document.querySelectorAll('.table-row')].filter((row) => row.children[2].scrollWidth > row.children[2].clientWidth).length"
        self.assertEqual(self.browser.run(cut), 0, "a time is cut")
        width = "document.querySelectorAll('[role=columnheader]')[1].getBoundingClientRect().width"
        before = self.browser.run(width)
        self.browser.mouse("document.querySelectorAll('.edge')[0]", by=120)
        self.browser.await_true(f"Math.abs({width} - {before} - 120) < 3")
        self.browser.run("document.querySelectorAll('.edge')[0].focus()")
        self.browser.press("ArrowLeft")
        self.browser.await_true(f"Math.abs({width} - {before} - 104) < 3")
        self.browser.click("Columns")
        self.assert_accessible("the columns of a table")
        self.browser.click("n further to the left")
        self.browser.click("make", "dialog label")
        self.browser.click("Done")
        self.assertEqual(self.header(), ["Chosen", "_id", "created", "n"])
        self.browser.open("about:blank")
        self.browser.open(f"{self.server.origin}/#/db/{self.server.database}/data/cars")
        self.browser.await_text("30 of 30")
        self.assertEqual(self.header(), ["Chosen", "_id", "created", "n"])
        self.assertLess(abs(self.browser.run(width) - before - 104), 3)
        self.browser.click("Columns")
        self.browser.click("As at first")
        self.browser.click("Done")
        self.assertEqual(self.header(), ["Chosen", "_id", "created", "make", "n"])
        self.assert_sound()


class Names(ConsolePages):
    """What pages tell of devices, databases and themselves."""

    def test_a_database_and_a_device_have_names_and_a_device_that_left_keeps_its(self):
        peer = Peer(self.workspace, "a", self.server, subscribe=["SELECT * FROM cars"])
        self.enter()
        self.browser.click("Name it")
        self.browser.fill("Name", "Till & shop")
        self.browser.click("Save")
        self.browser.await_true("document.querySelector('h1').innerText === 'Till & shop' && document.querySelector('nav select').selectedOptions[0].innerText === 'Till & shop'")
        self.go("sync")
        self.browser.await_text("1 session")
        name = self.browser.run("document.querySelector('.presence .peer text').innerText || document.querySelector('.presence .peer text').textContent").split(" ")[0]
        peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'x'})")
        self.go("live?since=0")
        self.browser.await_true(f"[...document.querySelectorAll('.table-row')].some((row) => row.lastChild.innerText.startsWith({json.dumps(name)}))")
        peer.stop_sync()
        self.go("sync")
        self.browser.await_true(f"document.querySelector('.away-devices')?.innerText.includes({json.dumps(name)})")
        self.assert_accessible("devices that are away")
        self.go("data/cars/%22x%22")
        self.browser.click("History")
        self.browser.await_true(f"document.querySelector('.story header b')?.innerText.startsWith({json.dumps(name)})")
        self.go("overview")
        self.browser.await_true(f"document.querySelector('.who-wrote')?.innerText.startsWith({json.dumps(name)})")
        self.assert_sound()

    def test_a_page_is_not_live_beside_an_error_and_nothing_is_none_before_it_was_looked_for(self):
        for index in range(61):
            stored = self.server.request("POST", "/api/v5/attachments/upload", f"{index:05}".encode(), {**self.server.authorization(), "Content-Type": "text/plain"}).json
            metadata = {"name": f"plan {index}.txt", "mime_type": "text/plain"}
            self.server.execute("INSERT INTO COLLECTION many (file ATTACHMENT) DOCUMENTS (:d)", {"d": {"_id": f"{index:02}", "file": {**stored, "metadata": metadata}}})
        self.server.execute("INSERT INTO emptied DOCUMENTS ({'_id': 1})")
        self.server.execute("DELETE FROM emptied")
        self.enter()
        self.go("attachments")
        self.browser.await_text("61 attachments, 305 B")
        self.browser.await_true("document.querySelectorAll('.picture').length === 60")
        self.assertNotIn("many / 60", self.browser.text)
        self.browser.click("Show more")
        self.browser.await_true("document.querySelectorAll('.picture').length === 61")
        self.browser.await_text("plan 60.txt text/plain")
        self.browser.await_text("many / 60")
        self.browser.fill("Collection", "emptied")
        self.browser.await_text("No attachments")
        self.go("data")
        self.browser.await_true("document.querySelector('aside input')?.placeholder === '1 collection'")
        self.assertNotIn("emptied", self.browser.text)
        self.go("sync")
        self.browser.await_true("document.querySelector('.live')?.innerText === 'live'")
        used = self.server.database, self.server.token
        self.server.stop()
        self.browser.await_true("document.querySelector('main .problem') && document.querySelector('.live').innerText.startsWith('not live since')")
        self.assertNotIn("Looking", self.browser.text)
        self.server.start()
        self.use(*used)
        self.browser.await_true("document.querySelector('.live')?.innerText === 'live'", 30)
        self.assert_sound()

    def test_a_telephone_has_room_for_the_page_and_first_steps_end(self):
        for index in range(12):
            self.insert(f"c{index:02}", [{"_id": number} for number in range(9)])
        self.enter()
        self.browser.await_text("108 changes")
        self.browser.await_true("[...document.querySelectorAll('.tile b')].some((one) => one.innerText === '108')")
        self.assertNotIn("Three commands", self.browser.text)
        self.browser.resize(390, 844)
        self.go("data/c11")
        self.browser.await_text("9 of 9")
        self.assertLess(self.browser.run("document.querySelector('main').getBoundingClientRect().top"), 90)
        self.assertEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.browser.await_true("""(() => {
            const [one, list] = [document.querySelector('.names a[aria-current]'), document.querySelector('.names')].map((element) => element?.getBoundingClientRect());
            return one && one.top >= list.top && one.bottom <= list.bottom + 1;
        })()""")
        self.server.execute("DELETE FROM c00")
        self.go("overview")
        # Sizes are some seconds old, and asked for again after some.
        self.browser.await_text("Three commands to try", 60)
        self.browser.click("Hide")
        self.browser.await_true("!document.querySelector('.command')")
        self.assert_sound()

    def test_a_wrong_credential_is_told_in_words_and_rights_are_made_by_a_form(self):
        self.browser.open(self.server.origin + "/")
        self.browser.fill("Admin credential or API key", "wrong")
        self.browser.click("Sign in")
        self.browser.await_text("The server does not know this credential")
        self.assertNotIn("request", self.browser.text)
        self.assert_accessible("a wrong credential")
        self.browser.click("Login of a user", "label")
        self.browser.await_true("!document.querySelector('.problem')")
        self.insert("cars", [{"_id": 1}])
        self.browser.forget(self.server.origin)
        self.enter()
        self.go("access")
        self.browser.click("New API key")
        self.browser.await_true("Boolean(document.querySelector('#grantable option'))")
        self.browser.fill("Name", "till")
        side = "[...document.querySelectorAll('fieldset')].find((one) => one.querySelector('legend').innerText === '{}')"
        choose = "[...{}.querySelectorAll('label')].find((one) => one.innerText.trim() === '{}').click()"
        self.browser.run(choose.format(side.format("Reads"), "some collections"))
        self.browser.run(choose.format(side.format("Writes"), "some collections"))
        self.browser.fill("Writes cars where", "_id == 1")
        self.browser.fill("Writes: another collection", "boats")
        self.browser.mouse(side.format("Writes") + ".querySelector('p button')")
        self.browser.await_text("boats")
        self.assert_accessible("rights as a form")
        self.browser.click("Make it")
        self.browser.await_text("It is shown now and never again")
        keys = self.server.request("GET", f"/admin/auth/databases/{self.server.database}/api-keys", None, {"Authorization": f"Bearer {self.admin}"}).json["apiKeys"]
        made = next(one for one in keys if one["name"] == "till")["permissions"]
        self.assertEqual(made["read"]["queriesByCollection"], {"cars": ["true"]})
        self.assertEqual(made["write"]["queriesByCollection"], {"cars": ["_id == 1"], "boats": ["true"]})
        self.browser.click("Done", "dialog button")
        self.browser.click("New shared token")
        self.browser.fill("Name", "kiosk")
        token = self.browser.run("[...document.querySelectorAll('dialog label')].find((one) => one.innerText.startsWith('Token')).querySelector('input').value")
        self.assert_accessible("a shared token")
        self.browser.click("Make it")
        self.browser.await_text("The provider is there")
        login = lambda token: self.server.request("POST", "/_ditto/auth/login", json.dumps({"databaseID": self.server.database, "provider": "kiosk", "token": token}).encode(), {"Content-Type": "application/json"})
        self.assertEqual((login(token).status, login(token + "x").status), (200, 401))
        self.assert_sound()
