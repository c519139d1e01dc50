package erase_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"strings"
	"testing"

	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/erase"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

func (w *world) prove(t testing.TB, src erase.Source, also ...string) *erase.Proof {
	t.Helper()
	rep, err := erase.Prove(erase.ProofOptions{FS: w.fs, Dirs: w.opt.Disk.Dirs, Source: src, Also: also,
		OpenStore: w.openStore})
	must(t, err)
	return rep
}

// kinds returns the kinds of leftovers that a proof has.
func kinds(rep *erase.Proof) string {
	var all []string
	for _, l := range rep.Leftovers {
		all = append(all, l.File+": "+l.Kind)
	}
	return strings.Join(all, "\n")
}

// TestProve: before an erasure a proof finds the targets in each kind of file, afterwards nowhere but in the links of
// other pages, in the rules and in the record. Hosts, PLDs and single URLs alike.
func TestProve(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		all, links := "", int64(0)
		for name, make := range map[string]func(t *testing.T) *world{"stopped": stopped, "mirrors": mirrored,
			"interrupted": interrupted} {
			w := make(t)
			before := w.read(t)
			src, _ := before.source()
			rep := w.prove(t, src())
			all += kinds(rep)
			for _, url := range before.revisit {
				host := string(weburl.Split([]byte(url)).Host)
				all += kinds(w.prove(t, erase.Source{Hosts: []string{host}}))
				break
			}
			if rep.Found < 50 || rep.Files < 10 || rep.Bytes == 0 || rep.URLs+rep.Hosts < 3 {
				t.Errorf("%s: %d leftovers of %d targets", name, rep.Found, rep.URLs+rep.Hosts)
			}
			_, err := erase.Run(w.options(src()))
			must(t, err)
			rep = w.prove(t, src())
			if rep.Found > 0 {
				t.Errorf("%s: after an erasure:\n%s %v", name, kinds(rep), rep.Leftovers[0])
			}
			links += rep.Links
			if rep.Rules == 0 || rep.Kept == 0 {
				t.Errorf("%s: %d links, %d rules, %d names in records", name, rep.Links, rep.Rules, rep.Kept)
			}
			files, err := repair.FilesIn(w.fs, "d0", true)
			must(t, err)
			for _, file := range files {
				if strings.Contains(file, "tmp") {
					t.Errorf("%s is left", file)
				}
			}
		}
		for _, want := range []string{"record of the type response", "record of the type request",
			"record of the type metadata", "record of the type revisit", "field WARC-Refers-To-Target-URI of a",
			"line via of a", ".cdxj: text", "field url of a line", "field via of a line", "URL", "state/urlseen: URL",
			"via of a URL", "state/names: name",
			"state/content: URL of a body", "state/MANIFEST: text"} {
			if !strings.Contains(all, want) {
				t.Errorf("no leftover is called %q", want)
			}
		}
		if links == 0 {
			t.Error("no page has a link to an erased one")
		}
	})
}

// TestProvePlanted: a leftover of each kind is found where it was planted.
func TestProvePlanted(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		host := before.storedHost()
		src := erase.Source{Hosts: []string{host}}
		whole := w.fs.Fork(1)
		rep, err := erase.Run(w.options(src))
		must(t, err)
		if n := w.prove(t, src).Found; n > 0 {
			t.Fatalf("%d leftovers after an erasure", n)
		}
		var old struct{ warc, index, log, queue string }
		files, err := repair.FilesIn(whole, "d0", true)
		must(t, err)
		for _, file := range files {
			if _, err := w.fs.Size(file); err == nil && !strings.HasPrefix(file, "d0/log/") {
				continue
			}
			for suffix, to := range map[string]*string{".warc.gz": &old.warc, ".cdxj": &old.index, ".zst": &old.log} {
				data, err := disk.ReadFile(whole, file)
				must(t, err)
				named := suffix != ".cdxj" || bytes.Contains(data, []byte("//"+host+"/"))
				if named && strings.HasSuffix(file, suffix) {
					*to = file
				}
			}
			if strings.HasPrefix(file, "d0/state/") {
				old.queue = file
			}
		}
		read := func(file string) []byte {
			data, err := disk.ReadFile(whole, file)
			must(t, err)
			return data
		}
		gz := func(text string) []byte {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, err := z.Write([]byte(text))
			must(t, errors.Join(err, z.Close()))
			return b.Bytes()
		}
		url := "http://" + host + "/planted"
		for file, data := range map[string][]byte{
			"d0/warc/other.warc.gz": read(old.warc), "d0/warc/other.cdxj": read(old.index),
			"d0/log/other.zst": read(old.log), "d0/state/ready/other": read(old.queue),
			"d0/spool/body": []byte("\x00\x01" + url + "\x02"), "d0/seeds.txt": []byte("a\n" + url + "\n"),
			"d0/texts/part.jsonl": []byte(`{"url":"` + url + `?a=1\u0026b=2"}`),
			"d0/erase-tmp/list":   []byte("host:" + host),
			"d0/export.csv.gz":    gz("url\n" + url + "\n"), "d0/log/tail": []byte(`{"via":"` + url + `"}`),
			"d0/state/damaged/1/f": []byte("x"), "d0/names": []byte("Ask " + strings.ToUpper(host) + "."),
		} {
			one := w.on(w.fs.Fork(2))
			must(t, one.fs.MkdirAll(file[:strings.LastIndexByte(file, '/')]))
			must(t, disk.WriteFileAtomic(one.fs, file, data))
			got := one.prove(t, src)
			if got.Found == 0 || !strings.Contains(kinds(got), file+": ") {
				t.Errorf("%s: %d leftovers\n%s", file, got.Found, kinds(got))
			}
		}
		w.proveBehind(t, src)
		w.proveElsewhere(t, host, rep.Record.Digest)
		must(t, disk.WriteFileAtomic(w.fs, "d0/"+state.EraseName, []byte("x")))
		if _, err := erase.Prove(erase.ProofOptions{FS: w.fs, Dirs: w.opt.Disk.Dirs, Source: src}); !errors.Is(err,
			state.ErrErasing) {
			t.Errorf("in the middle of an erasure: %v", err)
		}
	})
}

// proveBehind plants bytes behind the ends of all segments and of all files with tuples. The next erasure cuts them.
func (w *world) proveBehind(t *testing.T, src erase.Source) {
	t.Helper()
	one := w.on(w.fs.Fork(3))
	r, m := one.open(t)
	ends := map[string]int64{}
	must(t, audit.EachNamed(r, m, func(file string, end int64) {
		if end < math.MaxInt64 {
			ends[file] = end
		}
	}))
	must(t, r.Unlock())
	for file := range ends {
		data, err := disk.ReadFile(one.fs, file)
		must(t, err)
		must(t, disk.WriteFileAtomic(one.fs, file, append(data, 'x')))
	}
	got := one.prove(t, src)
	for file := range ends {
		if !strings.Contains(kinds(got), file+": bytes that the crawl does not use") {
			t.Errorf("%s: bytes behind its end are not found", file)
		}
	}
	if len(ends) == 0 || got.Found < int64(len(ends)) {
		t.Errorf("%d files, %d leftovers", len(ends), got.Found)
	}
	_, err := erase.Run(one.options(src))
	must(t, err)
	if got := one.prove(t, src); got.Found > 0 {
		t.Errorf("after an erasure:\n%s", kinds(got))
	}
}

// proveElsewhere plants a leftover in a file that is not the crawl's.
func (w *world) proveElsewhere(t *testing.T, host, digest string) {
	src, url := erase.Source{Hosts: []string{host}}, "http://"+host+"/planted"
	must(t, w.fs.MkdirAll("elsewhere"))
	must(t, disk.WriteFileAtomic(w.fs, "elsewhere/f", []byte("no\nsee "+url+".")))
	got := w.prove(t, src, "elsewhere")
	if got.Found != 1 || got.Leftovers[0] != (erase.Leftover{File: "elsewhere/f", Offset: 7, Kind: "text",
		Text: url + "."}) || got.Digest != digest {
		t.Errorf("elsewhere: %+v", got)
	}
	if got := w.prove(t, erase.Source{URLs: []string{"http://" + host + "/plan"}}, "elsewhere"); got.Found != 0 {
		t.Errorf("the beginning of a URL: %+v", got.Leftovers)
	}
	if _, err := erase.Prove(erase.ProofOptions{FS: w.fs, Dirs: w.opt.Disk.Dirs}); err == nil {
		t.Error("a proof of no target")
	}
}

// storedHost returns the host of a page that is stored.
func (f *found) storedHost() (host string) {
	for _, record := range f.records {
		if url := strings.Split(record, " ")[1]; strings.HasPrefix(record, "response http://") {
			host = string(weburl.Split([]byte(url)).Host)
		}
	}
	return host
}
