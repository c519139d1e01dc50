package crawl

import (
	"errors"
	"time"

	"drumbeat/crawl/snapshot"
	"drumbeat/crawl/state"
	"drumbeat/fetch"
	"drumbeat/internal/histogram"
)

// times has a histogram for each kind of duration, of this run.
type times [snapshot.NumTimes]histogram.Histogram

// observe counts a duration.
func (t *times) observe(of snapshot.Time, d time.Duration) { t[of].Observe(d) }

// exchange counts the stages of an exchange.
func (t *times) exchange(resp *fetch.Response, err error) {
	reached := fetch.StageBody
	if err != nil {
		reached = stageOf(err)
	}
	if !resp.Reused && reached >= fetch.StageDial {
		t.observe(snapshot.TimeConnect, resp.Connect)
	}
	if !resp.Reused && (resp.TLSVersion != 0 || reached == fetch.StageTLS) {
		t.observe(snapshot.TimeTLS, resp.TLS)
	}
	if err == nil {
		t.observe(snapshot.TimeFirstByte, resp.FirstByte)
		t.observe(snapshot.TimeExchange, resp.Total)
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

// took records the duration of a transaction.
func (e *engine) took(d time.Duration) {
	e.slowest.note(d)
	if d >= snapshot.LeastStall {
		e.times.observe(snapshot.TimeStall, d)
	}
}

// link is the connection of an exchange.
type link uint8

const (
	linkNone link = iota // no connection was opened
	linkOpened
	linkReused
)

// linkOf returns the connection of an exchange with its error, nil for none.
func linkOf(resp *fetch.Response, err error) link {
	switch {
	case resp.Reused:
		return linkReused
	case err == nil || stageOf(err) > fetch.StageDial:
		return linkOpened
	}
	return linkNone
}

// count counts the connection.
func (l link) count(tx *transaction) {
	switch l {
	case linkOpened:
		tx.count(state.CountConnections, 1)
	case linkReused:
		tx.count(state.CountConnectionsReused, 1)
	}
}

// robotsClass returns the counter of responses for robots.txt with a status.
func robotsClass(status int) state.Counter {
	if class := status / 100; class >= 1 && class <= 5 {
		return state.CountRobotsStatusOther + state.Counter(class)
	}
	return state.CountRobotsStatusOther
}
