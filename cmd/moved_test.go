package cmd

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestMovedFlags: a flag of an earlier release is refused on the command line, in the environment and in a
// configuration file, with a text that names its place today; that place exists.
func TestMovedFlags(t *testing.T) {
	var c commands
	crawl := cmdtest.Parser(t, &c).Model.Children[0]
	for i, old := range slices.Sorted(maps.Keys(flags.Moved)) {
		now := flags.Moved[old]
		if flagOf(crawl, old) != nil {
			t.Errorf("--%s is a flag of crawl", old)
		}
		if name, part, ok := strings.Cut(strings.TrimPrefix(now, "--"), " "); strings.HasPrefix(now, "--") {
			flag := flagOf(crawl, name)
			name, _, _ := strings.Cut(part, "=")
			switch {
			case flag == nil || !ok:
				t.Errorf("--%s is %s, which does not exist", old, now)
			case name != "2MiB,sitemap" &&
				!slices.ContainsFunc(flags.PartNames(flag.Value), func(n string) bool { return n == name }):
				t.Errorf("--%s is %s, but --%s has the parts %q", old, now, flag.Name, flags.PartNames(flag.Value))
			}
		}
		refused := func(from string, code int, errs string) {
			if code != term.ExitUsage || !strings.Contains(errs, now) || strings.Contains(errs, "mean") {
				t.Errorf("%s: %s: exit code %d, %q; want %d and %q", old, from, code, errs, term.ExitUsage, now)
			}
		}
		code, _, errs := cmdtest.Run[commands](t, "", "crawl", "--"+old+"=1", "http://a.test/")
		refused("command line", code, errs)
		if testing.Short() && i%8 > 0 {
			continue
		}
		_, _, err := parseConfig(t, "crawl", old+" = 1\n")
		if err == nil {
			t.Errorf("%s: accepted in a file", old)
			continue
		}
		refused("file", term.ExitUsage, err.Error())
		t.Run(old, func(t *testing.T) {
			t.Setenv("DRUMBEAT_"+strings.ToUpper(strings.ReplaceAll(old, "-", "_")), "1")
			code, _, errs := cmdtest.Run[commands](t, "", "crawl", "http://a.test/")
			refused("environment", code, errs)
		})
	}
}

func flagOf(command *kong.Node, name string) *kong.Flag {
	for _, flag := range command.Flags {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}
