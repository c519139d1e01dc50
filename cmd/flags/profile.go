package flags

import (
	"errors"

	"drumbeat/internal/profile"
)

// Profiling is the one flag of everything that can be profiled.
type Profiling struct {
	Profile string `placeholder:"DIR" help:"Put profiles of this process (CPU, allocations, locks, blocking) into DIR, which is made if need be: for go tool pprof."`
}

// Profiled runs f, under the profiler if that is asked for.
func (p Profiling) Profiled(f func() error) error {
	if p.Profile == "" {
		return f()
	}
	stop, err := profile.Start(p.Profile)
	if err != nil {
		return err
	}
	return errors.Join(f(), stop())
}
