#!/usr/bin/env python3
"""A hook of drumbeat for a focused crawl: only pages about some words are stored and followed.

    drumbeat crawl URL... --contact you@example.org \\
        --hook 'python3 examples/hooks/focused.py --least 0.5 solar wind turbine'

The score of a page is the share of the words that its text has, between 0 and 1. A page whose score is at least
--least is stored, and its links are followed. Seeds are always followed. Needs Python 3.8 and nothing else.

The protocol is in docs/reference/files/hook.md: a line of JSON for each page on standard input, and a line with the same
"id" on standard output. Print nothing else there; standard error goes to the log of the crawl.
"""

import argparse
import json
import re
import sys


def main():
    options = argparse.ArgumentParser(description="Keep a crawl to pages about some words.")
    options.add_argument("--least", type=float, default=0.5, help="least score of a page that is kept (default 0.5)")
    options.add_argument("words", nargs="+", help="words; upper and lower case are the same")
    options = options.parse_args()
    words = {word.casefold() for word in options.words}

    answer(read(), {"hook": 1, "want": ["text"]})  # the greeting
    while page := read():
        found = words & set(re.findall(r"\w+", page.get("text", "").casefold()))
        score = len(found) / len(words)
        relevant = score >= options.least
        answer(page, {
            "keep": relevant,
            "follow": relevant or page["depth"] == 0,
            "score": round(score, 3),
            "fields": {"words": sorted(found)},
        })


def read():
    """Returns the next line, or None at the end of the crawl."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def answer(request, said):
    """Answers a request. The crawl waits for this line, so it must not stay in a buffer."""
    if request is None:
        sys.exit(0)
    if "id" in request:
        said["id"] = request["id"]
    print(json.dumps(said), flush=True)


main()
