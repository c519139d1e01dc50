package crawl

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// readNames returns the graph of a stopped crawl with its names. faults lists what has no name or two names.
func readNames(fs disk.FS, dirs []string) (hosts map[string]string, links map[[2]string]bool,
	faults []string, err error) {
	hosts, links = map[string]string{}, map[[2]string]bool{}
	plds := map[uint64]string{}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	r, m, err := audit.Open(&audit.Options{FS: fs, Dirs: dirs})
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, nil, nil, err
	}
	names, err1 := state.Part[drum.State](m, state.NameNames)
	edges, err2 := state.Part[star.State](m, state.NameStar)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, nil, err
	}
	name := func(key drum.Key, value []byte) error {
		pld, host, err := state.CheckName(r.Hasher, key, value)
		if host != nil {
			hosts[string(host)] = fmt.Sprintf("%x", r.Hasher.PLDKey(pld)) // the name of its PLD may follow
			return err
		}
		if was, ok := plds[uint64(key)]; ok && was != string(pld) {
			fault("PLD %x is %s and %s", key, was, pld)
		}
		plds[uint64(key)] = string(pld)
		return err
	}
	_, err1 = drum.ScanState(r.Set, state.NameNames, names, drum.Scan{Entry: name,
		Tuple: func(t drum.Tuple) error { return name(t.Key, t.Value) }})
	err2 = star.WalkEdges(r.Set, state.NameStar, edges, func(e star.Edge) error {
		from, to := plds[e.From], plds[e.To]
		if from == "" || to == "" {
			fault("an edge from %x, %q, to %x, %q", e.From, from, e.To, to)
		}
		links[[2]string{from, to}] = true
		return nil
	})
	for key, name := range plds {
		for host, pld := range hosts {
			if pld == fmt.Sprintf("%x", key) {
				hosts[host] = name
			}
		}
	}
	return hosts, links, faults, errors.Join(err1, err2)
}

// checkGraph compares names and edges of a crawl that has ended with the web's own. It ignores troubled
// hosts, for which the web has no list.
func checkGraph(fs disk.FS, dirs []string, want *simweb.Expected) (faults []string) {
	hosts, links, faults, err := readNames(fs, dirs)
	if err != nil {
		return []string{"graph: " + err.Error()}
	}
	troubled := map[string]bool{}
	for host, pld := range hosts {
		if url := "http://" + host + "/"; isTroubled(url) || isStranger(url) {
			troubled[pld] = true
			delete(hosts, host)
		}
	}
	maps.DeleteFunc(links, func(l [2]string, _ bool) bool { return troubled[l[0]] || troubled[l[1]] })
	if wanted := want.PLDLinks(); !maps.Equal(links, wanted) {
		faults = append(faults, fmt.Sprintf("%d links between PLDs, want %d; or they differ", len(links), len(wanted)))
	}
	if wanted := want.Names(); !maps.Equal(hosts, wanted) {
		faults = append(faults,
			fmt.Sprintf("%d hosts with their PLDs, want %d; or they differ", len(hosts), len(wanted)))
	}
	return faults
}

// TestGraphWithNames: the stored graph must equal the graph of the web's PLDs, with the names of all PLDs
// and hosts, after any number of runs, and also while most names wait in buckets.
func TestGraphWithNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Limits.MaxPages = 200
		for runs := 0; ; runs++ {
			res := mustRun(t, t.Context(), opt)
			if res.Stop == StopDone {
				break
			}
			_, links, faults, err := readNames(fs, opt.Disk.Dirs)
			if err != nil || len(faults) > 0 || len(links) == 0 {
				t.Fatalf("run %d: %v, %d links, %v", runs, err, len(links), faults)
			}
			opt.Limits.MaxPages += 300
		}
		for _, f := range checkGraph(fs, opt.Disk.Dirs, web.Expected("drumbeat")) {
			t.Error(f)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		rep, err := audit.Run(fs, opt.Disk.Dirs)
		if err != nil || rep.Names.Files.N < 64 {
			t.Errorf("audit: %d names are merged, want most: %v", rep.Names.Files.N, err)
		}
	})
}
