package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/internal/health"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Verdict says whether a URL of a list was answered in time.
type Verdict string

// The verdicts. An answer is a response that is no failure: neither 429 nor a status from 500.
const (
	Met    Verdict = "met"    // answered, by the deadline if there is one
	Late   Verdict = "late"   // answered after the deadline
	Open   Verdict = "open"   // not answered before the checkpoint, and the deadline is later
	Missed Verdict = "missed" // not answered, and the deadline is past, or there is none
	// Elsewhere: another node of the cluster owns the URL, or visits its host, and its files say.
	Elsewhere Verdict = "elsewhere"
)

// Covered is the answer about one line of a list.
type Covered struct {
	URL      string
	Deadline time.Time // zero: none
	Verdict  Verdict
	Answered time.Time // of the first answer; zero: none
	Status   int       // of the last response; 0: none
	Place    string    // where the URL is; "" if the crawl does not know it
	Reason   string    // why it waits or was refused, by state.ReasonText; "" for none
	Fault    string    // what is wrong with the line if it has no URL
}

// coverage is the kind of Coverage and EachFetched.
const coverage Kind = "coverage"

// Coverage calls fn for each URL that list passes to its function, by the keys of URLs; lines without a URL come
// first. It compares URLs in canonical form; a name without a scheme is its https URL. Of opt it takes FS, Dirs, Out,
// RAMBytes, TempDir and Progress. The crawl may be running: the last checkpoint counts. It ends early if ctx is done.
func Coverage(ctx context.Context, opt Options, list func(fn func(url string, deadline time.Time) error) error,
	fn func(*Covered) error) (*Report, error) {
	opt.Kind = coverage
	opt.site = func(j *job) error {
		c := &coverScan{visitScan: visitScan{j: j, sorter: j.sorter(), orders: true}, fn: fn}
		c.resolver = weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited,
			Fold: !j.Manifest.Frozen.KeepEscapes})
		return c.run(list)
	}
	return Run(ctx, opt)
}

func coverageTable() table {
	t := stateTable()
	t.columns = []tabular.Column{{Name: "url", Type: tabular.String}}
	return t
}

// coverScan sorts what the crawl knows of each URL with the lines of the list.
type coverScan struct {
	visitScan
	resolver *weburl.Resolver
	tables   []*cluster.Table // those in which PLDs are divided
	fn       func(*Covered) error
	now      Covered // of the URL so far
}

func (c *coverScan) run(list func(func(string, time.Time) error) error) (err error) {
	if c.tables, err = c.j.Manifest.DividedTables(); err != nil {
		return err
	}
	if err := list(c.line); err != nil {
		return err
	}
	if err := c.scan(); err != nil {
		return err
	}
	if err := errors.Join(c.waiting(), c.erased()); err != nil {
		return err
	}
	c.j.meter.Set("sorting URLs")
	return c.each(0, func(v *visit, _ []byte, first bool) error {
		if first {
			c.now = Covered{}
		}
		return c.take(v)
	})
}

// erased adds a refusal for each URL that was erased, before all that the crawl knows of it.
func (c *coverScan) erased() error {
	v := visit{numbers: [...]int64{visitKind: isRefusal, numVisit - 1: 0}}
	v.texts[visitReason] = []byte(state.ReasonErased.String())
	return c.j.EachBarredKey(func(key uint64) error {
		c.rec = v.append(captureKey(c.rec[:0], key, 0))
		return errors.Join(c.sorter.Add(c.rec), c.j.live())
	})
}

// line adds a line of the list. Its record is the last one of its URL.
func (c *coverScan) line(asked string, deadline time.Time) error {
	if err := c.j.live(); err != nil {
		return err
	}
	text := asked
	if !admit.HasScheme(text) {
		text = "https://" + text
	}
	url, err := c.resolver.AppendResolve(nil, nil, []byte(text))
	if err != nil {
		return c.fn(&Covered{URL: asked, Deadline: deadline, Verdict: Missed, Fault: err.Error()})
	}
	v := visit{at: atEnd, numbers: [...]int64{visitKind: isListed, numVisit - 1: 0}}
	if !deadline.IsZero() {
		v.numbers[listedDeadline] = deadline.UnixMilli()
	}
	v.texts[visitURL] = url
	return c.add(&v)
}

// listedDeadline is the number of a listed URL: Unix ms, 0 for none.
const listedDeadline = visitStatus

// take notes a record of a URL, and passes on one of the list.
func (c *coverScan) take(v *visit) error {
	n, u := &v.numbers, &c.now
	switch n[visitKind] {
	case isResponse:
		u.Status, u.Place, u.Reason = int(n[visitStatus]), state.PlaceFetched.String(), ""
		if u.Answered.IsZero() && !health.KindOf(u.Status).Failed() {
			u.Answered = time.UnixMilli(v.at).UTC()
		}
	case isRefusal:
		if n[visitFlags]&flagOrder != 0 && u.Place != "" {
			return nil
		}
		u.Place, u.Reason = state.PlaceRefused.String(), string(v.texts[visitReason])
	case isWaiting:
		u.Place, u.Reason = string(v.texts[waitingPlace]), state.Reason(n[waitingReason]).String()
	case isListed:
		x := *u
		x.URL = string(v.texts[visitURL])
		if ms := n[listedDeadline]; ms != 0 {
			x.Deadline = time.UnixMilli(ms).UTC()
		}
		x.judge(c.j.report.Time)
		if x.Place == "" && c.elsewhere(v.texts[visitURL]) {
			x.Verdict = Elsewhere
		}
		return c.fn(&x)
	default:
		return fmt.Errorf("BUG: export: visit of kind %d", n[visitKind])
	}
	return nil
}

// elsewhere reports whether another node fetches a URL: of a divided PLD the visitor of its host, which may have it.
func (c *coverScan) elsewhere(url []byte) bool {
	m, host, divided := c.j.Manifest, weburl.Split(url).Host, false
	for _, t := range c.tables {
		divided = divided || t.PartsOf(c.j.Suffixes.PLDBytes(host)) != nil
		if divided && t.Visitor(c.j.Hasher, c.j.Suffixes, host) == m.Frozen.Node {
			return false
		}
	}
	return divided || m.Frozen.Elsewhere(c.j.Hasher.URLKey(url))
}

// judge sets the verdict at a time.
func (c *Covered) judge(now time.Time) {
	switch {
	case !c.Answered.IsZero() && !c.Deadline.IsZero() && c.Answered.After(c.Deadline):
		c.Verdict = Late
	case !c.Answered.IsZero():
		c.Verdict = Met
	case c.Deadline.After(now):
		c.Verdict = Open
	default:
		c.Verdict = Missed
	}
}
