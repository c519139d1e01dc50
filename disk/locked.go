package disk

// prober is an FS that can tell whether a lock is held.
type prober interface {
	// Locked tells whether anybody holds the lock of dir. It takes none.
	Locked(dir string) (bool, error)
}

// Locked tells whether a process holds the lock of dir, without taking it: somebody who begins at this instant isn't disturbed. known is
// false when that can't be found out. A process of another PID namespace (a container) may hold a lock that can't be seen.
func Locked(fsys FS, dir string) (held, known bool) {
	p, ok := fsys.(prober)
	if !ok {
		return false, false
	}
	held, err := p.Locked(dir)
	return held, err == nil
}
