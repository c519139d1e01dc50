package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// eventEvery is the interval of events of the status.
const eventEvery = time.Second

// events streams server-sent events: "status" each second, "log" for each new line, "change" after a change.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	streams := s.lane(r).streams
	select {
	case streams <- struct{}{}:
		defer func() { <-streams }()
	default:
		writeProblem(w, problem(http.StatusTooManyRequests,
			fmt.Sprintf("%d event streams are open: that is the limit", maxStreams)))
		return
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(name string, v any) bool {
		body, err := json.Marshal(v)
		if err != nil {
			return false
		}
		if err := out.SetWriteDeadline(time.Now().Add(requestTime)); err != nil {
			return false
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, body); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	_, seen := s.opt.Log.since(-1, 0)
	var lastChange int64
	if list, err := s.opt.Control.Changes(1); err == nil && len(list) > 0 {
		lastChange = list[0].Seq
	}
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		if !s.sendNews(send, &seen, &lastChange) {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			s.sendNews(send, &seen, &lastChange) // the last word of a server that ends
			return
		}
	}
}

// newsLines is the most log lines of one interval.
const newsLines = 100

// sendNews sends what has changed. It returns false when the stream has ended.
func (s *Server) sendNews(send func(string, any) bool, seen, lastChange *int64) bool {
	status, err := s.status()
	if err != nil {
		if !send("problem", problemOf(err)) {
			return false
		}
	} else if !send("status", status) {
		return false
	}
	lines, total := s.opt.Log.since(*seen, newsLines)
	*seen = total
	for _, l := range lines {
		if !send("log", l) {
			return false
		}
	}
	list, err := s.opt.Control.Changes(newsLines)
	if err != nil {
		return true
	}
	for i := len(list) - 1; i >= 0; i-- {
		if c := list[i]; c.Seq > *lastChange {
			*lastChange = c.Seq
			if !send("change", changeOf(&c)) {
				return false
			}
		}
	}
	return true
}
