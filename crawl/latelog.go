package crawl

// lateLog collects log lines while locks are held. Its owner writes them once it holds none: a log whose reader has
// stopped, as that of a full pipe, must not stop those who wait for the locks. It is for the lines of one operation.
type lateLog []func()

// mostLate bounds the lines that join takes: a sweep of the blacklist may refuse all enqueued URLs in RAM, and its last
// line has their number. A line takes some 300 bytes.
const mostLate = 1000

// add collects a line; log is a method of a slog.Logger.
func (l *lateLog) add(log func(msg string, args ...any), msg string, args ...any) {
	*l = append(*l, func() { log(msg, args...) })
}

// join adds the lines of a part of the operation, as far as mostLate allows.
func (l *lateLog) join(lines lateLog) {
	*l = append(*l, lines[:min(len(lines), max(0, mostLate-len(*l)))]...)
}

// flush writes the lines.
func (l lateLog) flush() {
	for _, line := range l {
		line()
	}
}
