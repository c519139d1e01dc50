// Package profile writes the profiles of a run into a directory, for `go tool pprof`: where CPU time went (cpu.pprof), what
// was allocated (allocs.pprof) and what lived at the end (heap.pprof), what waited for locks (mutex.pprof) and for channels,
// locks and the network together (block.pprof, goroutine.pprof).
//
// Only one profile can be taken in a process at a time. CPU is sampled 100 times a second, lock contention one time in a
// hundred, blocking one event for every 100 µs blocked: together about one percent of the run.
package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

const (
	mutexFraction = 100     // one of so many contention events is sampled
	blockRate     = 100_000 // ns blocked for one sample
)

// Start begins the profiles of a directory, which is made if need be. The function it returns ends them and writes the
// files; it must be called once.
func Start(dir string) (stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), cpu.Close())
	}
	before := runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(blockRate)
	return func() error {
		pprof.StopCPUProfile()
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
		errs := []error{cpu.Close()}
		for _, name := range []string{"allocs", "heap", "mutex", "block", "goroutine"} {
			errs = append(errs, write(filepath.Join(dir, name+".pprof"), name))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return nil
	}, nil
}

func write(file, name string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}
