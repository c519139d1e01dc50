package crawllog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestScanGoesOnBehindDamage: Scan returns all entries of an undamaged log. With a wrong byte anywhere it
// reports damage and returns the entries of the other frames; it never returns an entry that was not written.
func TestScanGoesOnBehindDamage(t *testing.T) {
	mem := memfs.New(1)
	opt := Options{Set: disk.Set{FS: mem, Paths: []string{"d"}}, FileBytes: 70_000, BlockBytes: minBlock}
	l, err := Open(opt, nil)
	must(t, err)
	const n = 6000
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		e := Entry{Time: time.Unix(1e9, 0),
			URL: fmt.Sprintf("http://h.test/%d/%x%x%x", i, rng.Uint64(), rng.Uint64(), rng.Uint64()), Status: 200}
		must(t, l.Append(&e))
	}
	st := saved(t, l, opt.Set)
	scan := func() (map[string]bool, []error) {
		urls, damages := map[string]bool{}, []error(nil)
		_, err := Scan(opt, st, func(e *Entry) error { urls[e.URL] = true; return nil },
			func(err error) error { damages = append(damages, err); return nil })
		must(t, err)
		return urls, damages
	}
	whole, damages := scan()
	if len(whole) != n || len(damages) > 0 {
		t.Fatalf("an undamaged log: %d entries, %v", len(whole), damages)
	}
	names, err := mem.List("d/log")
	if err != nil || len(names) < 2 {
		t.Fatalf("files %q, %v", names, err)
	}
	for range 20 {
		name := "d/log/" + names[rng.IntN(len(names))]
		file, err := mem.Open(name)
		must(t, err)
		size, _ := file.Size()
		off, old := rng.Int64N(size), []byte{0}
		if _, err := file.ReadAt(old, off); err != nil {
			t.Fatal(err)
		}
		write := func(b byte) {
			if _, err := file.WriteAt([]byte{b}, off); err != nil {
				t.Fatal(err)
			}
		}
		write(old[0] ^ byte(1<<rng.IntN(8)))
		urls, damages := scan()
		for url := range urls {
			if !whole[url] {
				t.Fatalf("%s at %d: found %q, which was not written", name, off, url)
			}
		}
		if len(urls) < n && len(damages) == 0 || len(urls) < n/4 {
			t.Errorf("%s at %d: %d of %d entries, %v", name, off, len(urls), n, damages)
		}
		write(old[0])
	}
}
