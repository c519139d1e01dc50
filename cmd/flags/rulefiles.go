package flags

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"drumbeat/admit"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/weburl"
)

// Scoping holds the rules that were read from the files of --rules and --blacklist, and the settings from that of
// --sites.
type Scoping struct {
	Rules, Blacklist *scope.Set // nil without files
	Sites            *sites.Set
}

// Read reads the files. A command calls it before it writes anything, so a fault in a rule changes nothing.
func (f *RuleFiles) Read(privateSuffixes, keepEscapes bool) (Scoping, error) {
	if len(f.Rules)+len(f.Blacklist) == 0 {
		return Scoping{}, nil
	}
	suffixes := weburl.NewSuffixes(privateSuffixes)
	rules, err1 := admit.ReadRules(disk.OS(), scope.Rules, suffixes, f.Rules, keepEscapes)
	blacklist, err2 := admit.ReadRules(disk.OS(), scope.Blacklist, suffixes, f.Blacklist, keepEscapes)
	if err := errors.Join(ofFile("--rules", err1), ofFile("--blacklist", err2)); err != nil {
		return Scoping{}, term.Usage(err)
	}
	return Scoping{Rules: rules, Blacklist: blacklist}, nil
}

// ofFile names the flag of a file that can't be read. A fault in a file names its file and line.
func ofFile(flag string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return err
}

// ReadSites reads the file of --sites. opt.Env is not nil if secrets are to be read too.
func (f *RuleFiles) ReadSites(opt sites.Options) (*sites.Set, error) {
	set, err := admit.ReadSettings(disk.OS(), f.Sites, opt)
	if err != nil {
		return nil, term.Usage(ofFile("--sites", err))
	}
	return set, nil
}

// Print prints the number of rules in force.
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
	if s.Sites == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "# sites: %v\n", s.Sites.Stats())
	return err
}

// RuleFiles holds the flags that name files of rules.
type RuleFiles struct {
	Rules     []string `group:"what" common:"" placeholder:"FILE"`
	Blacklist []string `group:"what" common:"" placeholder:"FILE"`
	Sites     string   `group:"what" placeholder:"FILE"`
}

// Apply sets a crawl's options.
func (f *RuleFiles) Apply(o *crawl.AdmissionOptions) {
	o.Rules, o.Blacklist, o.Sites = f.Rules, f.Blacklist, f.Sites
}
