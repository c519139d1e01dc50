package crawl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/strategy"
	"drumbeat/fetch"
	"drumbeat/internal/hook"
	"drumbeat/internal/pagetext"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/weburl"
)

// A hook is asked about a page between parsing and storing, before the page's transaction: what it answers is part
// of that transaction, so a checkpoint has all of it or nothing, and a page that a crash interrupts is fetched and
// asked about again. A page that waits keeps its worker. There is a worker for each process of the hook besides
// those for parsing, so that a hook that thinks long does not keep pages from being parsed. All others wait for a
// worker as without a hook, with their connections, which slows the fetchers down.

// asker answers for pages. hook.Pool is the implementation.
type asker interface {
	Ask(ctx context.Context, r *hook.Request) (*hook.Answer, hook.Outcome)
	Wants() hook.Wants
	BodyBytes() int
	Procs() int
	TakeRestarts() int64
}

// hookOutcomes are the counters of the outcomes.
var hookOutcomes = [...]state.Counter{hook.Answered: state.CountHookAnswers, hook.TimedOut: state.CountHookTimeouts,
	hook.Failed: state.CountHookFailures, hook.Refused: state.CountHookRefused, hook.Unasked: state.CountHookUnasked}

// openHook starts the processes of Options.Hook. stop ends them.
func openHook(ctx context.Context, opt *Options) (stop func(), err error) {
	if opt.Hook == nil {
		return func() {}, nil
	}
	o := *opt.Hook
	o.Program = "drumbeat/" + opt.Identity.Version
	o.Note = func(warn bool, message string, args ...any) {
		if warn {
			opt.Observe.Log.Warn(message, args...)
		} else {
			opt.Observe.Log.Info(message, args...)
		}
	}
	pool, err := hook.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("crawl: %w", err)
	}
	opt.opened.asker = pool
	return pool.Close, nil
}

// hookProcs returns the number of pages that can be with the hook at once.
func (o *Options) hookProcs() int {
	switch {
	case o.opened.asker != nil:
		return o.opened.asker.Procs()
	case o.Hook == nil:
		return 0
	case o.Hook.Procs == 0:
		return hook.DefaultProcs()
	}
	return o.Hook.Procs
}

// hookRAM returns the bytes of the Go heap that requests, answers and the workers for pages that wait may take.
func (o *Options) hookRAM() int64 {
	n := o.hookProcs()
	if n == 0 {
		return 0
	}
	body := hook.DefaultBodyBytes
	if o.Hook != nil && o.Hook.BodyBytes > 0 {
		body = o.Hook.BodyBytes
	}
	// A request has body, text and links of a page, the first in Base64.
	return int64(n) * (int64(body)*10/3 + 2*hook.MaxLine)
}

// askHook asks the hook about the page in w, and applies the answer to w. Without an answer w stays as it is. The
// error is that of ctx.
func (p *pageStage) askHook(ctx context.Context, w *pageWorker, rec *weburl.Record, resp *fetch.Response) error {
	began := time.Now()
	a, outcome := p.opt.opened.asker.Ask(ctx, p.hookRequest(w, rec, resp))
	if outcome == hook.Cancelled {
		return context.Cause(ctx)
	}
	counts := &w.Links.Counts
	counts[hookOutcomes[outcome]]++
	counts[state.CountHookMicros] += time.Since(began).Microseconds()
	counts[state.CountHookRestarts] += p.opt.opened.asker.TakeRestarts()
	if a == nil {
		return nil
	}
	w.meta.scored, w.meta.score, w.meta.fields = a.Scored, a.Score, a.Fields
	if s := p.strategy.Load(); a.Scored && s.Scores == strategy.HookScore {
		w.Links.Rec.Score = s.LinkScore(a.Score, rec.Score)
	}
	if !a.Keep {
		w.meta.unwanted = true
		counts[state.CountHookDropped]++
	}
	if !a.Follow {
		w.meta.unfollowed = true
		w.Links.Discard(state.CountLinksHook)
		counts[state.CountHookUnfollowed]++
	}
	if len(a.Links) == 0 {
		return nil
	}
	if err := w.Parser.At(rec.URL); err != nil {
		return fmt.Errorf("crawl: links of the hook for %s: %w", rec.URL, err)
	}
	var found parse.Counts
	for _, ref := range a.Links {
		if url := w.Parser.Resolve([]byte(ref), &found); url != nil {
			w.Links.Add(url)
			counts[state.CountHookLinks]++
		}
	}
	w.Count(&found)
	return nil
}

// hookRequest describes the page in w as far as the hook wants it.
func (p *pageStage) hookRequest(w *pageWorker, rec *weburl.Record, resp *fetch.Response) *hook.Request {
	wants, most := p.opt.opened.asker.Wants(), p.opt.opened.asker.BodyBytes()
	r := &hook.Request{URL: string(rec.URL), Status: resp.Status, MIME: output.MIMEType(resp), Depth: int(rec.Depth),
		Robots: w.meta.directives()}
	if rec.Parent == 0 && len(rec.Via) > 0 { // via is complete
		r.Via = string(rec.AppendVia(nil))
	}
	if wants.Headers {
		resp.EachField(func(name, value []byte) {
			r.Headers = append(r.Headers, [2]string{string(name), string(value)})
		})
	}
	cut := false
	if wants.Body {
		r.Body = resp.Body[:min(len(resp.Body), most)]
		cut = len(r.Body) < len(resp.Body)
	}
	if wants.Text {
		var whole bool
		kind, _ := p.kindOf(resp) // is.body is set only for a status of 200 to 299
		r.Text, whole = textOf(resp, kind == contentHTML, r.MIME, most)
		cut = cut || !whole
	}
	if wants.Body || wants.Text {
		r.Truncated = cut || resp.Truncated != fetch.NotTruncated || resp.Flaws&reader.DecodeCut != 0 ||
			resp.Spill != nil
	}
	if wants.Links {
		left := most
		for url := range w.Links.URLs {
			if left -= len(url); left < 0 {
				break
			}
			r.Links = append(r.Links, string(url))
		}
	}
	return r
}

// textOf returns the text of a response as UTF-8, and whether it is complete. Bodies that are neither HTML nor text
// have none.
func textOf(resp *fetch.Response, html bool, mime string, most int) (text string, whole bool) {
	kind := string(resp.Header("Content-Type"))
	out := &cutWriter{left: most}
	switch {
	case html:
		b := bufio.NewWriterSize(out, 4<<10)
		err := pagetext.Write(b, bytes.NewReader(resp.Body), kind)
		_ = b.Flush() // an error is that of out
		return out.text(), err == nil && !out.cut
	case strings.HasPrefix(mime, "text/") && resp.Status != http.StatusNoContent:
		decoded, _ := pagetext.NewReader(bytes.NewReader(resp.Body), kind)
		_, err := bufio.NewReader(decoded).WriteTo(out)
		return out.text(), err == nil
	}
	return "", true
}

// cutWriter keeps the first bytes that it gets.
type cutWriter struct {
	b    strings.Builder
	left int
	cut  bool
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		w.b.Write(b[:w.left])
		w.left, w.cut = 0, true
		return 0, errTextCut
	}
	w.left -= len(b)
	return w.b.Write(b)
}

// text returns the kept bytes without a character that was cut in the middle.
func (w *cutWriter) text() string { return strings.ToValidUTF8(w.b.String(), "") }

var errTextCut = errors.New("crawl: the text of a page is longer than a hook gets")
