package crawl

import (
	"drumbeat/state"
	"drumbeat/warc"
)

// Pages can ask archives not to keep them, with the directives noarchive and noindex. --robots-meta says
// whether the crawl does as they ask. What it leaves out is documented by a line of the metadata record. The URL is
// fetched like any other, and nofollow alone decides about its links. A hook can leave out a page, too (package hook).

// askArchive fills in w.stores: what is stored of the response whose directives w.meta has.
func (p *pageStage) askArchive(w *pageWorker) {
	w.stores = state.ArchiveKeep
	robots := &w.meta.robots
	if robots.NoArchive {
		w.Links.Counts[state.CountNoArchive]++
		if p.opt.Output.NoArchive != "" {
			w.stores = p.opt.Output.NoArchive
		}
	}
	if robots.NoIndex && p.opt.Output.NoIndex == state.ArchiveDrop {
		w.stores = state.ArchiveDrop
	}
	if !p.opt.Output.Store {
		return
	}
	if w.meta.Unwanted {
		w.stores = state.ArchiveDrop // counted as CountHookDropped
		return
	}
	switch w.stores {
	case state.ArchiveHeaders:
		w.Links.Counts[state.CountHeadsStored]++
	case state.ArchiveDrop:
		w.Links.Counts[state.CountOmitted]++
	}
}

// leaveOut removes from an exchange what is not stored.
func leaveOut(x *warc.Exchange, stores state.Archive, meta *pageMeta) {
	what := "nothing"
	if stores == state.ArchiveHeaders {
		what = "head only"
	}
	why := "the page asks for " + meta.directives()
	if meta.Unwanted {
		why = "the hook does not keep it"
	}
	x.Meta = append(x.Meta, warc.Field{Name: "stored", Value: what + ", because " + why})
	// WARC 1.1 has no better reason for a record without its body.
	x.Body, x.Large, x.Chunked, x.Encoded, x.Truncated = nil, nil, false, false, "unspecified"
}
