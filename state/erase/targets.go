package erase

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// Limits of a request. MaxTargets bounds its lines, because each takes 16 bytes of RAM, and MaxTargetBytes one
// line.
const (
	MaxTargets     = 10_000_000
	MaxTargetBytes = 8 << 10
	maxFaults      = 10 // lines that an error shows
	sortBytes      = 64 << 20
)

// sum identifies a target by two independent 64-bit hashes. Of 10^10 URLs and 10^7 targets, one pair is equal
// by chance with a probability of 10^-21.
type sum [2]uint64

func compareSum(a, b sum) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// Kinds of targets; they begin the hashed text, and all but URLs begin a line of a list.
const (
	kindHost = "host:"
	kindPLD  = "pld:"
	kindURL  = "url:"
	kindVia  = "via:" // the first weburl.MaxViaBytes bytes of a longer URL
)

// Targets are the pages to erase. They may be asked by several goroutines.
type Targets struct {
	suffixes          *weburl.Suffixes
	sums              []sum // sorted
	Hosts, PLDs, URLs int64
	long              bool // there are URLs longer than a via
	Digest            string
	Names             []string // rules of a blacklist for hosts and PLDs
}

func sumOf(kind string, text []byte) sum {
	var d xxhash.Digest
	d.ResetWithSeed(1)
	_, _ = d.WriteString(kind) // a Digest returns no error
	_, _ = d.Write(text)
	s := sum{d.Sum64()}
	d.ResetWithSeed(2)
	_, _ = d.WriteString(kind)
	_, _ = d.Write(text)
	s[1] = d.Sum64()
	return s
}

func (t *Targets) has(kind string, text []byte) bool {
	_, ok := slices.BinarySearchFunc(t.sums, sumOf(kind, text), compareSum)
	return ok
}

// Host reports whether all of a host is to be erased.
func (t *Targets) Host(host []byte) bool {
	if t.Hosts+t.PLDs == 0 {
		return false
	}
	host = weburl.TrimDot(host)
	return t.Hosts > 0 && t.has(kindHost, host) || t.PLDs > 0 && t.has(kindPLD, t.suffixes.PLDBytes(host))
}

// PLD reports whether all of a PLD is to be erased.
func (t *Targets) PLD(pld []byte) bool { return t.PLDs > 0 && t.has(kindPLD, pld) }

// URL reports whether a URL is to be erased: a canonical one, or dns: and a host.
func (t *Targets) URL(url []byte) bool {
	if host, ok := bytes.CutPrefix(url, []byte("dns:")); ok {
		return t.Host(host)
	}
	if t.URLs > 0 && t.has(kindURL, url) {
		return true
	}
	return t.Hosts+t.PLDs > 0 && t.Host(weburl.Split(url).Host)
}

// Via is URL for a URL that may be cut after weburl.MaxViaBytes.
func (t *Targets) Via(url []byte) bool {
	return len(url) > 0 && (t.URL(url) || t.long && len(url) == weburl.MaxViaBytes && t.has(kindVia, url))
}

// Text is Via for a string.
func (t *Targets) Text(url string) bool { return url != "" && t.Via([]byte(url)) }

// Source is what a request names: hosts, PLDs, URLs, and a list of all three, or nil.
type Source struct {
	Hosts, PLDs, URLs []string
	List              io.Reader
	ListName          string
}

// lines calls fn with each target and where it was named.
func (s *Source) lines(fn func(where, line string) error) error {
	for _, group := range []struct {
		flag, kind string
		names      []string
	}{{"--host", kindHost, s.Hosts}, {"--pld", kindPLD, s.PLDs}, {"--url", "", s.URLs}} {
		for _, name := range group.names {
			if err := fn(group.flag, group.kind+name); err != nil {
				return err
			}
		}
	}
	if s.List == nil {
		return nil
	}
	sc := bufio.NewScanner(s.List)
	sc.Buffer(make([]byte, 64<<10), MaxTargetBytes)
	n := 0
	for sc.Scan() {
		n++
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := fn(fmt.Sprintf("%s:%d", s.ListName, n), line); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", s.ListName, n+1, err)
	}
	return nil
}

// A RequestError says what is wrong with a request. Nothing was changed.
type RequestError struct{ Why string }

func (e *RequestError) Error() string { return "erase: " + e.Why }

// IsRefused reports whether err is a *RequestError.
func IsRefused(err error) bool {
	var r *RequestError
	return errors.As(err, &r)
}

func refused(format string, args ...any) error { return &RequestError{fmt.Sprintf(format, args...)} }

// canonical returns the form of a target in which it is sorted, hashed and kept.
func canonical(line string, resolver *weburl.Resolver, suffixes *weburl.Suffixes) (string, error) {
	kind := ""
	for _, k := range []string{kindHost, kindPLD} {
		if rest, ok := strings.CutPrefix(line, k); ok {
			kind, line = k, strings.TrimSpace(rest)
		}
	}
	if kind == "" {
		url, err := resolver.AppendResolve(nil, nil, []byte(line))
		if err != nil {
			return "", fmt.Errorf("not an http or https URL: %w", err)
		}
		return string(url), nil
	}
	url, err := resolver.AppendResolve(nil, nil, []byte("http://"+line+"/"))
	host := string(weburl.TrimDot(weburl.Split(url).Host))
	if err != nil || strings.ContainsAny(line, "/?#@") || host == "" || weburl.Split(url).Port != 80 {
		return "", errors.New("not the name of a host")
	}
	if pld := suffixes.PLD(host); kind == kindPLD && pld != host {
		return "", fmt.Errorf("%s belongs to the PLD %q: name that, or use host:NAME", host, pld)
	}
	return kind + host, nil
}

// readTargets reads a request. It sorts its targets in dir, and passes each once, in order, to each.
func readTargets(src *Source, suffixes *weburl.Suffixes, fold bool, fsys disk.FS, dir string,
	each func(target string) error) (_ *Targets, err error) {
	t := &Targets{suffixes: suffixes}
	resolver := weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: fold})
	sorter := extsort.New(extsort.Options{FS: fsys, Dir: dir, RAMBytes: sortBytes})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	var faults []string
	bad := 0
	if err := src.lines(func(where, line string) error {
		if len(line) > MaxTargetBytes {
			return refused("%s: more than %d bytes", where, MaxTargetBytes)
		}
		target, err := canonical(line, resolver, suffixes)
		if err != nil {
			if bad++; bad <= maxFaults {
				faults = append(faults, fmt.Sprintf("%s: %.200q: %v", where, line, err))
			}
			return nil
		}
		if sorter.N() == MaxTargets {
			return refused("more than %d targets: divide the list", MaxTargets)
		}
		return sorter.Add([]byte(target))
	}); err != nil {
		return nil, err
	}
	if bad > len(faults) {
		faults = append(faults, fmt.Sprintf("and %d more", bad-len(faults)))
	}
	if bad > 0 {
		return nil, refused("%s", strings.Join(faults, "\n"))
	}
	if err := sorter.Sort(); err != nil {
		return nil, err
	}
	t.sums = make([]sum, 0, sorter.N())
	digest, last := sha256.New(), ""
	for {
		rec, err := sorter.Next()
		if err != nil {
			return nil, err
		}
		if rec == nil {
			break
		}
		if target := string(rec); target != last {
			last = target
			fmt.Fprintf(digest, "%s\n", target)
			t.add(target)
			if err := each(target); err != nil {
				return nil, err
			}
		}
	}
	if len(t.sums) == 0 {
		return nil, refused("no host, PLD or URL is given")
	}
	if n := t.Hosts + t.PLDs; n > changes.MaxBlocked {
		return nil, refused("%d hosts and PLDs, and a crawl's blacklist has room for %d: divide the list", n,
			changes.MaxBlocked)
	}
	slices.SortFunc(t.sums, compareSum)
	t.Digest = hex.EncodeToString(digest.Sum(nil))
	return t, nil
}

// add adds a canonical target.
func (t *Targets) add(target string) {
	if host, ok := strings.CutPrefix(target, kindHost); ok {
		t.Hosts++
		t.Names = append(t.Names, "- host "+host)
		t.sums = append(t.sums, sumOf(kindHost, []byte(host)))
		return
	}
	if pld, ok := strings.CutPrefix(target, kindPLD); ok {
		t.PLDs++
		t.Names = append(t.Names, "- pld "+pld)
		t.sums = append(t.sums, sumOf(kindPLD, []byte(pld)))
		return
	}
	t.URLs++
	url := []byte(target)
	t.sums = append(t.sums, sumOf(kindURL, url))
	if len(url) > weburl.MaxViaBytes {
		t.long = true
		t.sums = append(t.sums, sumOf(kindVia, url[:weburl.MaxViaBytes]))
	}
}
