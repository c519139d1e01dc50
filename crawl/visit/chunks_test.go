package visit_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestBadChunkSizes: an invalid chunk size must end the body. The crawl must not follow links behind it. A
// response that starts with one is no page. Both count as truncated. The test checks the requests that the
// server gets.
func TestBadChunkSizes(t *testing.T) {
	for _, size := range []string{"zz", "-5", "", "0x5", " ", "fffffffffffffffff"} {
		t.Run(size, func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				w := &testworld.Web{Serve: testworld.PagesOnly}
				link := func(to string) string { return fmt.Sprintf("<html><a href='%s'>x</a>", to) }
				w.Raw = func(c net.Conn, _, path string) bool {
					head := "HTTP/1.1 200 X\r\nContent-Type: text/html\r\nTransfer-Encoding: " +
						"chunked\r\nConnection: close\r\n\r\n"
					switch path {
					case "/first":
						fmt.Fprintf(c, "%s%s\r\n%s\r\n0\r\n\r\n", head, size, link("/behind-first"))
					case "/second":
						fmt.Fprintf(c, "%s%x\r\n%s\r\n%s\r\n%s\r\n0\r\n\r\n", head, len(link("/before")),
							link("/before"), size, link("/behind"))
					default:
						return false
					}
					return true
				}
				opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/first",
					"http://a.test/second")
				crawltest.AtOnce(&opt)
				res := crawltest.MustRun(t, t.Context(), opt)
				for path, want := range map[string]int{"/first": 1, "/second": 1, "/before": 1, "/behind": 0,
					"/behind-first": 0} {
					if got := len(w.Got("a.test", path)); got != want {
						t.Errorf("%s was requested %d times, want %d", path, got, want)
					}
				}
				s := &res.Snapshot
				if s.Count(state.CountTruncated) != 2 || s.Count(state.CountPages) != 2 ||
					s.Count(state.CountResponses) != 3 || s.Status[http.StatusOK/100] != 3 {
					t.Errorf("%d truncated, %d pages, %d responses, want 2, 2, 3", s.Count(state.CountTruncated),
						s.Count(state.CountPages), s.Count(state.CountResponses))
				}
			})
		})
	}
}
