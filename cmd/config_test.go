package cmd

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// configured lists the commands with --config.
var configured = []string{"crawl", "demo", "plan", "bot-page"}

// examples are values of flags without a default, by placeholder, as in a configuration file.
var examples = map[string]string{
	"URL":  `"https://s3.example"`,
	"FILE": `"a file"`, "DIR": `"a, \\ \" dir"`, "SIZE": `"5MiB"`, "DURATION": `"7m0s"`, "N": "7",
	"HOST:PORT": `"192.0.2.1:53"`, "auto|ws://HOST:PORT": `"ws://127.0.0.1:9222"`, "CIDR": `"10.0.0.0/8"`,
	"PREFIX": `"64:ff9b:1::/96"`, "PORT": "8053", "PORTS": `"8000-8010"`, "WHO": `"you@example.org"`,
	"TEXT": `"a text"`, "MAIL": `"a@example.org"`, "LIST": `"session"`, "NAME": `"Asia/Tokyo"`, "ADDR": `":8080"`,
	"CMD": `"cat 'a b'"`, "NODE": `"2"`, "PLACE": `"/mnt/backups"`,
}

// parseConfig parses a command with a configuration file.
func parseConfig(t *testing.T, command, text string) (commands, *kong.Context, error) {
	t.Helper()
	var c commands
	p := cmdtest.Parser(t, &c)
	args := []string{command}
	if text != "" {
		args = append(args, "--config", cmdtest.File(t, "c.toml", text))
	}
	kctx, err := p.Parse(args)
	c.Crawl.Config, c.Plan.Config, c.Demo.Config, c.BotPage.Config = "", "", "", "" // the name of the file differs
	return c, kctx, err
}

// TestTemplate: every flag of a command is in its configuration file. With all defaults uncommented the file
// changes nothing; any other flag takes an example of its kind.
func TestTemplate(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, command := range configured {
		template, _ := wantExit(t, term.ExitDone, "", "config", command)
		base, kctx, err := parseConfig(t, command, "")
		must(t, err)
		if same, _, err := parseConfig(t, command, template); err != nil || !reflect.DeepEqual(same, base) {
			t.Errorf("%s: the template changes something: %v", command, err)
		}
		var defaults []string
		keys := map[string]string{}
		for line := range strings.Lines(template) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && !strings.HasPrefix(key, "# ") {
				keys[strings.TrimPrefix(key, "#")] = value
			}
			if len(line) > 1 && line[0] != '#' {
				t.Errorf("%s: not a comment: %s", command, line)
			}
		}
		for _, flag := range kctx.Selected().Flags {
			value, ok := keys[flag.Name]
			if !ok && !flag.Hidden && flag.Name != "config" && flag.Name != "print-config" &&
				flag.Tag.Get("config") != "-" {
				t.Errorf("config %s lacks %s", command, flag.Name)
			}
			if ok && (flag.HasDefault || flag.IsBool()) {
				defaults = append(defaults, flag.Name+" = "+value)
				continue
			}
			if ok {
				checkExample(t, command, flag, base)
			}
		}
		same, _, err := parseConfig(t, command, strings.Join(defaults, "\n"))
		if err != nil || !reflect.DeepEqual(same, base) {
			t.Errorf("%s: with all defaults:\ngot  %+v, %v\nwant %+v", command, same, err, base)
		}
	}
	if _, errs := wantExit(t, term.ExitUsage, "", "config", "audit"); !strings.Contains(errs,
		`must be one of "crawl","demo","plan","bot-page"`) {
		t.Errorf("config audit: got %q", errs)
	}
}

// checkExample sets a flag without a default, and reads again what Print makes of it.
func checkExample(t *testing.T, command string, flag *kong.Flag, base commands) {
	t.Helper()
	example := examples[flag.PlaceHolder]
	if flag.IsSlice() {
		example = "[" + example + ", " + example + "]"
	}
	set, kctx, err := parseConfig(t, command, flag.Name+" = "+example)
	if err != nil || reflect.DeepEqual(set, base) {
		t.Errorf("%s: %s = %s: changes nothing, %v", command, flag.Name, example, err)
		return
	}
	var b strings.Builder
	var settings *flags.Settings
	if _, err := kctx.Call(func(s *flags.Settings) { settings = s }); err != nil {
		t.Fatal(err)
	}
	must(t, settings.Print(&b, kctx.Selected()))
	if !strings.Contains(b.String(), "\n"+flag.Name+" = ") {
		t.Errorf("%s: %s = %s: printed as\n%s", command, flag.Name, example, b.String())
	}
	again, _, err := parseConfig(t, command, b.String())
	if err != nil || !reflect.DeepEqual(again, set) {
		t.Errorf("%s: printed as\n%s, which is another configuration: %v", command, b.String(), err)
	}
}

// TestSharedConfig: plan and bot-page read the file of a crawl; demo and crawl refuse keys of others.
func TestSharedConfig(t *testing.T) {
	const file = "contact = \"a@example.org\"\nseeds = \"s\"\nram = \"3GiB\"\n"
	for _, command := range []string{"crawl", "plan", "bot-page"} {
		c, _, err := parseConfig(t, command, file)
		if err != nil || command == "plan" && *c.Plan.RAM != 3<<30 ||
			command == "bot-page" && c.BotPage.Contact != "a@example.org" {
			t.Errorf("%s: %v", command, err)
		}
	}
	// --from of crawl is a mail address, that of plan a directory.
	t.Setenv("DRUMBEAT_FROM", "me@example.org")
	c, _, err := parseConfig(t, "plan", "from = \"me@example.org\"\n")
	if err != nil || len(c.Plan.From) > 0 {
		t.Errorf("plan --from %q, %v", c.Plan.From, err)
	}
	t.Setenv("DRUMBEAT_PLAN_FROM", "/c")
	if c, _, err = parseConfig(t, "plan", ""); err != nil || !slices.Equal(c.Plan.From, []string{"/c"}) {
		t.Errorf("plan --from %q, %v", c.Plan.From, err)
	}
	for _, command := range []string{"crawl", "demo"} {
		if _, _, err := parseConfig(t, command, "purpose = \"x\"\n"); err == nil ||
			!strings.Contains(err.Error(), "but of bot-page") {
			t.Errorf("%s: got %v", command, err)
		}
	}
	if !slices.Contains(configured, "bot-page") {
		t.Error("bot-page has no --config")
	}
}
