// Package reader is a room of the running crawl: it has the parser, links, encoder and record for reading a
// page. It decides nothing.
//
// # Contract
//
// The stage of pages owns the readers and lends them to the rooms that read pages: render reads pages of the browser,
// hook adds links to the page that it asks about. The borrower resets the parts that it uses: Start of Links, Parse or
// At of Parser.
//
// # Concurrency
//
// A reader has one page, and one goroutine, at a time. A page takes one only while it is processed, so the number of
// readers bounds how much is parsed at once.
//
// # Memory and disk
//
// A reader keeps the buffers of the largest page that it read: its links, bounded by package admit, and the
// encoded record. It touches no disk.
//
// # Files
//
// reader.go has all: the reader, the links of a parsed page, and the flaws of a body that was decoded in
// part.
package reader

import (
	"drumbeat/admit"
	"drumbeat/fetch"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
)

// Reader has the tools for parsing a page and encoding its record. One goroutine at a time owns it.
type Reader struct {
	Parser   *parse.Extractor
	Links    *admit.Batch // of the page
	Encoder  *warc.Encoder
	Prepared warc.Prepared // the record of the page
}

// TakeLinks adds the links of the page that was parsed last. If *refresh is empty, it sets it to the URL of the first
// meta element that leads to another page; refresh may be nil. all includes links with nofollow; held means that no
// link is to be followed.
func (r *Reader) TakeLinks(held, all bool, refresh *[]byte) parse.Counts {
	return r.Parser.Once(func(url []byte, l *parse.Link) {
		switch {
		case held || l.NoFollow && !all:
			r.Links.NoFollow()
		case l.Tag == parse.Meta:
			if refresh != nil && len(*refresh) == 0 {
				*refresh = append(*refresh, url...)
			}
			r.Links.AddRefresh(url)
		case l.Asset:
			r.Links.AddAsset(url)
		default:
			r.Links.Add(url)
		}
	}, r.Links.Repeat)
}

// Count adds the parser's counts of links that it did not return.
func (r *Reader) Count(c *parse.Counts) {
	r.Links.Counts[state.CountLinksInvalid] += c.Invalid
	r.Links.Counts[state.CountLinksScheme] += c.OtherScheme
	r.Links.Counts[state.CountLinksTooLong] += c.TooLong
	r.Links.Counts[state.CountLinksDropped] += c.Dropped
}

// DecodeCut has the flaws of a body that was received but decoded only in part.
const DecodeCut = fetch.FlawDecodedLimit | fetch.FlawRatioLimit | fetch.FlawDecodeError | fetch.FlawUnknownCoding
