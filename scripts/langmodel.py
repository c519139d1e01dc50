#!/usr/bin/env python3
"""Writes the model of internal/langid from that of py3langid 0.4.0 (BSD-3-Clause; Lui and Baldwin, Barbaresi).

  pip install numpy zstandard iso639-lang py3langid==0.4.0
  scripts/langmodel.py .../py3langid/data/model.npz.xz internal/langid/model.zst

The n-grams of its automaton are listed, sorted, and their log-probabilities are rounded to 256 steps. The format
is in internal/langid/model.go.
"""
import collections, io, lzma, struct, sys

import iso639, numpy as np, zstandard

model = np.load(io.BytesIO(lzma.open(sys.argv[1]).read()))
rows, row, out = model["nextmove"].reshape(-1, 256), model["nextmove_row"], model["out_feat"]

# A state that the root reaches first by k bytes is the n-gram of these bytes. Its move by a byte that continues no
# n-gram is that of its longest suffix, as in the automaton of Aho and Corasick.
gram, queue = {0: b""}, collections.deque([0])
while queue:
    state = queue.popleft()
    for byte, to in enumerate(rows[row[state]]):
        if int(to) not in gram:
            gram[int(to)] = gram[state] + bytes([byte])
            queue.append(int(to))
state_of = {g: s for s, g in gram.items()}


def suffix(g):
    while g:
        g = g[1:]
        if g in state_of:
            return state_of[g]


grams = sorted((g, int(out[s])) for s, g in gram.items() if g and out[s] >= 0 and out[s] != out[suffix(g)])
assert sorted(f for _, f in grams) == list(range(len(model["ptc"])))

labels = [c if c == "zxx" else iso639.Lang(c).pt3 for c in map(str, model["classes"])]
weights = model["ptc"].astype(np.float32)
low, high = weights.min(), weights.max()
steps = np.rint((weights - low) / (high - low) * 255).astype(np.uint8)[[f for _, f in grams]]

data = bytearray(struct.pack("<IIf", len(labels), len(grams), (high - low) / 255))
data += "".join(labels).encode() + model["pc"].astype("<f4").tobytes()
before = b""
for g, _ in grams:
    shared = next(i for i in range(len(g) + 1) if g[: i + 1] != before[: i + 1])
    data += bytes([shared << 4 | len(g) - shared]) + g[shared:]
    before = g
data += steps.T.tobytes()
compressor = zstandard.ZstdCompressor(level=19, write_checksum=True)
open(sys.argv[2], "wb").write(compressor.compress(bytes(data)))
