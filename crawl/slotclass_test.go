package crawl

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"drumbeat/internal/revisit"
	"drumbeat/queue"
	"drumbeat/state"
)

// TestSlotsOfTheOtherClass: earlier releases had visits and retries in one slot, whose due time may look like
// that of either class. Such a crawl fetches each URL that was to be tried again, once, and visits those that
// were to be visited.
func TestSlotsOfTheOtherClass(t *testing.T) {
	for _, recrawl := range []bool{false, true} {
		for _, millis := range []int64{0, 1, 437} {
			inBubble(t, func(t *testing.T) {
				began := time.Now()
				w := &insideWeb{}
				w.Serve = func(host, path string) answer {
					if path == "/robots.txt" {
						return noRobots
					}
					if path == "/later" && time.Since(began) < 10*time.Minute {
						return answer{503, "", ""}
					}
					return answer{200, "", "x"}
				}
				var seeds []string
				for h := range 5 {
					seeds = append(seeds, fmt.Sprintf("http://h%d.test/", h), fmt.Sprintf("http://h%d.test/later", h))
				}
				opt := w.options(t, seeds...)
				opt.Health.Backoff, opt.Health.BackoffMax, opt.Health.Retries = 20*time.Minute, 20*time.Minute, 9
				if recrawl {
					opt.Recrawl = &revisit.Policy{Least: time.Hour, Longest: time.Hour, Default: time.Hour,
						Kind: revisit.Uniform, Gone: 9}
				}
				runFor(t, 5*time.Minute, opt)
				set, m, err := lastManifest(opt.Disk.FS, opt.Disk.Dirs)
				must(t, err)
				st, err := state.Part[queue.CalendarState](m, state.NameDeferred)
				if err != nil || m.Accounts.Places[state.PlaceDeferred].N == 0 {
					t.Fatalf("%d URLs are deferred: %v", m.Accounts.Places[state.PlaceDeferred].N, err)
				}
				for i := range st.Slots {
					// Apart, whatever their classes were.
					st.Slots[i].Due = st.Slots[i].Due/1000*1000 + int64(i*1000) + millis
				}
				if m.Parts[state.NameDeferred], err = json.Marshal(st); err != nil {
					t.Fatal(err)
				}
				data, err := state.EncodeManifest(m)
				if err == nil {
					err = (&state.Saved{Set: set}).WriteManifest(data)
				}
				must(t, err)
				opt.Limits.MaxTime = 3 * time.Hour
				mustRun(t, t.Context(), opt)
				for h := range 5 {
					good := 0
					for _, r := range w.Got(fmt.Sprintf("h%d.test", h), "/later") {
						if r.At.Sub(began) >= 10*time.Minute {
							good++
						}
					}
					if good == 0 || good > 1 && !recrawl {
						t.Errorf("recrawl %v, %d ms: h%d.test/later was fetched %d times after the failure", recrawl,
							millis, h, good)
					}
				}
				checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
			})
		}
	}
}
