package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/audit"
	"drumbeat/cmd/botpage"
	"drumbeat/cmd/explain"
	"drumbeat/cmd/export"
	"drumbeat/cmd/extract"
	"drumbeat/cmd/get"
	"drumbeat/cmd/log"
	"drumbeat/cmd/plan"
	"drumbeat/cmd/rendercommand"
	"drumbeat/cmd/report"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
)

// goWords matches words of Go and of the parser, and names of packages as in "disk: lock".
var goWords = regexp.MustCompile(`strconv|expected |(^| )time: |parsing |<EOL>|EOL|invalid syntax|envar|` +
	`unmarshal|%!|` +
	`no such file or directory|not a directory: |cannot find|mapper|\b(u?int|float)(32|64)?\b|bool\b|<nil>|` +
	`(^|: |; )(admin|cluster|crawl|disk|drum|export|fetch|flags|get|json|kong|log|pace|queue|scope|sites|state|` +
	`toml|url|urlrule|warc|weburl): `)

// wantPlain checks a message of the command: one line, without words of Go, that names the flag.
func wantPlain(t *testing.T, said, name string, args ...string) {
	t.Helper()
	text, ok := strings.CutPrefix(said, "drumbeat: ")
	if !ok || strings.Count(text, "\n") != 1 || goWords.MatchString(text) || !strings.Contains(text, name) {
		t.Errorf("%q: got %q, want a line for people with %s in it", args, said, name)
	}
}

// TestWrongValues: each flag of each command gets wrong values, none, and a number without a unit. No message
// has a word of Go, and each names the flag. Only the parser runs, and for crawl, whose checks follow it,
// --print-config. With -short, flags that a command shares with an earlier one are left out.
func TestWrongValues(t *testing.T) {
	var c commands
	type likeness struct {
		name string
		kind reflect.Type
	}
	had := map[likeness]bool{}
	for i, command := range cmdtest.Parser(t, &c).Model.Leaves(false) {
		left := map[string]bool{"help": true, "help-all": true}
		for _, flag := range command.Flags {
			like := likeness{flag.Name, flag.Target.Type()}
			left[flag.Name] = left[flag.Name] || testing.Short() && had[like]
			had[like] = true
		}
		t.Run(strings.TrimPrefix(command.Path(), "drumbeat "), func(t *testing.T) {
			t.Parallel()
			var c commands
			p := cmdtest.Parser(t, &c)
			w := wrongValues{t: t, parser: p, node: p.Model.Leaves(false)[i]}
			for _, word := range strings.Fields(strings.TrimPrefix(command.Path(), "drumbeat ")) {
				if !strings.HasPrefix(word, "<") {
					w.path = append(w.path, word)
				}
			}
			for _, flag := range w.node.Flags {
				if !left[flag.Name] {
					w.flag(flag)
				}
			}
		})
	}
}

// wrongValues tries the flags of a command.
type wrongValues struct {
	t      *testing.T
	parser *kong.Kong
	node   *kong.Node
	path   []string
}

// flag gives a flag values.
func (w wrongValues) flag(flag *kong.Flag) {
	name := "--" + flag.Name
	if flag.IsBool() {
		w.refuses(name, name+"=perhaps")
		return
	}
	w.refuses(name, name)
	w.refuses(name, name, "--help-all")
	w.refuses(name, name, "-1")
	_, duration := flag.Target.Interface().(time.Duration)
	for _, value := range wrong {
		args := []string{name + "=" + value}
		if duration {
			w.refuses(name, args...)
		} else if said := w.parse(args...); said != "" {
			wantPlain(w.t, said, name, args...)
		} else if w.node.Name == "crawl" && slices.Contains(tried(), value) {
			args = append(args, "--contact=op@example.org", "--print-config", "https://a.example/")
			code, _, said := cmdtest.Run[commands](w.t, "", append(w.path, args...)...)
			if code != 0 && !strings.Contains(said, "--contact") {
				wantPlain(w.t, said, name, args...)
			}
		}
	}
}

// refuses wants the parser to refuse args for the sake of the flag.
func (w wrongValues) refuses(name string, args ...string) {
	w.t.Helper()
	said := w.parse(args...)
	if said == "" {
		w.t.Errorf("%v %v: taken", w.path, args)
		return
	}
	wantPlain(w.t, said, name, args...)
}

// parse returns what the command prints about args; "" if only other flags or arguments are wrong.
func (w wrongValues) parse(args ...string) string {
	_, err := w.parser.Parse(append(slices.Clone(w.path), args...))
	if err == nil || missing.MatchString(err.Error()) {
		return ""
	}
	var errs bytes.Buffer
	term.NewApp(strings.NewReader(""), &errs, &errs).Fail(term.Usage(err))
	return errs.String()
}

// tried returns the values for the checks of crawl: one with -short, since each takes some milliseconds.
func tried() []string {
	if testing.Short() {
		return checked[:1]
	}
	return checked
}

// missing matches the errors about other flags and arguments, which the test leaves out.
var missing = regexp.MustCompile(`^missing flags|: name the director|^name |^expected "?<|^expected one of`)

// wrong are values that most flags refuse. The checks of crawl get those of checked.
var (
	wrong = []string{"", "x", "5", "-1", "1e99", "5 5", "99999999999999999999", ",", "=", "é", "5s5", "7x",
		"0x", "none,",
		"a=b", "/nosuch/file"}
	checked = []string{"5 5", "", ","}
)

// TestDirectoriesInWords: the errors about a directory say what is wrong and what to do.
func TestDirectoriesInWords(t *testing.T) {
	tmp := t.TempDir()
	file, empty, used := filepath.Join(tmp, "file"), filepath.Join(tmp, "empty"), filepath.Join(tmp, "used")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	must(t, os.Mkdir(empty, 0o700))
	must(t, os.Mkdir(used, 0o700))
	lock, err := disk.OS().Lock(used)
	must(t, err)
	defer lock.Close()
	for _, args := range [][]string{{"explain", "host", "a.example", "--dir"}, {"log"}, {"report"}, {"audit"},
		{"repair"}, {"get", "http://a.example/", "--dir"}, {"export", "pages", "-o", tmp + "/out", "--dir"},
		{"index", "-o", tmp + "/out", "--dir"}, {"extract", "-o", tmp + "/out", "--dir"}, {"dirs", "list"},
		{"ctl", "status", "--dir"}} {
		for dir, want := range map[string]string{tmp + "/none": "not exist", empty: "empty",
			file: "is a file, not a directory"} {
			_, _, said := cmdtest.Run[commands](t, "", append(slices.Clone(args), dir)...)
			if args[0] == "dirs" && dir != file {
				continue // it lists what it is given
			}
			wantPlain(t, said, want, append(args, dir)...)
		}
	}
	_, _, said := cmdtest.Run[commands](t, "", append(cmdtest.OwnServer, "example.org", "--dir", used)...)
	said = said[strings.LastIndex(strings.TrimSuffix(said, "\n"), "\n")+1:]
	wantPlain(t, said, "drumbeat ctl --dir "+used+" status", "crawl")
	if who := fmt.Sprintf("is in use by process %d;", os.Getpid()); !strings.Contains(said, who) {
		t.Errorf("got %q, want %q", said, who)
	}
}

// readers are the commands of TestWrongChecks. A parser of all commands takes longer than these.
type readers struct {
	Plan    plan.Command          `cmd:"" of:"start"`
	BotPage botpage.Command       `cmd:"" name:"bot-page" of:"start"`
	Render  rendercommand.Command `cmd:"" name:"render-command" of:"start"`
	Log     log.Command           `cmd:"" of:"watch"`
	Explain explain.Command       `cmd:"" of:"watch"`
	Report  report.Command        `cmd:"" of:"results"`
	Get     get.Command           `cmd:"" of:"results"`
	Export  export.Command        `cmd:"" of:"results"`
	Extract extract.Command       `cmd:"" of:"results"`
	Index   export.Index          `cmd:"" of:"results"`
	Audit   audit.Command         `cmd:"" of:"repair"`
}

// TestWrongChecks: the commands that read a crawl get values that the parser takes and they may not. Each message is a
// line without a word of Go, and a usage error names a flag.
func TestWrongChecks(t *testing.T) {
	notShort(t)
	readmeWeb(t)
	t.Chdir(t.TempDir())
	wantExit(t, term.ExitDone, "", "crawl", "https://example.org/", "--contact=a@example.org", "--scope=host")
	for _, v := range os.Environ() { // flags of crawl
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DRUMBEAT_") {
			t.Setenv(name, value) // until the test ends
			must(t, os.Unsetenv(name))
		}
	}
	given := []string{"help", "help-all", "config", "dir", "output", "from", "site"}
	for _, base := range [][]string{{"audit"}, {"explain", "url", "https://example.org/"},
		{"explain", "pld", "example.org"},
		{"export", "pages", "-o", "out"}, {"export", "wacz", "-o", "out.wacz"}, {"extract", "-o", "texts"},
		{"get", "https://example.org/"}, {"index", "-o", "index"}, {"log"}, {"plan", "--disk=10PiB"},
		{"plan", "--from=drumbeat-crawl"},
		{"report", "-o", "-"},
		{"report", "--site=example.org", "-o", "-"}, {"report", "--site=x.example", "-o", "-"},
		{"bot-page", "--contact=a@example.org", "--purpose=p", "--out=-"}, {"render-command"}} {
		p := cmdtest.Parser(t, new(readers))
		var node *kong.Node
		for _, leaf := range p.Model.Leaves(false) {
			path := strings.TrimPrefix(leaf.Path(), "drumbeat ")
			if path == base[0] || strings.HasPrefix(path, base[0]+" ") && (len(base) < 2 ||
				strings.HasPrefix(path, base[0]+" "+base[1]) || strings.HasPrefix(path, base[0]+" <")) {
				node = leaf
			}
		}
		if node == nil {
			t.Fatalf("%v: no such command", base)
		}
		for _, flag := range node.Flags {
			if flag.IsBool() || slices.Contains(given, flag.Name) {
				continue
			}
			for _, value := range []string{"0", "1", "900TiB", "999999999999", "x.example", "-"} {
				args := append(slices.Clone(base), "--"+flag.Name+"="+value)
				if w := (wrongValues{t: t, parser: p}); w.parse(args...) != "" {
					continue // the parser refuses it
				}
				code, _, said := cmdtest.Run[readers](t, "", args...)
				said = said[strings.LastIndex(strings.TrimSuffix(said, "\n"), "\n")+1:]
				switch {
				case !strings.HasPrefix(said, "drumbeat: "): // a note
				case code == term.ExitUsage:
					wantPlain(t, said, "--", args...)
				case code != 0:
					wantPlain(t, said, "", args...)
				}
			}
		}
	}
}
