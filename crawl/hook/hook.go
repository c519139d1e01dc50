package hook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/strategy"
	"drumbeat/fetch"
	proc "drumbeat/internal/hook"
	"drumbeat/internal/pagetext"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Asker answers for pages. It is safe for concurrent use. proc.Pool is the implementation.
type Asker interface {
	Ask(ctx context.Context, r *proc.Request) (*proc.Answer, proc.Outcome)
	Wants() proc.Wants
	BodyBytes() int
	Procs() int
	TakeRestarts() int64
}

// outcomes are the counters of the outcomes.
var outcomes = [...]state.Counter{proc.Answered: state.CountHookAnswers, proc.TimedOut: state.CountHookTimeouts,
	proc.Failed: state.CountHookFailures, proc.Refused: state.CountHookRefused, proc.Unasked: state.CountHookUnasked}

// Open starts the processes of a hook. stop ends them.
func Open(ctx context.Context, o proc.Options, version string, log *slog.Logger) (a Asker, stop func(), err error) {
	o.Program = "drumbeat/" + version
	o.Note = func(warn bool, message string, args ...any) {
		if warn {
			log.Warn(message, args...)
		} else {
			log.Info(message, args...)
		}
	}
	pool, err := proc.Open(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("crawl: %w", err)
	}
	return pool, pool.Close, nil
}

// Procs returns the number of pages that can be with a hook at once. a is nil before it is open, o without a hook.
func Procs(a Asker, o *proc.Options) int {
	switch {
	case a != nil:
		return a.Procs()
	case o == nil:
		return 0
	case o.Procs == 0:
		return proc.DefaultProcs()
	}
	return o.Procs
}

// RAM returns the bytes of the Go heap that requests, answers and the readers for pages that wait may take.
func RAM(a Asker, o *proc.Options) int64 {
	n := Procs(a, o)
	if n == 0 {
		return 0
	}
	body := proc.DefaultBodyBytes
	if o != nil && o.BodyBytes > 0 {
		body = o.BodyBytes
	}
	// A request has body, text and links of a page, the first in Base64.
	return int64(n) * (int64(body)*10/3 + 2*proc.MaxLine)
}

// Page is a page to ask a hook about.
type Page struct {
	Rec      *weburl.Record
	Resp     *fetch.Response
	Robots   string             // its directives for robots
	HTML     bool               // its body is HTML, whatever the status
	Strategy *strategy.Strategy // of the crawl
}

// Said is the answer of a hook about a page.
type Said struct {
	Unwanted   bool // the response is not to be stored
	Unfollowed bool // its links are not to be taken
	Scored     bool
	Score      float64
	Fields     []byte // JSON; nil for none
}

// Ask asks the hook about the page in w, and applies the answer to its links. Without an answer the links stay
// unchanged. The error is that of ctx, or of the base URL of the links that the hook adds.
func Ask(ctx context.Context, hook Asker, w *reader.Reader, p *Page) (said Said, _ error) {
	began := time.Now()
	a, outcome := hook.Ask(ctx, request(hook, w, p))
	if outcome == proc.Cancelled {
		return said, context.Cause(ctx)
	}
	counts := &w.Links.Counts
	counts[outcomes[outcome]]++
	counts[state.CountHookMicros] += time.Since(began).Microseconds()
	counts[state.CountHookRestarts] += hook.TakeRestarts()
	if a == nil {
		return said, nil
	}
	said = Said{Unwanted: !a.Keep, Unfollowed: !a.Follow, Scored: a.Scored, Score: a.Score, Fields: a.Fields}
	if s := p.Strategy; a.Scored && s.Scores == strategy.HookScore {
		w.Links.Rec.Score = s.LinkScore(a.Score, p.Rec.Score)
	}
	if said.Unwanted {
		counts[state.CountHookDropped]++
	}
	if said.Unfollowed {
		w.Links.Discard(state.CountLinksHook)
		counts[state.CountHookUnfollowed]++
	}
	if len(a.Links) == 0 {
		return said, nil
	}
	if err := w.Parser.At(p.Rec.URL); err != nil {
		return said, fmt.Errorf("crawl: links of the hook for %s: %w", p.Rec.URL, err)
	}
	var found parse.Counts
	for _, ref := range a.Links {
		if url := w.Parser.Resolve([]byte(ref), &found); url != nil {
			w.Links.Add(url)
			counts[state.CountHookLinks]++
		}
	}
	w.Count(&found)
	return said, nil
}

// request describes the page in w as far as the hook wants it.
func request(hook Asker, w *reader.Reader, p *Page) *proc.Request {
	wants, most := hook.Wants(), hook.BodyBytes()
	rec, resp := p.Rec, p.Resp
	r := &proc.Request{URL: string(rec.URL), Status: resp.Status, MIME: output.MIMEType(resp), Depth: int(rec.Depth),
		Robots: p.Robots}
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
		r.Text, whole = textOf(resp, p.HTML, r.MIME, most)
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

var errTextCut = errors.New("crawl: the text of a page exceeds the limit for hooks")
