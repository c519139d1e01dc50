package crawl

import (
	"context"
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/internal/render"
	"drumbeat/weburl"
)

// TestRenderCluster: a node of a cluster renders no pages. It would fetch scripts from hosts of other nodes,
// which alone keep the delays of these hosts: two nodes came within 3 s to a host whose Crawl-delay is 10 s.
func TestRenderCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		o := w.options(t, "http://a.test/")
		table, err := cluster.NewTable([]float64{1, 1})
		must(t, err)
		e := mem.New(mem.Options{Seed: 1}).Transport(0)
		defer e.Close()
		o.Cluster = &Cluster{Table: table, Crawl: 7, Secret: weburl.Secret{1, 2}, Transport: e}
		must(t, o.Validate())
		withBrowser(t, &o, func(_ context.Context, p *render.Page, _ render.Fetcher) (*render.Result, error) {
			return &render.Result{HTML: []byte(`<html>`), Base: p.URL}, nil
		})
		if _, err := Run(t.Context(), o); err == nil ||
			!strings.Contains(err.Error(), "rendering works with one node only") {
			t.Errorf("the crawl begins: %v", err)
		}
		if n := len(w.Got("a.test", "")); n > 0 {
			t.Errorf("%d requests", n)
		}
	})
}
