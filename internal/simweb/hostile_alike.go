package simweb

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// alike: three endless hosts below one PLD. Two are traps: a calendar, and a shop that shows sixty products by
// five filters. The third is a wiki, whose pages share a frame but have texts of their own.
func alike(w *Web, add func(hostileHost)) {
	pld := w.hostileName("alike", 0)[len("www."):]
	add(hostileHost{name: "calendar." + pld, serve: func(s *session, q *wish) bool {
		day, err := time.Parse("/2006/01/02", string(q.path))
		if err != nil {
			day = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
		}
		var refs []string
		for _, d := range [][3]int{{0, 0, 1}, {0, 0, -1}, {0, 0, 7}, {0, 1, 0}, {0, -1, 0}, {1, 0, 0}, {-1, 0, 0}} {
			refs = append(refs, day.AddDate(d[0], d[1], d[2]).Format("/2006/01/02"))
		}
		return s.page(q, framed(1, day.Format("Monday 2 January 2006")+": no events on this day.", refs))
	}})
	add(hostileHost{name: "shop." + pld, serve: func(s *session, q *wish) bool {
		return s.page(q, shopPage(string(q.path)))
	}})
	add(hostileHost{name: "wiki." + pld, serve: func(s *session, q *wish) bool {
		r := rng(pathNumber(w.opt.Seed, q.path))
		var refs []string
		for range 8 {
			refs = append(refs, fmt.Sprintf("/wiki/%x", r.next()>>40))
		}
		return s.page(q, framed(3, words(r.next(), 240), refs))
	}})
}

// framed returns a page with the frame that all pages of a site share, some 100 words.
func framed(site uint64, text string, refs []string) string {
	return links(refs...) + "<p>" + words(site, 60) + "</p><main>" + text + "</main><footer>" +
		words(site+100, 40) + "</footer>"
}

// words returns n words, drawn by seed.
func words(seed uint64, n int) string {
	var b strings.Builder
	r := rng(seed)
	for range n {
		for range 2 + r.below(3) {
			b.WriteByte("bcdfghklmnprstvz"[r.below(16)])
			b.WriteByte("aeiou"[r.below(5)])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// facets are the filters and orders of the shop, with the number of values of each. The last two only change the
// order and the form of the list.
var facets = []struct {
	name   string
	values uint64
}{{"colour", 4}, {"size", 3}, {"brand", 3}, {"sort", 6}, {"view", 4}}

// shopPage lists the products that match the filters in the query, and links to each page with one filter more or
// another. Filters stand in the order in which they were chosen, so a list has many URLs.
func shopPage(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return "<html>"
	}
	query := u.Query()
	var refs []string
	for _, f := range facets {
		for v := range f.values {
			value := fmt.Sprint(v)
			if query.Get(f.name) == value {
				continue
			}
			var kept []string
			for _, pair := range strings.Split(u.RawQuery, "&") {
				if pair != "" && !strings.HasPrefix(pair, f.name+"=") {
					kept = append(kept, pair)
				}
			}
			refs = append(refs, "/list?"+strings.Join(append(kept, f.name+"="+value), "&"))
		}
	}
	var list []string
	for product := range uint64(60) {
		r := rng(product)
		matches := true
		for _, f := range facets[:3] {
			v := fmt.Sprint(r.below(f.values))
			matches = matches && (query.Get(f.name) == "" || query.Get(f.name) == v)
		}
		if matches {
			list = append(list, words(product+1000, 6)+"<br>")
		}
	}
	if order := query.Get("sort"); order != "" && len(list) > 0 {
		by := int(pathNumber(7, []byte(order)) % uint64(len(list)))
		list = append(list[by:], list[:by]...)
	}
	return framed(2, strings.Join(list, ""), refs)
}
