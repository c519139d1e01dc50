package polite

import (
	"testing"
	"time"
)

// TestBinding: of several delays it names the one that ends last.
func TestBinding(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name   string
		opt    Options
		crawl  time.Duration
		result Result
		want   Binding
	}{
		{"host", Options{HostDelay: 2 * second, HostDelayMin: second, ServerDelay: second}, 0, Result{}, BindsHost},
		{"server", Options{HostDelay: second / 10, ServerDelay: second}, 0, Result{}, BindsServer},
		{"pld", Options{HostDelay: second / 10, HostDelayMin: second / 10, PLDDelay: second}, 0, Result{}, BindsPLD},
		{"network", Options{HostDelay: second / 10, NetworkRate: 0.5}, 0, Result{}, BindsNetwork},
		{"crawl-delay", Options{HostDelay: second, HostDelayMin: second, MaxCrawlDelay: 10 * second},
			5 * second, Result{}, BindsCrawlDelay},
		{"answer", Options{HostDelay: second, HostDelayMin: second, MaxCrawlDelay: 10 * second, ResponseFactor: 10}, 0,
			Result{Elapsed: second / 2}, BindsAnswer},
		{"backoff", Options{HostDelay: second, HostDelayMin: second}, 0, Result{Backoff: 10 * second}, BindsBackoff},
		{"server's backoff", Options{HostDelay: second, HostDelayMin: second, ServerDelay: second}, 0,
			Result{ServerBackoff: 10 * second}, BindsBackoff},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			s := New(c.opt, now)
			for range 2 {
				it := firstItem(1, 1, false)
				it.CrawlDelay = c.crawl
				if v := s.Admit(now, it); v.Kind != Admitted {
					t.Fatal(v)
				}
			}
			g, _ := s.Next(now)
			if g == nil {
				t.Fatal("no grant")
			}
			s.Started(now, g)
			s.Done(now, g, c.result)
			now = now.Add(time.Millisecond)
			if g, _ := s.Next(now); g != nil {
				t.Fatal("granted again at once")
			}
			if b := s.Binding(now); b.By != c.want || b.Held != 1 || b.All != 1 {
				t.Errorf("got %+v, want %d", b, c.want)
			}
		})
	}
}
