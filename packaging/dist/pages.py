"""The documents that are packed: the main README and the guides, with all pages and pictures to which they lead."""

import os
import re

from archive import Tree
from source import ROOT

STARTS = ("README.md", "CHANGELOG.md", "SECURITY.md")
ENDINGS = (".md", ".svg", ".png", ".gif")


def _links(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)|src=\"([^\"]+)\"", text, re.MULTILINE)


def led_to(path):
    """Documents and pictures of the checkout that a document names."""
    for link in _links((ROOT / path).read_text()):
        target = "".join(link).split("#")[0]
        if target and "://" not in target:
            found = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if found.endswith(ENDINGS) and (ROOT / found).is_file():
                yield found


def tree():
    """All of them below their own paths, so that links work as in the checkout."""
    made, left = Tree(), [*STARTS, *(path.relative_to(ROOT).as_posix() for path in (ROOT / "Docs").rglob("*.md"))]
    while left:
        path = left.pop()
        if path not in made.entries:
            made.copy(path, ROOT / path)
            left += led_to(path) if path.endswith(".md") else []
    return made
