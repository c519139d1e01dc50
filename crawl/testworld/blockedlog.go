package testworld

import (
	"context"
	"log/slog"
)

// BlockedLog is a log whose reader has stopped.
type BlockedLog struct {
	slog.Handler
	Blocked chan struct{} // each line that waits
	Release chan struct{}
}

// Enabled implements slog.Handler.
func (BlockedLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h BlockedLog) Handle(context.Context, slog.Record) error {
	h.Blocked <- struct{}{}
	<-h.Release
	return nil
}

// NewBlockedLog returns a log whose lines all wait, at most ten, until Release is closed.
func NewBlockedLog() BlockedLog {
	return BlockedLog{slog.DiscardHandler, make(chan struct{}, 10), make(chan struct{})}
}
