package checkpoint

import (
	"encoding/json"
	"fmt"
	"sync"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/state"
)

// Structure is one structure that the crawl has on disk. The table of structures determines what is opened,
// frozen, saved in a checkpoint, and closed.
type Structure struct {
	Name     string
	open     func(m *state.Manifest) error
	freeze   func() frozenPart // nil until opened, like close
	close    func() error
	pausable pausable // nil unless it emits
}

// frozenPart is the frozen state of a structure on its way into the manifest (docs/how-it-works/architecture.md,
// "Checkpoints").
type frozenPart struct {
	name   string
	save   func(*disk.Tails) (json.RawMessage, error)
	commit func() error
}

// store is the interface of the structures on disk, with state S and frozen form F.
type store[S any, F frozenStore[S]] interface {
	Freeze() F
	Close() error
}

type frozenStore[S any] interface {
	Save(*disk.Tails) (*S, error)
	Commit() error
}

// Row returns a row of the table. open opens the structure at a state, nil for a new one, and Row stores it
// at at.
func Row[S any, F frozenStore[S], T store[S, F]](name string, at *T, open func(*S) (T, error)) *Structure {
	r := &Structure{Name: name}
	r.open = func(m *state.Manifest) error {
		st, err := state.Part[S](m, name)
		if err != nil {
			return err
		}
		s, err := open(st)
		if err != nil {
			return err
		}
		*at = s
		r.pausable, _ = any(s).(pausable)
		r.close, r.freeze = s.Close, func() frozenPart { return freezePart(name, s.Freeze()) }
		return nil
	}
	return r
}

func freezePart[S any](name string, f frozenStore[S]) frozenPart {
	return frozenPart{
		name: name,
		save: func(t *disk.Tails) (json.RawMessage, error) {
			s, err := f.Save(t)
			if err != nil {
				return nil, fmt.Errorf("crawl: checkpoint of %s: %w", name, err)
			}
			return json.Marshal(s)
		},
		commit: func() error {
			if err := f.Commit(); err != nil {
				return fmt.Errorf("crawl: after checkpoint of %s: %w", name, err)
			}
			return nil
		},
	}
}

// Copy copies what a stage holds in RAM only, without I/O. The transaction lock is held exclusively.
type Copy func() Copied

// Copied is what a checkpoint does with the state that a stage holds in RAM only.
type Copied struct {
	// Save puts the state into the manifest, or into the tail file and its place into the manifest; nil:
	// there is none.
	Save func(m *state.Manifest, t *disk.Tails) error
	// Durable is called when the manifest is durable; nil: the stage does not need to know. Its error ends
	// the crawl.
	Durable func(m *state.Manifest) error
}

// Encode encodes a copied state.
type Encode = func() ([]byte, error)

// Tail is the Copy of a state in the tail file, whose place in the manifest is at at. now copies the state;
// nil: there is none.
func Tail(what string, at func(*state.Manifest) *disk.Ref, now func() Encode) Copy {
	return func() Copied {
		encode := now()
		if encode == nil {
			return Copied{}
		}
		return Copied{Save: func(m *state.Manifest, t *disk.Tails) error {
			data, err := encode()
			if err != nil {
				return err
			}
			if *at(m), err = t.Write(0, data); err != nil {
				return fmt.Errorf("crawl: checkpoint %d: %s: %w", m.Gen, what, err)
			}
			return nil
		}}
	}
}

// pausable is a structure whose emissions must end before a checkpoint takes the transaction lock.
type pausable interface {
	Pause()
	Resume()
}

// pauseAll returns when no emission is running. It pauses all structures in parallel, so the wait is that
// of the slowest.
func pauseAll(all []pausable) {
	var asked sync.WaitGroup
	for _, p := range all {
		asked.Go(func() {
			defer bug.Fatal()
			p.Pause()
		})
	}
	asked.Wait()
}
