package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"drumbeat/state"
)

//go:embed static
var files embed.FS

// policy is the Content-Security-Policy: files of this server alone, and nothing inline.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// types are the media types by extension. The table of the system may lack them.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}

// file is a file in both codings.
type file struct {
	mediaType, tag string
	plain, gzipped []byte
}

// Handler returns a handler that serves the dashboard at "/", and its page about the nodes of a cluster at
// "/cluster". It panics if the embedded files cannot be read, which is a bug of the build.
func Handler() http.Handler {
	served := map[string]*file{}
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		served[strings.TrimPrefix(name, "static")] = newFile(name, data)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: web: embedded files: %v", err))
	}
	served["/reasons.js"] = newFile("reasons.js", reasons())
	served["/"], served["/cluster"] = served["/index.html"], served["/cluster.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := served[path.Clean("/"+r.URL.Path)]
		if f == nil {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		f.serve(w, r)
	})
}

// reasons returns a module with the words for reasons, so that they are those of all other texts.
func reasons() []byte {
	table := map[string][]string{}
	for r := state.ReasonNone + 1; r < state.NumReasons; r++ {
		words, more := state.ReasonText(r.String())
		if table[r.String()] = []string{words}; more != "" {
			table[r.String()] = []string{words, more}
		}
	}
	data, err := json.Marshal(table)
	if err != nil {
		panic(fmt.Sprintf("BUG: web: words for reasons: %v", err))
	}
	return append([]byte("export const REASONS = "), data...)
}

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{mediaType: types[path.Ext(name)], tag: hex.EncodeToString(sum[:12]), plain: data}
	if f.mediaType == "" {
		f.mediaType = mime.TypeByExtension(path.Ext(name))
	}
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is valid
	_, _ = z.Write(data)                                    // a Buffer takes everything
	_ = z.Close()
	if buf.Len() < len(data) {
		f.gzipped = buf.Bytes()
	}
	return f
}

// serve writes a file. The tag differs by coding, as RFC 9110, section 8.8.3.3, asks.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.mediaType)
	body, tag := f.plain, `"`+f.tag+`"`
	if f.gzipped != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body, tag = f.gzipped, `"`+f.tag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if tagMatches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the client is gone
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip by name.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !ok || err == nil && weight > 0
	}
	return false
}

// tagMatches reports whether an If-None-Match header has the tag.
func tagMatches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}
