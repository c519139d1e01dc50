package disk

// writeBehind is what files have that can begin to write early.
type writeBehind interface{ writeBehind(off, n int64) }

// WriteBehind asks that bytes [off, off+n) of f, written before, go to the disk now, and doesn't wait for them. Then the
// disk is busy while the writer fills its next buffer, and a later Sync or SyncFS finds little to do; left to itself, the
// kernel begins when a tenth of the RAM is dirty. A hint: nothing is durable because of it, f may not have it, and an
// error of the disk is that of the next sync.
func WriteBehind(f File, off, n int64) {
	if w, ok := f.(writeBehind); ok && n > 0 {
		w.writeBehind(off, n)
	}
}

func (f meterFile) writeBehind(off, n int64)  { WriteBehind(f.File, off, n) }
func (f *faultFile) writeBehind(off, n int64) { WriteBehind(f.f, off, n) }
