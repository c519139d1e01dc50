package crawl

import (
	"runtime"
	"time"

	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/warc"
)

// archiver encodes robots.txt exchanges and DNS answers. One goroutine at a time owns it.
type archiver struct {
	encoder  *warc.Encoder
	exchange warc.Exchange
	prepared warc.Prepared
}

// archivers is a small pool that limits the memory of robots.txt requests besides their responses: one
// record of robotsBodyBytes for each archiver.
type archivers chan *archiver

func newArchivers(w *warc.Writer) archivers {
	a := make(archivers, runtime.GOMAXPROCS(0)+1)
	for range cap(a) {
		a <- &archiver{encoder: w.NewEncoder()}
	}
	return a
}

// take waits for an archiver. Owners do not wait for the network or for disk space.
func (a archivers) take() *archiver { return <-a }

// give returns an archiver.
func (a archivers) give(one *archiver) { a <- one }

// archiveRobots appends the exchange for a robots.txt or one of its redirects. It is part of the
// transaction that ends the exchange, so that a checkpoint with the exchange has its record exactly once.
func (o *output) archiveRobots(tx *transaction, a *archiver) error {
	if _, err := o.warc.Append(&a.prepared, time.Now()); err != nil {
		return err
	}
	tx.count(state.CountRobotsStored, 1)
	return nil
}

// prepareRobots encodes the exchange. It returns nil if exchanges are not stored. The caller must give the
// archiver back.
func (o *output) prepareRobots(url string, resp *fetch.Response) *archiver {
	if !o.opt.Output.Store || !o.opt.Output.ArchiveRobots {
		return nil
	}
	a := o.workers.archivers.take()
	a.exchange = warc.Exchange{
		URL: []byte(url), Date: resp.Start, IP: resp.Remote.Addr(), Request: resp.RequestHead,
		Head: resp.RawHead, Body: resp.RawBody,
		Chunked: len(resp.PayloadRaw) != len(resp.RawBody), Encoded: len(resp.Header("Content-Encoding")) > 0,
		Truncated: resp.Truncated.String(), Status: resp.Status, MIME: mimeType(resp),
		Protocols: protocols(resp), Kind: warc.KindRobots,
	}
	if isRedirect(resp) {
		a.exchange.Redirect = string(resp.Header("Location"))
	}
	err := a.encoder.Prepare(&a.prepared, &a.exchange)
	a.exchange = warc.Exchange{} // releases the response
	if err != nil {
		o.workers.archivers.give(a)
		o.fail(err)
		return nil
	}
	return a
}

// archiveLookup stores a DNS answer in its own transaction, because the lookup is over.
func (o *output) archiveLookup(host string, answer *Lookup) {
	if !o.opt.Output.Store || !o.opt.Output.ArchiveDNS || answer.Cached {
		return
	}
	a := o.workers.archivers.take()
	defer o.workers.archivers.give(a)
	now := time.Now()
	err := a.encoder.PrepareLookup(&a.prepared, &warc.Lookup{Host: host, Date: now, Server: answer.Server,
		TTL: ttlOf(answer, now), Addrs: answer.Addrs})
	if err != nil {
		o.fail(err)
		return
	}
	_ = o.transact(func(tx *transaction) error { // an error stops the crawl
		if _, err := o.warc.Append(&a.prepared, now); err != nil {
			return err
		}
		tx.count(state.CountDNSStored, 1)
		return nil
	})
}

// ttlOf returns the TTL of the answer, or else its remaining lifetime.
func ttlOf(l *Lookup, now time.Time) time.Duration {
	if l.TTL > 0 || l.Server.IsValid() {
		return l.TTL
	}
	return max(0, l.Expires.Sub(now))
}
