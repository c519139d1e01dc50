package budgets

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/star"
)

// twoNodes are the others of node 1 of two: node 0 computes. Even PLDs are those of node 0.
type twoNodes struct {
	Cluster
	ask func(data []byte) ([]byte, error)
}

func (twoNodes) Computes() int                   { return 0 }
func (twoNodes) Ranks(node int, pld uint64) bool { return int(pld%2) == node }
func (c twoNodes) AskNode(_ context.Context, _ int, _ string, data []byte) ([]byte, error) {
	return c.ask(data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// valuesFile returns a file of the Supports 1, 2, … of the PLDs 1 to n.
func valuesFile(t *testing.T, n int) *supportFile {
	f, err := createSupportFile(memfs.New(1), "d/tmp", ofValues, 7)
	must(t, err)
	for i := 1; i <= n; i++ {
		rec := binary.LittleEndian.AppendUint64(nil, uint64(i))
		must(t, f.add(binary.LittleEndian.AppendUint16(rec, uint16(i))))
	}
	must(t, f.end(&supportHeader{PLDs: int64(n), Time: 9}))
	return f
}

// TestSupportBlock: a block has its documented form. Damaged bytes, and blocks of another number or round, are refused.
func TestSupportBlock(t *testing.T) {
	t.Parallel()
	f := valuesFile(t, 1)
	b, err := f.block(1)
	must(t, err)
	want := "64627531" + "0700000000000000" + "01000000" + "0a000000" + "0100000000000000" + "0100"
	if got := hex.EncodeToString(b[:len(b)-supportSum]); got != want {
		t.Errorf("block %s, want %s", got, want)
	}
	if data, err := openRecords(b, 7, 1, valueRecord); err != nil || len(data) != valueRecord {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := openRecords(bad, 7, 1, valueRecord); !errors.Is(err, errBlock) {
			t.Errorf("byte %d is wrong: %v", i, err)
		}
	}
	for n := range b {
		if _, err := openRecords(b[:n], 7, 1, valueRecord); !errors.Is(err, errBlock) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	_, other := openRecords(b, 8, 1, valueRecord)
	_, next := openRecords(b, 7, 2, valueRecord)
	_, length := openRecords(b, 7, 1, edgeRecord)
	for _, err := range []error{other, next, length} {
		if !errors.Is(err, errBlock) {
			t.Errorf("another round, number or record: %v", err)
		}
	}
	if _, err := f.block(2); err == nil {
		t.Error("a file of one block has two")
	}
	if _, h, err := openHeader(f.header); err != nil || h.Blocks != 1 || h.Time != 9 {
		t.Errorf("header %+v, %v", h, err)
	}
	full, err := json.Marshal(supportHeader{Blocks: 1 << 30, Seeds: make([]byte, 8*star.MostSeeds)})
	must(t, err)
	if _, _, err := openHeader(appendBlock(nil, 1, 0, full)); err != nil || len(full) > 1<<20-5000 {
		t.Errorf("a header with all seeds has %d bytes: %v", len(full), err)
	}
}

// TestSupportAnswers: a node gives edges to the computing node only, for the round that it asks for, and values to
// their owners.
func TestSupportAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &exchange{cluster: twoNodes{}, wake: account.NewSignal()}
		ask := func(from int, a supportAsk) string {
			data, err := json.Marshal(a)
			must(t, err)
			return string(x.answer(t.Context(), from, data))
		}
		for i, c := range []struct {
			from int
			ask  supportAsk
			want string
		}{
			{1, supportAsk{Of: ofEdges, Round: 3}, "nnode 0 computes"},
			{0, supportAsk{Of: ofEdges, Round: 3, Block: 1}, "nit no longer"},
			{0, supportAsk{Of: ofEdges}, "nit no longer"},
			{0, supportAsk{Of: "x"}, "nnot a valid"},
			{0, supportAsk{Of: ofEdges, Round: 3, Block: -1}, "nnot a valid"},
			{1, supportAsk{Of: ofValues}, "nit has no values"},
			{0, supportAsk{Of: ofEdges, Round: 3}, "w"},
		} {
			if got := ask(c.from, c.ask); !strings.HasPrefix(got, c.want) {
				t.Errorf("%d: %.40q, want %q", i, got, c.want)
			}
		}
		if got := string(x.answer(t.Context(), 0, []byte("{"))); got[0] != answerNone {
			t.Errorf("no JSON: %q", got)
		}
		if round, _ := x.due(); round != 3 {
			t.Errorf("edges of round %d are wanted, want 3", round)
		}
		must(t, x.setEdges(3, nil, errMoving))
		if got := ask(0, supportAsk{Of: ofEdges, Round: 3}); got != "n"+errMoving.Error() {
			t.Errorf("edges that could not be written: %q", got)
		}
		edges := valuesFile(t, 1)
		must(t, x.setEdges(7, edges, nil))
		if got := ask(0, supportAsk{Of: ofEdges, Round: 7}); got[1:] != string(edges.header) {
			t.Errorf("header %q", got)
		}
		time.Sleep(edgesWait - time.Second)
		ask(0, supportAsk{Of: ofEdges, Round: 7, Block: 1}) // the last one
		time.Sleep(edgesDone - time.Second)
		if _, stale := x.due(); stale {
			t.Error("the edges are removed early")
		}
		time.Sleep(2 * time.Second)
		if _, stale := x.due(); !stale {
			t.Error("the edges stay")
		}
		must(t, x.setValues(valuesFile(t, 50_000), supportHeader{}))
		for n, block := 0, 1; block <= x.values.blocks; block++ {
			data, err := openRecords([]byte(ask(1, supportAsk{Of: ofValues, Round: 7, Block: block})[1:]), 7, block,
				valueRecord)
			must(t, err)
			for ; len(data) > 0; data = data[valueRecord:] {
				if n++; binary.LittleEndian.Uint64(data) != uint64(2*n-1) {
					t.Fatalf("value %d is of PLD %d", n, binary.LittleEndian.Uint64(data))
				}
			}
			if block == x.values.blocks && n != 25_000 {
				t.Errorf("%d values", n)
			}
		}
	})
}

// TestSupportAsk: a node asks again while the other writes its file, or does not answer for a while, and gives up if it
// does not answer at all. It takes values from several blocks, and refuses those that are not in order.
func TestSupportAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := valuesFile(t, 50_000)
		var answers []func() ([]byte, error)
		away := func() ([]byte, error) { return nil, errors.New("away") }
		wait := func() ([]byte, error) { return []byte{answerWait}, nil }
		other := &exchange{cluster: twoNodes{}, values: f}
		x := &exchange{cluster: twoNodes{ask: func(data []byte) ([]byte, error) {
			if len(answers) > 1 {
				answers = answers[1:]
				return answers[0]()
			}
			return other.answer(t.Context(), 1, data), nil
		}}}
		for range supportPatience/supportAgain - 1 {
			answers = append(answers, away)
		}
		for range 3600 {
			answers = append(answers, wait)
		}
		answers = append(answers, away)
		v := &valueReader{blocks: f.blocks, read: func(n int) ([]byte, error) {
			return x.records(t.Context(), 0, supportAsk{Of: ofValues, Round: 7, Block: n}, valueRecord)
		}}
		for _, c := range []struct {
			pld  uint64
			want star.Support
		}{{1, 1}, {2, 0}, {5, 5}, {40_000, 0}, {40_001, 40_001}, {1 << 60, 0}} {
			if got, err := v.support(c.pld); err != nil || got != c.want {
				t.Errorf("PLD %d: %d, %v, want %d", c.pld, got, err, c.want)
			}
		}
		for range supportPatience/supportAgain + 10 {
			answers = append(answers, away)
		}
		var peer *errPeer
		if _, err := x.ask(t.Context(), 0, supportAsk{}); !errors.As(err, &peer) ||
			!strings.Contains(err.Error(), "answer") {
			t.Errorf("a node that does not answer: %v", err)
		}
		answers = nil
		if _, err := x.ask(t.Context(), 0, supportAsk{Of: ofValues, Round: 8}); !errors.As(err, &peer) {
			t.Errorf("values of another round: %v", err)
		}
		bad := valuesFile(t, 3)
		v = &valueReader{blocks: 2, read: func(int) ([]byte, error) { return bad.records(1) }}
		if _, err := v.support(9); !errors.Is(err, errBlock) {
			t.Errorf("values that are not in order: %v", err)
		}
	})
}
