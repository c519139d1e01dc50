package warc

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// TestData: records of one file are read side by side and in any order, whether the ones before were read to their end
// or closed early, by several goroutines at once. After its end a record has no more bytes, and none after Close.
func TestData(t *testing.T) { eachFormat(t, testData) }

func testData(t *testing.T, format func(*Options)) {
	var opt Options
	format(&opt)
	w, opt := openMem(t, opt)
	const n = 8
	body := func(i int) string { return strings.Repeat(fmt.Sprintf("<p>text %d</p>", i), 1+1000*i) }
	e := w.NewEncoder()
	for i := range n {
		var p Prepared
		x := testExchange("text/html", body(i))
		x.URL = fmt.Appendf(nil, "http://a.test/%d", i)
		must(t, e.Prepare(&p, x))
		_, err := w.Append(&p, x.Date)
		must(t, err)
	}
	_, st := uncommitted(t, w, opt)
	must(t, EachVolume(opt, st, func(v *Volume) error {
		var list []*Indexed
		must(t, v.EachLine(func(x *Indexed) error { list = append(list, x); return nil }))
		data, err := v.Open()
		must(t, err)
		var readers sync.WaitGroup
		for g := range 4 {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			readers.Go(func() {
				for range 30 {
					if err := readTwo(data, list, rng, body); err != nil {
						t.Error(err)
					}
				}
			})
		}
		readers.Wait()
		if len(list) != n || len(data.idle) == 0 || len(data.idle) > maxIdle {
			t.Errorf("%d records, %d openers are kept", len(list), len(data.idle))
		}
		return data.Close()
	}))
}

// readTwo reads two records of a file, the second inside of the first, and the first to its end or not.
func readTwo(data *Data, list []*Indexed, rng *rand.Rand, body func(int) string) error {
	open := func() (*StoredRecord, string, error) {
		i := rng.IntN(len(list))
		r, err := data.Record(list[i])
		return r, "\r\n\r\n" + body(i), err
	}
	a, want, err := open()
	if err != nil {
		return err
	}
	begin := make([]byte, 10)
	if _, err := io.ReadFull(a, begin); err != nil || string(begin) != "HTTP/1.1 2" {
		return fmt.Errorf("a record begins with %q, %v", begin, err)
	}
	b, inner, err := open()
	if err != nil {
		return err
	}
	for r, want := range map[*StoredRecord]string{b: inner, a: want} {
		if r == b || rng.IntN(2) == 0 {
			text, err := io.ReadAll(r)
			if err != nil || !strings.HasSuffix(string(text), want) {
				return fmt.Errorf("a record of %d bytes, %v", len(text), err)
			}
		}
		if r != b {
			continue
		}
		if n, err := r.Read(begin); n > 0 || err != io.EOF {
			return fmt.Errorf("after the end: %d bytes, %v", n, err)
		}
	}
	for _, r := range []*StoredRecord{a, b} {
		if err := r.Close(); err != nil {
			return err
		}
		if n, err := r.Read(begin); n > 0 || err != io.EOF {
			return fmt.Errorf("after Close: %d bytes, %v", n, err)
		}
	}
	return nil
}

// TestHeaderBound: a header may have MaxHeaderBytes, and not one more.
func TestHeaderBound(t *testing.T) {
	for more, ok := range map[int]bool{0: true, 1: false} {
		const rest = "WARC/1.1\r\nContent-Length: 0\r\nX: \r\n\r\n"
		head := strings.Replace(rest, "X: ", "X: "+strings.Repeat("x", MaxHeaderBytes-len(rest)+more), 1)
		_, got, err := readHead(bufio.NewReader(strings.NewReader(head)))
		if (err == nil) != ok || ok && string(got) != head {
			t.Errorf("%d bytes: %v", len(head), err)
		}
	}
}
