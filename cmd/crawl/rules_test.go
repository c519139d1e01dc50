package crawl

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

// TestCrawlWithRules: the crawl applies the rule files, --print-config shows them, and a fault in them ends
// the command before it crawls.
func TestCrawlWithRules(t *testing.T) {
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	seeds := web.Seeds()
	out1, out2 := string(weburl.Split([]byte(seeds[0])).Host), string(weburl.Split([]byte(seeds[1])).Host)
	rules, black := cmdtest.File(t, "rules", "- host "+out1+"\n"), cmdtest.File(t, "black", "- host "+out2+"\n")
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+t.TempDir()+"/c", "--rules", rules,
		"--blacklist", black)
	out, _ := wantExit(t, term.ExitDone, "", append(flags, "--print-config")...)
	for _, want := range []string{`rules = ["` + rules + `"]`, `blacklist = ["` + black + `"]`,
		"# rules: 1 rule (1 host, ", "# blacklist: 1 rule (1 host, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, errs := wantExit(t, term.ExitUsage, "",
		append(flags, "--rules", cmdtest.File(t, "bad", "x\n"), "--blacklist=no-such-file")...)
	if !strings.Contains(errs, "bad:1: ") || !strings.Contains(errs, "no-such-file") {
		t.Error(errs)
	}
	out, _ = wantExit(t, term.ExitDone, "", flags...)
	if !strings.Contains(out, "by rules ") || !strings.Contains(out, "blacklisted ") {
		t.Errorf("no links by rules or blacklisted in\n%s", out)
	}
	fetches := web.Log().Snapshot().Fetches
	for url := range fetches {
		if host := string(weburl.Split([]byte(url)).Host); host == out1 || host == out2 {
			t.Errorf("fetched %s", url)
		}
	}
	if len(fetches) < 50 {
		t.Errorf("%d URLs fetched", len(fetches))
	}
}

// TestCrawlReadsAgain: on SIGHUP a running crawl reloads its rule files and logs all faults in them.
func TestCrawlReadsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages = 600 })
	rules := cmdtest.File(t, "rules", "default +\n")
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+t.TempDir()+"/c", "--rules", rules)
	var errs bytes.Buffer
	again, ended := make(chan struct{}), make(chan struct{})
	a := term.NewApp(strings.NewReader(""), io.Discard, &errs)
	a.OnHangup = func() (<-chan struct{}, func()) {
		go func() {
			send := func() {
				select {
				case again <- struct{}{}:
				case <-ended:
				}
			}
			send() // once this has been taken the crawl has read the files as they were
			if err := os.WriteFile(rules, []byte("- hots x\n- pld y\n"), 0o600); err != nil {
				t.Error(err)
			}
			send()
		}()
		return again, func() { close(ended) }
	}
	if code := run(a, flags); code != term.ExitDone {
		t.Errorf("got exit code %d", code)
	}
	for _, want := range []string{"rules and blacklist are unchanged", "rules:1: ", "rules:2: "} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in\n%s", want, errs.String())
		}
	}
}

// TestCrawlWithSites: the crawl sends the headers of the settings of sites, --print-config shows their number, and
// a fault ends the command before it crawls. Nothing that it prints has a secret.
func TestCrawlWithSites(t *testing.T) {
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	seed := web.Seeds()[0]
	host := string(weburl.Split([]byte(seed)).Host)
	key := cmdtest.File(t, "key", "t0ps3cret\n")
	file := cmdtest.File(t, "sites.toml", "[[site]]\nhost = \""+host+"\"\nmax-depth = 0\nbearer = \"file:"+key+
		"\"\ninsecure = true\n")
	flags = append(flags, "--seeds", cmdtest.File(t, "seeds", seed+"\n"), "--dir="+t.TempDir()+"/c", "--scope=host",
		"--sites", file)
	printed := ""
	out, errs := wantExit(t, term.ExitDone, "", append(flags, "--print-config")...)
	printed += out + errs
	for _, want := range []string{`sites = "` + file + `"`, "# sites: 1 rule, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	bad := cmdtest.File(t, "bad.toml", "[[site]]\nhost = 'a.example'\nbearer = 't0ps3cret'\nspeed = 1\n")
	out, errs = wantExit(t, term.ExitUsage, "", append(flags, "--sites", bad)...)
	printed += out + errs
	if !strings.Contains(errs, "bad.toml:3: bearer: want ") || !strings.Contains(errs, "bad.toml:4: ") {
		t.Error(errs)
	}
	out, errs = wantExit(t, term.ExitDone, "", flags...)
	if printed += out + errs; strings.Contains(printed, "t0ps3cret") {
		t.Errorf("a secret is printed:\n%s", printed)
	}
	if n := len(web.Log().Snapshot().Fetches); n != 1 {
		t.Errorf("%d URLs fetched, want the seed alone", n)
	}
}
