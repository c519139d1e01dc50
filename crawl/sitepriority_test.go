package crawl

import (
	"fmt"
	"strings"
	"testing"
)

// sitePriorities is a file that gives the pages of both lists of a laneSite lanes.
func sitePriorities(good, bad string) string {
	var b strings.Builder
	for i := range laneHosts {
		for list, lane := range map[string]string{"good": good, "bad": bad} {
			fmt.Fprintf(&b, "[[site]]\nsurt = \"(test,a,h%d,)/%s/\"\npriority = %s\n", i, list, lane)
		}
	}
	return b.String()
}

// TestSitePriority: URLs of sites with a better lane are fetched first, although they were found last: from
// the beginning, and after a reload, which counts what it changed. Nothing is lost. explain shows the lane
// and the table.
func TestSitePriority(t *testing.T) {
	t.Parallel()
	place := map[string]float64{}
	for _, when := range []string{"never", "start", "reload", "one lane"} {
		inBubble(t, func(t *testing.T) {
			s := newLaneSite()
			var opt Options
			act := func(o *operated) {
				writeRules(t, o.opt.Disk.FS, "sites.toml", sitePriorities(`"high"`, `7`))
				r, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", true)
				if err != nil || r.Priorities != 2*laneHosts || r.Replaced == 0 {
					t.Errorf("reload: %+v, %v", r, err)
				}
				if r, _, err = o.opt.Observe.Control.Reload(t.Context(), "test", false); err != nil ||
					r.Priorities != 0 {
					t.Errorf("second reload: %+v, %v", r, err)
				}
			}
			if when != "reload" {
				act = nil
			}
			s.crawl(t, func(o *Options) {
				o.Order.Lanes, o.Admission.Sites = 3, "sites.toml"
				if when == "one lane" {
					o.Order.Lanes = 1
				}
				text := "[[site]]\npld = \"a.test\"\nmax-depth = 9\n"
				if when == "start" || when == "one lane" {
					text = sitePriorities("0", `"low"`)
				}
				writeRules(t, o.Disk.FS, "sites.toml", text)
				opt = *o
			}, act)
			if n := s.pages(t, ""); n != 3+10*laneHosts {
				t.Errorf("%s: %d pages, want %d", when, n, 3+10*laneHosts)
			}
			place[when] = s.place("/good/") - s.place("/bad/")
			if when != "start" {
				return
			}
			x := explainer(t, opt.Disk.FS, opt.Disk.Dirs)
			urls, err := x.URLs([]string{"http://h1.a.test/bad/1", "http://a.test/"})
			must(t, err)
			if set := urls[0].Settings; set == nil || set.Priority == nil || *set.Priority != 2 || set.Lanes != 3 ||
				!strings.Contains(set.PriorityWhy, "priority = low") || urls[1].Settings != nil {
				t.Errorf("explain: %+v, %+v", set, urls[1].Settings)
			}
		})
	}
	t.Logf("how much later the good pages come: %v", place)
	if place["never"] < 0 || place["one lane"] < 0 || place["start"] > place["never"]-150 ||
		place["reload"] > place["never"]-100 {
		t.Errorf("how much later the good pages come: %v", place)
	}
}
