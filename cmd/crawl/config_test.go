package crawl

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// parsed returns the command that args describe, without its checks.
func parsed(t *testing.T, args ...string) *Command {
	t.Helper()
	var c commands
	cmdtest.Parse(t, &c, append([]string{"crawl"}, args...)...)
	return &c.Crawl
}

// TestPrecedence: the command line, the environment, the file, the preset and the default, in this order.
func TestPrecedence(t *testing.T) {
	file := cmdtest.File(t, "c.toml",
		"preset = \"own-site\"\nhost-delay = \"3s\"\nserver-delay = \"4s\"\nlinger = \"5s\"\ndrain = true\n")
	t.Setenv("DRUMBEAT_HOST_DELAY", "6s")
	t.Setenv("DRUMBEAT_SERVER_DELAY", "7s")
	c := parsed(t, "--config", file, "--host-delay=8s")
	if *c.HostDelay.Usual != 8*time.Second || *c.ServerDelay.Usual != 7*time.Second || c.Linger != 5*time.Second ||
		*c.NetworkRate != 20 || c.Retries != 3 || !c.Drain || c.Scope != "host" {
		t.Errorf("got %v %v %v %v %v %v %v", *c.HostDelay.Usual, *c.ServerDelay.Usual, c.Linger, *c.NetworkRate,
			c.Retries, c.Drain, c.Scope)
	}
	if c = parsed(t, "--config", file, "--preset=none"); c.Scope != "all" || c.NetworkRate != nil ||
		c.Linger != 5*time.Second {
		t.Errorf("--preset=none: got scope %s, rate %v", c.Scope, c.NetworkRate)
	}
	t.Setenv("DRUMBEAT_PRESET", "survey")
	t.Setenv("DRUMBEAT_CONFIG", file)
	if c = parsed(t); c.Store.Kind != "none" || c.Scope != "all" || c.Linger != 5*time.Second {
		t.Errorf("DRUMBEAT_PRESET, DRUMBEAT_CONFIG: got store %s, scope %s, linger %v", c.Store.Kind, c.Scope, c.Linger)
	}
}

// TestConfigValues: how a file spells lists, numbers and sizes.
func TestConfigValues(t *testing.T) {
	file := cmdtest.File(t, "c.toml", `dir = ["/a,b", "/c\\"]
ports = [8080, "9000-9001"]
accept = "html,application/pdf"
max-pages = 1e6
network-rate = 0.5
rate = 20
ram = 1073741824
max-body = "2MiB,application/pdf=20MiB"
host-delay = 0
store = "dns=off"
`)
	c := parsed(t, "--config", file)
	if !slices.Equal(c.Dir, []string{"/a,b", `/c\`}) || len(c.Ports) != 2 || len(c.Accept) != 2 ||
		c.MaxPages.All != 1e6 || *c.NetworkRate != 0.5 || c.Rate.String() != "20" || *c.RAM != 1<<30 ||
		c.MaxBody.Most() != 20<<20 || *c.HostDelay.Usual != 0 || c.Store.DNS {
		t.Errorf("got %+v", c)
	}
}

// TestBadConfig: each fault of a file is one line with its name and line.
func TestBadConfig(t *testing.T) {
	for text, want := range map[string]string{
		"host-dely = \"5s\"":     "host-dely is not a flag of crawl, did you mean host-delay?",
		"host_delay = \"5s\"":    "did you mean host-delay?",
		"--host-delay = \"5s\"":  "did you mean host-delay?",
		"xyz = 1":                "xyz is not a flag of crawl; drumbeat config crawl lists all",
		"help = true":            "help is not a flag of crawl",
		"config = \"x\"":         "config can't be set in a configuration file",
		"[crawl]":                "crawl is a table; write the names of flags as keys",
		"dir = []":               "dir: the list is empty",
		"dir = [\"a\", 5]":       "dir: want a string in quotes, not a number",
		"agent = [\"a\"]":        "agent: this flag takes one value",
		"agent = 5":              "agent: want a string in quotes, not a number",
		"drain = \"true\"":       "drain: want true or false, not a string",
		"drain = 2026-01-01":     "drain: want true or false, not a date",
		"max-pages = true":       "max-pages: want a number or a string, not a boolean",
		"max-pages = inf":        "max-pages: want a number",
		"max-pages = -5":         "want a whole number",
		"host-delay = 5":         "so write 5s, 5h or 5d",
		"scope = \"site\"":       `scope: "site" is not one of all, pld, host`,
		"preset = \"x\"":         "preset: ",
		"ports = [80, \"x\"]":    `ports: "x" is neither a port`,
		"linger = ":              "unexpected character",
		"new = true\nnew = true": "already defined",
	} {
		file := cmdtest.File(t, "c.toml", "# comment\n\n"+text+"\n")
		line := file + ":3"
		if strings.HasPrefix(text, "new") {
			line = file + ":4"
		}
		_, errs := wantExit(t, term.ExitUsage, "", "crawl", "--config", file, "example.org", "--host-delay=1s")
		if !strings.Contains(errs, line) || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: got %q, want one line with %s and %q", text, errs, line, want)
		}
	}
	for _, name := range []string{"no-such-file", t.TempDir(), "/dev/zero"} {
		if _, errs := wantExit(t, term.ExitUsage, "", "crawl", "--config", name,
			"example.org"); !strings.Contains(errs, "--config") {
			t.Errorf("%s: got %q", name, errs)
		}
	}
}

// TestPresets: each preset passes the checks of a crawl. Only own-site changes a delay or a limit of
// politeness, and only within its bounds.
func TestPresets(t *testing.T) {
	base := parseCrawl(t)
	for _, name := range []string{"survey", "archive", "site", "own-site"} {
		c := parseCrawl(t, "--preset="+name)
		if reflect.DeepEqual(c, base) {
			t.Errorf("%s changes nothing", name)
		}
		if c.RobotsMeta.RobotsMeta.Nofollow != "obey" || c.Agent != base.Agent ||
			!reflect.DeepEqual(c.Health, base.Health) || len(c.AllowNet)+len(c.Ports) > 0 {
			t.Errorf("%s weakens politeness: %+v", name, c)
		}
		if name != "own-site" && !reflect.DeepEqual(c.Delays, base.Delays) {
			t.Errorf("%s changes delays: %+v", name, c.Delays)
		}
	}
	m := term.Machine{RAMBytes: 1 << 34, RAMFrom: "physical memory", Descriptors: 1024}
	c := parseCrawl(t, "--preset=own-site")
	notes, err := c.Complete(m)
	if err != nil || *c.HostDelay.Usual < 200*time.Millisecond || !c.AdaptiveDelay ||
		*c.HostDelay.Least < 50*time.Millisecond || *c.ServerDelay.Least < 50*time.Millisecond ||
		*c.PLDDelay.Usual < 50*time.Millisecond || *c.NetworkRate > 20 || *c.NetworkConnections == 0 ||
		*c.HostDelayFactor < 2 || c.MaxCrawlDelay != base.MaxCrawlDelay {
		t.Errorf("own-site is faster than it says: %+v, %v", c.Delays, err)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "use this only on your own servers") {
		t.Errorf("own-site: no warning in %q", notes)
	}
}
