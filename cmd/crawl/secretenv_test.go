package crawl

import (
	"os"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/hook"
)

// TestSecretEnvironment: a hook gets the environment without what --sites names, this program's flags and the object
// store's keys. Names that a later reading of --sites adds are hidden, too.
func TestSecretEnvironment(t *testing.T) {
	for name, value := range map[string]string{"SITE_TOKEN": "a", "LATER_TOKEN": "b", "AWS_SECRET_ACCESS_KEY": "c",
		"DRUMBEAT_CONTACT": "d", "PLAIN": "e=f"} {
		t.Setenv(name, value)
	}
	o := &crawl.Options{Hook: &hook.Options{}}
	hideSecrets(o, &term.App{Env: os.LookupEnv, Environ: os.Environ})
	names := func() (list []string) {
		for _, line := range o.Hook.Env() {
			name, _, _ := strings.Cut(line, "=")
			list = append(list, name)
		}
		return list
	}
	if v, ok := o.Admission.Env("SITE_TOKEN"); v != "a" || !ok {
		t.Errorf("the crawl gets %q, %v", v, ok)
	}
	if got := names(); !slices.Contains(got, "PLAIN") || !slices.Contains(got, "LATER_TOKEN") ||
		slices.Contains(got, "SITE_TOKEN") {
		t.Errorf("the hook gets %q", got)
	}
	o.Admission.Env("LATER_TOKEN")
	for _, hidden := range []string{"SITE_TOKEN", "LATER_TOKEN", "AWS_SECRET_ACCESS_KEY", "DRUMBEAT_CONTACT"} {
		if slices.Contains(names(), hidden) {
			t.Errorf("the hook gets %s", hidden)
		}
	}
}
