package cmd

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// The size of a screen of help.
const (
	helpLines   = 45
	helpColumns = 100
)

// TestHelpFitsAScreen: each command, flag and argument has a text, and each text one of these. --help of each command
// has at most 45 lines of 100 columns, usage first. Where it selects flags there are examples, and no text is cut.
func TestHelpFitsAScreen(t *testing.T) {
	var c commands
	p := cmdtest.Parser(t, &c)
	if err := flags.CheckHelp(p.Model); err != nil {
		t.Error(err)
	}
	for _, node := range append(p.Model.Leaves(true), p.Model.Node) {
		args := strings.Fields(strings.TrimPrefix(node.Path(), "drumbeat"))
		out, _ := wantExit(t, term.ExitDone, "", append(args, "--help")...)
		if n := strings.Count(out, "\n"); n > helpLines {
			t.Errorf("%v --help has %d lines:\n%s", args, n, out)
		}
		for line := range strings.Lines(out) {
			if len(line) > helpColumns+1 {
				t.Errorf("%v --help: a line of %d columns: %s", args, len(line)-1, line)
			}
		}
		if !strings.HasPrefix(out, "Usage: drumbeat ") {
			t.Errorf("%v --help: %s", args, out)
		}
		common := 0
		for _, flag := range node.Flags {
			if flag.Tag.Has("common") {
				common++
			}
		}
		if n := strings.Count(out, "\n  drumbeat "); common > 0 && (n < 3 || n > 5 || common > 25) {
			t.Errorf("%v --help has %d examples and %d flags", args, n, common)
		}
		if (common > 0 || node.Type == kong.ApplicationNode) && strings.Contains(out, " ...\n") {
			t.Errorf("%v --help cuts text:\n%s", args, out)
		}
	}
}

// TestHelpAll: --help-all prints every flag and its whole text.
func TestHelpAll(t *testing.T) {
	notShort(t)
	t.Parallel()
	var c commands
	p := cmdtest.Parser(t, &c)
	for _, node := range p.Model.Leaves(true) {
		args := strings.Fields(strings.TrimPrefix(node.Path(), "drumbeat"))
		out, _ := wantExit(t, term.ExitDone, "", append(args, "--help-all")...)
		text := strings.Join(strings.Fields(out), " ")
		for _, flag := range node.Flags {
			if !flag.Hidden &&
				(!strings.Contains(text, "--"+flag.Name) && !strings.Contains(text, "--[no-]"+flag.Name) ||
					!strings.Contains(text, strings.Join(strings.Fields(flag.Help), " "))) {
				t.Errorf("%v --help-all lacks --%s: %s", args, flag.Name, flag.Help)
			}
		}
	}
}

// TestBareCommand: without arguments the command prints the help and succeeds. Help, completion and the manual page
// list the commands by group, and each command is in one.
func TestBareCommand(t *testing.T) {
	var bare []string
	code, out, errs := runApp(t, "", bare...)
	if help, _ := wantExit(t, term.ExitDone, "", "--help"); code != term.ExitDone || out != help || errs != "" {
		t.Errorf("got exit code %d, %q and %q, want 0 and the help", code, out, errs)
	}
	var c commands
	p := cmdtest.Parser(t, &c)
	man, _ := wantExit(t, term.ExitDone, "", "man")
	zsh, _ := wantExit(t, term.ExitDone, "", "completion", "zsh")
	listed := 0
	for _, group := range flags.CommandGroups {
		list := flags.CommandsOf(p.Model.Node, group)
		listed += len(list)
		if group.Key == "" {
			if len(list) > 0 {
				t.Errorf("%s is in no group", list[0].Name)
			}
			continue
		}
		if !strings.Contains(out, "\n"+group.Title+"\n  "+list[0].Name+" ") {
			t.Errorf("help: no %q before %s", group.Title, list[0].Name)
		}
		_, section, _ := strings.Cut(man, "\n.SH "+strings.ToUpper(group.Title)+"\n")
		if !strings.HasPrefix(section, ".SS drumbeat "+strings.ReplaceAll(list[0].Name, "-", `\-`)) {
			t.Errorf("man: no %q before %s", group.Title, list[0].Name)
		}
		if !strings.Contains(zsh, "_describe -t "+group.Key+" '"+strings.ToLower(group.Title)+"' commands") {
			t.Errorf("zsh: no group %q", group.Title)
		}
	}
	if want := len(p.Model.Children); listed < want-1 { // one is hidden
		t.Errorf("%d commands are in groups, want %d", listed, want)
	}
}

// TestGuesses: an unknown command gets a guess, also after help and before --help.
func TestGuesses(t *testing.T) {
	for args, want := range map[string]string{
		"crawll":     `"crawll" is not a command, did you mean "crawl"? drumbeat help lists all`,
		"help repot": `did you mean "report"?`, "reprot --help": `did you mean "report"?`,
		"help nosuch": `"nosuch" is not a command; drumbeat help lists all`,
		"pause":       `did you mean "ctl pause"?`, "ctl stauts": `did you mean "status"? drumbeat help ctl lists all`,
		"explain http://a.example/": `did you mean "explain url http://a.example/"? drumbeat help explain lists all`,
		"https://a.example/":        `did you mean "crawl https://a.example/"?`,
		"explain":                   "explain needs one of its commands: robots, url, ",
		"help explain linsk":        `did you mean "links"? drumbeat help explain lists all`,
	} {
		if _, errs := wantExit(t, term.ExitUsage, "", strings.Fields(args)...); !strings.Contains(errs, want) {
			t.Errorf("%s: got %q, want %q in it", args, errs, want)
		}
	}
}

// TestShortFlags: a letter stands for one flag in all commands, -o for the output of any, and help, completion and the
// manual page have it.
func TestShortFlags(t *testing.T) {
	meaning := map[string]string{"h": "help", "d": "dir", "q": "quiet", "v": "verbose", "o": "output", "f": "follow",
		"n": "lines"}
	fish, _ := wantExit(t, term.ExitDone, "", "completion", "fish")
	zsh, _ := wantExit(t, term.ExitDone, "", "completion", "zsh")
	man, _ := wantExit(t, term.ExitDone, "", "man")
	for path, list := range visible(t) {
		for _, flag := range list {
			if flag.Short == 0 {
				common := []string{"dir", "quiet", "verbose", "output"}
				if slices.Contains(common, flag.Name) && !strings.HasPrefix(path, "bench") { // which works on no crawl
					t.Errorf("%s: --%s has no short form", path, flag.Name)
				}
				continue
			}
			short := string(flag.Short)
			if meaning[short] != flag.Name {
				t.Errorf("%s: -%s is --%s, want --%s", path, short, flag.Name, meaning[short])
			}
			for script, want := range map[*string]string{&fish: "-s " + short + " -l " + flag.Name,
				&zsh: "-" + short + "[", &man: `\fB\-` + short + `\fR, \fB\-\-` + flag.Name} {
				if !strings.Contains(*script, want) {
					t.Errorf("%s: %q is missing in a script", path, want)
				}
			}
		}
	}
	if out, _ := wantExit(t, term.ExitDone, "", "crawl", "--help"); !strings.Contains(out, "-d, --dir=DIR") {
		t.Errorf("crawl --help has no -d:\n%s", out)
	}
}

// TestOneVersion: the version is the same on the command line, in words and as JSON, and in User-Agent.
func TestOneVersion(t *testing.T) {
	words, _ := wantExit(t, term.ExitDone, "", "version")
	if other, _ := wantExit(t, term.ExitDone, "", "--version"); other != words ||
		!strings.HasPrefix(words, "drumbeat "+term.Version()+" (") {
		t.Errorf("version prints %q, --version %q, want %s in both", words, other, term.Version())
	}
	text, _ := wantExit(t, term.ExitDone, "", "version", "--json")
	var b term.Build
	must(t, json.Unmarshal([]byte(text), &b))
	if b != term.ThisBuild() || !strings.Contains(flags.UserAgent("bot", "a@example.org"), "bot/"+b.Version+" ") {
		t.Errorf("got %+v and %q", b, flags.UserAgent("bot", "a@example.org"))
	}
	if man, _ := wantExit(t, term.ExitDone, "", "man"); !strings.Contains(man,
		`"drumbeat `+strings.ReplaceAll(b.Version, "-", `\-`)+`"`) {
		t.Errorf("man: %.100s", man)
	}
}

// TestMissing: an error names what a command needs, piece by piece, and an example that has all.
func TestMissing(t *testing.T) {
	for args, want := range map[string]string{
		"export": "export needs <kind> (Table: plds, ",
		"export pages": "export needs -o, --output=DIR (Directory for the parts of the table). " +
			"Example: drumbeat export pages -o pages\n",
		"index":     "index needs -o, --output=DIR (Directory for the index",
		"extract":   "Example: drumbeat extract -o texts\n",
		"get":       "get needs <url> (URL of a page or robots.txt that the crawl has fetched). Example: drumbeat get ",
		"ctl block": "ctl block needs <kind> (host, pld", "cluster init": ", and --nodes=N (Number of nodes",
	} {
		if _, errs := wantExit(t, term.ExitUsage, "", strings.Fields(args)...); !strings.Contains(errs, want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: got %q, want %q in one line", args, errs, want)
		}
	}
}

// TestNextSteps: after a crawl report and get come before audit, and the demo does not send a newcomer to crawl the
// whole web.
func TestNextSteps(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 2)
	port := url[strings.LastIndex(url, ":")+1:]
	dir := filepath.Join(t.TempDir(), "c")
	out, _ := wantExit(t, term.ExitDone, "", append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port,
		"--dir", dir, url+"/")...)
	_, next, _ := strings.Cut(out, "\nNext:\n")
	want := []string{"report " + dir, "get " + url + "/ " + dir + " --text", "audit " + dir}
	lines := strings.Split(strings.TrimSpace(next), "\n")
	for i, line := range lines {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
		if len(lines) != len(want) || command != "drumbeat "+want[i] {
			t.Fatalf("next steps are\n%s\nwant %q", next, want)
		}
		args := strings.Fields(command)[1:]
		if args[0] == "report" {
			args = append(args, "-o", "-")
		}
		wantExit(t, term.ExitDone, "", args...)
	}
	out, _ = wantExit(t, term.ExitDone, "", "demo", "--pages=200", "--hosts=10", "--plds=5", "--quiet")
	_, next, _ = strings.Cut(out, "\nNext:\n")
	if strings.Contains(next, "--seeds") || !strings.Contains(next, "--scope host") ||
		!strings.Contains(next, "demo --dir demo ") {
		t.Errorf("next steps of demo:\n%s", next)
	}
}
