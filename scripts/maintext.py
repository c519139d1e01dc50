#!/usr/bin/env python3
"""Finds weights for internal/maintext/choose.go from a corpus of pages whose main text is known.

  pip install numpy scipy
  go test ./internal/maintext -run TestFeatures -args -features-of CORPUS/html -features-to features.jsonl
  scripts/maintext.py CORPUS/truth.jsonl features.jsonl

CORPUS is in the layout of WCXB, see `drumbeat bench extract`. Weights and F1 go to standard output: of all pages, and of
each half of the pages by the weights found with the other half. The score of a block is the probability that it is
main text. The weights give the highest mean over the pages of F1, for words that count as much as their block's score,
with a little of the logistic loss, so that scores are probabilities, and of a penalty on large weights.
"""
import collections, json, re, sys
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

LOSS, PENALTY = 0.01, 1e-4  # the best for the other half, of some
SHINGLE = 4  # words; a block's part in the main text is that of its words in shingles which the main text has
LEAST = 0.35  # leastScore
COUNTED = 1  # the feature words


def words(text):
    return re.findall(r"\w+", text.lower())


def part(block, main, lines):
    """How much of a block is main text: shorter ones if they are a line of it."""
    size = min(SHINGLE, len(block))
    if size < 3:
        return float(tuple(block) in lines)
    inside = np.zeros(len(block))
    for i in range(len(block) - size + 1):
        if tuple(block[i : i + size]) in main:
            inside[i : i + size] = 1
    return inside.mean()


def half(page):
    """FNV-1a, as in bench/extract."""
    h = 2166136261
    for c in page.encode():
        h = (h ^ c) * 16777619 & 0xFFFFFFFF
    return h % 2


def names(file, first, last):
    source = open(sys.path[0] + "/../internal/maintext/" + file).read()
    return re.findall(r"^\t([a-z]\w+)", source[source.index("\t" + first) : source.index("\t" + last)], re.M)


features = names("choose.go", "bias feature", "numFeatures")
marks = names("marks.go", "markNav", "numMarks")


class Page:
    def __init__(self, truth, blocks):
        main = words(truth["main"])
        grams = {tuple(main[i : i + n]) for n in (3, SHINGLE) for i in range(len(main) - n + 1)}
        lines = {tuple(words(line)) for line in truth["main"].split("\n")}
        self.half, self.main, self.size = half(truth["id"]), collections.Counter(main), max(len(main), 1)
        self.words = [words(b["text"]) for b in blocks]
        self.count = np.array([len(w) for w in self.words], float)
        self.part = np.array([part(w, grams, lines) if w else 0.0 for w in self.words])
        self.live = np.array([not b["menu"] for b in blocks])
        self.x = np.array([b["features"] + [b["marks"] >> k & 1 for k in range(len(marks))] for b in blocks], float)

    def f1(self, weights):
        """Of the blocks that choose takes, by the words of the text."""
        score, count = expit(self.x @ weights) * self.live, np.expm1(self.x[:, COUNTED])
        order = np.argsort(-score, kind="stable")
        if score[order[0]] >= LEAST:
            right, taken = np.cumsum((score * count)[order]), np.cumsum(count[order])
            order = order[: np.argmax(right / (taken + right[-1])) + 1]
        got = collections.Counter(w for i in order for w in self.words[i])
        return 2 * (got & self.main).total() / (got.total() + self.main.total())


def fit(pages):
    x, count, right, live = (np.concatenate([getattr(p, a) for p in pages]) for a in ("x", "count", "part", "live"))
    size = np.array([p.size for p in pages])
    begins = np.cumsum([0] + [len(p.x) for p in pages])
    page, begins = np.repeat(np.arange(len(pages)), np.diff(begins)), begins[:-1]
    scale = np.maximum(x.std(0), 0.3)
    scale[0] = 1
    x = x / scale
    weight = LOSS * count / np.maximum(np.add.reduceat(count, begins), 1)[page] / len(pages)

    def loss(w):
        z = x @ w
        score = expit(z) * live
        hits = 2 * np.add.reduceat(score * count * right, begins)
        total = np.add.reduceat(score * count, begins) + size
        slope = (2 * right / total[page] - (hits / total**2)[page]) * count * score * (1 - expit(z)) / len(pages)
        value = -(hits / total).mean() + weight @ (np.logaddexp(0, z) - right * z) + PENALTY * w[1:] @ w[1:]
        return value, x.T @ (weight * (expit(z) - right) - slope) + 2 * PENALTY * np.r_[0, w[1:]]

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1500})
    return (found.x / scale).round(2)


blocks = collections.defaultdict(list)
for line in open(sys.argv[2]):
    block = json.loads(line)
    blocks[block["page"]].append(block)
truths = map(json.loads, open(sys.argv[1]))
pages = [Page(t, blocks[t["id"]]) for t in truths if t["id"] in blocks]
weights = fit(pages)
for kind, found in (features, weights), (marks, weights[len(features) :]):
    print(", ".join(f"{name}: {weight:.2f}" for name, weight in zip(kind, found)) + ",")
print(f"F1 of {len(pages)} pages: {np.mean([p.f1(weights) for p in pages]):.3f}")
others = [fit([p for p in pages if p.half != h]) for h in (0, 1)]
print(f"F1 by the other half: {np.mean([p.f1(others[p.half]) for p in pages]):.3f}")
