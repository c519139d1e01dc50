package crawl

import (
	"slices"
	"strings"
	"sync"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// secretEnv gives the crawl variables of the environment that --sites names (env:NAME), and the hook an environment
// without them: a hook parses hostile pages, so a bug in it must not give the credentials of sites away. It is safe for
// concurrent use. It keeps the names, which a file of --sites bounds.
type secretEnv struct {
	app *term.App

	mu    sync.Mutex // guards names
	names map[string]bool
}

// hiddenPrefixes begin the names of variables that a hook never gets: the flags of this program, and the keys of the
// object store.
var hiddenPrefixes = [...]string{"DRUMBEAT_", "AWS_"}

// hideSecrets makes the crawl take its secrets from the environment of a, and the hook get none of them.
func hideSecrets(o *crawl.Options, a *term.App) {
	s := &secretEnv{app: a, names: map[string]bool{}}
	o.Admission.Env = s.lookup
	if o.Hook != nil {
		o.Hook.Env = s.environ
	}
}

// lookup returns a variable that a secret of --sites names, and hides it from now on.
func (s *secretEnv) lookup(name string) (value string, ok bool) {
	s.mu.Lock()
	s.names[name] = true
	s.mu.Unlock()
	return s.app.Environment(name)
}

// environ returns the environment of a hook.
func (s *secretEnv) environ() []string {
	if s.app.Environ == nil {
		return []string{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(s.app.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		hidden := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		return s.names[name] || slices.ContainsFunc(hiddenPrefixes[:], hidden)
	})
}
