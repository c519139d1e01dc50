package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"drumbeat/crawl/fetcher"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
)

// largeBody returns a body of n bytes that begins with links to /a and /b.
func largeBody(n int) []byte {
	body := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(body)
	copy(body, "<html><a href='/a'>a</a><a href='/b'>b</a><!-- ")
	return body
}

// largeWeb is a host whose root has a large body. The reply of the pages below it is a small page.
func largeWeb(head string, body []byte) *tinyWeb {
	w := &tinyWeb{Serve: pagesOnly}
	w.Raw = func(c net.Conn, _, path string) bool {
		if path != "/" {
			return false
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%s\r\n", head)
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 100_000)
			if _, err := c.Write(rest[:n]); err != nil {
				break
			}
			rest = rest[n:]
		}
		return true
	}
	return w
}

// spooling returns options of a crawl whose RAM may hold 1 MiB of a body.
func spooling(t *testing.T, w *tinyWeb, fs disk.FS) Options {
	t.Helper()
	opt := tinyOptions(t, w, fs, "http://large.test/")
	opt.Network.FetchLimits = fetch.Limits{BodyBytes: 100 << 20, HeldBytes: 1 << 20, DecodedBytes: 1 << 20}
	client := newClient(t, fetch.Options{Dial: w.Dial, Limits: opt.Network.FetchLimits, BufferBytes: 12 << 20})
	t.Cleanup(func() { client.Close() })
	opt.Network.Fetcher = client
	atOnce(&opt)
	opt.Limits.Linger = 0
	return opt
}

// storedBlock returns the only record of a URL's response.
func storedBlock(t *testing.T, fs disk.FS, dirs []string, url string) []byte {
	t.Helper()
	var found [][]byte
	eachRecord(t, fs, dirs, func(r *warc.Record) {
		if r.Type() == "response" && r.Get("WARC-Target-URI") == url {
			found = append(found, bytes.Clone(r.Block))
		}
	})
	if len(found) != 1 {
		t.Fatalf("%s has %d records, want 1", url, len(found))
	}
	return found[0]
}

// noSpools reports spools that are left.
func noSpools(t *testing.T, fs disk.FS, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		if names, err := fs.List(dir + "/" + fetcher.SpoolDir); err == nil && len(names) > 0 {
			t.Errorf("spools are left in %s: %q", dir, names)
		}
	}
}

// TestLargeBodies: a body of 64 MB is stored byte for byte, while RAM holds 1 MiB of it. Its first links are
// followed, and the audit of everything stored takes the same RAM.
func TestLargeBodies(t *testing.T) {
	notShort(t)
	body := largeBody(64e6)
	var chunks bytes.Buffer
	for at := 0; at < len(body); at += 5e6 {
		piece := body[at:min(at+5e6, len(body))]
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", len(piece), piece)
	}
	chunks.WriteString("0\r\n\r\n")
	for head, sent := range map[string][]byte{
		fmt.Sprintf("Content-Length: %d\r\n", len(body)):                           body,
		fmt.Sprintf("Content-Encoding: none\r\nContent-Length: %d\r\n", len(body)): body,
		"Transfer-Encoding: chunked\r\n":                                           chunks.Bytes(),
		"":                                                                         body,
	} {
		inBubble(t, func(t *testing.T) {
			w := largeWeb(head, sent)
			fs := memfs.New(*seedFlag)
			opt := spooling(t, w, fs)
			res := mustRun(t, t.Context(), opt)
			block := storedBlock(t, fs, opt.Disk.Dirs, "http://large.test/")
			if i := bytes.Index(block, []byte("\r\n\r\n")); !bytes.Equal(block[i+4:], sent) {
				t.Errorf("%q: %d bytes stored, want %d", head, len(block)-i-4, len(sent))
			}
			if n := len(w.Got("large.test", "/a")) + len(w.Got("large.test", "/b")); n != 2 {
				t.Errorf("%q: %d links followed, want 2", head, n)
			}
			s := &res.Snapshot
			if s.Count(state.CountSpooled) != 1 || s.Count(state.CountBytesSpooled) != int64(len(sent)) ||
				s.Count(state.CountTruncated) > 0 {
				t.Errorf("%q: %d spooled, %d bytes, %d truncated", head, s.Count(state.CountSpooled),
					s.Count(state.CountBytesSpooled), s.Count(state.CountTruncated))
			}
			noSpools(t, fs, opt.Disk.Dirs)
			rep, err := audit.Deep(audit.Options{FS: fs, Dirs: opt.Disk.Dirs, RAMBytes: 1 << 20})
			if err != nil || !rep.Balanced() || !rep.Output.StoredAll || len(rep.Unnamed) > 0 {
				t.Errorf("%q: audit: %v, %+v", head, err, rep)
			}
		})
	}
}

// TestLargeBodyIsCut: a crawl whose machine stops at any moment while it spools or stores a body fetches the
// URL again, and no spool is left.
func TestLargeBodyIsCut(t *testing.T) {
	notShort(t)
	body := largeBody(3e6)
	run := func(t *testing.T, fs *memfs.FS) (Options, error) {
		opt := spooling(t, largeWeb(fmt.Sprintf("Content-Length: %d\r\n", len(body)), body), fs)
		_, err := Run(t.Context(), opt)
		return opt, err
	}
	whole, spooled := memfs.New(*seedFlag), 0
	inBubble(t, func(t *testing.T) {
		if _, err := run(t, whole); err != nil {
			t.Fatal(err)
		}
	})
	for at := 1; at < whole.Ops(); at += longOr(1, 3) {
		fs := memfs.New(*seedFlag)
		inBubble(t, func(t *testing.T) {
			fs.CrashAfter(at)
			if _, err := run(t, fs); err == nil {
				t.Logf("operation %d of %d did not come", at, whole.Ops())
			}
		})
		if fs = fs.Kill(); at%2 == 0 {
			fs = fs.Crash()
		}
		for _, dir := range []string{"d0", "d1"} {
			if names, err := fs.List(dir + "/" + fetcher.SpoolDir); err == nil {
				spooled += len(names)
			}
		}
		inBubble(t, func(t *testing.T) {
			opt, err := run(t, fs)
			if err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatalf("cut at operation %d: %v", at, err)
			}
			if block := storedBlock(t, fs, opt.Disk.Dirs, "http://large.test/"); !bytes.HasSuffix(block, body) {
				t.Errorf("cut at operation %d: %d bytes stored", at, len(block))
			}
			noSpools(t, fs, opt.Disk.Dirs)
			checkBalanced(t, fs, opt.Disk.Dirs)
		})
	}
	if spooled == 0 {
		t.Error("no cut left a spool")
	}
}

// TestLargeBodyIsStopped: a crawl that is stopped while a body arrives fetches it in the next run.
func TestLargeBodyIsStopped(t *testing.T) {
	body := largeBody(8e6)
	inBubble(t, func(t *testing.T) {
		w := largeWeb("", nil)
		stuck := w.Raw
		w.Raw = func(c net.Conn, host, path string) bool {
			if stuck(c, host, path) {
				_, _ = c.Write(body[:4e6])
				time.Sleep(50 * time.Second) // the crawl is stopped meanwhile
				return true
			}
			return false
		}
		fs := memfs.New(*seedFlag)
		opt := spooling(t, w, fs)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if res := mustRun(t, ctx, opt); res.Stop != StopCancelled {
			t.Fatalf("stopped by %q", res.Stop)
		}
		noSpools(t, fs, opt.Disk.Dirs)
		checkBalanced(t, fs, opt.Disk.Dirs)
		time.Sleep(time.Minute)
		w.Raw = largeWeb("", body).Raw
		mustRun(t, t.Context(), opt)
		if block := storedBlock(t, fs, opt.Disk.Dirs, "http://large.test/"); !bytes.HasSuffix(block, body) {
			t.Errorf("%d bytes stored", len(block))
		}
	})
}

// TestLargeBodyFindsNoRoom: a body that does not fit on the disk is deferred, nothing counts against its
// host, and it is stored once there is room. An announced length is checked before anything is spooled.
func TestLargeBodyFindsNoRoom(t *testing.T) {
	body := largeBody(8e6)
	for _, head := range []string{fmt.Sprintf("Content-Length: %d\r\n", len(body)), ""} {
		inBubble(t, func(t *testing.T) {
			w := largeWeb(head, body)
			fs := memfs.New(*seedFlag)
			opt := spooling(t, w, fs)
			opt.Disk.KeepFree = 1 << 20
			opt.Limits.DiskBytes = 17 << 20 // its margin is 1 MiB; two copies and a step do not fit
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
			defer cancel()
			if res := mustRun(t, ctx, opt); res.Snapshot.Count(state.CountSpooled) != 0 {
				t.Fatalf("%q: stored without room", head)
			}
			if n := len(w.Got("large.test", "/")); n < 2 || n > 4 {
				t.Errorf("%q: %d requests in 25 minutes, want one every 10", head, n)
			}
			noSpools(t, fs, opt.Disk.Dirs)
			opt.Limits.DiskBytes = 10 << 30
			res := mustRun(t, t.Context(), opt)
			if res.Stop != StopDone || res.Snapshot.Count(state.CountSpooled) != 1 ||
				res.Snapshot.Count(state.CountRetries) != 0 {
				t.Errorf("%q: %q, %d spooled, %d retries", head, res.Stop, res.Snapshot.Count(state.CountSpooled),
					res.Snapshot.Count(state.CountRetries))
			}
		})
	}
}
