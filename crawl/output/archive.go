package output

import (
	"runtime"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/resolve"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/warc"
)

// Archiver encodes robots.txt exchanges and DNS answers. One goroutine at a time owns it.
type Archiver struct {
	encoder  *warc.Encoder
	exchange warc.Exchange
	prepared warc.Prepared
}

// archivers is a small pool that limits the memory of robots.txt requests besides their responses: one
// record of robotsBodyBytes for each archiver.
type archivers chan *Archiver

func newArchivers(w *warc.Writer) archivers {
	a := make(archivers, runtime.GOMAXPROCS(0)+1)
	for range cap(a) {
		a <- &Archiver{encoder: w.NewEncoder()}
	}
	return a
}

// take waits for an archiver. Owners do not wait for the network or for disk space.
func (a archivers) take() *Archiver { return <-a }

// give returns an archiver.
func (a archivers) give(one *Archiver) { a <- one }

// Give returns the archiver of prepareRobots.
func (o *Writer) Give(a *Archiver) { o.archivers.give(a) }

// ArchiveRobots appends the exchange for a robots.txt or one of its redirects. It is part of the
// transaction that ends the exchange, so that a checkpoint with the exchange has its record exactly once.
func (o *Writer) ArchiveRobots(tx *account.Tx, a *Archiver) error {
	if _, err := o.WARC.Append(&a.prepared, time.Now()); err != nil {
		return err
	}
	tx.Count(state.CountRobotsStored, 1)
	return nil
}

// PrepareRobots encodes the exchange. It returns nil if exchanges are not stored. The caller must give the
// archiver back.
func (o *Writer) PrepareRobots(url string, resp *fetch.Response) *Archiver {
	if !o.opt.Store || !o.opt.ArchiveRobots {
		return nil
	}
	a := o.archivers.take()
	a.exchange = ExchangeOf(url, resp, warc.KindRobots)
	err := a.encoder.Prepare(&a.prepared, &a.exchange)
	a.exchange = warc.Exchange{} // releases the response
	if err != nil {
		o.archivers.give(a)
		o.run.Fail(err)
		return nil
	}
	return a
}

// ExchangeOf returns an exchange that is not for a page of the crawl. It refers to the bytes of resp.
func ExchangeOf(url string, resp *fetch.Response, kind string) warc.Exchange {
	x := warc.Exchange{
		URL: []byte(url), Date: resp.Start, IP: resp.Remote.Addr(), Request: resp.RequestHead,
		Head: resp.RawHead, Body: resp.RawBody,
		Chunked: len(resp.PayloadRaw) != len(resp.RawBody), Encoded: len(resp.Header("Content-Encoding")) > 0,
		Truncated: resp.Truncated.String(), Status: resp.Status, MIME: MIMEType(resp),
		Protocols: Protocols(resp), Cipher: CipherSuite(resp), Kind: kind,
	}
	if IsRedirect(resp) {
		x.Redirect = string(resp.Header("Location"))
	}
	return x
}

// ArchiveLookup stores a DNS answer in its own transaction, because the lookup is over.
func (o *Writer) ArchiveLookup(host string, answer *resolve.Lookup) {
	if !o.opt.Store || !o.opt.ArchiveDNS || answer.Cached {
		return
	}
	a := o.archivers.take()
	defer o.archivers.give(a)
	now := time.Now()
	err := a.encoder.PrepareLookup(&a.prepared, &warc.Lookup{Host: host, Date: now, Server: answer.Server,
		TTL: ttlOf(answer, now), Addrs: answer.Addrs})
	if err != nil {
		o.run.Fail(err)
		return
	}
	_ = o.run.Transact(func(tx *account.Tx) error { // an error stops the crawl
		if _, err := o.WARC.Append(&a.prepared, now); err != nil {
			return err
		}
		tx.Count(state.CountDNSStored, 1)
		return nil
	})
}

// ttlOf returns the TTL of the answer, or else its remaining lifetime.
func ttlOf(l *resolve.Lookup, now time.Time) time.Duration {
	if l.TTL > 0 || l.Server.IsValid() {
		return l.TTL
	}
	return max(0, l.Expires.Sub(now))
}
