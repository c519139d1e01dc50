package visit

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/parse"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// rights are the statements of a site about the use of a response: those of its robots.txt and tdmrep.json, which came
// with the URL, and those of the headers and the page. Of contradicting statements the most restrictive counts, except
// that a reservation in the headers or the page replaces that of tdmrep.json (TDMRep, section 6.4).
type rights struct {
	robots.Statement
	crawlDelay time.Duration
	page       parse.Rights
	image      bool // noimageai concerns the response
}

// start reads the statements that came with the URL, and those of the headers.
func (r *rights) start(rec *weburl.Record, resp *fetch.Response, agent, mime string) error {
	*r = rights{image: strings.HasPrefix(mime, "image/")}
	if len(rec.Extra) > 0 {
		var sum robots.Summary
		if err := sum.Decode(rec.Extra); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if err := r.Statement.Decode(sum.Statement); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		r.crawlDelay = sum.CrawlDelay
	}
	resp.EachHeader("X-Robots-Tag", func(value []byte) bool {
		r.page.AddRobotsTag(value, agent)
		return true
	})
	var usage []byte // the lines of a dictionary belong together (RFC 9651, 4.2)
	resp.EachField(func(name, value []byte) {
		is := func(field string) bool { return len(name) == len(field) && bytes.EqualFold(name, []byte(field)) }
		switch {
		case is("content-signal"):
			r.ContentSignal = r.ContentSignal.With(robots.ParseContentSignal(value))
		case is("content-usage"):
			if usage = append(usage, value...); len(value) > 0 {
				usage = append(usage, ", "...)
			}
		case is("tdm-reservation"):
			r.page.SetReservation(value)
		case is("tdm-policy"):
			r.page.SetPolicy(value)
		}
	})
	if n := len(usage); n > 0 {
		r.ContentUsage = r.ContentUsage.With(robots.ParseContentUsage(usage[:n-len(", ")]))
	}
	return nil
}

// Uses that a site can refuse, with the names in both vocabularies that decide about them: the first one that the site
// states (the categories of draft-ietf-aipref-vocab contain one another).
var uses = [...]struct {
	name   string
	usages []string
	what   func(u *state.Usages) state.Usage
}{
	{"search", []string{"search", "bots"}, func(u *state.Usages) state.Usage { return u.Search }},
	{"ai-input", []string{"ai-input", "ai", "bots"}, func(u *state.Usages) state.Usage { return u.AIInput }},
	{"ai-train", []string{"train-ai", "ai", "bots"}, func(u *state.Usages) state.Usage { return u.AITrain }},
}

// refused returns the uses that the site refuses and policy marks or drops, as in "ai-input=no, ai-train=no", and
// whether one of them is dropped.
func (r *rights) refused(policy *state.Usages) (text string, drop bool) {
	for _, use := range uses {
		what := use.what(policy)
		if what != state.UsageMark && what != state.UsageDrop || !r.refuses(use.name, use.usages) {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += use.name + "=no"
		drop = drop || what == state.UsageDrop
	}
	return text, drop
}

// refuses reports whether a statement refuses a use.
func (r *rights) refuses(use string, usages []string) bool {
	if r.ContentSignal.Get(use) == "no" {
		return true
	}
	if reservation, _ := r.tdm(); use == "ai-train" && (reservation == "1" || r.page.Says("noai") ||
		r.image && r.page.Says("noimageai") || r.ContentUsage.Get("train-genai") == "n") {
		return true
	}
	for _, name := range usages {
		if v := r.ContentUsage.Get(name); v != "" {
			return v == "n"
		}
	}
	return false
}

// tdm returns the reservation in force and the URL of its policy.
func (r *rights) tdm() (reservation, policy string) {
	if r.page.TDMReservation != "" {
		return r.page.TDMReservation, r.page.TDMPolicy
	}
	return r.TDMReservation, cmp.Or(r.page.TDMPolicy, r.TDMPolicy)
}

// metaNames are the names of the statements in a metadata record.
var metaNames = [crawllog.NumRights]string{"robotsDigest", "robotsFetched", "robotsGroup", "robotsRule",
	"robotsCrawlDelay", "contentSignal", "contentUsage", "license", "aiDisallowed", "rightsCut", "robotsValues",
	"tdmReservation", "tdmPolicy", "usage", "tdmFile"}

// texts returns the statements for the metadata record and the log.
func (r *rights) texts(policy *state.Usages) (texts crawllog.Rights) {
	if r.Group != robots.GroupUnknown {
		texts[crawllog.RightsDigest] = r.DigestText()
		texts[crawllog.RightsFetched] = r.Fetched.UTC().Format(time.RFC3339)
		texts[crawllog.RightsGroup], texts[crawllog.RightsRule] = r.Group.String(), r.Rule
	}
	if r.crawlDelay > 0 {
		texts[crawllog.RightsCrawlDelay] = strconv.FormatFloat(r.crawlDelay.Seconds(), 'f', -1, 64)
	}
	texts[crawllog.RightsSignal], texts[crawllog.RightsUsage] = string(r.ContentSignal), string(r.ContentUsage)
	texts[crawllog.RightsLicense] = r.Licenses
	if r.Disallowed != 0 {
		texts[crawllog.RightsAI] = strings.Join(r.Disallowed.Names(), ", ")
	}
	if r.Cut {
		texts[crawllog.RightsCut] = "yes"
	}
	texts[crawllog.RightsValues] = r.page.Values
	texts[crawllog.RightsTDM], texts[crawllog.RightsTDMPolicy] = r.tdm()
	texts[crawllog.RightsTDMFile] = r.TDMReservation
	texts[crawllog.RightsRefused], _ = r.refused(policy)
	return texts
}
