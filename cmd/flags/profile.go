package flags

import (
	"errors"

	"drumbeat/internal/profile"
)

// Profiling is the flag of all commands that can be profiled.
type Profiling struct {
	Profile string `placeholder:"DIR"`
}

// Profiled runs f, under the profiler if --profile is set.
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
