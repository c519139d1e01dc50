package gate

import (
	"testing"
	"time"
)

// TestComeBack: the end of a crawl waits for the URLs of an origin that answers again, also for those that began to
// wait before RobotsCache knew, and not for those of an origin that does not answer. It waited for the latest of all:
// a crawl with one dead host and one that had failed once ended up to 4.5 hours late.
func TestComeBack(t *testing.T) {
	const back, dead = 1, 2
	var c comeBack
	if c.of(back) == c.of(dead) {
		t.Fatal("the origins are of one group")
	}
	now := time.Now()
	after := func(d time.Duration) time.Time { return now.Add(d) }
	expect := func(last time.Duration) {
		t.Helper()
		if !c.expected(after(last-time.Second)) || c.expected(after(last)) {
			t.Errorf("the end waits until %v after the start, want %v", c.until.Sub(now), last)
		}
	}
	c.waits(back, after(10*time.Second))
	c.waits(dead, after(4*time.Hour))
	if c.expected(now) {
		t.Error("the end waits before a success")
	}
	c.succeeded(back, after(time.Second))
	expect(10 * time.Second)
	c.waits(dead, after(5*time.Hour))
	expect(10 * time.Second)
	c.waits(back, after(20*time.Second)) // sent before RobotsCache knew
	expect(20 * time.Second)
	c.mergedBefore(after(time.Second)) // not the success
	c.waits(back, after(30*time.Second))
	expect(30 * time.Second)
	c.mergedBefore(after(2 * time.Second))
	c.waits(back, after(time.Hour)) // it fails again
	expect(30 * time.Second)
}
