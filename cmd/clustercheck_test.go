package cmd

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/internal/simweb"
)

// outside checks a crawl of several nodes by the web's log and the nodes' WARC files alone. It uses nothing
// of the crawler.
type outside struct {
	limits  outsideLimits
	log     *simweb.Snapshot
	want    map[string]bool // URLs that one node fetches
	pld     func(host string) string
	records []warcRecord
	kills   []kill

	places  string   // numbers of hosts, PLDs, addresses and networks
	doubles []string // URLs that were fetched again after a kill
	faults  []string
}

// outsideLimits are the flags of the nodes. 0 is not checked.
type outsideLimits struct {
	host, pld, address time.Duration
	rate               int // requests per second to a network
	connections        int // to a network
	// late is for how long a loaded machine may hold up a request between its start and the web's clock. So
	// it may be followed early. Two nodes that visit a network at once get ahead by a second in each second.
	late time.Duration
}

// kill is the end of a node by kill -9, at some time between from and to.
type kill struct {
	node     int
	from, to time.Time
	saved    time.Time // all that was done by then was in its last checkpoint
}

// warcRecord is a record of a WARC file.
type warcRecord struct {
	node               int // whose file
	kind, id, url, ip  string
	robots, isResponse bool
}

// unprocessed is for how long a page may wait between its last byte and the node's accounts. It takes more
// than a second with 20 processes for 2 cores. It excuses only what a kill followed.
const unprocessed = 5 * time.Second

// unread is for how long a request may wait between its client and the web's clock: the web may read it after
// the kill of its client.
const unread = 5 * time.Second

func (o *outside) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// check returns all faults.
func (o *outside) check() []string {
	if len(o.log.Requests) != o.log.Total || o.log.Dropped > 0 {
		o.fault("the log has %d of %d requests", len(o.log.Requests), o.log.Total)
	}
	o.fetches(o.owners())
	o.gaps()
	return o.faults
}

// owners checks the records, and returns the node that has each URL.
func (o *outside) owners() map[string]int {
	ids, owners, plds := map[string]bool{}, map[string]int{}, map[string]int{}
	asked := map[string]bool{} // URL and address
	for _, q := range o.log.Requests {
		asked[q.URL+" "+q.IP.String()] = true
	}
	for _, r := range o.records {
		if ids[r.id] {
			o.fault("record %s is there twice", r.id)
		}
		ids[r.id] = true
		if !r.isResponse {
			continue
		}
		host, isDNS := strings.CutPrefix(r.url, "dns:")
		if !isDNS {
			host = hostOfURL(r.url)
			if !asked[r.url+" "+r.ip] {
				o.fault("node %d has a record of %s at %s, where nobody asked for it", r.node, r.url, r.ip)
			}
		}
		pld := o.pld(host)
		if first, ok := plds[pld]; ok && first != r.node {
			o.fault("nodes %d and %d have records of %s: %s", first, r.node, pld, r.url)
		}
		plds[pld] = r.node
		if r.robots || isDNS {
			continue
		}
		if first, ok := owners[r.url]; ok {
			o.fault("%s has records of nodes %d and %d", r.url, first, r.node)
		}
		owners[r.url] = r.node
		if !o.want[r.url] {
			o.fault("node %d has a record of %s, which one node does not fetch", r.node, r.url)
		}
	}
	for url := range o.want {
		if _, ok := owners[url]; !ok {
			o.fault("%s has no record", url)
		}
	}
	return owners
}

// hostOfURL returns the host of an absolute URL without its port.
func hostOfURL(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, ":")
	return host
}

// fetches checks that each URL was fetched once, but for those after the last checkpoint of a node that was killed.
func (o *outside) fetches(owners map[string]int) {
	byURL := map[string][]simweb.Request{}
	for _, q := range o.log.Requests {
		if !q.Robots {
			byURL[q.URL] = append(byURL[q.URL], q)
		}
	}
	for _, url := range slices.Sorted(maps.Keys(byURL)) {
		if !o.want[url] {
			o.fault("%s was fetched, and one node does not fetch it", url)
		}
		list := byURL[url]
		for i := range list[1:] {
			if first, again := &list[i], &list[i+1]; !o.excused(owners[url], first, again) {
				o.fault("%s was fetched after %v and again after %v, without a kill of node %d in between",
					url, first.Start, again.Start, owners[url])
			}
		}
		if len(list) > 1 {
			o.doubles = append(o.doubles, url)
		}
	}
	for url := range o.want {
		if len(byURL[url]) == 0 {
			o.fault("%s was not fetched", url)
		}
	}
}

// excused reports whether a kill of the node lost what it knew of the first request.
func (o *outside) excused(node int, first, again *simweb.Request) bool {
	for _, k := range o.kills {
		ended := o.log.Epoch.Add(first.End)
		if k.node == node && o.log.Epoch.Add(first.Start).Before(k.to.Add(unread)) &&
			o.log.Epoch.Add(again.Start).After(k.from) && (first.End == 0 || ended.After(k.saved.Add(-unprocessed))) {
			return true
		}
	}
	return false
}

// gaps checks all delays over the requests of all nodes.
func (o *outside) gaps() {
	type lists = map[string][]simweb.Request
	byHost, byPLD, byAddr, byNet := lists{}, lists{}, lists{}, lists{}
	for _, q := range o.log.Requests { // by their start
		network, err := q.IP.Prefix(map[bool]int{true: 24, false: 48}[q.IP.Is4()])
		if err != nil {
			o.fault("%s: %v", q.IP, err)
		}
		for _, by := range []struct {
			m    lists
			name string
		}{{byHost, q.Host}, {byPLD, o.pld(q.Host)}, {byAddr, q.IP.String()}, {byNet, network.String()}} {
			by.m[by.name] = append(by.m[by.name], q)
		}
	}
	o.places = fmt.Sprintf("%d hosts of %d PLDs at %d addresses in %d networks", len(byHost), len(byPLD), len(byAddr),
		len(byNet))
	for host, list := range byHost {
		for i := range list[1:] {
			// From the end, which the client cannot see before the web: no tolerance is needed.
			if gap := list[i+1].Start - list[i].End; o.limits.host > 0 && (list[i].End == 0 || gap < o.limits.host) {
				o.fault("host %s was asked %v after an answer, after %v: %s", host, gap, list[i+1].Start, list[i+1].URL)
			}
		}
	}
	o.starts("PLD", byPLD, 1, o.limits.pld)
	o.starts("address", byAddr, 1, o.limits.address)
	o.starts("network", byNet, o.limits.rate, time.Second)
	for network, list := range byNet {
		if most := mostAtOnce(list); o.limits.connections > 0 && most > o.limits.connections {
			o.fault("network %s had %d requests at once", network, most)
		}
	}
}

// starts checks that at most n requests begin in any window, and k times n in k windows.
func (o *outside) starts(what string, by map[string][]simweb.Request, n int, window time.Duration) {
	if n == 0 || window == 0 {
		return
	}
	for name, list := range by {
		for phase := range min(n, len(list)) {
			// If each n-th request kept the window exactly, these sums would be equal. They may grow; by
			// limits.late they may fall.
			most := list[phase].Start
			for i := phase + n; i < len(list); i += n {
				sum := list[i].Start - time.Duration(i/n)*window
				if sum < most-o.limits.late {
					o.fault("%s %s: request %d came %v too early, after %v: %s", what, name, i, most-sum,
						list[i].Start, list[i].URL)
					break
				}
				most = max(most, sum)
			}
		}
	}
}

// mostAtOnce returns the largest number of requests in progress.
func mostAtOnce(list []simweb.Request) (most int) {
	type edge struct {
		at   time.Duration
		more int
	}
	var edges []edge
	for _, q := range list {
		edges = append(edges, edge{q.Start, 1}, edge{q.End, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.more, b.more)) })
	n := 0
	for _, e := range edges {
		n += e.more
		most = max(most, n)
	}
	return most
}

// summary says what was checked.
func (o *outside) summary() string {
	return fmt.Sprintf("%d URLs in %d requests to %s; %d WARC records; %d URLs fetched again after a kill: %s",
		len(o.want), len(o.log.Requests), o.places, len(o.records), len(o.doubles), strings.Join(o.doubles, " "))
}

// readRecords reads the WARC files of a node.
func readRecords(node int, dir string) (list []warcRecord, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.warc*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".warc.gz") {
			return nil, fmt.Errorf("%s: the crawl has ended, but this is no finished file", name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		records, err := parseRecords(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range records {
			records[i].node = node
		}
		list = append(list, records...)
	}
	return list, nil
}

// parseRecords reads a WARC file, with one gzip member for each record.
func parseRecords(data []byte) (list []warcRecord, err error) {
	in := bufio.NewReader(bytes.NewReader(data))
	zip := new(gzip.Reader)
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return list, nil
		}
		if err := zip.Reset(in); err != nil {
			return nil, fmt.Errorf("record %d: %w", len(list), err)
		}
		zip.Multistream(false)
		text, err := io.ReadAll(zip)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(list), err)
		}
		r, err := parseRecord(text)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(list), err)
		}
		list = append(list, r)
	}
}

func parseRecord(text []byte) (r warcRecord, err error) {
	head, block, ok := bytes.Cut(text, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	if !ok || lines[0] != "WARC/1.1" {
		return r, fmt.Errorf("no head of a record: %.40q", text)
	}
	length := -1
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "WARC-Type":
			r.kind = value
		case "WARC-Record-ID":
			r.id = value
		case "WARC-Target-URI":
			r.url = value
		case "WARC-IP-Address":
			r.ip = value
		case "WARC-Resource-Type":
			r.robots = value == "robots"
		case "Content-Length":
			if length, err = strconv.Atoi(value); err != nil {
				return r, err
			}
		}
	}
	r.isResponse = r.kind == "response" || r.kind == "revisit"
	if r.kind == "" || r.id == "" || r.isResponse && r.url == "" || len(block) != length+4 ||
		!bytes.HasSuffix(block, []byte("\r\n\r\n")) {
		return r, fmt.Errorf("%s %s of %q: %d bytes follow the head, Content-Length is %d", r.kind, r.id,
			r.url, len(block), length)
	}
	return r, nil
}
