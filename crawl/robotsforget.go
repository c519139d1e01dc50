package crawl

import (
	"encoding/binary"
	"time"

	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/robots"
)

// The paper expunges outdated records of RobotsCache. Here a merge that rewrites a part of the store anyway leaves out those that said
// nothing for Options.RobotsForget: their rules and addresses have expired, no retry and no rest is due, and no URL of the origin
// was checked since, or the rules would have been asked for again. A check then finds nothing known and asks for robots.txt, as
// it would with an expired record. So no URL depends on when a record goes, and a merge that is done again after a crash
// may leave out more. URLs in QR wait for answers to requests, by number, not for records (releases.go).

// forgetRobots says whether RobotsCache drops a record. What binds us is kept: that a host doesn't want us or was given up, and the
// number of its pages if that is limited.
func (k *robotsCheck) forgetRobots(_ drum.Key, value []byte) bool {
	var h robots.HostData
	if h.Decode(value) != nil { // damage is for those to tell who need the record
		return false
	}
	if h.Health.End != health.Open || h.Pages > 0 && k.opt.MaxPagesPerHost > 0 {
		return false
	}
	return time.Unix(k.roundNow.Load(), 0).Sub(h.Last()) >= k.opt.RobotsForget
}

// forgetRequested says whether RobotsRequested drops a record. It says when an origin was asked last, which matters for requestLost;
// tuples wait for their merge for less time than that again.
func (q *robotsRequests) forgetRequested(_ drum.Key, value []byte) bool {
	if len(value) != 16 {
		return false
	}
	last := time.Unix(int64(binary.LittleEndian.Uint64(value)), 0)
	return time.Unix(q.requestedNow.Load(), 0).Sub(last) >= max(q.opt.RobotsForget, 2*requestLost*time.Second)
}
