package render

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/internal/httphead"
	cdp "drumbeat/internal/render"
	"drumbeat/internal/response"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// The scripts and data of a page belong to hosts of any node, and only the owner of a host keeps its delays, rules and
// back-offs. So the node with the page asks the owner, which makes the request like those of its own pages (answer.go)
// and returns the exchange as received. The asking node stores it with the page: one transaction has both.

// AskKind is the kind of these requests (Cluster.Ask).
const AskKind = "render"

const (
	askFor      = 5 * time.Minute // then the question or its answer is lost
	askPatience = 2 * time.Minute // for an owner that does not answer: it may be starting
	// The waits between two questions double between these.
	askAgainLeast = time.Second
	askAgainMost  = 30 * time.Second
)

// errAway is the error of a request that the owner of the host has not answered.
var errAway = errors.New("crawl: the node of this host does not answer")

// question is the request.
type question struct {
	URL  string        `json:"url"`  // canonical
	From string        `json:"from"` // where it was found, a URL
	Left time.Duration `json:"left"` // until nobody waits for the answer
}

// askOwner has the owner of a host make a request of a page. An owner that is busy, or whose table differs, is asked
// again until the page ends. One that does not answer for askPatience fails the request, and then each further one of
// the page at once, until an owner answers.
func (r *Stage) askOwner(ctx context.Context, f *pageFetcher, url string, dress uint64,
	from fetcher.Source) (*cdp.Response, error) {
	parts := weburl.Split([]byte(url))
	if r.forbidden(&parts) {
		return nil, ErrRefused
	}
	if from == nil { // a seed may have the secrets of its site, but not through another node
		from = fetcher.Foreign
	}
	limited, cancel := context.WithTimeout(ctx, r.opt.Browser.Longest)
	defer cancel()
	var silent time.Time // since when the owner has not answered; zero: it has
	for again := askAgainLeast; ; again = min(2*again, askAgainMost) {
		began := time.Now()
		data, gone, err := r.ask(limited, parts.Host, &question{URL: url, From: string(from)})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var later time.Duration
		if err == nil {
			var resp *cdp.Response
			if resp, later, err = r.take(ctx, f, url, dress, data); later == 0 && !errors.Is(err, errReply) {
				f.silent.Store(false)
				return resp, err
			}
		}
		wait := again
		if err == nil {
			silent, wait = time.Time{}, min(max(later, askAgainLeast), askAgainMost)
		} else if silent.IsZero() {
			silent = began
		}
		late := !silent.IsZero() && (f.silent.Load() || time.Since(silent) >= askPatience)
		if gone || late || !account.Sleep(limited, wait) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f.silent.CompareAndSwap(false, late)
			f.unanswered.Add(1)
			r.opt.Log.Debug("another node does not answer a request of a page", "url", url, "error", err)
			return nil, errAway
		}
	}
}

// ask asks once. gone says that the owner was abandoned.
func (r *Stage) ask(ctx context.Context, host []byte, q *question) (answer []byte, gone bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	end, _ := ctx.Deadline()
	q.Left = time.Until(end)
	return r.others.Cluster.Ask(ctx, host, AskKind, q.encode())
}

// take gives a page the answer of another node, and keeps the exchange. later says that the owner is to be asked again.
func (r *Stage) take(ctx context.Context, f *pageFetcher, url string, dress uint64,
	data []byte) (_ *cdp.Response, later time.Duration, _ error) {
	r.taking.Lock()
	defer r.taking.Unlock()
	a, err := decodeReply(data)
	switch {
	case err != nil:
		return nil, 0, err
	case a.Later > 0:
		return nil, a.Later, nil
	case a.Refused != "":
		return nil, 0, fmt.Errorf("%w: %s", ErrRefused, a.Refused)
	case a.Failed != "":
		return nil, 0, fmt.Errorf("crawl: another node: %s", a.Failed)
	case a.TooLarge:
		f.unanswered.Add(1)
		return nil, 0, cluster.ErrTooLarge
	}
	f.asked.Add(1)
	body, err := a.plain(r.opt.Browser.PageBytes)
	if err != nil {
		return nil, 0, err
	}
	if f.received.Add(int64(max(len(body), len(a.body)))) > r.opt.Browser.PageBytes {
		return nil, 0, cdp.ErrTooMuch
	}
	resp := &cdp.Response{Status: a.Status, Header: http.Header{}, Body: body}
	for l := (httphead.Lines{Rest: a.head}); l.Next(); {
		resp.Header.Add(string(l.Key), string(l.Value))
	}
	x := a.exchange(url)
	if err := f.keep(ctx, &x, [sha1.Size]byte(a.Digest), resp.Header); err != nil {
		return nil, 0, err
	}
	if a.Reuse && dress == 0 {
		r.cache.put(url, resp, dress, time.Now())
	}
	return resp, 0, nil
}

// truncated returns why the DOM of a page is not what its scripts make of it, as WARC-Truncated; "" if it is.
func (f *pageFetcher) truncated(result *cdp.Result) string {
	if result.End == cdp.Quiet && f.unanswered.Load() > 0 {
		return cdp.RequestCut.String()
	}
	return result.End.String()
}

// plain returns the body without chunks and content codings. Like package fetch it returns what a damaged coding has
// before its fault. It fails if the body has more than most bytes.
func (a *reply) plain(most int64) ([]byte, error) {
	payload := io.Reader(bytes.NewReader(a.body))
	if a.Chunked {
		payload = warc.Chunks(payload)
	}
	plain := response.Plain(a.head, payload)
	defer plain.Close()
	body, _ := io.ReadAll(io.LimitReader(plain.Body, most+1))
	if int64(len(body)) > most {
		return nil, cdp.ErrTooMuch
	}
	return body, nil
}

// exchange returns the exchange for the page store. It refers to the bytes of a.
func (a *reply) exchange(url string) warc.Exchange {
	return warc.Exchange{URL: []byte(url), Date: a.Date, IP: a.IP, Request: a.request, Head: a.head, Body: a.body,
		Chunked: a.Chunked, Encoded: a.Encoded, Truncated: a.Truncated, Protocols: a.Protocols, Cipher: a.Cipher,
		Status: a.Status, MIME: string(a.MIME), Redirect: string(a.Redirect), Kind: warc.KindScript}
}
