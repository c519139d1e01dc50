package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drumbeat/internal/human"
)

const (
	maxSiteNames   = 4096 // hosts that are counted: the first ones
	shownSiteNames = 8    // hosts that are named: those with the most pages
)

// siteNames counts the pages of the hosts of a crawl. The zero value is ready.
type siteNames struct {
	pages map[string]int64
	more  bool // there are hosts that are not counted
}

// add counts a page of a host.
func (n *siteNames) add(host []byte) {
	if n.pages == nil {
		n.pages = map[string]int64{}
	}
	if _, known := n.pages[string(host)]; !known && len(n.pages) == maxSiteNames {
		n.more = true
		return
	}
	n.pages[string(host)]++
}

// text names the hosts with the most pages.
func (n *siteNames) text() string {
	hosts := slices.SortedFunc(maps.Keys(n.pages), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.pages[b], n.pages[a]), cmp.Compare(a, b))
	})
	if len(hosts) == 0 {
		return "it has stored no page at all"
	}
	var named []string
	for _, host := range hosts[:min(len(hosts), shownSiteNames)] {
		named = append(named, fmt.Sprintf("%s (%s)", host, human.Counted(n.pages[host], "page", "pages")))
	}
	text := "it has " + strings.Join(named, ", ")
	switch rest := len(hosts) - len(named); {
	case n.more:
		text += " and many more hosts"
	case rest > 0:
		text += fmt.Sprintf(" and %s", human.Counted(int64(rest), "more host", "more hosts"))
	}
	return text
}
