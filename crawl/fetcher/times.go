package fetcher

import (
	"errors"

	"drumbeat/crawl/account"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// TimeExchange counts the stages of an exchange.
func TimeExchange(t *account.Times, resp *fetch.Response, err error) {
	reached := fetch.StageBody
	if err != nil {
		reached = stageOf(err)
	}
	if !resp.Reused && reached >= fetch.StageDial {
		t.Observe(snapshot.TimeConnect, resp.Connect)
	}
	if !resp.Reused && (resp.TLSVersion != 0 || reached == fetch.StageTLS) {
		t.Observe(snapshot.TimeTLS, resp.TLS)
	}
	if err == nil {
		t.Observe(snapshot.TimeFirstByte, resp.FirstByte)
		t.Observe(snapshot.TimeExchange, resp.Total)
	}
}

// stageOf returns the stage at which an exchange failed.
func stageOf(err error) fetch.Stage {
	var fe *fetch.Error
	if errors.As(err, &fe) {
		return fe.Stage
	}
	return fetch.StagePrepare
}

// Link is the connection of an exchange, and the signature of its request.
type Link struct {
	use     linkUse
	sig     Signature
	Verdict string // on the certificate; "" without TLS
}

type linkUse uint8

const (
	linkNone linkUse = iota // no connection was opened
	linkOpened
	linkReused
)

// LinkOf returns the connection of an exchange with its error, nil for none.
func LinkOf(resp *fetch.Response, sig Signature, err error) Link {
	l := Link{Verdict: resp.TLSVerdict, sig: sig}
	switch {
	case resp.Reused:
		l.use = linkReused
	case err == nil || stageOf(err) > fetch.StageDial:
		l.use = linkOpened
	}
	return l
}

// Count counts the connection and the signature.
func (l Link) Count(tx *account.Tx) {
	l.sig.count(tx)
	if c, bad := state.TLSBadOf(l.Verdict); bad {
		tx.Count(c, 1)
	}
	switch l.use {
	case linkOpened:
		tx.Count(state.CountConnections, 1)
	case linkReused:
		tx.Count(state.CountConnectionsReused, 1)
	}
}

// BadTLS says what is wrong with the TLS of an exchange with its error: the verdict on a certificate that is
// not good, or why the handshake failed. It is "" if nothing is.
func BadTLS(verdict string, err error) string {
	var fe *fetch.Error
	if errors.As(err, &fe) && fe.Kind == fetch.KindTLS {
		return fe.TLSCause()
	}
	if _, bad := state.TLSBadOf(verdict); bad && (fe == nil || fe.Kind == fetch.KindCertificate) {
		return verdict
	}
	return ""
}
