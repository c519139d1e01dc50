// Package profile writes profiles of a run into a directory, for `go tool pprof`:
//
//	cpu.pprof        CPU time, sampled 100 times a second
//	allocs.pprof     allocations since the start of the process
//	heap.pprof       live memory at the end
//	mutex.pprof      waits for locks; one contention in 100 is sampled
//	block.pprof      waits for channels, locks and the network; one sample for 100 µs blocked
//	goroutine.pprof  stacks of the goroutines at the end
//
// Together they cost about one percent of the run time.
//
// # Contract
//
// A process can have only one running profile: Start fails if there is another. Files of an earlier run are
// replaced. The sampling rates apply to the whole process. stop restores the rate of mutex.pprof, and sets
// the rate of block.pprof to 0.
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
	mutexFraction = 100     // one contention event in 100 is sampled
	blockRate     = 100_000 // nanoseconds blocked for one sample
)

// Start starts the profiles and creates dir if needed. stop ends them and writes the files; it must be
// called exactly once.
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
