package deflate

// table encodes the code lengths of a dynamic block (RFC 1951, 3.2.7).
type table struct {
	runs  [literalSymbols + distanceSymbols]run
	count int
	sent  int // number of code lengths, in tableOrder, that the block has

	all         [literalSymbols + distanceSymbols]uint8
	frequencies [runSymbols]uint32
	lengths     [runSymbols]uint8
	codes       [runSymbols]uint32
}

// run is a symbol of a table and its extra bits.
type run struct{ symbol, extra uint8 }

const (
	runSymbols  = 19
	maxRunCode  = 7
	repeat      = 16 // the previous length 3 to 6 times
	zeros       = 17 // 3 to 10 times
	manyZeros   = 18 // 11 to 138 times
	leastSent   = 4
	tableHeader = 5 + 5 + 4
)

var (
	tableOrder = [runSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	runExtra   = [runSymbols]uint8{repeat: 2, zeros: 3, manyZeros: 7}
)

// plan prepares a table of code lengths, and returns its size in bits.
func (t *table) plan(b *builder, literals, distances []uint8) int {
	all := append(append(t.all[:0], literals...), distances...)
	t.count = 0
	clear(t.frequencies[:])
	for len(all) > 0 {
		l, n := all[0], 1
		for n < len(all) && all[n] == l {
			n++
		}
		all = all[n:]
		t.run(l, n)
	}
	_, size := b.lengths(t.lengths[:], t.frequencies[:], maxRunCode)
	for i, x := range runExtra {
		size += int(t.frequencies[i]) * int(x)
	}
	t.sent = runSymbols
	for t.sent > leastSent && t.lengths[tableOrder[t.sent-1]] == 0 {
		t.sent--
	}
	return size + tableHeader + 3*t.sent
}

// run adds n equal code lengths.
func (t *table) run(l uint8, n int) {
	if l == 0 {
		for ; n >= 11; n -= min(n, 138) {
			t.add(manyZeros, min(n, 138)-11)
		}
		if n >= 3 {
			t.add(zeros, n-3)
			n = 0
		}
	} else {
		t.add(l, 0)
		for n--; n >= 3; n -= min(n, 6) {
			t.add(repeat, min(n, 6)-3)
		}
	}
	for range n {
		t.add(l, 0)
	}
}

func (t *table) add(symbol uint8, extra int) {
	t.runs[t.count] = run{symbol, uint8(extra)}
	t.count++
	t.frequencies[symbol]++
}

// write writes the planned table. literals and distances are the numbers of their code lengths.
func (t *table) write(w *bitWriter, literals, distances int) {
	setCodes(t.codes[:], t.lengths[:])
	w.bits(uint64(literals-firstLength)|uint64(distances-1)<<5|uint64(t.sent-leastSent)<<10, tableHeader)
	for _, s := range tableOrder[:t.sent] {
		w.bits(uint64(t.lengths[s]), 3)
	}
	for _, r := range t.runs[:t.count] {
		c := t.codes[r.symbol]
		n := uint(c & 0xff)
		w.bits(uint64(c>>8)|uint64(r.extra)<<n, n+uint(runExtra[r.symbol]))
	}
}
