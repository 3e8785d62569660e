"""The code blocks of a page in Markdown, with the directives in comments before them.

    <!-- needs: docker -->          the block is not run: a test has no Docker
    <!-- until: "items" -->         it runs until its output matches, and on until the page's end
    <!-- types: .links -->          with `until`: this line is its input, again until the output matches
    <!-- stops: server -->          what runs on is stopped before, by an interrupt
    <!-- shows: 3 rows -->          its output matches
    <!-- without: server -->        the variables that name the server are not set
    <!-- file: rights.json -->      it is a file of the page's folder; nothing is run
"""

import re
import textwrap

RUN = ("sh", "js", "python")
"""The languages of blocks that are run."""

NEEDS = {
    "docker": "a running Docker", "compiler": "a Swift toolchain and minutes", "debian": "a Debian to change, as root",
    "internet": "names and services of others", "hours": "much more time than a test has", "tool": "a tool of others",
    "cluster": "a Kubernetes cluster", "place": "folders, keys and services of the reader's", "network": "several machines on one network",
    "PostgreSQL": "a PostgreSQL server", "nginx": "nginx in the foreground",
}
"""The reasons for which a block is not run."""

_DIRECTIVE = re.compile(r"^\s*<!-- (needs|until|types|stops|shows|without|file|run by): (.+?) -->\s*$")
_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")


class Block:
    """A code block: its language, text, first line, and its directives by name."""

    def __init__(self, path, line, language, text, directives):
        self.path, self.line, self.language, self.text, self.directives = path, line, language, text, directives

    def __str__(self):
        return f"{self.path}:{self.line}"

    @property
    def is_run(self):
        return self.language in RUN and "needs" not in self.directives and "run by" not in self.directives


def blocks(path, text):
    """All code blocks of a page, in their order."""
    found, directives, fence, lines = [], {}, None, []
    for number, line in enumerate(text.splitlines(), 1):
        border = _FENCE.match(line)
        if fence is not None and border and not border[2]:
            text_of = textwrap.dedent("\n".join(lines)) + "\n"
            found.append(Block(path, fence[0], fence[1], text_of, directives))
            directives, fence, lines = {}, None, []
        elif fence is not None:
            lines.append(line)
        elif border:
            fence = (number, border[2])
        elif directive := _DIRECTIVE.match(line):
            directives[directive[1]] = directive[2]
        elif line.strip():
            directives = {}
    if fence is not None:
        raise ValueError(f"{path}:{fence[0]}: a code block without an end")
    return found
