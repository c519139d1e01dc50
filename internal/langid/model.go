package langid

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// modelFile is the model, written by scripts/langmodel.py. In it, as one zstd frame with a checksum:
//
//	uint32  number of classes C, little-endian like all numbers
//	uint32  number of n-grams F
//	float32 step: the difference in log-probability of two consecutive weights
//	C*3     codes of the classes; two classes may have the same code, in two scripts
//	C*4     float32: log of the prior
//	F times n-grams, sorted: a byte with the length shared with the one before (high nibble) and the rest (low),
//	        and the rest
//	C*F     weights, class by class: (log-probability of the n-gram - the lowest of all) / step
//
//go:embed model.zst
var modelFile []byte

const (
	// lanes is the number of classes at most: weights are summed eight at a time.
	words   = 18
	classes = 8 * words
	maxGram = 15 // bytes, by the format
)

// model is an automaton of Aho and Corasick ("Efficient string matching", 1975) of the n-grams, with the weights of
// each. 20 MB.
type model struct {
	codes  []string // of each class
	prior  []float32
	step   float32
	fail   []uint32 // of each state: that of its longest suffix
	gram   []int32  // of each state: its n-gram, or that of the longest suffix that is one; -1: none
	edges  []edge   // open addressing
	shift  int
	weight [][words]uint64 // of each n-gram: a byte for each class
}

// edge is a move: key is 1 + (state<<8 | byte), 0 is a free place.
type edge struct{ key, to uint32 }

// get loads the model once.
var get = sync.OnceValue(func() *model {
	m, err := load(modelFile)
	if err != nil {
		panic(fmt.Sprintf("BUG: langid: the model of this program is damaged: %v", err))
	}
	return m
})

// load reads a model.
func load(file []byte) (*model, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := r.DecodeAll(file, nil)
	if err != nil {
		return nil, err
	}
	short := fmt.Errorf("%d bytes are too few", len(data))
	if len(data) < 12 {
		return nil, short
	}
	n, grams := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:]))
	m := &model{step: math.Float32frombits(binary.LittleEndian.Uint32(data[8:]))}
	if n == 0 || n > classes || grams == 0 || grams > 1<<20 || len(data) < 12+n*7+grams*(n+1) {
		return nil, short
	}
	data = data[12:]
	for i := range n {
		m.codes = append(m.codes, string(data[3*i:3*i+3]))
		m.prior = append(m.prior, math.Float32frombits(binary.LittleEndian.Uint32(data[3*n+4*i:])))
	}
	data = data[7*n:]
	m.build(grams)
	var gram [maxGram]byte
	for g := range grams {
		if len(data) == 0 || int(data[0]>>4+data[0]&15) > maxGram || len(data) <= int(data[0]&15) {
			return nil, fmt.Errorf("n-gram %d is cut", g)
		}
		shared, rest := int(data[0]>>4), int(data[0]&15)
		copy(gram[shared:], data[1:1+rest])
		m.add(gram[:shared+rest], int32(g))
		data = data[1+rest:]
	}
	if len(data) != n*grams {
		return nil, short
	}
	for c := range n {
		for g, w := range data[c*grams : (c+1)*grams] {
			m.weight[g][c/8] |= uint64(w) << (c % 8 * 8)
		}
	}
	m.link()
	return m, nil
}

// build makes room for n-grams. A quarter of a place in each four is used, so that most moves are found, or known
// to be absent, at their first place.
func (m *model) build(grams int) {
	m.fail, m.gram = []uint32{0}, []int32{-1}
	m.weight = make([][words]uint64, grams)
	size := bits.Len(uint(4*grams - 1))
	m.edges, m.shift = make([]edge, 1<<size), 32-size
}

// place returns the place of a move, or the free one where it belongs.
func (m *model) place(state uint32, b byte) *edge {
	key := 1 + (state<<8 | uint32(b))
	for i := key * 0x9e3779b1 >> m.shift; ; i = (i + 1) & uint32(len(m.edges)-1) {
		if e := &m.edges[i]; e.key == key || e.key == 0 {
			return e
		}
	}
}

// add adds an n-gram.
func (m *model) add(gram []byte, number int32) {
	state := uint32(0)
	for _, b := range gram {
		e := m.place(state, b)
		if e.key == 0 {
			e.key, e.to = 1+(state<<8|uint32(b)), uint32(len(m.fail))
			m.fail, m.gram = append(m.fail, state), append(m.gram, -1) // for now: the state before
		}
		state = e.to
	}
	m.gram[state] = number
}

// link sets the longest suffix of each state, shorter states first.
func (m *model) link() {
	depth := make([]uint8, len(m.fail))
	by := make([][]edge, maxGram+1)
	last := make([]byte, len(m.fail))
	for _, e := range m.edges {
		if e.key != 0 {
			last[e.to] = byte(e.key - 1)
		}
	}
	for s := 1; s < len(m.fail); s++ { // a state is added after the one before it
		depth[s] = depth[m.fail[s]] + 1
		by[depth[s]] = append(by[depth[s]], edge{m.fail[s], uint32(s)})
	}
	for d, states := range by {
		for _, e := range states {
			m.fail[e.to] = 0
			if d > 1 {
				m.fail[e.to] = m.move(m.fail[e.key], last[e.to])
			}
			if m.gram[e.to] < 0 {
				m.gram[e.to] = m.gram[m.fail[e.to]]
			}
		}
	}
}

// move returns the state after a byte.
func (m *model) move(state uint32, b byte) uint32 {
	for {
		if e := m.place(state, b); e.key != 0 {
			return e.to
		}
		if state == 0 {
			return 0
		}
		state = m.fail[state]
	}
}
