package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// rewriteCrawl writes files with pages, revisits and DNS answers, and returns their state. Every third page has a
// chunked body.
func rewriteCrawl(t *testing.T, opt Options, rng *rand.Rand) *State {
	w := open(t, opt, nil)
	e := w.NewEncoder()
	var p Prepared
	for i := range 120 {
		x := testExchange("text/html", strings.Repeat(fmt.Sprintf("page %d ", i), 1+rng.IntN(300)))
		x.URL = fmt.Appendf(nil, "http://h%d.test/%d", i%7, i)
		x.Meta = []Field{{"via", fmt.Sprintf("http://h%d.test/%d", rng.IntN(7), rng.IntN(120))}, {"depth", "1"}}
		if x.Status, x.Redirect = 200, ""; i%10 == 9 { // the index line of a page that has a refresh
			x.Redirect = fmt.Sprintf("http://h%d.test/%d", rng.IntN(7), rng.IntN(120))
		}
		if i%3 == 0 {
			x.Head = []byte(chunkedHead)
			x.Body, x.Chunked = fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(x.Body), x.Body), true
		}
		must(t, e.Prepare(&p, x))
		_, err := w.Append(&p, when)
		must(t, err)
		if i%4 == 0 { // two other URLs have the same body, one with chunks and one without
			x.Chunked = false
			digest, err := p.Digest()
			must(t, err)
			for k := range 2 {
				y := *x
				y.URL, y.Digest, y.Date = fmt.Appendf(nil, "http://copy%d.test/%d", k, i), &digest, when.Add(time.Hour)
				y.Body = nil
				if y.Head = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x\r\n\r\n"); k == 1 {
					y.Head = []byte(chunkedHead)
				}
				same, err := e.PrepareRevisit(&p, &y, Original{URL: x.URL, Date: x.Date}, digest)
				must(t, err)
				if !same {
					t.Fatal("another digest")
				}
				_, err = w.Append(&p, when)
				must(t, err)
			}
		}
		if i%20 == 0 {
			must(t, e.PrepareOmitted(&p, x))
			_, err = w.Append(&p, when)
			must(t, err)
		}
	}
	return rolled(t, opt, w)
}

// rolled ends the files of a writer, and returns its state.
func rolled(t *testing.T, opt Options, w *Writer) *State {
	must(t, w.Roll())
	tails, err := disk.CreateTails(opt.State, 1)
	must(t, err)
	f := w.Freeze()
	st, err := f.Save(tails)
	must(t, err)
	must(t, tails.Close())
	must(t, f.Commit())
	must(t, w.Close())
	return st
}

// record is a record as a test compares it.
type record struct{ head, block string }

func recordsOf(t *testing.T, mem *memfs.FS, set disk.Set) (all []record) {
	files, err := Files(set)
	must(t, err)
	for _, f := range files {
		must(t, ReadFile(mem, f, 1<<30, func(r *Record) error {
			var head strings.Builder
			for _, f := range r.Fields {
				fmt.Fprintf(&head, "%s: %s\n", f.Name, f.Value)
			}
			all = append(all, record{head.String(), string(r.Block)})
			return nil
		}))
	}
	return all
}

// TestRewrite compares a rewritten crawl with a simple model: the records without those of some hosts. It verifies, the
// copied records keep their bytes, and Moved leads to every one.
func TestRewrite(t *testing.T) { eachFormat(t, testRewrite) }

func testRewrite(t *testing.T, set func(*Options)) {
	rng := rand.New(rand.NewPCG(1, 2))
	mem := memfs.New(1)
	opt := testOptions(mem, 2)
	set(&opt)
	opt.FileBytes = 20_000
	st := rewriteCrawl(t, opt, rng)
	gone := func(url string) bool { return strings.Contains(url, "h3.test") || strings.HasSuffix(url, "/12") }
	var want []record
	for _, r := range recordsOf(t, mem, opt.Set) {
		if !strings.Contains(r.head, "WARC-Target-URI: http://h3.test") && !strings.Contains(r.head, "/12\nWARC-Date") {
			want = append(want, r)
		}
	}
	type moved struct {
		file   string
		shifts []Shift
	}
	was, now := map[string][]byte{}, map[string]moved{}
	must(t, EachVolume(opt, st, func(v *Volume) error {
		data, err := disk.ReadFile(mem, v.Data)
		must(t, err)
		was[v.File()] = data
		out, err := v.Rewrite(v.Name+"-e1", dropping(gone), gone)
		if err != nil {
			return err
		}
		now[v.File()] = moved{strings.Replace(v.Data, v.Name, v.Name+"-e1", 1), out.Shifts}
		if size, err := mem.Size(now[v.File()].file); err != nil || size != out.DataBytes || out.Dropped == 0 {
			t.Errorf("%s has %d bytes, reported are %d: %v", v.Name, size, out.DataBytes, err)
		}
		// Each record is where Moved says.
		return v.Sift(func(p *Piece) error {
			at, ok := Moved(out.Shifts, p.Offset)
			if ok == gone(p.URL) && p.Type != "warcinfo" && p.Type != "" {
				t.Errorf("%s at %d: there is %v", p.URL, p.Offset, ok)
			}
			if !ok || p.Type != "response" {
				return nil
			}
			copied, err := disk.ReadFile(mem, now[v.File()].file)
			must(t, err)
			if !bytes.Equal(copied[at:at+p.Length], data[p.Offset:p.Offset+p.Length]) {
				t.Errorf("%s is not at %d", p.URL, at)
			}
			return nil
		})
	}))
	removeVolumes(t, mem, opt.Set, slices.Collect(maps.Keys(was)))
	sum, err := VerifyFiles(opt, st, Verify{})
	if err != nil || sum.AbsentFiles+sum.AbsentIndexes != 0 || sum.Captures != sum.Lines {
		t.Errorf("verified %+v: %v", sum, err)
	}
	got := recordsOf(t, mem, opt.Set)
	if a, b := clean(got, gone), clean(want, gone); !slices.Equal(a, b) {
		t.Errorf("%d records, the model has %d", len(a), len(b))
	}
	must(t, EachVolume(opt, st, func(v *Volume) error {
		return v.EachLine(func(x *Indexed) error {
			if gone(x.URL) || gone(x.Redirect) {
				t.Errorf("%s: a line about %s, redirect %s", v.Name, x.URL, x.Redirect)
			}
			return nil
		})
	}))
}

// TestRewriteRevisits: a revisit record becomes a response with the payload, framed as its head says, and another one
// refers to it.
func TestRewriteRevisits(t *testing.T) { eachFormat(t, testRewriteRevisits) }

func testRewriteRevisits(t *testing.T, set func(*Options)) {
	mem := memfs.New(1)
	opt := testOptions(mem, 1)
	set(&opt)
	st := rewriteCrawl(t, opt, rand.New(rand.NewPCG(1, 3)))
	whole, refers := 0, 0
	must(t, EachVolume(opt, st, func(v *Volume) error {
		payloads := map[string][]byte{}
		must(t, v.Sift(func(p *Piece) error {
			if p.Type != "response" {
				return nil
			}
			var data bytes.Buffer
			err := v.CopyPayload(p.Offset, &data)
			payloads[p.Digest] = data.Bytes()
			if err == nil && sha1Of(data.Bytes()) != p.Digest {
				t.Errorf("%s: another payload", p.URL)
			}
			return err
		}))
		_, err := v.Rewrite(v.Name+"-e1", func(p *Piece) (Edit, error) {
			switch {
			case p.Type != "revisit":
				return Edit{}, nil
			case whole <= refers:
				whole++
				return Edit{Whole: true, Payload: section(payloads[p.Digest])}, nil
			}
			refers++
			return Edit{Refers: &Original{URL: []byte("http://other.test/"), Date: when}}, nil
		}, func(string) bool { return false })
		must(t, mem.Remove(v.Data))
		must(t, mem.Remove(v.Index))
		return err
	}))
	if whole == 0 || refers == 0 || whole+refers != 60 {
		t.Errorf("%d made whole, %d refer", whole, refers)
	}
	revisits := 0
	sum, err := VerifyFiles(opt, st, Verify{Capture: func(c *Capture) error {
		if c.Revisit {
			revisits++
		}
		return nil
	}})
	if err != nil || revisits != refers || sum.Captures != 180 {
		t.Errorf("%d revisits, %+v: %v", revisits, sum, err)
	}
	for _, r := range recordsOf(t, mem, opt.Set) {
		if strings.Contains(r.head, "Type: revisit") && !strings.Contains(r.head, "Target-URI: http://other.test/\n") {
			t.Errorf("a revisit record refers to another capture: %s", r.head)
		}
	}
}

// clean returns records as texts. A metadata record may have lost lines and so has another digest, and warcinfo has
// another name.
func clean(rs []record, gone func(string) bool) (out []string) {
	for _, r := range rs {
		if strings.Contains(r.head, "WARC-Type: metadata") || strings.Contains(r.head, "WARC-Type: warcinfo") {
			var kept []string
			for line := range strings.Lines(r.block) {
				if !gone(strings.TrimSpace(line)) {
					kept = append(kept, line)
				}
			}
			r.block, r.head = strings.Join(kept, ""), r.head[:strings.Index(r.head, "WARC-Record-ID")]
		}
		out = append(out, r.head+"\n"+r.block)
	}
	slices.Sort(out)
	return out
}

// dropping returns a function that drops records, and lines of metadata, by their URLs.
func dropping(gone func(string) bool) func(p *Piece) (Edit, error) {
	return func(p *Piece) (Edit, error) {
		if gone(p.URL) {
			return Edit{Drop: true}, nil
		}
		if p.Type != "metadata" {
			return Edit{}, nil
		}
		fields := MetaFields(p.Record.Block)
		if kept := slices.DeleteFunc(slices.Clone(fields), func(f Field) bool {
			return NamesTarget(f.Name) && gone(f.Value)
		}); len(kept) < len(fields) {
			return Edit{Fields: kept}, nil
		}
		return Edit{}, nil
	}
}

// removeVolumes removes WARC files and their indexes.
func removeVolumes(t *testing.T, mem *memfs.FS, set disk.Set, names []string) {
	for _, name := range names {
		for _, dir := range set.Paths {
			for _, file := range []string{name, name[:strings.Index(name, ".warc")] + indexSuffix} {
				if _, err := mem.Size(dir + "/warc/" + file); err == nil {
					must(t, mem.Remove(dir+"/warc/"+file))
				}
			}
		}
	}
}

func section(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// TestRewriteLarge: payloads that RAM does not hold, as heads of all kinds frame them, are copied and written again.
func TestRewriteLarge(t *testing.T) { eachFormat(t, testRewriteLarge) }

func testRewriteLarge(t *testing.T, set func(*Options)) {
	payload := make([]byte, 3*largeBody+17)
	rng := rand.New(rand.NewPCG(1, 4))
	for i := range payload {
		payload[i] = "abcdefgh"[rng.IntN(8)]
	}
	chunked := []byte{}
	for rest := payload; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(200_000))
		chunked = append(fmt.Appendf(chunked, "%x\r\n", n), rest[:n]...)
		chunked, rest = append(chunked, "\r\n"...), rest[n:]
	}
	chunked = append(chunked, "0\r\n\r\n"...)
	want, err := PayloadDigestOf(bytes.NewReader(payload))
	must(t, err)
	for name, c := range map[string]struct {
		head string
		body []byte
	}{"plain": {"", payload}, "chunked": {"Transfer-Encoding: chunked\r\n", chunked},
		"encoded": {"Content-Encoding: gzip\r\n", payload},
		"both":    {"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", chunked}} {
		mem := memfs.New(1)
		opt := testOptions(mem, 1)
		set(&opt)
		w := open(t, opt, nil)
		e := w.NewEncoder()
		x := testExchange("text/plain", "")
		x.URL, x.Redirect, x.Status = []byte("http://a.test/"+name), "", 200
		x.Head = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + c.head + "\r\n")
		x.Body, x.Chunked = c.body, strings.Contains(c.head, "chunked")
		x.Encoded = strings.Contains(c.head, "Encoding: gzip")
		var p Prepared
		must(t, e.Prepare(&p, x))
		_, err = w.Append(&p, when)
		must(t, err)
		digest, err := p.Digest()
		must(t, err)
		of := Original{URL: x.URL, Date: x.Date}
		x.URL, x.Digest, x.Body = []byte("http://b.test/"+name), &digest, nil
		_, err = e.PrepareRevisit(&p, x, of, digest)
		must(t, err)
		_, err = w.Append(&p, when)
		must(t, err)
		st := rolled(t, opt, w)
		made := 0
		must(t, EachVolume(opt, st, func(v *Volume) error {
			var moved bytes.Buffer
			_, err := v.Rewrite(v.Name+"-e1", func(p *Piece) (Edit, error) {
				switch {
				case p.Type == "response":
					return Edit{Drop: true}, v.CopyPayload(p.Offset, &moved)
				case p.Type != "revisit":
					return Edit{}, nil
				}
				if !bytes.Equal(moved.Bytes(), payload) || p.Digest != want {
					t.Errorf("%s: another payload, of %d bytes", name, moved.Len())
				}
				made++
				return Edit{Whole: true, Payload: section(moved.Bytes())}, nil
			}, func(string) bool { return false })
			must(t, errors.Join(mem.Remove(v.Data), mem.Remove(v.Index)))
			return err
		}))
		sum, err := VerifyFiles(opt, st, Verify{})
		if err != nil || made != 1 || sum.Captures != 1 {
			t.Errorf("%s: %d made whole, %+v: %v", name, made, sum, err)
		}
	}
}
