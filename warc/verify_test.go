package warc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestVerifyFindsWhatDoesNotAgree: intact files verify, with their tails. A wrong byte anywhere in a WARC
// file or index, or a missing line, is reported. A final file that was moved away is counted and is not
// damage.
func TestVerifyFindsWhatDoesNotAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	eachFormat(t, testVerifyFindsWhatDoesNotAgree)
}

// fillForVerify writes 100 exchanges and 10 lookups.
func fillForVerify(t *testing.T, w *Writer, rng *rand.Rand) {
	enc := w.NewEncoder()
	for i := range 100 {
		body := strings.Repeat(fmt.Sprintf("page %d ", i), 1+rng.IntN(200))
		x := &Exchange{
			URL: fmt.Appendf(nil, "http://h%d.test/?q=%d", i%7, i), Date: time.Unix(1e9, 0), Status: 200,
			Request: []byte("GET / HTTP/1.1\r\n\r\n"), Head: []byte("HTTP/1.1 200 OK\r\nX: y\r\n\r\n"),
			Body:    []byte(body),
			Encoded: i%5 == 0, Kind: []string{KindPage, KindRobots}[i%4/3],
		}
		if i%3 == 0 {
			x.Head = []byte(chunkedHead)
			x.Body, x.Chunked = fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(body), body), true
		}
		var p Prepared
		must(t, enc.Prepare(&p, x))
		if _, err := w.Append(&p, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if i%10 > 0 {
			continue
		}
		if err := enc.PrepareLookup(&p, &Lookup{Host: fmt.Sprintf("h%d.test", i), Date: time.Unix(1e9, 0),
			Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(&p, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// flipBit calls damaged while one bit of a file is inverted, if that changes its text. known is the size of
// an open file.
func flipBit(t *testing.T, mem *memfs.FS, name string, rng *rand.Rand, known int64, damaged func(what string)) {
	file, err := mem.Open(name)
	must(t, err)
	size, _ := file.Size()
	off, old := rng.Int64N(size), []byte{0}
	if _, err := file.ReadAt(old, off); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, openSuffixOfTest) && off >= known {
		return
	}
	write := func(b byte) {
		if _, err := file.WriteAt([]byte{b}, off); err != nil {
			t.Fatal(err)
		}
	}
	was := textOf(mem, name)
	write(old[0] ^ byte(1<<rng.IntN(8)))
	if textOf(mem, name) != was {
		damaged(fmt.Sprintf("%s at %d", name, off))
	}
	write(old[0])
}

func testVerifyFindsWhatDoesNotAgree(t *testing.T, format func(*Options)) {
	mem := memfs.New(1)
	set := disk.Set{FS: mem, Paths: []string{"d"}}
	opt := Options{Set: set, State: set, FileBytes: 20_000, BufferBytes: 4096, Random: rand.NewChaCha8([32]byte{})}
	format(&opt)
	w, err := Open(opt, nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	fillForVerify(t, w, rng)
	st := checkpointOf(t, w, opt)
	kinds := map[string]int{}
	verify := func() (Verified, map[string]bool, []string) {
		urls, damages := map[string]bool{}, []string(nil)
		clear(kinds)
		sum, err := VerifyFiles(opt, st, Verify{
			Capture: func(c *Capture) error { urls[c.URL] = true; kinds[c.Kind]++; return nil },
			Damaged: func(err error) error { damages = append(damages, err.Error()); return nil },
		})
		must(t, err)
		return sum, urls, damages
	}
	sum, urls, damages := verify()
	if len(damages) > 0 || sum.Captures != 110 || sum.Lines != 110 || len(urls) != 110 ||
		sum.Records != 210+sum.Files/2 || kinds[KindPage] != 75 || kinds[KindRobots] != 25 || kinds[KindDNS] != 10 ||
		sum.AbsentFiles != 0 || sum.AbsentIndexes != 0 {
		t.Fatalf("whole files: %+v, %d URLs, %q", sum, len(urls), damages)
	}
	names, err := mem.List("d/warc")
	must(t, err)
	must(t, mem.MkdirAll("away"))
	for range 60 {
		name := "d/warc/" + names[rng.IntN(len(names))]
		flipBit(t, mem, name, rng, sizeOf(st, name), func(what string) {
			if _, urls, damages := verify(); len(damages) == 0 {
				t.Errorf("%s: nothing said; %d URLs", what, len(urls))
			}
		})
	}
	for _, name := range names {
		if strings.HasSuffix(name, openSuffixOfTest) {
			continue
		}
		must(t, mem.Rename("d/warc/"+name, "away/"+name))
		sum, _, damages := verify()
		if len(damages) > 0 || sum.AbsentFiles+sum.AbsentIndexes != 1 {
			t.Errorf("%s moved away: %+v, %q", name, sum, damages)
		}
		must(t, mem.Rename("away/"+name, "d/warc/"+name))
	}
}

// textOf returns the text of the records of a WARC file, or of the lines of an index, up to the first
// damage. A member has a few padding bits without meaning after the end of a block.
func textOf(mem *memfs.FS, name string) string {
	data, err := disk.ReadFile(mem, name)
	if err != nil || !isData(name) {
		return string(data)
	}
	var text strings.Builder
	err = Read(bytes.NewReader(data), 1<<20, func(r *Record) error {
		_, err := fmt.Fprintf(&text, "%x %d %d %v %q\n", data[r.Offset:][:len(memberMagic)], r.Offset, r.Length,
			r.Fields, r.Block)
		return err
	})
	return fmt.Sprint(text.String(), err)
}

const openSuffixOfTest = ".open"

func sizeOf(st *State, path string) int64 {
	for _, v := range st.Files.Volumes {
		for i, suffix := range []string{[]string{gzSuffix, zstSuffix}[v.Streams[0].Form], indexSuffix} {
			if strings.HasSuffix(path, v.Name+suffix+openSuffixOfTest) {
				return v.Streams[i].Size
			}
		}
	}
	return 0
}
