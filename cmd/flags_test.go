package cmd

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/metrics"
)

var update = flag.Bool("update", false, "rewrite the pages of docs/reference that are made from the source")

const flagsHead = `# Commands and flags

` + "`go test ./cmd -run TestFlagsPage -update`" + ` generates this page from the source; a test compares them.

Sizes take decimal and binary units: 2MB is 2,000,000 bytes, 2MiB is 2,097,152. Write durations as 90s, 1h30m,
7d or 1d12h (units: ms, s, m, h, d, w), and large numbers as 1e6 or 1_000_000. An environment variable can set each flag: ` + "`DRUMBEAT_HOST_DELAY`" + ` sets
` + "`--host-delay`" + `. Variables of demo begin with ` + "`DRUMBEAT_DEMO_`" + `, those of bench with ` + "`DRUMBEAT_BENCH_`" + `,
those of log but --dir with ` + "`DRUMBEAT_LOG_`" + `, and those of explain's --dir, --out, --json and --fast with
` + "`DRUMBEAT_EXPLAIN_`" + `. [Configuration](../howto/prepare/configure.md)
has --config and --preset. The command line takes precedence. A bad value ends the command with one line on
standard error and exit code 2.

A flag with parts has several values that answer one question: ` + "`--host-delay 40s,min=1s`" + `,
` + "`--canonical escapes=keep,sort`" + `. Commas separate them; ` + "`\\,`" + ` is a comma in a value. A value without a name comes
first, if the flag has one. The name of a switch alone turns it on, ` + "`sort=off`" + ` turns it off. A part that is left out has its
default, whatever a file or a preset says: the whole value of a flag comes from one place.
`

// flagsPage returns the text of docs/reference/flags.md.
func flagsPage(t *testing.T) string {
	t.Helper()
	var c commands
	p := cmdtest.Parser(t, &c)
	var b strings.Builder
	b.WriteString(flagsHead)
	var above *kong.Node
	for _, command := range p.Model.Leaves(true) {
		if command.Parent != above && command.Parent != p.Model.Node && len(command.Parent.Flags) > 0 {
			above = command.Parent
			fmt.Fprintf(&b, "\n## drumbeat %s\n\n%s\n", above.Name, above.Help)
			writeFlags(&b, above, "", "Flags of all commands below")
		}
		fmt.Fprintf(&b, "\n## drumbeat %s\n\n%s\n", strings.TrimPrefix(command.Path(), "drumbeat "), command.Help)
		for _, arg := range command.Positional {
			fmt.Fprintf(&b, "\n- `%s`: %s", arg.Summary(), arg.Help)
		}
		if len(command.Positional) > 0 {
			b.WriteString("\n")
		}
		if like := flags.Like(command); like != nil {
			fmt.Fprintf(&b, "\nIt has all flags of `drumbeat %s`, and its own:\n", like.Name)
		}
		writeFlags(&b, command, "", "Flags")
		for _, g := range flags.Groups {
			writeFlags(&b, command, g.Key, g.Title)
		}
	}
	return b.String()
}

var (
	markdown = strings.NewReplacer("|", `\|`, "<", `\<`, `\`, `\\`) // it takes <a> for HTML
	pageName = regexp.MustCompile(`docs/([a-z/-]+\.md)`)
)

func writeFlags(b *strings.Builder, command *kong.Node, group, title string) {
	head := fmt.Sprintf("\n**%s**\n\n| flag | default | what it does |\n|---|---|---|\n", title)
	for _, f := range flags.OwnFlags(command) {
		key := ""
		if f.Group != nil {
			key = f.Group.Key
		}
		if f.Hidden || f.Name == "help" || key != group {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			value := f.PlaceHolder
			if f.Enum != "" {
				value = strings.ReplaceAll(f.Enum, ",", "|")
			}
			name += "=" + strings.ReplaceAll(value, "|", "\\|")
		}
		def := f.Default
		if def == "" && f.IsBool() {
			def = "off"
		}
		help := markdown.Replace(f.Help)
		help = pageName.ReplaceAllString(help, "[docs/$1](../$1)")
		fmt.Fprintf(b, "%s| `%s` | %s | %s |\n", head, name, def, help)
		head = ""
	}
}

// TestFlagsPage: docs/reference/flags.md agrees with the table of flags.
func TestFlagsPage(t *testing.T) { comparePage(t, "flags", flagsPage(t)) }

// TestMetricsPage: docs/reference/metrics.md agrees with the table of metrics.
func TestMetricsPage(t *testing.T) {
	list := slices.SortedFunc(slices.Values(metrics.All()), func(a, b metrics.Metric) int {
		return strings.Compare(a.Name, b.Name)
	})
	page := metricsHead
	for _, m := range list {
		label := ""
		if m.Label != "" {
			label = "`" + m.Label + "`"
		}
		page += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, label, m.Unit, markdown.Replace(m.Help))
	}
	comparePage(t, "metrics", page)
}

const metricsHead = `# Metrics

` + "`go test ./cmd -run TestMetricsPage -update`" + ` generates this page from the source; a test compares them.

[The admin server](api.md) of a crawl serves these metrics for Prometheus at ` + "`/metrics`" + `. Their names begin with
` + "`drumbeat_`" + `. The history of a crawl has them as well, for ` + "`drumbeat report`" + `.
packaging/prometheus has a configuration and alerts, packaging/grafana a dashboard.

| drumbeat_… | kind | label | unit | meaning |
|---|---|---|---|---|
`

// comparePage compares a page of docs/reference with the one made from the source, and rewrites it with -update.
func comparePage(t *testing.T, page, want string) {
	t.Helper()
	name := "../docs/reference/" + page + ".md"
	if *update {
		must(t, os.WriteFile(name, []byte(want), 0o644))
	}
	got, err := os.ReadFile(name)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s differs from the source; run make flags", name)
	}
}

// TestEnvironment: a variable sets a flag unless the command line does; a crawl's variables do not affect
// demo.
func TestEnvironment(t *testing.T) {
	t.Setenv("DRUMBEAT_HOST_DELAY", "7s")
	t.Setenv("DRUMBEAT_MAX_PAGES", "5")
	parse := func(args ...string) (c commands) {
		cmdtest.Parse(t, &c, args...)
		return c
	}
	if c := parse("crawl", "--seeds=-", "--max-pages=6").Crawl; *c.HostDelay.Usual != 7*time.Second ||
		c.MaxPages.All != 6 {
		t.Errorf("got %v and %d, want 7s and 6", *c.HostDelay.Usual, c.MaxPages.All)
	}
	if c := parse("demo"); c.Demo.HostDelay != 10*time.Millisecond {
		t.Errorf("demo: got %v, want 10ms", c.Demo.HostDelay)
	}
}

// TestNoSuchCommand: an unknown command, or one without its arguments, gets one line and exit code 2.
func TestNoSuchCommand(t *testing.T) {
	for _, args := range [][]string{{"crawll"}, {"explain"}, {"crawl"}, {"help", "nosuch"}, {"crawll", "--help"}} {
		if code, out, errs := runApp(t, "", args...); code != term.ExitUsage || out != "" ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: got %d, %q, %q, want 2 and one line", args, code, out, errs)
		}
	}
	if code, out, _ := runApp(t, "", "crawl", "--help"); code != 0 || !strings.Contains(out, "--host-delay") {
		t.Errorf("--help: got %d, %q", code, out)
	}
}
