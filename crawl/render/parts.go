package render

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net/http"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/reader"
	cdp "drumbeat/internal/render"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
)

// The replay of a rendered page needs what its scripts received, and its images, style sheets and fonts. The former is
// stored as it came, because a second request may get another answer. The latter become links. Both are part of the
// transaction that ends the page, so after a crash the page has both or is rendered again. The crawl fetches the links
// like parts of other pages, each once, whether they are in scope or not, and with them what the style sheets refer to.
// The browser waits for none of them.

// resources returns how many resources of a page are fetched: none if the page is not stored, or its links are not
// followed.
func (r *Stage) resources(t *state.RenderTask) int {
	if t.Of == "" || t.NoFollow {
		return 0
	}
	return max(0, r.opt.Browser.Resources)
}

// parts adds the parts of a rendered page as links: those that the browser requested, then those of the DOM, such as
// images below the window, unless its links are held. base is that of the page's links.
func (r *Stage) parts(w *reader.Reader, t *state.RenderTask, held bool, base []byte, f *pageFetcher,
	result *cdp.Result) error {
	most := r.resources(t)
	if held || most == 0 {
		return nil
	}
	w.Links.PartsAnywhere()
	known := f.answered() // scripts that the browser has received are stored
	added := 0
	add := func(url []byte) {
		key := r.saved.Hasher.URLKey(url)
		if _, again := known[key]; again {
			return
		}
		known[key] = struct{}{}
		if added == most {
			w.Links.Counts[state.CountRenderPartsCut]++
			return
		}
		added++
		w.Links.AddAsset(url)
	}
	var counts parse.Counts // of the browser's requests; those of the DOM are counted with its links
	for _, url := range result.Resources {
		if url := w.Parser.Resolve([]byte(url), &counts); url != nil {
			add(url)
		}
	}
	w.Count(&counts)
	w.Parser.Assets(true)
	defer w.Parser.Assets(r.opt.Assets)
	if err := w.Parser.Parse(base, result.HTML, "text/html; charset=utf-8"); err != nil {
		return fmt.Errorf("crawl: parse the parts of %s: %w", f.page, err)
	}
	w.Parser.Each(func(url []byte, l *parse.Link) {
		if l.Asset && shown(l.Tag) {
			add(url)
		}
	})
	w.Links.Counts[state.CountRenderParts] += int64(added)
	return nil
}

// shown reports whether a part of a page is one to fetch: no audio, video or plugin.
func shown(t parse.Tag) bool {
	switch t {
	case parse.Video, parse.Audio, parse.Source, parse.Track, parse.Embed, parse.Object:
		return false
	}
	return true
}

// mostStored bounds the answers that are remembered as stored, in storedRAM bytes. Beyond it the stage forgets all, and
// stores them again.
const (
	mostStored = 16 << 10
	storedRAM  = mostStored * 64
)

// storedAnswers are the digests of the answers stored last, by URL.
type storedAnswers struct {
	mu      sync.Mutex // guards digests
	digests map[uint64][sha1.Size]byte
}

// has reports whether an answer is stored.
func (s *storedAnswers) has(a *answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.digests[a.key]
	return ok && known == a.digest
}

func (s *storedAnswers) add(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.digests) >= mostStored {
		clear(s.digests)
	}
	if s.digests == nil {
		s.digests = map[uint64][sha1.Size]byte{}
	}
	s.digests[a.key] = a.digest
}

// wantsStored reports whether the answer to a request of a page is to be stored.
func (r *Stage) wantsStored(header http.Header) bool {
	if !r.opt.Links.RenderParts {
		return false
	}
	var robots parse.Robots
	for _, value := range header.Values("X-Robots-Tag") {
		robots.Add(parse.ParseRobotsTag([]byte(value), r.opt.Agent))
	}
	return !(robots.NoArchive && r.opt.NoArchive || robots.NoIndex && r.opt.NoIndex)
}

// answer is an answer to a request of a page, which is stored when the page ends.
type answer struct {
	key     uint64 // of its URL
	digest  [sha1.Size]byte
	records warc.Prepared
}

// keep encodes the answer to a request of the page, unless the same one is stored. digest is that of its payload.
func (f *pageFetcher) keep(ctx context.Context, x *warc.Exchange, digest [sha1.Size]byte, header http.Header) error {
	a := &answer{key: f.r.saved.Hasher.URLKey(x.URL), digest: digest}
	if !f.r.wantsStored(header) || f.r.stored.has(a) {
		return nil
	}
	w, back := f.r.others.Lend(ctx)
	if w == nil {
		return ctx.Err()
	}
	defer back(false)
	x.Digest = &a.digest
	if err := w.Encoder.Prepare(&a.records, x); err != nil {
		return fmt.Errorf("crawl: prepare record of %s: %w", x.URL, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, a)
	return nil
}

// store stores the answers to the requests of the page, unless another page has stored the same. It is part of the
// transaction that ends the page, so that no answer is stored twice if the page is rendered again after a crash.
func (f *pageFetcher) store(tx *account.Tx) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.kept {
		if f.r.stored.has(a) {
			continue
		}
		if _, err := f.r.output.Append(&a.records, time.Now()); err != nil {
			return err
		}
		f.r.stored.add(a)
		tx.Count(state.CountRenderAnswers, 1)
	}
	f.kept = nil
	return nil
}
