package account

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/state"
)

// TestSlowest: of durations noted at once, the longest is taken, once.
func TestSlowest(t *testing.T) {
	r := New(slog.New(slog.DiscardHandler), nil, nil)
	var notes sync.WaitGroup
	for i := range 8 {
		notes.Go(func() {
			for j := range 1000 {
				r.took(time.Duration(j * (i + 1)))
			}
		})
	}
	notes.Wait()
	if got := r.TakeSlowest(); got != 999*8 || r.TakeSlowest() != 0 {
		t.Errorf("the slowest: got %d, want %d", got, 999*8)
	}
}

// TestTransact: a transaction changes the accounts, wakes stages and the pulse; one that says it changed
// nothing leaves the pulse asleep; an error leaves the accounts alone and is the last.
func TestTransact(t *testing.T) {
	r := New(slog.New(slog.DiscardHandler), nil, nil)
	woken, told := NewSignal(), 0
	err := r.Transact(func(tx *Tx) error {
		tx.Enter(7, state.PlaceStar)
		tx.Count(state.CountPages, 2)
		tx.Late.Add(func(string, ...any) { told++ }, "line")
		tx.Wake(woken)
		return nil
	})
	if err != nil || len(woken) != 1 || told != 1 || r.Changes() != 1 {
		t.Errorf("error %v, %d signals, %d lines, %d changes", err, len(woken), told, r.Changes())
	}
	if a := r.Accounts.Copy(); a.Unique.N != 1 || a.Places[state.PlaceStar].N != 1 ||
		r.Accounts.Counter(state.CountPages) != 2 {
		t.Errorf("accounts %+v", a)
	}
	for line := range 2 {
		if err := r.Transact(func(tx *Tx) error {
			tx.Nothing = true
			if line == 0 {
				tx.Late.Add(func(string, ...any) { told++ }, "another line, of no other transaction")
			}
			return nil
		}); err != nil || r.Changes() != 1 || told != 2 {
			t.Errorf("nothing changed: error %v, %d changes, %d lines", err, r.Changes(), told)
		}
	}
	bad := errors.New("disk")
	running, cut := r.Begin(t.Context())
	defer cut()
	err = r.Transact(func(tx *Tx) error { tx.Move(7, state.PlaceStar, state.PlaceBeast); return bad })
	if err != bad || r.Failure() != bad || running.Err() == nil || r.Fetching().Err() != nil {
		t.Errorf("error %v, failure %v, stages %v, exchanges %v", err, r.Failure(), running.Err(), r.Fetching().Err())
	}
	if err := r.Transact(func(*Tx) error { t.Error("a transaction after an error"); return nil }); err != bad {
		t.Errorf("after an error: %v", err)
	}
	if r.Accounts.In(state.PlaceStar) != 1 || r.Accounts.In(state.PlaceBeast) != 0 {
		t.Error("a transaction with an error changed the accounts")
	}
}

// TestEnd: the first reason to stop counts, stages end, and their errors after that do not.
func TestEnd(t *testing.T) {
	r := New(slog.New(slog.DiscardHandler), nil, nil)
	ctx, cut := r.Begin(t.Context())
	defer cut()
	r.Start(ctx, "waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	r.Stop("first")
	r.Stop("second")
	r.WaitStages()
	if r.StopReason() != "first" || r.Failure() != nil {
		t.Errorf("reason %q, failure %v", r.StopReason(), r.Failure())
	}
}

// TestPulse: the pulse follows changes, at most once in PulseEvery, and nothing else.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(slog.New(slog.DiscardHandler), nil, nil)
		s := r.PulsedSignal()
		ctx, cut := r.Begin(t.Context())
		defer cut()
		r.Start(ctx, "pulse", r.Pulse)
		pulses := 0
		r.Start(ctx, "counts", func(ctx context.Context) error {
			for {
				select {
				case <-s:
					pulses++
				case <-ctx.Done():
					return nil
				}
			}
		})
		for range 1000 { // in a second
			r.Changed()
			time.Sleep(time.Millisecond)
		}
		r.Cancel()
		r.WaitStages()
		if pulses < 9 || pulses > 11 {
			t.Errorf("%d pulses in a second", pulses)
		}
	})
}
