package cmd

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/internal/cmdtest"
)

// foreign are flags of other programs, and of our scripts, that pages and scripts name.
const foreign = `audit bad-hosts bare bind blink-settings boot build build-arg build-isolation chown
cluster-politeness compile contenders data-binary dirty disable-background-networking disable-features
disable-gpu disable-pip-version-check drumbeat enable-automation exclude fail-with-body filter first-run flags
fork fund group headless health hide-scrollbars home-dir host-resolver-rules ignore-existing ignore-missing
include index inplace install-recommends interval ipc keep-unit kills least least-bare least-nostore least-wget2
lint-fatal listfiles log-prefix loglevel long make-rprivate map-root-user match minutes most most-bad most-cpu
mount mtime net network noprofile now numeric-owner offline one-file-system owner package-lock packager packages
pager pairs path-include pid platform port private-network proxy-bypass-list proxy-server rcfile register
remote-debugging-port rm root sandbox screenshot shell short show sidecar silent span-hosts spider start-period
storage syntax-only system tags tail target threshold train tries unit unix-socket user user-data-dir user-group
uts variant version warc-file warcio web webrtc-ip-handling-policy window-size work write `

var (
	flagName = regexp.MustCompile(`(?:^|[^a-zA-Z0-9-])--(?:no-)?([a-z][a-z0-9-]*[a-z0-9])(?:[ =]([a-z-]+)=)?`)
	variable = regexp.MustCompile(`\bDRUMBEAT_([A-Z0-9_]+)`)
)

// TestNamedFlags: each flag, each part of a flag and each variable that a page, a script or a unit names exists.
func TestNamedFlags(t *testing.T) {
	parts, variables := map[string][]string{"help": nil, "help-all": nil},
		[]string{"FUZZ", "LONG", "NIGHT", "REPRODUCE"}
	var visit func(*kong.Node)
	visit = func(node *kong.Node) {
		for _, flag := range node.Flags {
			parts[flag.Name] = append(parts[flag.Name], flags.PartNames(flag.Value)...)
			for _, name := range flag.Envs {
				variables = append(variables, strings.TrimPrefix(name, "DRUMBEAT_"))
			}
		}
		for _, child := range node.Children {
			visit(child)
		}
	}
	var c commands
	visit(cmdtest.Parser(t, &c).Model.Node)
	list, err := exec.Command("git", "ls-files", "--", "..").Output()
	if err != nil {
		t.Skipf("no list of files: %v", err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		path := strings.TrimPrefix(name, "../")
		if strings.HasPrefix(path, "changelog/") || path == "CHANGELOG.md" || strings.HasPrefix(path, "docs/bench/") ||
			!strings.HasSuffix(path, ".md") && !strings.HasPrefix(path, "scripts/") &&
				!strings.HasPrefix(path, "packaging/") {
			continue
		}
		text, err := os.ReadFile(name)
		must(t, err)
		for _, m := range flagName.FindAllStringSubmatch(string(text), -1) {
			have, ok := parts[m[1]]
			if !ok && !slices.Contains(strings.Fields(foreign), m[1]) {
				t.Errorf("%s: no flag --%s", path, m[1])
			}
			if len(have) > 0 && m[2] != "" && !slices.Contains(have, m[2]) {
				t.Errorf("%s: --%s has no part %s", path, m[1], m[2])
			}
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(variables, m[1]) && !slices.ContainsFunc(variables,
				func(v string) bool { return strings.HasPrefix(v, m[1]) && strings.HasSuffix(m[1], "_") }) {
				t.Errorf("%s: no variable DRUMBEAT_%s", path, m[1])
			}
		}
	}
}
