package url

import (
	"context"
	"errors"
	"fmt"

	"drumbeat/bench/lab/corpus"
	"drumbeat/bench/measure"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// urlComparison is how our canonical URLs compare with those of the library of the standard, and with net/url's.
type urlComparison struct {
	pages      int
	refs       int64 // repeats on a page included
	compared   int64 // different ones of each page
	plain      int64 // of compared
	skipped    int64 // queries in another encoding than UTF-8, which the library doesn't know; URLs beyond our limit
	different  []string
	differing  int64 // references whose URL isn't the standard's
	plainWrong int64 // of them plain ones
	stdOther   int64 // references of which net/url makes something else than we
}

// shownDifferences bounds the differences that are listed.
const shownDifferences = 20

// compare compares the references of the corpus' pages, or the made ones.
func (res *urlResult) compare(ctx context.Context, o *Options, files []corpus.File) error {
	p, r := parse.NewParser(parse.Options{}), weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited})
	if len(files) == 0 {
		made := &urlResult{}
		if err := made.makePages(o, p, r); err != nil {
			return err
		}
		for i := range made.pages {
			res.equal.page(r, &made.pages[i])
		}
		return nil
	}
	n := len(files)
	if o.Compare > 0 {
		n = min(n, o.Compare)
	}
	tell := measure.EverySecond(res.progress)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		tell("compared with the standard: %d of %d pages", i, n)
		page, ok, err := openPage(files[i*len(files)/n], p, r)
		if err != nil {
			return err
		}
		if !ok {
			res.skipped++
			continue
		}
		res.equal.page(r, &page)
	}
	return nil
}

// page compares the references of a page.
func (c *urlComparison) page(r *weburl.Resolver, page *urlPage) {
	c.pages++
	base := page.group.base
	text := string(base.URL())
	seen := make(map[string]bool, len(page.group.refs))
	for i, ref := range page.group.refs {
		c.refs++
		if seen[string(ref)] {
			continue
		}
		seen[string(ref)] = true
		got, err := r.AppendResolve(nil, base, ref)
		if errors.Is(err, weburl.ErrTooLong) || base.Query != nil && !isASCII(ref) || len(base.URL()) == 0 {
			c.skipped++
			continue
		}
		c.compared++
		plain := r.IsPlain(base, ref)
		if plain {
			c.plain++
		}
		want, wantErr := weburl.StandardCanonical(text, string(ref))
		same := string(got) == want && (err == nil) == (wantErr == nil)
		if !same {
			c.differing++
			if plain {
				c.plainWrong++
			}
			if len(c.different) < shownDifferences {
				c.different = append(c.different, fmt.Sprintf("%.200q relative to %.200q: %.200q, by the standard %.200q", ref, text, got, want))
			}
		}
		if std := page.group.std(i); err == nil && std != string(got) {
			c.stdOther++
		}
	}
}

// std is what net/url makes of a reference, "" if that is none.
func (g *urlGroup) std(i int) string {
	u, err := g.stdBase.Parse(g.refTexts[i])
	if err != nil {
		return ""
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	return u.String()
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
