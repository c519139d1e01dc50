package crawl

import (
	"fmt"
	"maps"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state/audit"
)

// readNames returns the graph of a stopped crawl with its names. faults lists what has no name or two names.
func readNames(fs disk.FS, dirs []string) (hosts map[string]string, links map[[2]string]bool,
	faults []string, err error) {
	hosts, links = map[string]string{}, map[[2]string]bool{}
	plds := map[uint64]string{}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	err = audit.ReadGraph(audit.Options{FS: fs, Dirs: dirs}, audit.Graph{
		PLD: func(key uint64, name []byte) error {
			if was, ok := plds[key]; ok && was != string(name) {
				fault("PLD %x is %s and %s", key, was, name)
			}
			plds[key] = string(name)
			return nil
		},
		Host: func(key, pld uint64, name []byte) error {
			hosts[string(name)] = fmt.Sprintf("%x", pld) // the name of its PLD may follow
			return nil
		},
		Edge: func(from, to uint64) error {
			if plds[from] == "" || plds[to] == "" {
				fault("an edge from %x, %q, to %x, %q", from, plds[from], to, plds[to])
			}
			links[[2]string{plds[from], plds[to]}] = true
			return nil
		},
	})
	for key, name := range plds {
		for host, pld := range hosts {
			if pld == fmt.Sprintf("%x", key) {
				hosts[host] = name
			}
		}
	}
	return hosts, links, faults, err
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
		web := smallWeb(t, nil)
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, web, fs)
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
