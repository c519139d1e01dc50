package cmd

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drumbeat/internal/cmdtest"
)

const packaging = "../packaging/"

func readPackaging(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(packaging + name)
	must(t, err)
	return string(text)
}

// TestPackagedCommands: the command lines in packaging must parse.
func TestPackagedCommands(t *testing.T) {
	for _, from := range []struct{ file, line string }{
		{"docker/Dockerfile", `(?m)^# +docker run -v \S+ drumbeat (.+)$`},
		{"docker/Dockerfile", `(?m)^ +CMD \["/drumbeat", (.+)\]$`},
		{"docker/Dockerfile", `(?m)^CMD \[(.+)\]$`},
		{"docker/compose.yaml", `(?m)^ +command: \[(\w.+)\]$`},
		{"systemd/drumbeat.service", `(?m)^ExecStart=/usr/bin/drumbeat (.+)$`},
		{"systemd/drumbeat@.service", `(?m)^ExecStart=/usr/bin/drumbeat (.+)$`},
		{"prometheus/alerts.yml", `drumbeat (ctl \w+)`},
	} {
		found := regexp.MustCompile(from.line).FindAllStringSubmatch(readPackaging(t, from.file), -1)
		if len(found) == 0 {
			t.Errorf("%s has no line %s", from.file, from.line)
		}
		for _, match := range found {
			var c commands
			p := cmdtest.Parser(t, &c)
			// Arguments stand between spaces, or in a list of JSON or YAML.
			args := strings.Fields(strings.NewReplacer(`"`, "", ", ", " ", "%i", "3").Replace(match[1]))
			if _, err := p.Parse(args); err != nil {
				t.Errorf("%s: %q: %v", from.file, args, err)
			}
		}
	}
}

// TestPackagedFlags: the flags of crawl that packaging names, and their variables, must exist.
func TestPackagedFlags(t *testing.T) {
	var c commands
	p := cmdtest.Parser(t, &c)
	known, admin := map[string]bool{}, ""
	for _, flag := range p.Model.Children[0].Flags { // crawl
		known["--"+flag.Name], known[flag.Tag.Envs[0]] = true, true
		if flag.Name == "admin" {
			admin = flag.Default
		}
	}
	variable, word := regexp.MustCompile(`\bDRUMBEAT_\w+`), regexp.MustCompile(`\bDRUMBEAT_\w+|--[a-z][a-z-]+[.\w]*`)
	names := 0
	err := filepath.WalkDir(packaging, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		re := word
		// TestComposeCommands checks its flags.
		if filepath.Base(path) == "Dockerfile" || strings.Contains(path, clusterDir) ||
			strings.HasPrefix(path, packaging+"deb/") {
			re = variable // these have flags of other programs
		}
		text, err := os.ReadFile(path)
		for _, name := range re.FindAllString(string(text), -1) {
			name = strings.TrimRight(name, ".")
			if strings.Contains(name, ".") { // a flag of Prometheus
				continue
			}
			names++
			if !known[name] {
				t.Errorf("%s names %s, which crawl does not have", path, name)
			}
		}
		return err
	})
	if err != nil || names < 15 {
		t.Errorf("found only %d names, %v", names, err)
	}
	for _, file := range []string{"docker/prometheus.yml", "prometheus/prometheus.yml"} {
		if !strings.Contains(readPackaging(t, file), `targets: ["`+admin+`"]`) {
			t.Errorf("%s does not scrape %s, the default of --admin", file, admin)
		}
	}
}

// TestPackagedFiles: the files that the compose file mounts and those in the Debian package must exist.
func TestPackagedFiles(t *testing.T) {
	for _, from := range []struct{ file, name, dir string }{
		{"docker/compose.yaml", `(?m)^ +- (\.[^:]+):`, packaging + "docker"},
		{"deb/nfpm.yaml", `(?m)(?:src|postinstall|preremove|postremove): (packaging/[^,\n]+)`, ".."},
	} {
		found := regexp.MustCompile(from.name).FindAllStringSubmatch(readPackaging(t, from.file), -1)
		if len(found) < 6 {
			t.Errorf("%s: found only %v", from.file, found)
		}
		for _, match := range found {
			if _, err := os.Stat(filepath.Join(from.dir, match[1])); err != nil {
				t.Errorf("%s: %v", from.file, err)
			}
		}
	}
}

// TestPackagedScripts: an upgrade of the package restarts the service of a crawl of one node, and no node of a cluster;
// neither does needrestart after it.
func TestPackagedScripts(t *testing.T) {
	dir := t.TempDir()
	calls, systemd := filepath.Join(dir, "calls"), filepath.Join(dir, "systemd")
	must(t, os.Mkdir(systemd, 0o700))
	fake := "#!/bin/sh\necho \"${0##*/} $*\" >>" + calls + "\n"
	for _, name := range []string{"systemctl", "systemd-sysusers"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(fake), 0o700))
	}
	for _, script := range [][]string{{"prerm", "upgrade", "0.2.0"}, {"postrm", "upgrade", "0.2.0"},
		{"postinst", "configure", "0.1.0"}} {
		text := strings.ReplaceAll(readPackaging(t, "deb/"+script[0]), "/run/systemd/system", systemd)
		cmd := exec.Command("sh", append([]string{"-c", text}, script...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":/usr/bin:/bin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", script, err, out)
		}
	}
	called, err := os.ReadFile(calls)
	must(t, err)
	const want = "systemctl daemon-reload\nsystemd-sysusers drumbeat.conf\nsystemctl daemon-reload\n" +
		"systemctl try-restart drumbeat.service\n"
	if string(called) != want {
		t.Errorf("an upgrade calls %swant %s", called, want)
	}
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Skip("perl, which reads needrestart's configuration, is not installed")
	}
	const ask = `our %nrconf; defined(do $ARGV[0]) or die $@; for my $unit ('drumbeat.service', 'drumbeat@2.service') {
		print "$unit ", (grep { $unit =~ /$_/ } keys %{$nrconf{override_rc}}) ? "kept" : "restarted", "\n" }`
	out, err := exec.Command(perl, "-we", ask, packaging+"deb/needrestart.conf").CombinedOutput()
	if err != nil || string(out) != "drumbeat.service restarted\ndrumbeat@2.service kept\n" {
		t.Errorf("needrestart: %v: %s", err, out)
	}
}

// TestPackagedUnits: the unit of a node is that of a crawl but for its names and flags, and systemd takes both.
func TestPackagedUnits(t *testing.T) {
	one, node := readPackaging(t, "systemd/drumbeat.service"), readPackaging(t, "systemd/drumbeat@.service")
	_, one, _ = strings.Cut(one, "Documentation=")
	_, rest, _ := strings.Cut(node, "Documentation=")
	rest = strings.NewReplacer("Environment=DRUMBEAT_DIR=/var/lib/drumbeat/node-%i\n", "",
		"EnvironmentFile=-/etc/drumbeat/node-%i.env\n", "", "cluster.env", "drumbeat.env", " --node %i",
		"").Replace(rest)
	if one == "" || one != rest {
		t.Errorf("drumbeat@.service differs from drumbeat.service:\n%s", rest)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for name, text := range map[string]string{"drumbeat.service": readPackaging(t, "systemd/drumbeat.service"),
		"drumbeat@1.service": node} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/bin/drumbeat", "/bin/true")),
			0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command("systemd-analyze", "verify", file).CombinedOutput() // it may exit with 0 all the same
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, name) {
				t.Errorf("%s", line)
			}
		}
	}
}
