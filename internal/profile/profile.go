// Package profile writes the profiles of a run into a directory, for `go tool pprof`:
//
//	cpu.pprof        where CPU time went, sampled 100 times a second
//	allocs.pprof     what was allocated since the start of the process
//	heap.pprof       what lived at the end
//	mutex.pprof      what waited for locks; one contention in a hundred is sampled
//	block.pprof      what waited for channels, locks and the network; one event for every 100 µs blocked
//	goroutine.pprof  where goroutines were at the end
//
// Together they cost about one percent of the run.
//
// # Contract
//
// Only one profile can be taken in a process at a time: Start fails while there is another. Files of an earlier run are
// replaced. The rates of sampling are the process's, and back to what they were after stop.
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
