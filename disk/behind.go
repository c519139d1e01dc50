package disk

// writeBehind is implemented by files that can start write-back early.
type writeBehind interface{ writeBehind(off, n int64) }

// WriteBehind starts write-back of bytes [off, off+n) of f, which must have been written, and returns at
// once. The disk then works while the writer fills its next buffer, and a later Sync or SyncFS has little
// left to do. By default the kernel starts only when a tenth of the RAM is dirty. WriteBehind is a hint: it
// makes nothing durable, f may ignore it, and the next sync reports any disk error.
func WriteBehind(f File, off, n int64) {
	if w, ok := f.(writeBehind); ok && n > 0 {
		w.writeBehind(off, n)
	}
}

func (f meterFile) writeBehind(off, n int64) {
	// It waits while the disk's queue is full.
	_, _ = f.use.write(func() (int, error) { WriteBehind(f.File, off, n); return 0, nil })
}
