#!/usr/bin/env python3
"""A preprocessor of mdBook: a link to a file outside docs/ becomes its text, because the site has no such file. A link
to README.md becomes one to index.md, whose page mdBook makes of it.

In the repository these links lead to the sources, and scripts/check-docs checks them. mdBook calls this script
with `supports RENDERER`, or with the context and the book as JSON on stdin.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(?:>\s*)*(`{3,}|~{3,})")


def leaves(target, folder):
    """True for a relative link that leads out of the book's folder."""
    if re.match(r"^([a-zA-Z][a-zA-Z0-9+.-]*:|#|/)", target):
        return False
    return posixpath.normpath(posixpath.join(folder, target.partition("#")[0])).startswith("..")


def renamed(link):
    """The link to the page that mdBook makes of its target."""
    return re.sub(r"(?<=[(/])README\.md(?=[)#])", "index.md", link)


def inside(text, folder):
    """The text with links inside the book only. Code blocks stay as they are."""
    parts, prose, fence = [], [], None

    def flush():
        joined = "".join(prose)
        prose.clear()
        parts.append(LINK.sub(lambda link: link[2] if leaves(link[3], folder) else renamed(link[0]), joined))

    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        if fence is None and mark is None:
            prose.append(line)
            continue
        flush()
        parts.append(line)
        if fence is None:
            fence = mark[1]
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence):
            fence = None
    flush()
    return "".join(parts)


def walk(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            folder = posixpath.dirname(chapter.get("source_path") or chapter.get("path") or "")
            chapter["content"] = inside(chapter["content"], folder)
            walk(chapter["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    walk(book.get("items") or book.get("sections") or [])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
