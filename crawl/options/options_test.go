package options

import (
	"strings"
	"testing"
)

// TestValidate: each group refuses a value out of its range, and names it.
func TestValidate(t *testing.T) {
	for want, group := range map[string]interface{ Validate() error }{
		"no directory": &Disk{}, "no agent": &Identity{}, "no resolver": &Network{},
		"keep-alive": &Network{KeepAlive: -1}, "maximum URL length": &Admission{MaxURLBytes: -1},
		"redirect limit 251": &Links{MaxRedirects: 251}, "PLDDelayMin": &Politeness{PLDDelayMin: -1},
		"ResponseFactor": &Politeness{AdaptiveDelay: true}, "wait for robots.txt": &Health{RobotsWait: -1},
		"sites at once": &Order{SitesAtOnce: -1}, "log level": &Output{CrawlLog: "x"}} {
		if err := group.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", group, err, want)
		}
	}
}
