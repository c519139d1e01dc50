package cmd

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// In docs/tutorials an indented block has commands, and TestTutorials types them. A block marked sh has
// commands for another machine or another time; a line before it says "Planned", and the test only parses
// them. A block marked text is output: after an indented block its lines must begin like printed ones.
const plannedMark = "Planned"

// tutorialPrograms are the programs that tutorials name. The test runs those that are true.
var tutorialPrograms = map[string]bool{
	"cat": true, "drumbeat": true, "echo": true, "export": true, "kill": true, "sleep": true, "wait": true,

	"./drumbeat-new": false, "chown": false, "install": false, "journalctl": false, "mkdir": false,
	"python3": false, "rsync": false, "scp": false, "sudoedit": false, "systemctl": false, "venv/bin/duckdb": false,
	"venv/bin/pip": false, "venv/bin/warcio": false, "venv/bin/wayback": false, "venv/bin/wb-manager": false,
}

// tutorialCodes are exit codes other than 0, by a part of the command.
var tutorialCodes = []struct {
	part  string
	codes []int
}{
	// 127: the shell has forgotten a job that has ended
	{"wait ", []int{0, 127}},
	{"drumbeat doctor", []int{term.ExitDone, term.ExitFailure}},         // it tells what this machine lacks
	{"drumbeat ctl ", []int{term.ExitDone, term.ExitDirectory}},         // the crawl may have ended already
	{"drumbeat cluster status", []int{term.ExitDone, term.ExitFailure}}, // so may the broker
	{"--max-time ", []int{term.ExitDone, term.ExitTime}},
	{"--max-pages ", []int{term.ExitDone, term.ExitPages}},
}

// block is a block of code of a page.
type block struct {
	line int    // of its first line, from 1
	kind string // "" if it is indented
	text string
	said string // the last line of text before it
}

// blocksOf returns the blocks of code of a page.
func blocksOf(page string) (list []block) {
	var open *block
	last := ""
	for i, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case open != nil && open.kind != "" && isFence:
			list, open = append(list, *open), nil
		case open != nil && (open.kind != "" || indented):
			open.text += code + "\n"
		case isFence:
			open = &block{line: i + 2, kind: fence, said: last}
		case indented:
			open = &block{line: i + 1, text: code + "\n", said: last}
		default:
			if open != nil {
				list, open = append(list, *open), nil
			}
			if line != "" {
				last = line
			}
		}
	}
	return list
}

// commandsOf returns the commands of a block, one for each line and those that continue it.
func commandsOf(b block) []string {
	text := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(b.text, "")
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return s == "" || s[0] == '#' })
}

// programsOf returns the arguments of each program that a command runs.
func programsOf(command string) (list [][]string) {
	command, _, _ = strings.Cut(command, " #")
	command = regexp.MustCompile(`[0-9]?>+ ?(&[0-9]|\S+)`).ReplaceAllString(command, "")
	for _, part := range regexp.MustCompile(` *(?:\||&&|;)(?: +|$)| &$`).Split(command, -1) {
		args := shellWords(part)
		if len(args) > 0 && args[0] == "sudo" {
			args = args[1:]
			if args[0] == "-u" {
				args = args[2:]
			}
		}
		if len(args) > 0 {
			list = append(list, args)
		}
	}
	return list
}

// TestTutorials: the commands of each tutorial work as they are printed, in their order, from an empty
// directory, and print what the page shows. A web on loopback has all hosts.
func TestTutorials(t *testing.T) {
	pages, err := filepath.Glob("../docs/tutorials/[a-z]*.md")
	must(t, err)
	if len(pages) < 5 {
		t.Fatalf("tutorials: %q", pages)
	}
	readmeWeb(t)
	t.Setenv("DRUMBEAT_CONNECTIONS", "100")
	t.Setenv("DRUMBEAT_CLUSTER_LEASE", "1m") // nodes begin to fetch after 3 s instead of 30 s
	t.Setenv("DRUMBEAT_CLUSTER_STREAM", "64MiB")
	t.Setenv("DRUMBEAT_CLUSTER_LEASES", "64MiB") // a machine with a nearly full disk will do
	// The broker and the synthetic web get other ports than those printed, which other programs may have.
	broker, web := brokerAddr(t), 0
	_, port, err := net.SplitHostPort(brokerAddr(t)) // the two after it are most likely free, too
	must(t, err)
	web, err = strconv.Atoi(port)
	must(t, err)
	ports := strings.NewReplacer("127.0.0.1:4222", broker, "8053", port, "8054", strconv.Itoa(web+1),
		"8055", strconv.Itoa(web+2), "sleep 10\n", untilItWorks(broker))
	for _, name := range pages {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			must(t, err)
			page := string(text)
			if strings.Contains(page, "sleep ") {
				notShort(t)
			}
			printed, ran := typeTutorial(t, page, ports)
			if ran < 4 {
				t.Errorf("%d commands", ran)
			}
			checkPrinted(t, page, printed)
		})
	}
}

// untilItWorks is what the test types instead of "sleep 10": a busy machine takes longer until all nodes fetch.
func untilItWorks(broker string) string {
	return "for i in {1..100}; do drumbeat cluster status cluster.json --cluster nats://" + broker +
		" 2>/dev/null | grep -q ^working: && break; sleep 0.5; done\n"
}

// typeTutorial runs the commands of a page and returns all their output and their number.
func typeTutorial(t *testing.T, page string, ports *strings.Replacer) (printed string, ran int) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	must(t, err)
	t.Chdir(dir)
	must(t, os.WriteFile(dir+"/crawl.toml", nil, 0o600))
	command := fmt.Appendf(nil, "#!/bin/sh\n%s=main exec %s \"$@\"\n", term.ChildMode, self)
	must(t, os.WriteFile(bin+"/drumbeat", command, 0o700))
	var script strings.Builder
	script.WriteString("trap 'trap \"\" TERM; kill 0' TERM\n") // with all that runs in the background
	commands := map[int]string{}
	for _, b := range blocksOf(page) {
		if b.kind == "toml" { // a configuration that the reader writes
			must(t, os.WriteFile(dir+"/crawl.toml", []byte(b.text), 0o600))
		}
		if b.kind != "" {
			checkPlanned(t, b)
			continue
		}
		for i, command := range commandsOf(b) {
			if !isTyped(t, b, command) {
				continue
			}
			ran++
			number := b.line*100 + i
			commands[number] = command
			fmt.Fprintf(&script, "%s\necho $? %d >>%s/codes\n", command, number, bin)
		}
	}
	script.WriteString("wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	out, err := os.Create(bin + "/out")
	must(t, err)
	defer out.Close()
	sh := exec.CommandContext(ctx, "bash", "-c", ports.Replace(script.String()))
	sh.Dir, sh.Stdout, sh.Stderr = dir, out, out
	sh.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	runtime.LockOSThread() // the shell gets the signal when this thread ends, as it does when the test is killed
	defer runtime.UnlockOSThread()
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	sh.Cancel = func() error { return syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }
	ended := sh.Run()
	text, err := os.ReadFile(bin + "/out")
	must(t, err)
	logs, err := filepath.Glob(dir + "/*.log") // output of what runs in the background
	must(t, err)
	for _, name := range logs {
		more, err := os.ReadFile(name)
		must(t, err)
		text = fmt.Appendf(text, "== %s\n%s", filepath.Base(name), more)
	}
	if ended != nil {
		t.Fatalf("%v:\n%s", ended, text)
	}
	checkCodes(t, bin+"/codes", commands, string(text))
	return string(text), ran
}

// isTyped tells whether the test runs a command: all its programs or none must be such.
func isTyped(t *testing.T, b block, command string) bool {
	t.Helper()
	typed, known := false, true
	for i, args := range programsOf(command) {
		is, ok := tutorialPrograms[args[0]]
		if !ok {
			t.Errorf("line %d: %q is not in the table of programs", b.line, args[0])
		}
		if known = known && ok; i > 0 && is != typed {
			t.Errorf("line %d: the test would have to run a part of %q", b.line, command)
		}
		typed = is
	}
	return typed && known
}

// checkPlanned checks the commands of a block that is not run.
func checkPlanned(t *testing.T, b block) {
	t.Helper()
	if b.kind != "sh" {
		if !slices.Contains([]string{"text", "sql", "ini", "toml"}, b.kind) {
			t.Errorf("line %d: a block of kind %q", b.line, b.kind)
		}
		return
	}
	if !strings.Contains(b.said, plannedMark) {
		t.Errorf("line %d: nothing says that the commands are planned: %q", b.line, b.said)
	}
	for _, command := range commandsOf(b) {
		for _, args := range programsOf(command) {
			if _, ok := tutorialPrograms[args[0]]; !ok {
				t.Errorf("line %d: %q is not in the table of programs", b.line, args[0])
			}
		}
		checkPageCommand(t, "planned", command)
	}
}

// checkCodes compares the exit codes that the shell has written with those expected.
func checkCodes(t *testing.T, name string, commands map[int]string, printed string) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	lines := strings.Fields(string(text))
	if len(lines) != 2*len(commands) {
		t.Errorf("%d of %d commands have ended", len(lines)/2, len(commands))
	}
	failed := false
	for pair := range slices.Chunk(lines, 2) {
		code, err := strconv.Atoi(pair[0])
		must(t, err)
		number, err := strconv.Atoi(pair[1])
		must(t, err)
		want := []int{term.ExitDone}
		for _, row := range tutorialCodes {
			if strings.Contains(commands[number], row.part) {
				want = row.codes
			}
		}
		if !slices.Contains(want, code) {
			failed = true
			t.Errorf("line %d: %s: exit code %d, want %v", number/100, commands[number], code, want)
		}
	}
	if failed {
		t.Log(printed)
	}
}

// checkPrinted: each line of output that the page shows begins, up to its first number, like a printed one.
func checkPrinted(t *testing.T, page, printed string) {
	t.Helper()
	printed = "\n" + regexp.MustCompile(` +`).ReplaceAllString(printed, " ")
	typed := false
	for _, b := range blocksOf(page) {
		if b.kind != "text" {
			typed = b.kind == ""
			continue
		}
		for line := range strings.Lines(b.text) {
			label := strings.Join(strings.Fields(strings.TrimRight(line, "…\n")), " ")
			if at := strings.IndexAny(label, "0123456789…"); at >= 0 {
				label = label[:at]
			}
			if typed && !strings.Contains(printed, label) {
				t.Errorf("line %d: no command has printed %q", b.line, label)
			}
		}
	}
}

// TestPageCommands: drumbeat takes the arguments of each of its commands in pages that nobody types in order. A command
// begins its line, after a prompt or variables at most; "…" and [ ] stand for what the reader knows.
func TestPageCommands(t *testing.T) {
	root, err := filepath.Abs("../docs")
	must(t, err)
	docs := os.DirFS(root)
	t.Chdir(t.TempDir())
	for _, name := range []string{"drumbeat.toml", "crawl.toml", "c.toml"} { // which the commands read
		must(t, os.WriteFile(name, nil, 0o600))
	}
	found := 0
	for _, pattern := range []string{"*.md", "start/*.md", "howto/*.md", "howto/*/*.md", "how-it-works/*.md"} {
		names, err := fs.Glob(docs, pattern)
		must(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(docs, name)
			must(t, err)
			for _, b := range blocksOf(string(text)) {
				for _, command := range commandsOf(b) {
					found += checkPageCommand(t, name, command)
				}
			}
		}
	}
	if found < 150 {
		t.Errorf("%d commands", found)
	}
}

// checkPageCommand checks the commands of drumbeat in a line, and returns their number.
func checkPageCommand(t *testing.T, name, command string) (found int) {
	t.Helper()
	for _, args := range programsOf(strings.TrimPrefix(command, "$ ")) {
		if args[0] != "drumbeat" && args[0] != "./drumbeat" {
			continue
		}
		found++
		args = slices.DeleteFunc(args[1:], func(a string) bool { return a == "…" })
		var c commands
		if _, err := cmdtest.Parser(t, &c).Parse(args); err != nil {
			t.Errorf("%s: %q: %v", name, command, err)
		}
	}
	return found
}
