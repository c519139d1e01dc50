package bareloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/fetch/inflate"
	"drumbeat/parse"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Request is one URL to fetch.
type Request struct {
	Addr   netip.AddrPort
	Host   string // with port, for the header
	Target string // path and query
}

// Options configure a run.
type Options struct {
	Connections int    // number of concurrent requests, at least 1
	Store       string // existing directory for WARC files; "": store nothing
}

// Counts are totals of a run.
type Counts struct {
	Responses int64
	Bytes     int64 // of decoded bodies
	Links     int64 // different within their page
}

func (c *Counts) add(d Counts) {
	c.Responses += d.Responses
	c.Bytes += d.Bytes
	c.Links += d.Links
}

// Run fetches each URL of the list once, in about this order. The first error of a goroutine ends that
// goroutine; the end of ctx ends all of them after their current response.
func Run(ctx context.Context, list []Request, opt Options) (sum Counts, err error) {
	if opt.Connections < 1 {
		return sum, fmt.Errorf("bareloop: %d connections, want at least 1", opt.Connections)
	}
	l := &loop{list: list, idle: map[netip.AddrPort][]*conn{}}
	defer l.hangUp()
	if opt.Store != "" {
		set := disk.Set{FS: disk.OS(), Paths: []string{opt.Store}}
		if l.store, err = warc.Open(warc.Options{Set: set, State: set}, nil); err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, l.store.Roll(), l.store.Close()) }()
	}
	counts := make([]Counts, opt.Connections)
	errs := make([]error, opt.Connections)
	var wg sync.WaitGroup
	for i := range opt.Connections {
		wg.Go(func() { counts[i], errs[i] = l.work(ctx) })
	}
	wg.Wait()
	for _, c := range counts {
		sum.add(c)
	}
	return sum, errors.Join(append(errs, ctx.Err())...)
}

// loop is what the goroutines share.
type loop struct {
	list  []Request
	next  atomic.Int64
	store *warc.Writer // nil: store nothing

	mu   sync.Mutex
	idle map[netip.AddrPort][]*conn
}

// work processes URLs until there are none.
func (l *loop) work(ctx context.Context) (Counts, error) {
	w := &worker{loop: l, links: parse.NewExtractor(parse.Options{}, weburl.Options{})}
	if l.store != nil {
		w.encoder = l.store.NewEncoder()
	}
	for n := l.next.Add(1) - 1; n < int64(len(l.list)) && ctx.Err() == nil; n = l.next.Add(1) - 1 {
		r := &l.list[n]
		if err := w.process(r); err != nil {
			return w.counts, fmt.Errorf("bareloop: http://%s%s: %w", r.Host, r.Target, err)
		}
	}
	return w.counts, nil
}

// worker has the buffers of one goroutine.
type worker struct {
	loop     *loop
	counts   Counts
	url      []byte
	request  []byte
	response response
	decoder  inflate.Decoder
	decoded  []byte // body
	links    *parse.Extractor
	encoder  *warc.Encoder
	prepared warc.Prepared
}

// process does all the work of a response.
func (w *worker) process(r *Request) error {
	began := time.Now()
	if err := w.fetch(r); err != nil {
		return err
	}
	body, err := w.decode()
	if err != nil {
		return err
	}
	w.url = append(append(append(w.url[:0], "http://"...), r.Host...), r.Target...)
	if strings.HasPrefix(w.response.mime, "text/html") {
		_, err = w.links.ExtractOnce(w.url, body, w.response.mime,
			func([]byte, *parse.Link) { w.counts.Links++ }, func(int) {})
		if err != nil {
			return err
		}
	}
	w.counts.Responses++
	w.counts.Bytes += int64(len(body))
	if w.encoder == nil {
		return nil
	}
	err = w.encoder.Prepare(&w.prepared,
		&warc.Exchange{URL: w.url, Date: began, IP: r.Addr.Addr(), Head: w.response.head,
			Body: w.response.body, Encoded: w.response.coded, Status: w.response.status, MIME: w.response.mime})
	if err != nil {
		return err
	}
	_, err = w.loop.store.Append(&w.prepared, began)
	w.prepared.Release()
	return err
}

// decode returns the decoded body, valid until the next call.
func (w *worker) decode() ([]byte, error) {
	body := w.response.body
	if !w.response.coded {
		return body, nil
	}
	if n := inflate.SizeHint(body); cap(w.decoded) < n+1 {
		w.decoded = make([]byte, 0, n+1)
	}
	w.decoder.Reset(inflate.Gzip, body)
	var err error
	w.decoded, err = w.decoder.Decode(w.decoded[:0], cap(w.decoded))
	return w.decoded, err
}
