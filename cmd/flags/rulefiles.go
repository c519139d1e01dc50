package flags

import (
	"errors"
	"fmt"
	"io"

	"drumbeat/cmd/term"
	"drumbeat/crawl/admit"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// Scoping is what the files of --rules and --blacklist say.
type Scoping struct {
	Rules, Blacklist *scope.Set // nil without files
}

// Read reads the files, to know their faults before anything begins.
func (f *RuleFiles) Read(privateSuffixes, keepEscapes bool) (Scoping, error) {
	if len(f.Rules)+len(f.Blacklist) == 0 {
		return Scoping{}, nil
	}
	suffixes := weburl.NewSuffixes(privateSuffixes)
	rules, err1 := admit.ReadRules(disk.OS(), scope.Rules, suffixes, f.Rules, keepEscapes)
	blacklist, err2 := admit.ReadRules(disk.OS(), scope.Blacklist, suffixes, f.Blacklist, keepEscapes)
	if err := errors.Join(err1, err2); err != nil {
		return Scoping{}, term.Usage(err)
	}
	return Scoping{rules, blacklist}, nil
}

// Print says what is in force.
func (s Scoping) Print(out io.Writer) error {
	for _, l := range []struct {
		name string
		set  *scope.Set
	}{{"rules", s.Rules}, {"blacklist", s.Blacklist}} {
		if l.set == nil {
			continue
		}
		if _, err := fmt.Fprintf(out, "# %s: %v\n", l.name, l.set.Stats()); err != nil {
			return err
		}
	}
	return nil
}

// RuleFiles say which URLs are taken, and who is left alone.
type RuleFiles struct {
	Rules     []string `group:"what" placeholder:"FILE" help:"Scope rules (docs/RULES.md): hosts, PLDs, URL prefixes, SURTs and expressions that are taken or left out; the first that matches wins, and goes before --scope. Repeatable. Read again on SIGHUP."`
	Blacklist []string `group:"what" placeholder:"FILE" help:"Never contact these hosts, PLDs and networks, not even for queued URLs (docs/RULES.md). Repeatable. Read again on SIGHUP, which takes effect within seconds."`
}
