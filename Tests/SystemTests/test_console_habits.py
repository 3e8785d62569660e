"""The console under the habits of people: who types fast, clicks elsewhere, forgets a quote, asks for too much."""

import json

from console_pages import ConsolePages
from mimeo_harness import pick

STATEMENT = "SELECT c._id, count_of AS n FROM cars AS c WHERE c.price > 12.5 AND make = 'a' ORDER BY n LIMIT 10"
EDITOR = "document.querySelector('dialog .CodeMirror, main .CodeMirror').CodeMirror"


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
