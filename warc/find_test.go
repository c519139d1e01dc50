package warc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// findStore is storeOf with seven hosts.
func findStore(t *testing.T, n int) (opt Options, st *State, at map[string]Location) {
	t.Helper()
	return storeOf(t, n, func(i int) string {
		if i%50 == 0 {
			// A line longer than a page.
			return fmt.Sprintf("http://h%d.test/%s", i%7, strings.Repeat("y", 5000+i))
		}
		return fmt.Sprintf("http://h%d.test/%s?q=%d", i%7, strings.Repeat("x", i%600), i)
	})
}

// storeOf writes captures of n URLs to several files, the last of which is open.
func storeOf(t *testing.T, n int, name func(i int) string) (opt Options, st *State, at map[string]Location) {
	t.Helper()
	mem := memfs.New(1)
	set := disk.Set{FS: mem, Paths: []string{"d0", "d1"}}
	opt = Options{Set: set, State: set, FileBytes: 15_000, BufferBytes: 4096, Random: rand.NewChaCha8([32]byte{})}
	w, err := Open(opt, nil)
	must(t, err)
	enc := w.NewEncoder()
	at = map[string]Location{}
	for i := range n {
		url := name(i)
		var p Prepared
		if err := enc.Prepare(&p,
			&Exchange{URL: []byte(url), Date: time.Unix(1e9+int64(i), 0), Status: 200 + i%3, MIME: "text/html",
				Head: fmt.Appendf(nil, "HTTP/1.1 %d OK\r\n\r\n", 200+i%3), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		loc, err := w.Append(&p, time.Unix(1e9+int64(i), 0))
		must(t, err)
		at[url] = loc
		if i == n-40 || i == n-1 { // files full by then become final with the second checkpoint
			tails, err := disk.CreateTails(set, uint64(i))
			must(t, err)
			f := w.Freeze()
			if st, err = f.Save(tails); err != nil {
				t.Fatal(err)
			}
			must(t, tails.Close())
			must(t, f.Commit())
		}
	}
	return opt, st, at
}

// rewriteKeys gives the lines of address hosts in the indexes the keys of earlier versions, and returns their number.
func rewriteKeys(t *testing.T, opt Options) (changed int) {
	for _, dir := range []string{"d0/warc/", "d1/warc/"} {
		names, err := opt.Set.FS.List(dir)
		must(t, err)
		for _, name := range names {
			if !strings.Contains(name, indexSuffix) {
				continue
			}
			data, err := disk.ReadFile(opt.Set.FS, dir+name)
			must(t, err)
			lines := strings.SplitAfter(string(data), "\n")
			for i, text := range lines {
				x, err := (&indexFile{}).parse([]byte(text))
				if err != nil {
					continue // the end of a file, and what no checkpoint has
				}
				_, rest, _ := strings.Cut(text, " ")
				if line := string(AppendKey(nil, []byte(x.URL), keyFormer)) + " " + rest; line != text {
					lines[i] = line
					changed++
				}
			}
			if strings.HasSuffix(name, indexSuffix) { // final
				slices.Sort(lines)
			}
			f, err := opt.Set.FS.Open(dir + name)
			must(t, err)
			_, err = f.WriteAt([]byte(strings.Join(lines, "")), 0)
			must(t, err)
			must(t, f.Close())
		}
	}
	return changed
}

// TestFormerKeys: captures of addresses are found, and agree with their records, by the keys of this version and by
// those of earlier ones, in final and open indexes.
func TestFormerKeys(t *testing.T) {
	name := func(i int) string {
		return fmt.Sprintf("http://%s/%d", []string{"192.0.2.7", "192.0.2.7:81", "www.example.org"}[i%3], i)
	}
	opt, st, at := storeOf(t, 360, name)
	damaged := func(err error) error { return err }
	for _, former := range []bool{false, true} {
		if n := 0; former {
			if n = rewriteKeys(t, opt); n < 100 {
				t.Fatalf("%d lines have keys of earlier versions", n)
			}
		}
		for url := range at {
			n := 0
			if err := Find(opt, st, []string{url, url + "x"}, func(*Indexed) error { n++; return nil },
				damaged); err != nil || n != 1 {
				t.Errorf("former %v: Find finds %d of %s, %v", former, n, url, err)
			}
			n = 0
			if err := FindAll(opt, st, url, func(*Stored) error { n++; return nil }, func(string) {},
				damaged); err != nil || n != 1 {
				t.Errorf("former %v: FindAll finds %d of %s, %v", former, n, url, err)
			}
		}
		n := 0
		if err := FindHost(opt, st, "http://192.0.2.7/", 1<<20, func(string) bool { n++; return false },
			damaged); err != nil || n != len(at)*2/3 {
			t.Errorf("former %v: FindHost finds %d of %d, %v", former, n, len(at)*2/3, err)
		}
		sum, err := VerifyFiles(opt, st, Verify{})
		if err != nil || sum.Captures != int64(len(at)) {
			t.Errorf("former %v: %+v, %v", former, sum, err)
		}
	}
}

// TestFindHostIPv6: an address is not taken for a shorter one with a port.
func TestFindHostIPv6(t *testing.T) {
	opt, st, _ := storeOf(t, 90, func(i int) string {
		return fmt.Sprintf("http://%s/%d", []string{"[2001:db8::1]", "[2001:db8::1]:81", "[2001:db8::1:81]"}[i%3], i)
	})
	n := 0
	if err := FindHost(opt, st, "http://[2001:db8::1]:5/", 1<<20, func(string) bool { n++; return false },
		func(err error) error { return err }); err != nil || n != 60 {
		t.Errorf("got %d of 60 URLs, %v", n, err)
	}
}

// TestFind: every URL is found where it was written, in final and open indexes, alone and among others, with
// few reads; unknown URLs are not found. Despite damage the others are found.
func TestFind(t *testing.T) {
	opt, st, at := findStore(t, 350)
	meter := disk.NewMeter(opt.Set.FS)
	opt.Set.FS, opt.State.FS = meter, meter
	damaged := func(err error) error { return err }
	var all []string
	for url, loc := range at {
		all = append(all, url, url+"0")
		if testing.Short() && len(all)%8 > 0 {
			continue
		}
		found := 0
		err := Find(opt, st, []string{url + "0", url}, func(x *Indexed) error {
			found++
			if x.URL != url || x.File != loc.File || x.Offset != loc.Offset || x.Length != loc.Length ||
				x.MIME != "text/html" ||
				x.Time.Before(time.Unix(1e9, 0)) || x.Status < 200 || x.Status > 202 {
				t.Errorf("%.60s: %+v, want %+v", url, x, loc)
			}
			return nil
		}, damaged)
		if err != nil || found != 1 {
			t.Fatalf("%.60s: found %d times, %v", url, found, err)
		}
		host := 0
		if err := FindHost(opt, st, url, 1<<20, func(u string) bool { host++; return u == url }, damaged); err != nil ||
			host == 0 {
			t.Fatalf("FindHost %.60s: %d, %v", url, host, err)
		}
	}
	got := map[string]bool{}
	if err := Find(opt, st, all, func(x *Indexed) error { got[x.URL] = true; return nil }, damaged); err != nil ||
		len(got) != len(at) {
		t.Errorf("%d of %d URLs found together, %v", len(got), len(at), err)
	}
	enough := 0
	if err := FindHost(opt, st, "http://h1.test/", 2000, func(string) bool { enough++; return false },
		damaged); err != nil || enough > 200 {
		t.Errorf("FindHost reads %d URLs with a bound of 2000 bytes a file, %v", enough, err)
	}
	all1, err := opt.Set.FS.List("d0/warc")
	if err != nil || len(all1) < 6 {
		t.Fatalf("%v, %v", all1, err)
	}
	for _, name := range all1 {
		if strings.HasSuffix(name, indexSuffix) {
			f, err := opt.Set.FS.Open("d0/warc/" + name)
			must(t, err)
			if _, err := f.WriteAt([]byte(strings.Repeat("!", 300)), 0); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	got = map[string]bool{}
	err = Find(opt, st, all, func(x *Indexed) error { got[x.URL] = true; return nil }, func(error) error { return nil })
	if err != nil || len(got) < len(at)/3 || len(got) >= len(at) {
		t.Errorf("%d of %d URLs found beside damage, %v", len(got), len(at), err)
	}
}

// TestFindReadsLittle: a search of a large index reads few of its pages.
func TestFindReadsLittle(t *testing.T) {
	mem := memfs.New(1)
	must(t, mem.MkdirAll("d/warc"))
	f, err := mem.Create("d/warc/DRUMBEAT-20260101000000000-00000-x.cdxj")
	must(t, err)
	var text []byte
	for i := range 50_000 {
		text = fmt.Appendf(text,
			"test,h)/%06d 20260101000000 {\"url\": \"http://h.test/%06d\", \"mime\": \"unk\", \"status\": \"200\", "+
				"\"digest\": \"sha1:x\", \"length\": \"1\", \"offset\": \"%d\", \"filename\": \"f\"}\n", i, i, i)
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	meter := disk.NewMeter(mem)
	opt := Options{Set: disk.Set{FS: meter, Paths: []string{"d"}}}
	opt.State = opt.Set
	st := &State{V: stateVersion}
	st.Files.V = 2
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		i, before, found := rng.IntN(50_000), meter.Counts().ReadBytes, false
		err := Find(opt, st, []string{fmt.Sprintf("http://h.test/%06d", i)}, func(x *Indexed) error {
			found = x.Offset == int64(i)
			return nil
		}, func(err error) error { return err })
		read := meter.Counts().ReadBytes - before
		if err != nil || !found || read > 160<<10 {
			t.Fatalf("%d: found %v in %d of %d bytes, %v", i, found, read, len(text), err)
		}
	}
}

// TestIndexNamesFiles: an index that names a file elsewhere is damaged, for all that read its lines.
func TestIndexNamesFiles(t *testing.T) {
	for name, good := range map[string]bool{"a.warc.gz": true, "..a.warc.gz": true, "": false, ".": false, "..": false,
		"../a.warc.gz": false, "/etc/passwd": false, "a/b.warc.gz": false, `..\\a.warc.gz`: false,
		`a\u0000.warc.gz`: false, `a\n.warc.gz`: false, `a\u009b.warc.gz`: false} {
		line := fmt.Sprintf(
			"test,h)/ 20260101000000 {\"url\": \"http://h.test/\", \"mime\": \"unk\", \"status\": \"200\", "+
				"\"digest\": \"sha1:x\", \"length\": \"1\", \"offset\": \"0\", \"filename\": \"%s\"}\n", name)
		if x, err := (&indexFile{}).parse([]byte(line)); good != (err == nil) || good && x.File != name {
			t.Errorf("%s: %+v, %v", line, x, err)
		}
	}
}
