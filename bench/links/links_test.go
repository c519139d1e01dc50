package links

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"
)

var seed = flag.Uint64("seed", 1, "seed of streams")

func mustNew(t testing.TB, o Options) *Stream {
	t.Helper()
	s, err := New(o)
	must(t, err)
	return s
}

// TestTruth: Fresh agrees with a map; keys and texts correspond one to one; the known URLs have the keys of
// KnownKeys.
func TestTruth(t *testing.T) {
	for _, o := range []Options{
		{}, {Known: 100_000, UniqueShare: 0.4}, {Known: 4097, Hosts: 50, Recent: NoRecent}, {UniqueShare: 1, Hosts: 1},
	} {
		o.Seed = *seed
		s := mustNew(t, o)
		seen := map[uint64]string{}
		last := uint64(0)
		must(t, o.KnownKeys(1000, func(keys []uint64) error {
			for _, key := range keys {
				if len(seen) > 0 && key <= last {
					t.Fatalf("seed %d: key %x after %x", *seed, key, last)
				}
				seen[key], last = "", key
			}
			return nil
		}))
		if int64(len(seen)) != o.Known {
			t.Fatalf("seed %d: got %d known keys, want %d", *seed, len(seen), o.Known)
		}
		byText := map[string]uint64{}
		var b Batch
		for id := int64(0); id < o.Known; id += 1000 {
			s.Known(&b, id, 1000)
			for i, key := range b.Keys {
				if text, ok := seen[key]; !ok || text != "" || b.Fresh[i] {
					t.Fatalf("seed %d: key %x of known URL %d isn't among the known keys", *seed, key, id+int64(i))
				}
				seen[key] = string(b.Texts[i])
				byText[seen[key]] = key
			}
		}
		fresh, n := 0, 0
		for range 60 {
			s.Next(&b, 997)
			for i, key := range b.Keys {
				text, was := seen[key]
				if was == b.Fresh[i] {
					t.Fatalf("seed %d: link %d: got fresh %v", *seed, n, b.Fresh[i])
				}
				if text != "" && text != string(b.Texts[i]) {
					t.Fatalf("seed %d: key %x has texts %q and %q", *seed, key, text, b.Texts[i])
				}
				seen[key] = string(b.Texts[i])
				if other, ok := byText[seen[key]]; ok && other != key {
					t.Fatalf("seed %d: keys %x and %x have text %q", *seed, key, other, seen[key])
				}
				byText[seen[key]] = key
				n++
				if b.Fresh[i] {
					fresh++
				}
			}
		}
		if share := float64(fresh) / float64(n); share < 0.95*s.opt.UniqueShare || share > 1.05*s.opt.UniqueShare {
			t.Errorf("seed %d: got a share of %.4f fresh links, want %.4f", *seed, share, s.opt.UniqueShare)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestText: the length, compression ratio and look of the text agree with the package comment.
func TestText(t *testing.T) {
	s := mustNew(t, Options{Seed: *seed, Known: 100_000_000})
	var b Batch
	var block []byte
	hosts := map[string]int{}
	n, size, packed, raw := 0, 0, 0, 0
	for range 400 {
		s.Next(&b, 59)
		for _, text := range b.Texts {
			n, size = n+1, size+len(text)
			if len(block)+len(text)+1 > 256<<10 {
				packed, raw = packed+len(s2.Encode(nil, block)), raw+len(block)
				block = block[:0]
			}
			block = append(append(block, byte(len(text))), text...)
			hosts[strings.Split(string(text), "/")[2]]++
			if bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) || len(text) > maxText-16 {
				t.Fatalf("seed %d: text %q", *seed, text)
			}
		}
	}
	mean, ratio := float64(size)/float64(n), float64(raw)/float64(packed)
	t.Logf("%d links to %d hosts, mean length %.1f, s2 %.2f:1; as %q", n, len(hosts), mean, ratio, b.Texts[:20])
	if mean < 95 || mean > 125 {
		t.Errorf("seed %d: got a mean length of %.1f bytes, want about 110", *seed, mean)
	}
	if ratio < 3.2 || ratio > 4.8 {
		t.Errorf("seed %d: got s2 ratio %.2f, want about 4", *seed, ratio)
	}
}

// TestRecent: a cache of recent URLs knows about two thirds of all links.
func TestRecent(t *testing.T) {
	s := mustNew(t, Options{Seed: *seed, Known: 1 << 40})
	var b Batch
	seen := map[uint64]bool{}
	misses, n := 0, 0
	for range 1000 {
		s.Next(&b, 1000)
		for _, key := range b.Keys {
			if !seen[key] {
				misses++
			}
			seen[key] = true
			n++
		}
	}
	if pi := float64(misses) / float64(n); pi < 0.28 || pi > 0.38 {
		t.Errorf("seed %d: got a share of %.3f links not seen before, want about a third", *seed, pi)
	}
}

// TestSame: a stream doesn't depend on how it is read, and differs by seed.
func TestSame(t *testing.T) {
	read := func(seed uint64, n int) (all string) {
		s := mustNew(t, Options{Seed: seed})
		var b Batch
		for range 1000 / n {
			s.Next(&b, n)
			all += string(bytes.Join(b.Texts, []byte("\n"))) + "\n"
		}
		return all
	}
	if read(3, 1) != read(3, 500) || read(3, 1) == read(4, 1) {
		t.Error("got streams that depend on the batch, or not on the seed")
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	s := mustNew(t, Options{Seed: *seed, Known: 1 << 30})
	var b Batch
	s.Next(&b, 512)
	if n := testing.AllocsPerRun(100, func() { s.Next(&b, 512) }); n != 0 {
		t.Errorf("got %v allocations a batch, want 0", n)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Known: -1}, {UniqueShare: 2}, {Recent: 1.5}, {Hosts: -1}, {LocalShare: -1},
		{Window: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}

// TestReader: plain and compressed files yield the same lines and keys.
func TestReader(t *testing.T) {
	dir := t.TempDir()
	want := []string{"http://a/", "http://b/" + strings.Repeat("x", 5000), "http://a/"}
	text := want[0] + "\n\n" + want[1] + "\r\n" + want[2]
	plain, packed := filepath.Join(dir, "urls"), filepath.Join(dir, "urls.gz")
	must(t, os.WriteFile(plain, []byte(text), 0o600))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	must(t, os.WriteFile(packed, z.Bytes(), 0o600))
	for _, name := range []string{plain, packed} {
		r, err := Open(name)
		must(t, err)
		var b Batch
		var got []string
		var keys []uint64
		for {
			must(t, r.Next(&b, 2))
			if len(b.Keys) == 0 {
				break
			}
			for i, x := range b.Texts {
				got, keys = append(got, string(x)), append(keys, b.Keys[i])
			}
		}
		must(t, r.Close())
		if !slices.Equal(got, want) || keys[0] != keys[2] || keys[0] == keys[1] || b.Fresh != nil {
			t.Errorf("%s: got %q, keys %x", name, got, keys)
		}
	}
	must(t, os.WriteFile(plain, bytes.Repeat([]byte("x"), maxLine+1), 0o600))
	r, err := Open(plain)
	must(t, err)
	defer r.Close()
	if err := r.Next(new(Batch), 1); err == nil {
		t.Error("got no error for a line that is too long")
	}
}

// BenchmarkNext measures the generator alone.
func BenchmarkNext(b *testing.B) {
	s := mustNew(b, Options{Known: 100_000_000})
	var batch Batch
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		s.Next(&batch, 512)
		size += len(batch.Texts[0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/link")
}

func BenchmarkKnownKeys(b *testing.B) {
	o := Options{Known: 10_000_000}
	for b.Loop() {
		must(b, o.KnownKeys(1<<22, func([]uint64) error { return nil }))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(o.Known), "ns/key")
}

// TestEndless: an endless file begins again at its end on other hosts, compressed or not.
func TestEndless(t *testing.T) {
	plain := []byte("http://a/x\n\nhttps://b.c/y?u=http://d/\nnone\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"urls": plain, "urls.gz": packed.Bytes()} {
		name = filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(name, content, 0o600))
		r, err := OpenEndless(name)
		must(t, err)
		var b Batch
		var got []string
		for _, n := range []int{1, 4, 3} {
			must(t, r.Next(&b, n))
			for i, text := range b.Texts {
				got = append(got, string(text))
				if b.Keys[i] != xxhash.Sum64(text) {
					t.Errorf("%s: the key is not that of the text", text)
				}
			}
		}
		want := []string{
			"http://a/x", "https://b.c/y?u=http://d/", "none", "http://r1.a/x", "https://r1.b.c/y?u=http://d/", "none",
			"http://r2.a/x", "https://r2.b.c/y?u=http://d/",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
