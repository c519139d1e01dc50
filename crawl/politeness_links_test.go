package crawl

import (
	"slices"
	"strings"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/parse"
	"drumbeat/state"
)

// crawlLinks crawls the scenario "links" and returns the number of requests for each path.
func crawlLinks(t *testing.T, set func(*Options)) (asked map[string]int, res *Result) {
	asked = map[string]int{}
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs = 2, 2, 4, 2
			o.Hostile = []string{"links"}
		})
		mem := memfs.New(*seedFlag)
		opt := simOptions(t, web, mem)
		client := newClient(t, fetch.Options{
			Dial: web.Dial, Ports: ports.Of(8080),
			TLS: fetch.TLSOptions{Roots: web.CAPool()}, Limits: hostileLimits,
		})
		opt.Network.Fetcher, opt.Network.FetchLimits, opt.Admission.SeedLines, opt.Output.CrawlLog = client,
			hostileLimits, web.HostileSeeds(), state.LogAll
		set(&opt)
		res = mustRun(t, t.Context(), opt)
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkBalanced(t, mem, opt.Disk.Dirs)
		for _, q := range web.Log().Snapshot().Requests {
			if _, path, ok := strings.Cut(q.URL, ".test"); ok {
				asked[strings.TrimPrefix(path, ":8080")]++
			}
		}
	})
	return asked, res
}

// TestLinksInEveryManner: a crawler that follows links in all their forms, on pages of all kinds, must
// request each target once. It must not request targets that the site asks crawlers to leave alone, or text
// that is no link.
func TestLinksInEveryManner(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Options)
		want []string // first segments of the requested targets
	}{
		{"default", func(*Options) {}, []string{"yes"}},
		{"ignore nofollow", func(o *Options) { o.Links.IgnoreNofollow = true }, []string{"yes", "nofollow"}},
		{"alternate", func(o *Options) { o.Links.Rels = parse.DefaultRels | parse.RelAlternate },
			[]string{"yes", "alternate"}},
		{"assets", func(o *Options) { o.Links.Assets = true }, []string{"yes", "asset"}},
		{"forms", func(o *Options) { o.Links.Forms = true }, []string{"yes", "form"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, res := crawlLinks(t, test.set)
			targets := simweb.LinkTargets()
			if len(targets) < 70 {
				t.Fatalf("only %d targets: %q", len(targets), targets)
			}
			for _, path := range targets {
				want := 0
				if slices.Contains(test.want, strings.Split(path, "/")[1]) {
					want = 1
				}
				if asked[path] != want {
					t.Errorf("%s was requested %d times, want %d", path, asked[path], want)
				}
			}
			held := int64(0)
			if !slices.Contains(test.want, "nofollow") {
				held = 11 // includes /both, whose other link is followed
			}
			if n := res.Snapshot.Count(state.CountLinksNoFollow); n != held {
				t.Errorf("nofollow excluded %d links, want %d", n, held)
			}
			if n := res.Snapshot.Count(state.CountSniffed); n != 5 {
				t.Errorf("recognised %d pages by their bytes, want 5", n)
			}
			if n := res.Snapshot.Count(state.CountNoIndex); n != 3 {
				t.Errorf("%d pages ask not to be indexed, want 3", n)
			}
		})
	}
}
