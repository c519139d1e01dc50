package mutate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	which    = flag.String("mutants", "", "mutants to try: ci, all, or a regular expression (default with -long: ci)")
	longRuns = flag.Bool("long", false, "try the mutants of CI")
	cutsFlag = flag.Int("cuts", 600, "cuts of the simulation for each mutant")
	seedFlag = flag.Uint64("seed", 1, "seed of the simulation")
)

// simulation is the test that must catch a mutant without a test of its own.
const simulation = "^(TestCutsInTurn|TestCutsAtRandom)$"

// quickMutant is the mutant to try by default.
const quickMutant = "checkpoint-not-synced"

// perMutant bounds the time of one test run.
const perMutant = 10 * time.Minute

// TestMutantsApply: each mutant's text is in the source exactly once.
func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for i := range mutants {
		m := &mutants[i]
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if _, err := m.text(); err != nil {
			t.Error(err)
		}
	}
}

// TestMutants tries mutants: the simulation must catch each.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("rebuilds the crawler for each mutant")
	}
	if *which == "" {
		if *which = "^" + quickMutant + "$"; *longRuns {
			*which = "ci"
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	names, err := regexp.Compile(*which)
	if err != nil {
		t.Fatal(err)
	}
	tried, caught := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if *which != "all" && !(*which == "ci" && m.ci) && !(*which != "ci" && names.MatchString(m.name)) {
			continue
		}
		tried++
		began := time.Now()
		how, err := m.try(t)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			how = "SURVIVES"
		} else {
			caught++
		}
		fmt.Fprintf(w, "%s\t%s\t%.0fs\t%s\n", m.name, m.file, time.Since(began).Seconds(), how)
		t.Logf("%s: %s", m.name, how)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d mutants caught, seed %d\n%s", caught, tried, *seedFlag, table.String())
}

// text returns the changed file.
func (m *mutant) text() (string, error) {
	data, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	text := string(data)
	for _, e := range m.edits {
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("mutant %s: %s contains the text %d times, want once: %q", m.name, m.file, n, e.old)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text, nil
}

// try runs the tests with the mutant and returns their first failure. It returns an error if they pass, or
// if the mutant does not build.
func (m *mutant) try(t *testing.T) (how string, err error) {
	t.Helper()
	text, err := m.text()
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	real, err := filepath.Abs(filepath.Join("../..", filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {real: changed}})
	if err == nil {
		err = errors.Join(os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600))
	}
	if err != nil {
		return "", err
	}
	pkg, test := "./crawl", simulation
	if m.pkg != "" {
		pkg, test = m.pkg, m.test
	}
	args := []string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "5m", "-run", test, pkg}
	if m.pkg == "" {
		args = append(args, "-args", "-long", "-cuts", fmt.Sprint(*cutsFlag), "-seed", fmt.Sprint(*seedFlag))
	}
	ctx, cancel := context.WithTimeout(t.Context(), perMutant)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	switch {
	case err == nil:
		return "", errors.New("no test caught it")
	case !errors.As(err, &ee):
		return "", err
	case strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]"):
		return "", fmt.Errorf("it does not build:\n%s", out)
	case strings.Contains(string(out), "panic: test timed out"):
		return "", errors.New("no verdict: the tests timed out")
	}
	return firstFault(string(out)), nil
}

var (
	testLine  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^=== NAME +(\S+)`)
	panicLine = regexp.MustCompile(`(?m)^(panic|fatal error): (.*)$`)
	skipLine  = regexp.MustCompile(`^(world|life|run \d+: at|cut before|step|node \d+: \d+ pages,) `)
)

// firstFault returns the first failure message of a test, or its panic.
func firstFault(out string) string {
	if p := panicLine.FindStringSubmatch(out); p != nil {
		return "panic: " + clip(p[2])
	}
	test := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if f := testLine.FindStringSubmatch(line); f != nil {
			test = f[1] + f[2]
		}
		if i := strings.Index(line, "_test.go:"); i >= 0 {
			_, line, _ = strings.Cut(line[i:], " ")
		}
		if line == "" || skipLine.MatchString(line+" ") || strings.HasPrefix(line, "---") ||
			strings.HasPrefix(line, "===") {
			continue
		}
		if test == "" {
			test = "simulation"
		}
		return clip(line)
	}
	return "failed"
}

func clip(s string) string {
	if r := []rune(s); len(r) > 110 {
		return string(r[:110]) + "…"
	}
	return s
}
