package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// writeRules writes a file of rules to fs and replaces an existing one.
func writeRules(t *testing.T, fs disk.FS, name string, lines ...string) {
	t.Helper()
	if _, err := fs.Size(name); err == nil {
		must(t, fs.Remove(name))
	}
	must(t, disk.WriteFileAtomic(fs, name, []byte(strings.Join(lines, "\n")+"\n")))
}

// TestRulesKeepOut: hosts, PLDs and prefixes that rules exclude must get no request, not even for
// robots.txt, whether reached by a link, a redirect or a seed. The report of a seed must name the rule.
func TestRulesKeepOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{}
		page := linked("http://out.test/", "http://www.spam.test/", "http://in.test/private/x",
			"http://in.test/Public/", "http://in.test/a.php?x", "http://sub.out.test/", "http://in.test/moved")
		web.Serve = func(host, path string) answer {
			if path == "/moved" {
				return answer{302, "Location: http://out.test/target\r\n", ""}
			}
			return page(host, path)
		}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "rules", "- host out.test", "- pld spam.test", "- prefix http://in.test/private/",
			`- regex \.php\?`, "- surt http://(test,in,)/public/")
		opt := tinyOptions(t, web, fs, "http://in.test/", "http://out.test/seed", "http://spam.test/")
		atOnce(&opt)
		opt.Admission.Rules = []string{"rules"}
		res := mustRun(t, t.Context(), opt)
		want := []string{"http://in.test/", "http://in.test/moved", "http://in.test/robots.txt", "http://sub.out.test/",
			"http://sub.out.test/robots.txt"}
		if got := web.Asked(); !slices.Equal(got, want) {
			t.Errorf("requested %q, want %q", got, want)
		}
		for _, want := range []string{"http://out.test/seed: excluded by rules:1: - host out.test",
			"http://spam.test/: excluded by rules:2: - pld spam.test"} {
			if !slices.Contains(res.Seeds, want) {
				t.Errorf("no %q in the seed reports %q", want, res.Seeds)
			}
		}
		if n := res.Snapshot.Count(state.CountLinksRules); n < 10 {
			t.Errorf("%d links excluded by rules", n)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// TestRulesTakeOnly: with `default -` the crawl must fetch exactly what the rules include, also outside of
// --scope.
func TestRulesTakeOnly(t *testing.T) {
	for _, kind := range []state.Scope{state.ScopeAll, state.ScopeHost} {
		inBubble(t, func(t *testing.T) {
			var all, want []string
			for h := range 6 {
				for p := range 5 {
					u := fmt.Sprintf("http://h%d.test/%d/x", h, p)
					all = append(all, u)
					if h < 2 || h == 2 && p == 3 {
						want = append(want, u)
					}
				}
			}
			web := &tinyWeb{Serve: linked(all...)}
			fs := memfs.New(*seedFlag)
			writeRules(t, fs, "a", "+ host h0.test", "default -")
			writeRules(t, fs, "b", "+ pld h1.test", "+ prefix http://h2.test/3/")
			opt := tinyOptions(t, web, fs, "http://h0.test/0/x", "http://h5.test/0/x")
			atOnce(&opt)
			opt.Admission.Rules, opt.Admission.Scope = []string{"a", "b"}, kind
			mustRun(t, t.Context(), opt)
			var got []string
			for _, r := range web.Pages("") {
				got = append(got, "http://"+r.Host+r.Path)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("scope %s: fetched %q, want %q", kind, got, want)
			}
			for h := 3; h < 6; h++ {
				if rs := web.Got(fmt.Sprintf("h%d.test", h), ""); len(rs) > 0 {
					t.Errorf("requested %v, want nothing", rs)
				}
			}
			checkBalanced(t, fs, opt.Disk.Dirs)
		})
	}
}

// TestRulesUndecidedFallToScope: --scope must decide on URLs that no rule decides.
func TestRulesUndecidedFallToScope(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: linked("http://a.test/1", "http://b.test/1", "http://c.test/1", "http://a.test/no")}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "rules", "+ host b.test", "- prefix http://a.test/no")
		opt := tinyOptions(t, web, fs, "http://a.test/")
		atOnce(&opt)
		opt.Admission.Rules, opt.Admission.Scope = []string{"rules"}, state.ScopeHost
		mustRun(t, t.Context(), opt)
		want := []string{"http://a.test/", "http://a.test/1", "http://a.test/robots.txt", "http://b.test/1",
			"http://b.test/robots.txt"}
		if got := web.Asked(); !slices.Equal(got, want) {
			t.Errorf("requested %q, want %q", got, want)
		}
	})
}

// TestRulesWithFaults: a crawl whose rules have errors, or lack a file, must not start. The error must name
// all faults.
func TestRulesWithFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "rules", "+ hst a.test", "- host b.test", "- pld test")
		opt := tinyOptions(t, web, fs, "http://a.test/")
		opt.Admission.Rules, opt.Admission.Blacklist = []string{"rules"}, []string{"none"}
		_, err := Run(t.Context(), opt)
		if err == nil {
			t.Fatal("no error")
		}
		for _, want := range []string{"rules:1: ", "rules:3: ", "none"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %q", want, err)
			}
		}
		if rs := web.Got("", ""); len(rs) > 0 {
			t.Errorf("requested %v, want nothing", rs)
		}
	})
}

// blacklistWeb has hosts a… of two PLDs, b… of one network and c…, each with many pages. Hosts "slow…"
// answer after 20 s.
func blacklistWeb() *tinyWeb {
	return &tinyWeb{
		Serve: pagesOnly,
		Lookup: func(host string) (string, error) {
			if strings.HasPrefix(host, "b") {
				return fmt.Sprintf("127.77.0.%s", strings.TrimSuffix(host[1:], ".test")), nil
			}
			return "", nil
		},
	}
}

func blacklistSeeds(pages int) (seeds []string) {
	for _, host := range []string{"a0.test", "x.a1.test", "y.a1.test", "b1.test", "b2.test", "c0.test",
		"c1.test", "c2.test"} {
		for i := range pages {
			seeds = append(seeds, fmt.Sprintf("http://%s/%d", host, i))
		}
	}
	return seeds
}

// TestBlacklistInTheMiddle: a reload blacklists a host, a PLD and a network while their URLs are queued in
// all places. After it they must get no request, the other hosts must be fetched as before, and the crawl
// must end with balanced places. A reload with faults must change nothing. A reload without the entries
// must admit new links.
func TestBlacklistInTheMiddle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pages = 60
		web := blacklistWeb()
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "black", "# nothing yet")
		reload := make(chan struct{}, 1)
		opt := tinyOptions(t, web, fs, blacklistSeeds(pages)...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, 2*time.Second
		opt.Admission.Blacklist, opt.Admission.Reload, opt.Disk.CheckpointEvery = []string{"black"},
			reload, 10*time.Second
		begin := time.Now()
		at := begin.Add(30 * time.Second)
		var soon int64 // URLs refused as blocked 2 s after the reload
		opt.Observe.Snapshot = func(s *Snapshot) {
			if time.Since(at) >= 2*time.Second && soon == 0 {
				soon = s.Refused[state.ReasonBlocked.String()]
			}
		}
		go reloadTwice(t, fs, reload)
		res := mustRun(t, t.Context(), opt)
		if res.Stop != StopDone {
			t.Errorf("stopped by %q", res.Stop)
		}
		listed := map[string]bool{"a0.test": true, "x.a1.test": true, "y.a1.test": true, "b1.test": true}
		counts := map[string]int{}
		late := map[string]int{}
		asked := map[string]bool{} // a canary request may repeat a robots.txt
		cut := int64(0)            // requests that the reload may have cut off and refused
		for _, r := range web.Got("", "") {
			if !asked[r.Host+r.Path] {
				counts[r.Host]++
			}
			asked[r.Host+r.Path] = true
			if listed[r.Host] && r.At.After(at) {
				t.Errorf("%s%s was requested %v after the reload", r.Host, r.Path, r.At.Sub(at))
			} else if listed[r.Host] && r.At.After(begin.Add(22*time.Second)) {
				late[r.Host]++
			}
			if listed[r.Host] && !r.At.After(at) && at.Sub(r.At) < time.Second {
				cut++
			}
		}
		if soon < 50 {
			t.Errorf("only %d URLs were refused as blocked 2 s after the reload", soon)
		}
		if len(late) != len(listed) {
			t.Errorf("after the reload with faults only %v continued", late)
		}
		var refused int64
		for host, n := range counts {
			if !listed[host] && n != pages+1 {
				t.Errorf("%s got %d requests, want %d", host, n, pages+1)
			} else if listed[host] {
				refused += int64(pages + 1 - n)
			}
		}
		if got := res.Snapshot.Refused[state.ReasonBlocked.String()]; got < refused ||
			got > refused+cut || refused < 50 {
			t.Errorf("%d URLs refused as blocked, want %d, or up to %d more", got, refused, cut)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)

		checkUnlisted(t, web, opt)
	})
}

// reloadTwice reloads a list with a fault after 20 s, and one without 10 s later.
func reloadTwice(t *testing.T, fs disk.FS, reload chan struct{}) {
	time.Sleep(20 * time.Second)
	writeRules(t, fs, "black", "- hots typo")
	reload <- struct{}{}
	time.Sleep(10 * time.Second)
	writeRules(t, fs, "black", "- host a0.test", "- pld a1.test", "- net 127.77.0.0/31")
	reload <- struct{}{}
}

// checkUnlisted: without the entries new links are admitted; URLs already refused stay refused.
func checkUnlisted(t *testing.T, web *tinyWeb, opt Options) {
	t.Helper()
	writeRules(t, opt.Disk.FS, "black", "- host a0.test")
	opt.Admission.SeedLines = append(opt.Admission.SeedLines, "http://x.a1.test/new", "http://b1.test/new",
		"http://a0.test/new")
	before := len(web.Got("", ""))
	mustRun(t, t.Context(), opt)
	var got []string
	for _, r := range web.Got("", "")[before:] {
		if r.Path != "/robots.txt" {
			got = append(got, r.Host+r.Path)
		}
	}
	slices.Sort(got)
	if want := []string{"b1.test/new", "x.a1.test/new"}; !slices.Equal(got, want) {
		t.Errorf("without the entries: fetched %v, want %v", got, want)
	}
	checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
}

// TestBlacklistFromTheStart: what is listed before the start must get no request and no lookup. A host with
// one allowed address gets requests there. A robots.txt that redirects to a listed host is not fetched and
// allows nothing.
func TestBlacklistFromTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		looked := map[string]int{}
		web := &tinyWeb{
			Lookup: func(host string) (string, error) {
				looked[host]++
				if strings.HasPrefix(host, "net") {
					return "127.77.0.9", nil
				}
				return "", nil
			},
		}
		web.Serve = func(host, path string) answer {
			if host == "moved.test" && path == "/robots.txt" {
				return answer{301, "Location: http://host.test/robots.txt\r\n", ""}
			}
			return pagesOnly(host, path)
		}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "black", "- host host.test", "- pld pld.test", "- net 127.77.0.0/16")
		opt := tinyOptions(t, web, fs, "http://host.test/", "http://host.test./dot", "http://a.pld.test/",
			"http://net.test/", "http://127.77.1.1/", "http://moved.test/x", "http://free.test/", "pld.test")
		opt.Network.AllowedAddr = func(a netip.Addr) bool { return true }
		atOnce(&opt)
		opt.Admission.Blacklist = []string{"black"}
		res := mustRun(t, t.Context(), opt)
		want := []string{"http://free.test/", "http://free.test/robots.txt", "http://moved.test/robots.txt"}
		got := slices.Compact(web.Asked())
		if !slices.Equal(got, want) {
			t.Errorf("requested %q, want %q", got, want)
		}
		for host := range looked {
			if strings.Contains(host, "host.test") || strings.Contains(host, "pld") {
				t.Errorf("looked up %s", host)
			}
		}
		// net.test; the others were never queued.
		if n := res.Snapshot.Refused[state.ReasonBlocked.String()]; n != 1 {
			t.Errorf("%d URLs refused as blocked, want 1", n)
		}
		if n := res.Snapshot.Place(state.PlaceDeferred); n != 1 {
			t.Errorf("%d URLs wait, want 1 of moved.test", n)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)

		// Once the network is no longer listed, old entries of RobotsCache must not keep new URLs out.
		writeRules(t, fs, "black", "- host host.test", "- pld pld.test")
		opt.Admission.SeedLines = append(opt.Admission.SeedLines, "http://net.test/new")
		mustRun(t, t.Context(), opt)
		if n := len(web.Got("net.test", "/new")); n != 1 || len(web.Pages("net.test")) != 1 {
			t.Errorf("then requested %v of net.test", web.Pages("net.test"))
		}
	})
}

// twoAddrs resolves every host to two addresses.
type twoAddrs struct{}

func (twoAddrs) LookupHost(context.Context, string, string) (Lookup, error) {
	return Lookup{Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.9"), netip.MustParseAddr("127.1.2.3")},
		Expires: time.Now().Add(time.Hour)}, nil
}

// TestBlacklistOneOfTwoAddresses: a host with one listed address, from the start or after a reload, must
// get requests only at the other one, and the crawl must fetch all of its URLs.
func TestBlacklistOneOfTwoAddresses(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Second} {
		inBubble(t, func(t *testing.T) {
			web := &tinyWeb{Serve: pagesOnly}
			fs := memfs.New(*seedFlag)
			writeRules(t, fs, "black", "- net 127.77.0.0/24")
			opt := tinyOptions(t, web, fs, urls("h", 3, 20)...)
			at := time.Now().Add(after)
			var mu sync.Mutex
			early, late, good := 0, 0, 0
			client := newClient(t, fetch.Options{
				Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case a.Addr() == netip.MustParseAddr("127.1.2.3"):
						good++
					case time.Now().After(at) || after == 0:
						late++
					default:
						early++
					}
					return web.Dial(ctx, a)
				}})
			opt.Network.Fetcher, opt.Network.Resolver, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = client,
				twoAddrs{}, time.Second, time.Second
			reload := make(chan struct{}, 1)
			opt.Admission.Blacklist, opt.Admission.Reload = []string{"black"}, reload
			if after > 0 {
				writeRules(t, fs, "black", "# nothing yet")
				go func() {
					time.Sleep(after)
					writeRules(t, fs, "black", "- net 127.77.0.0/24")
					reload <- struct{}{}
				}()
			}
			res := mustRun(t, t.Context(), opt)
			if late > 0 || good == 0 || early == 0 && after > 0 {
				t.Errorf("%d connections to the listed address, %d to the other, %d before the reload",
					late, good, early)
			}
			if n := res.Snapshot.Place(state.PlaceFetched); n != 60 {
				t.Errorf("fetched %d URLs, want 60; refused: %v", n, res.Snapshot.Refused)
			}
			checkBalanced(t, fs, opt.Disk.Dirs)
		})
	}
}

// slowNames is a name server that takes a second to answer.
type slowNames struct{ *tinyWeb }

func (s slowNames) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	time.Sleep(time.Second)
	return s.tinyWeb.LookupHost(ctx, host, pld)
}

// TestBlacklistBeforeLookups: hosts that are listed while their robots.txt requests wait on disk must not
// be looked up.
func TestBlacklistBeforeLookups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		looked := map[string]time.Time{}
		web := &tinyWeb{Serve: pagesOnly, Lookup: func(host string) (string, error) {
			looked[host] = time.Now()
			return "", nil
		}}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "black", "# nothing yet")
		reload := make(chan struct{}, 1)
		opt := tinyOptions(t, web, fs, urls("d", 40, 1)...)
		atOnce(&opt)
		opt.Network.Resolver, opt.Network.RobotsInFlight = slowNames{web}, 2
		opt.Admission.Blacklist, opt.Admission.Reload = []string{"black"}, reload
		at := time.Now().Add(8 * time.Second)
		go func() {
			time.Sleep(time.Until(at))
			var lines []string
			for h := range 40 {
				lines = append(lines, fmt.Sprintf("- host d%d.test", h))
			}
			writeRules(t, fs, "black", lines...)
			reload <- struct{}{}
		}()
		res := mustRun(t, t.Context(), opt)
		if len(looked) < 4 || len(looked) > 30 {
			t.Fatalf("looked up %d hosts before the reload, too few or too many for this test", len(looked))
		}
		for host, when := range looked {
			if when.After(at.Add(time.Second)) { // lookups in flight end by then
				t.Errorf("%s was looked up %v after the reload", host, when.Sub(at))
			}
		}
		for _, r := range web.Got("", "") {
			if r.At.After(at) {
				t.Errorf("%s%s was requested %v after the reload", r.Host, r.Path, r.At.Sub(at))
			}
		}
		if n := res.Snapshot.Refused[state.ReasonBlocked.String()]; n < 10 || res.Stop != StopDone {
			t.Errorf("%d URLs refused as blocked, stopped by %q", n, res.Stop)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// TestBlacklistCutsOff: an exchange in flight must end at once when its host is listed, and its URL must
// end as blocked.
func TestBlacklistCutsOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		ended := make(chan time.Time, 1)
		web.Raw = stall(ended)
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "black", "# nothing yet")
		reload := make(chan struct{}, 1)
		opt := tinyOptions(t, web, fs, "http://slow.test/slow", "http://a.test/")
		atOnce(&opt)
		opt.Admission.Blacklist, opt.Admission.Reload = []string{"black"}, reload
		var at time.Time
		go func() {
			time.Sleep(5 * time.Second)
			writeRules(t, fs, "black", "- host slow.test")
			at = time.Now()
			reload <- struct{}{}
		}()
		res := mustRun(t, t.Context(), opt)
		if cut := <-ended; cut.Sub(at) > time.Second || cut.Before(at) {
			t.Errorf("the exchange ended %v after the reload", cut.Sub(at))
		}
		if n := res.Snapshot.Refused[state.ReasonBlocked.String()]; n != 1 || len(web.Pages("slow")) != 1 {
			t.Errorf("%d URLs refused as blocked after %d requests, want 1 and 1", n, len(web.Pages("slow")))
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// stall never answers a request for /slow. It sends the time at which the crawler closes the connection.
func stall(ended chan<- time.Time) func(c net.Conn, _, path string) bool {
	return func(c net.Conn, _, path string) bool {
		if path != "/slow" {
			return false
		}
		_, _ = c.Read(make([]byte, 1))
		ended <- time.Now()
		return true
	}
}

// TestBlacklistAfterCrash: after kill -9 or a power cut seconds after a reload of the blacklist, the next
// run must obey the list from its start.
func TestBlacklistAfterCrash(t *testing.T) {
	for _, how := range []string{"kill", "power"} {
		t.Run(how, func(t *testing.T) { inBubble(t, func(t *testing.T) { blacklistCrash(t, how == "power") }) })
	}
}

func blacklistCrash(t *testing.T, power bool) {
	web := blacklistWeb()
	fs := memfs.New(*seedFlag)
	writeRules(t, fs, "black", "# nothing yet")
	reload := make(chan struct{}, 1)
	opt := tinyOptions(t, web, fs, blacklistSeeds(40)...)
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, 2*time.Second
	opt.Admission.Blacklist, opt.Admission.Reload, opt.Disk.CheckpointEvery = []string{"black"}, reload, 7*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	var after *memfs.FS
	go func() {
		time.Sleep(20 * time.Second)
		writeRules(t, fs, "black", "- host a0.test", "- pld a1.test", "- net 127.77.0.0/31")
		at = time.Now()
		reload <- struct{}{}
		time.Sleep(3 * time.Second) // no checkpoint includes the reload
		after = fs.Fork(*seedFlag)
		cancel()
	}()
	mustRun(t, ctx, opt)
	if power {
		after = after.Crash()
	}
	opt.Disk.FS = after
	res := mustRun(t, t.Context(), opt)
	if res.Stop != StopDone {
		t.Errorf("stopped by %q", res.Stop)
	}
	for _, r := range web.Got("", "") {
		if r.At.After(at) && (r.Host == "a0.test" || strings.HasSuffix(r.Host, ".a1.test") || r.Host == "b1.test") {
			t.Errorf("%s%s was requested %v after the reload", r.Host, r.Path, r.At.Sub(at))
		}
	}
	if n := res.Snapshot.Refused[state.ReasonBlocked.String()]; n < 50 {
		t.Errorf("%d URLs refused as blocked", n)
	}
	checkBalanced(t, after, opt.Disk.Dirs)
}

// TestRulesLetRobotsThrough: the crawl must follow a robots.txt redirect to a host that rules exclude, and
// obey it.
func TestRulesLetRobotsThrough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		page := linked("http://a.test/no", "http://a.test/yes", "http://out.test/")
		web := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case host == "a.test" && path == "/robots.txt":
				return answer{301, "Location: http://out.test/robots.txt\r\n", ""}
			case path == "/robots.txt":
				return answer{200, "", "User-agent: *\nDisallow: /no\n"}
			}
			return page(host, path)
		}}
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "rules", "+ host a.test", "default -")
		opt := tinyOptions(t, web, fs, "http://a.test/")
		atOnce(&opt)
		opt.Admission.Rules = []string{"rules"}
		mustRun(t, t.Context(), opt)
		want := []string{"http://a.test/", "http://a.test/robots.txt", "http://a.test/yes",
			"http://out.test/robots.txt"}
		if got := web.Asked(); !slices.Equal(got, want) {
			t.Errorf("requested %q, want %q", got, want)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}
