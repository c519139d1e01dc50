package erase

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// Request is a request that waits, for instance because the crawl was running: erasures/NUMBER.request. It has
// the targets in clear, and is deleted when they are gone.
type Request struct {
	Number int       `json:"number"` // that of its record
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
	Hide   bool      `json:"hide,omitempty"`
	Later  bool      `json:"later,omitempty"` // until the crawl ends or starts; otherwise the crawl rests for it
	Digest string    `json:"digest"`          // as in Record
	Hosts  int64     `json:"hosts"`
	PLDs   int64     `json:"plds"`
	URLs   int64     `json:"urls"`
	// Targets are canonical and sorted.
	Targets []string `json:"targets"`
	// Order identifies the request among those that all nodes of a cluster carry out (cluster.Order.ID); "" if only
	// this node does.
	Order string `json:"order,omitempty"`
	// Error says why the last attempt changed nothing; "" before it.
	Error string `json:"error,omitempty"`

	Rules []string `json:"-"` // of a blacklist, for the hosts and PLDs
	Alone string   `json:"-"` // why only this node carries out a request with Ask.Order; "": all do, or there is none
}

// Bounds of the requests that wait: a running crawl has the targets in RAM.
const (
	MaxWaiting      = 1000
	maxWaitingBytes = 64 << 20 // of their targets
	// MaxRequestBytes bounds the targets of one request.
	MaxRequestBytes = 1 << 20
)

const requestMagic, requestSuffix = "drumbeat-erase-request", ".request"

// Ask names a request that is to wait.
type Ask struct {
	Who, Reason string
	Hide, Later bool
	Source      Source
	Order       string    // as in Request; the request has it unless only this node can carry it out
	Time        time.Time // when the request was made; zero: now
}

// NewRequest checks a request. fold is false for crawls that keep escapes. The error is a *RequestError if the request
// is faulty.
func NewRequest(ask *Ask, suffixes *weburl.Suffixes, fold bool, fsys disk.FS) (*Request, error) {
	reason, err := oneLine(ask.Reason)
	if err != nil {
		return nil, err
	}
	r := &Request{Time: askedAt(ask.Time), Who: ask.Who, Reason: reason, Hide: ask.Hide,
		Later: ask.Later}
	bytes := 0
	// So few targets are sorted in RAM, and need no directory.
	t, err := readTargets(&ask.Source, suffixes, fold, fsys, "", func(target string) error {
		if bytes += len(target) + 1; bytes > MaxRequestBytes {
			return refused("the targets have more than %s: divide the list", human.Bytes(MaxRequestBytes))
		}
		r.Targets = append(r.Targets, target)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Digest, r.Hosts, r.PLDs, r.URLs, r.Rules = t.Digest, t.Hosts, t.PLDs, t.URLs, t.Names
	return r, nil
}

// askedAt returns the time of a request.
func askedAt(at time.Time) time.Time {
	if at.IsZero() {
		at = time.Now()
	}
	return at.UTC().Truncate(time.Second)
}

// oneLine checks a reason.
func oneLine(reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > maxReason || strings.ContainsAny(reason, "\r\n") {
		return "", refused("--reason: want one line of 1 to %d bytes", maxReason)
	}
	return reason, nil
}

// rules returns the rules of a blacklist for the hosts and PLDs.
func (r *Request) rules() (rules []string) {
	for _, target := range r.Targets {
		for _, kind := range []string{kindHost, kindPLD} {
			if name, ok := strings.CutPrefix(target, kind); ok {
				rules = append(rules, "- "+strings.TrimSuffix(kind, ":")+" "+name)
			}
		}
	}
	return rules
}

// record returns the record of the request, without what was removed.
func (r *Request) record() Record {
	rec := Record{Number: r.Number, Time: r.Time, Who: r.Who, Reason: r.Reason, Digest: r.Digest, Hosts: r.Hosts,
		PLDs: r.PLDs, URLs: r.URLs, Hidden: r.Hide, Order: r.Order}
	switch {
	case r.Order != "": // whoever has carried it out gives it to nodes that were away
		rec.Targets = r.Targets
	case !r.Hide:
		rec.Targets = r.Targets[:min(len(r.Targets), MaxNamed)]
	}
	return rec
}

// write makes the request durable.
func (r *Request) write(set disk.Set) error {
	data, err := state.Seal(requestMagic, r)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(set.FS, recordName(set, r.Number, requestSuffix), data)
}

// Requests returns the requests that wait, the first one first. Damage is a *disk.CorruptError.
func Requests(set disk.Set) (all []Request, _ error) {
	names, err := set.FS.List(set.Path(0, state.ErasedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("erase: %w", err)
	}
	for _, name := range names {
		if path.Ext(name) != requestSuffix || name[0] == '.' {
			continue
		}
		file := set.Path(0, state.ErasedDir, name)
		data, err := disk.ReadFile(set.FS, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // done meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("erase: %w", err)
		}
		var r Request
		if err := state.Unseal(requestMagic, file, data, &r); err != nil {
			return nil, err
		}
		r.Rules = r.rules()
		all = append(all, r)
	}
	return all, nil
}

// Ordered returns the requests that all nodes of a cluster carry out (Request.Order) and that this one has taken: those
// that wait, and those that are done, as the records have them. It reads as many files as requests were ever made.
func Ordered(set disk.Set) (all []Request, _ error) {
	waiting, err := Requests(set)
	if err != nil {
		return nil, err
	}
	done, err := Records(set)
	for i := range done {
		d := &done[i]
		all = append(all, Request{Number: d.Number, Time: d.Time, Who: d.Who, Reason: d.Reason, Digest: d.Digest,
			Hosts: d.Hosts, PLDs: d.PLDs, URLs: d.URLs, Targets: d.Targets, Order: d.Order})
	}
	return slices.DeleteFunc(append(all, waiting...), func(r Request) bool { return r.Order == "" }), err
}

// Interrupted reports whether an erasure of the crawl in some directories is unfinished; false if there is no crawl.
func Interrupted(fsys disk.FS, dirs []string) (bool, error) {
	match, _, err := disk.MatchSome(fsys, dirs, state.KindState)
	if err != nil || match.Set.Len() == 0 || match.Set.Paths[0] == "" {
		return false, nil // whoever opens the directories says what is wrong
	}
	_, err = match.Set.FS.Size(match.Set.Path(0, state.EraseName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RequestsOf returns the requests that wait in the directories of a crawl, which may be running.
func RequestsOf(fsys disk.FS, dirs []string) ([]Request, error) {
	set, err := setOf(fsys, dirs)
	if err != nil {
		return nil, err
	}
	return Requests(set)
}

// File gives a request its number and makes it durable. waiting are those that wait; blocked is the number of sites
// that the operator has blocked. The caller writes one request at a time, under the crawl's lock.
func File(set disk.Set, r *Request, waiting []Request, blocked int) error {
	bytes, rules := 0, blocked+len(r.Rules)
	for i := range waiting {
		rules += len(waiting[i].Rules)
		for _, target := range waiting[i].Targets {
			bytes += len(target) + 1
		}
	}
	for _, target := range r.Targets {
		bytes += len(target) + 1
	}
	switch {
	case len(waiting) >= MaxWaiting || bytes > maxWaitingBytes:
		return refused("%s already, of at most %d with %s of targets: erase those first (drumbeat ctl erase without "+
			"--later)", human.Counted(len(waiting), "request waits", "requests wait"), MaxWaiting,
			human.Bytes(maxWaitingBytes))
	case rules > changes.MaxBlocked:
		return refused("the blacklist of a crawl takes %d hosts and PLDs, and would have %d", changes.MaxBlocked, rules)
	}
	var err error
	if r.Number, err = nextNumber(set); err != nil {
		return err
	}
	if err := set.FS.MkdirAll(set.Path(0, state.ErasedDir)); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if err := set.FS.SyncDir(set.Path(0)); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return r.write(set)
}

// nextNumber returns the number of the next request.
func nextNumber(set disk.Set) (int, error) {
	names, err := set.FS.List(set.Path(0, state.ErasedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("erase: %w", err)
	}
	last := 0
	for _, name := range names {
		n := 0
		if _, err := fmt.Sscanf(name, "%06d.", &n); err == nil {
			last = max(last, n)
		}
	}
	return last + 1, nil
}

// takeRequests makes the requests that wait the source of the erasure. It reports whether there are any.
func (x *run) takeRequests() (bool, error) {
	all, err := Requests(x.r.Set)
	if err != nil || len(all) == 0 {
		return false, err
	}
	x.requests = all
	var lines strings.Builder
	for i := range all {
		for _, target := range all[i].Targets {
			lines.WriteString(target + "\n")
		}
	}
	x.source = Source{List: strings.NewReader(lines.String()), ListName: "the requests that wait"}
	return true, nil
}

// concludeRequests writes the records of the requests of the erasure, and deletes the requests.
func (x *run) concludeRequests() error {
	for i := range x.j.Requests {
		rec := x.j.Requests[i]
		if rec.Ended = x.j.Ended; i == len(x.j.Requests)-1 {
			rec.Erased, rec.Store = x.j.Erased, x.j.Store
		} else {
			rec.With = x.j.Number
		}
		if err := writeRecord(x.r.Set, &rec); err != nil {
			return err
		}
	}
	for i := range x.j.Requests {
		name := recordName(x.r.Set, x.j.Requests[i].Number, requestSuffix)
		if err := x.r.Set.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("erase: %w", err)
		}
	}
	return x.r.Set.FS.SyncDir(x.r.Set.Path(0, state.ErasedDir))
}
