package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// requests is the content of nginx's log.
type requests struct {
	byURL     map[string]int // number of requests for each URL
	bytesSent int64
	first     time.Duration // since 1970, as are all times here
	last      time.Duration
	hosts     map[string]visits

	urls []string // different URLs, approximately in the order of the answers

	// Those with HTML and status 200, and the times of their first such answers, in the order of
	// the log, which is approximately that of the answers.
	pages    []string
	pageEnds []time.Duration
}

// visits are the times of the requests to a host. nginx logs the end and the duration of an answer to a
// millisecond, so both ends may be off by one.
type visits []span

type span struct{ begin, end time.Duration }

// logError is the maximum error of the difference of two times in nginx's log.
const logError = 2 * time.Millisecond

// readRequests reads the log. Its lines are unordered, since each of nginx's processes has its own buffer.
func readRequests(name string) (*requests, error) {
	r := &requests{byURL: map[string]int{}, hosts: map[string]visits{}, first: 1<<63 - 1}
	err := readLines(name, func(line string) error {
		f := strings.SplitN(line, " ", 9)
		if len(f) != 9 {
			return fmt.Errorf("line has %d fields, want 9", len(f))
		}
		end, err1 := strconv.ParseFloat(f[0], 64)
		took, err2 := strconv.ParseFloat(f[1], 64)
		sent, err3 := strconv.ParseInt(f[5], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			return fmt.Errorf("invalid number in %q", line)
		}
		u := f[2] + "://" + f[3] + f[8]
		r.byURL[u]++
		r.bytesSent += sent
		if r.byURL[u] == 1 {
			r.urls = append(r.urls, u)
		}
		if f[4] == "200" && f[7] == mimes[".html"] && r.byURL[u] == 1 {
			r.pages = append(r.pages, u)
			r.pageEnds = append(r.pageEnds, seconds(end))
		}
		v := span{seconds(end - took), seconds(end)}
		r.first, r.last = min(r.first, v.begin), max(r.last, v.end)
		r.hosts[f[3]] = append(r.hosts[f[3]], v)
		return nil
	})
	return r, err
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// gaps returns the minimum time from the end of a request to the start of the next, and the number of
// requests that started before the previous one had ended.
func (v visits) gaps() (least time.Duration, overlaps int) {
	slices.SortFunc(v, func(a, b span) int { return int(a.begin - b.begin) })
	least = 1<<63 - 1
	for i := 1; i < len(v); i++ {
		gap := v[i].begin - v[i-1].end
		least = min(least, gap)
		if gap < -logError {
			overlaps++
		}
	}
	return least, overlaps
}
