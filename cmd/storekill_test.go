package cmd

import (
	"bytes"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/objstore/objtest"
)

// killer passes requests on to a store, and kills a process at one of them.
type killer struct {
	*httputil.ReverseProxy
	mu   sync.Mutex
	at   string // "before create", "after part", …; "" kills nothing
	kill func()
}

// ServeHTTP implements http.Handler.
func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := requestKind(r)
	if k.strike("before " + kind) {
		return
	}
	answer := httptest.NewRecorder()
	k.ReverseProxy.ServeHTTP(answer, r)
	if k.strike("after " + kind) {
		return
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the process may be gone
}

// strike kills the process if this is the place, once.
func (k *killer) strike(place string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at != place {
		return false
	}
	k.at = ""
	k.kill()
	return true
}

// requestKind names a request of an upload or a deletion; "other" for those of the check at the start, too.
func requestKind(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case strings.HasSuffix(r.URL.Path, "/access-check") || strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 0 &&
		!q.Has("uploads") && !q.Has("versions"):
		return "other"
	case r.Method == http.MethodDelete && !q.Has("uploadId"):
		return "delete"
	case r.Method == http.MethodGet && q.Has("versions"):
		return "versions"
	case r.Method == http.MethodHead:
		return "head"
	case r.Method == http.MethodGet && q.Has("uploads"):
		return "uploads"
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "create"
	case r.Method == http.MethodPut:
		return "part"
	case r.Method == http.MethodPost:
		return "complete"
	case r.Method == http.MethodGet && r.Header.Get("Range") != "":
		return "get"
	}
	return "other"
}

// TestObjectStoreKill: kill -9 of the command at each kind of request to a real server, before the server has
// it and after it has done it. At the end the objects are all files that ever got their final names, byte for
// byte, and the accounts balance.
func TestObjectStoreKill(t *testing.T) {
	notShort(t)
	checkStoreKill(t, objtest.Serve(t))
}

// TestMinIOKill does the same with another server.
func TestMinIOKill(t *testing.T) {
	notShort(t)
	checkStoreKill(t, objtest.ServeMinIO(t))
}

// startKiller puts a killer in front of the server.
func startKiller(t *testing.T, s *objtest.Server) *killer {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	must(t, err)
	k := &killer{ReverseProxy: &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the signature covers it
		}}}
	proxy := httptest.NewServer(k)
	t.Cleanup(proxy.Close)
	s.Endpoint = proxy.URL
	return k
}

// noteFinished reads the finished files of a crawl.
func noteFinished(t *testing.T, dir string, seen map[string]string) {
	t.Helper()
	for _, name := range append(globbed(t, dir+"/d/warc/*"), globbed(t, dir+"/d/log/*")...) {
		if !strings.HasSuffix(name, ".open") && !strings.HasSuffix(name, ".tmp") {
			seen[path.Base(name)] = readFile(t, name)
		}
	}
}

func checkStoreKill(t *testing.T, s *objtest.Server) {
	t.Helper()
	k := startKiller(t, s)
	s.Setenv(t)
	web, base := cmdtest.SmallWeb(t, nil)
	var dir string
	var args []string
	seen := map[string]string{} // finished files by name
	crawls := 0
	begin := func() {
		dir = t.TempDir()
		crawls++
		args = slices.Concat(base, s.Args(),
			[]string{"--dir=" + dir + "/d", "--ram=256MiB", "--seeds", cmdtest.SeedFile(t, web), "--crawl-log=all",
				"--roll-every=200ms", "--checkpoint-every=50ms"})
	}
	check := func() {
		out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", "--remote=read", dir+"/d")
		if !strings.Contains(out, "balanced") ||
			!strings.Contains(out, "fetched URLs: all keys are known; refused URLs: all keys are known") {
			t.Errorf("audit: %s", out)
		}
	}
	last := "" // what the last run said
	run := func(place string) (killed bool) {
		cmd := cmdtest.Child(t.Context(), args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		defer func() { last = said.String() }()
		k.mu.Lock()
		k.at = place
		k.kill = func() { killed = true; cmd.Process.Kill() }
		k.mu.Unlock()
		err := cmd.Run()
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.at = ""; err != nil && !killed {
			t.Fatalf("%s: %v: %s", place, err, said.String())
		}
		noteFinished(t, dir, seen)
		return killed
	}
	begin()
	began := time.Now()
	for _, when := range []string{"before ", "after "} {
		for _, kind := range []string{"head", "uploads", "create", "part", "complete"} {
			for try := 0; !run(when + kind); try++ {
				if try == 3 {
					t.Fatalf("never killed %s%s", when, kind)
				}
				check()
				begin()
			}
		}
	}
	for range 2 { // the second run finds the crawl finished
		run("")
	}
	check()
	if left := append(globbed(t, dir+"/d/warc/*.warc.gz"), globbed(t, dir+"/d/log/*.zst")...); len(left) > 0 {
		t.Errorf("still here: %q", left)
	}
	objects := s.Objects(t, s.Prefix)
	compared := compareStored(t, s, objects, seen)
	if t.Failed() {
		t.Logf("the last run said: %s", last)
	}
	t.Logf("10 kills in %d crawls, %d objects, %d compared, %v", crawls, len(objects), compared, time.Since(began))
}

// compareStored compares the objects with the finished files that were seen. It returns the number of files.
func compareStored(t *testing.T, s *objtest.Server, objects map[string][]byte, seen map[string]string) int {
	t.Helper()
	compared := 0
	for key, data := range objects {
		if was, ok := seen[path.Base(key)]; ok {
			if compared++; was != string(data) {
				t.Errorf("%s differs from the local file", key)
			}
		}
	}
	for name := range seen {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(objects)),
			func(key string) bool { return path.Base(key) == name }) {
			t.Errorf("%s is not in the store", name)
		}
	}
	if keys := s.Pending(t, maps.Keys(objects)); len(keys) > 0 {
		t.Errorf("unfinished uploads: %q", keys)
	}
	return compared
}
