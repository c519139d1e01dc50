package crawl

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/state/export"
	"drumbeat/weburl"
)

// The URLs that earlier crawls have fetched are fed to URLseen before the first checkpoint of a new crawl, which has
// all of them or does not exist. There each is a new URL that ends at once (state.ReasonEarlier) or waits for its next
// visit (deferred.Stage.Earlier); links to it are repeats from then on. That costs no look-up and no RAM for a URL,
// and on disk its key and its line in the log. What a crawl knows of its URLs comes from a sort on disk, by the keys
// of URLs, which are those of this crawl, too.

const (
	// earlierRAM is the RAM to sort what an earlier crawl knows, the least that an export takes. The passes of
	// the new crawl, which take more, have not begun.
	earlierRAM = 32 << 20
	// earlierAtOnce is the number of URLs in one transaction.
	earlierAtOnce = 256
)

// feedEarlier feeds the URLs that earlier crawls have fetched to a new crawl, as Options.Output.SinceKnown says. Seeds
// come first, but not in a crawl that follows no links: its list is what is to be chosen from. It returns false if ctx
// ended it early; nothing durable has changed then.
func (c *crawler) feedEarlier(ctx context.Context) (whole bool, _ error) {
	o := &c.opt.Output
	if c.Manifest != nil || len(o.Since) == 0 || o.SinceKnown == options.KnownAll {
		return true, nil
	}
	if c.opt.Order.Strategy != strategy.Snapshot {
		if err := c.seeds.Run(ctx); err != nil {
			return false, err
		}
	}
	for i := range o.Since {
		took := &c.earlier.took[i]
		err := c.feedOf(ctx, took)
		if ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("crawl: read the URLs of earlier crawl %s: %w", strings.Join(took.Dirs, ","), err)
		}
	}
	return true, nil
}

// feedOf feeds the URLs of one crawl, and counts them in took.
func (c *crawler) feedOf(ctx context.Context, took *state.Earlier) error {
	log := c.opt.Observe.Log.With("crawl", strings.Join(took.Dirs, ","))
	log.Info("reading the URLs that an earlier crawl has fetched")
	f := &earlierFeed{c: c, batch: admit.NewBatch(c.links), now: time.Now()}
	rep, err := export.EachFetched(ctx, export.Options{FS: c.opt.Disk.FS, Dirs: took.Dirs, Out: took.Out,
		RAMBytes: earlierRAM, TempDir: c.Set.Path(0, "since-tmp")}, f.take)
	if err == nil {
		err = f.send()
	}
	if err != nil {
		return err
	}
	for _, note := range rep.Notes {
		log.Warn("the URLs that an earlier crawl has fetched are incomplete", "why", note)
	}
	took.URLs, took.LeftOut, took.Planned = f.urls, f.urls-f.found-f.planned, f.planned
	log.Info("read the URLs that an earlier crawl has fetched", "urls", f.urls, "left_out", took.LeftOut,
		"planned", f.planned)
	return nil
}

// earlierFeed feeds the URLs of one crawl.
type earlierFeed struct {
	c       *crawler
	batch   *admit.Batch
	now     time.Time
	waiting []export.Fetched // to be sent
	url     []byte           // as this crawl spells the URL of take
	// URLs of this crawl's scope that were fetched; of them, those that this crawl fetches if it finds them, and those
	// that wait for a visit.
	urls, found, planned int64
}

// take adds a URL, unless this crawl would not take a link to it.
func (f *earlierFeed) take(u *export.Fetched) error {
	f.url, _ = f.c.links.URLRules.AppendRewritten(f.url[:0], u.URL)
	f.begin()
	if verdict, _ := f.batch.Admit(f.url); verdict < 0 {
		return nil
	}
	f.urls++
	visits, fetch, err := f.choose(u)
	if err != nil {
		return err
	}
	if fetch {
		f.found++
		return nil
	}
	if len(visits) > 0 {
		f.planned++
	}
	f.waiting = append(f.waiting, export.Fetched{URL: bytes.Clone(u.URL), Visits: bytes.Clone(visits)})
	if len(f.waiting) < earlierAtOnce {
		return nil
	}
	return f.send()
}

// begin begins a batch. Guards hold for links, and a crawl that follows none is to leave out what is on its list.
func (f *earlierFeed) begin() {
	if f.batch.Start(nil, nil, 0, 0, f.now); f.c.links.SeedsOnly {
		f.batch.Unguarded()
	}
}

// choose says what becomes of a URL: this crawl fetches it if it finds it, else it waits for the visit that visits
// plans, or is left out without.
func (f *earlierFeed) choose(u *export.Fetched) (visits []byte, fetch bool, err error) {
	if listsURLs(u) {
		return nil, true, nil
	}
	if f.c.opt.Output.SinceKnown == options.KnownSkip {
		return nil, false, nil
	}
	if len(u.Visits) == 0 {
		return nil, true, nil
	}
	var h revisit.History
	if err := h.Decode(u.Visits); err != nil {
		return nil, false, err
	}
	if _, again := f.c.deferrals.Revisits(u.URL); again {
		return u.Visits, false, nil
	}
	return nil, !h.Due().After(f.now), nil
}

// listsURLs reports whether a URL is most likely a sitemap or a feed, by which a crawl finds what is new: by its type
// (RFC 7303, text/xml and more), or by its path.
func listsURLs(u *export.Fetched) bool {
	path := bytes.ToLower(weburl.Split(u.URL).Path)
	kind, _, _ := bytes.Cut(bytes.ToLower(u.MIME), []byte(";"))
	_, kind, _ = bytes.Cut(bytes.TrimSpace(kind), []byte("/"))
	form, isXML := bytes.CutSuffix(kind, []byte("xml"))
	switch string(form) { // otherwise rss+, atom+, rdf+ and so on
	case "xhtml+", "svg+", "mathml+":
		isXML = false
	}
	return isXML || bytes.Contains(path, []byte("sitemap")) || bytes.HasSuffix(path, []byte(".xml")) ||
		bytes.HasSuffix(path, []byte(".xml.gz"))
}

// send sends the URLs to URLseen.
func (f *earlierFeed) send() error {
	err := f.c.Transact(func(tx *account.Tx) error {
		f.c.Hook("earlier")
		for i := range f.waiting {
			u, b := &f.waiting[i], f.batch
			f.begin()
			b.Rec.Reason, b.Rec.Visits = uint8(state.ReasonEarlier), u.Visits
			b.Add(u.URL)
			if err := f.c.seen.SendLinks(b, tx); err != nil {
				return err
			}
		}
		return nil
	})
	f.waiting = f.waiting[:0]
	return err
}
