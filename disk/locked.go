package disk

// prober is an FS that can tell whether a lock is held.
type prober interface {
	// locked reports whether any process holds the lock of dir. It does not take the lock.
	Locked(dir string) (bool, error)
}

// Locked reports whether any process holds the lock of dir. It does not take the lock, so a process that
// starts at the same time is not disturbed. known is false when the state cannot be determined. A lock held
// in another PID namespace (a container) may be invisible.
func Locked(fsys FS, dir string) (held, known bool) {
	p, ok := fsys.(prober)
	if !ok {
		return false, false
	}
	held, err := p.Locked(dir)
	return held, err == nil
}
