package crawl

import (
	"strings"
	"testing"
	"time"
)

// TestRenderClusterFlags: --render is refused with --cluster, whichever broker it names, and works without.
func TestRenderClusterFlags(t *testing.T) {
	for _, broker := range []string{"", "embed", "nats://127.0.0.1:4222"} {
		var c Command
		c.renderFlags = renderFlags{Render: "ws://127.0.0.1:9222", RenderRules: []string{"rules"},
			RenderLimits: renderLimits{Time: time.Second, Longest: time.Minute}}
		if broker != "" {
			c.Cluster = []string{broker}
		}
		err := c.checkRender()
		if refused := err != nil && strings.Contains(err.Error(), "--cluster"); refused != (broker != "") {
			t.Errorf("--cluster %q: %v", broker, err)
		}
	}
}
