package operate

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"drumbeat/internal/linktrace"
	"drumbeat/state/history"
	"drumbeat/state/snapshot"
)

// ObserveOptions say to whom a running crawl reports, and who controls it.
type ObserveOptions struct {
	// Log gets messages. A handler that blocks stops the stage that logs, but none that waits for its locks.
	// Default: none.
	Log *slog.Logger
	// Snapshot gets the figures of the crawl every SnapshotEvery (default: a second); nil: none.
	Snapshot      func(*snapshot.Snapshot)
	SnapshotEvery time.Duration
	// TraceLinks is a file on Disk.FS that records the key of each link before the RAM cache filters it, 8 bytes
	// each (package linktrace); "" means none. Seeds are not recorded. TraceLimit limits its size; default
	// 8 GiB, a billion links.
	TraceLinks string
	TraceLimit int64
	// HistoryBytes bounds the history of figures in the first directory (package history); at least
	// history.MinBytes, 0 for none.
	HistoryBytes int64
	// Control serves the operator while the crawl runs; nil for none.
	Control *Control
	// TimeZone is the time zone of schedules that the operator sets; nil is the local one.
	TimeZone *time.Location
	// Panicked is called when a goroutine of the crawl panics because of a bug that was not contained. It
	// must end the process. The files on disk are as after kill -9. If it is nil, the panic continues and
	// ends the process.
	Panicked func(value any, stack []byte)
}

// Defaults sets the zero fields.
func (o *ObserveOptions) Defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = time.Second
	}
	if o.TraceLimit == 0 {
		o.TraceLimit = 8 << 30
	}
}

// Validate returns all errors in the group, joined.
func (o *ObserveOptions) Validate() error {
	var faults []error
	if o.TraceLimit != 0 && o.TraceLimit < linktrace.MinLimitBytes {
		faults = append(faults, fmt.Errorf("crawl: trace limit of %d bytes: want at least %d", o.TraceLimit,
			int64(linktrace.MinLimitBytes)))
	}
	if o.HistoryBytes != 0 && o.HistoryBytes < history.MinBytes {
		faults = append(faults, fmt.Errorf("crawl: history of %d bytes: want 0, or at least %d", o.HistoryBytes,
			history.MinBytes))
	}
	return errors.Join(faults...)
}
