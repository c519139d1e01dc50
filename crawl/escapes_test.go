package crawl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// escapesWeb links to the same pages with escapes in many spellings.
func escapesWeb() *tinyWeb {
	return &tinyWeb{Serve: func(_, path string) answer {
		switch path {
		case "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /%7Eno/\n"}
		case "/":
			return answer{200, "", "<html><a href='/%7Euser/%c3%a9'><a href='/~user/%C3%A9'><a " +
				"href='/~user/\u00e9'><a href='/%7euser/%c3%A9#x'>" +
				"<a href='/a%2fb'><a href='/a%2Fb'><a href='/a/b'><a href='/%7Eno/1'><a href='/~no/1'><a " +
				"href='/%7Ex%63luded/1'>" +
				"<a href='/moved'><a href='/q?%41=%7e'><a href='/q?A=~'>"}
		case "/moved":
			return answer{301, "Location: /%7euser/%C3%a9\r\n", ""}
		}
		return answer{200, "", "<html>"}
	}}
}

// TestEscapesAreFolded: all spellings of a URL's escapes must be one page, and rules and robots.txt must
// apply to the canonical one. It guards against a page per spelling.
func TestEscapesAreFolded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			w, mem := escapesWeb(), memfs.New(*seedFlag)
			writeRules(t, mem, "rules", "- prefix http://a.test/%7exc%6cuded/", "- prefix http://a.test/~excluded/")
			opt := tinyOptions(t, w, mem, "http://a.test/", "http://a.test/%7Euser/%c3%a9")
			atOnce(&opt)
			opt.Admission.KeepEscapes, opt.Admission.Rules = keep, []string{"rules"}
			res := mustRun(t, t.Context(), opt)
			var got []string
			for _, q := range w.Pages("") {
				got = append(got, q.Path)
			}
			slices.Sort(got)
			want := []string{"/", "/a%2Fb", "/a/b", "/moved", "/q?A=~", "/~user/%C3%A9"}
			if keep {
				want = []string{"/", "/%7Euser/%c3%a9", "/%7Ex%63luded/1", "/%7euser/%C3%a9", "/%7euser/%c3%A9",
					"/a%2Fb", "/a%2fb", "/a/b", "/moved", "/q?%41=%7e", "/q?A=~", "/~user/%C3%A9"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("keep %v: requested %q, want %q", keep, got, want)
			}
			refused := map[bool]int64{false: 1, true: 2}[keep]
			if n := res.Snapshot.Refused["robots"]; n != refused {
				t.Errorf("keep %v: %d URLs refused by robots.txt, want %d", keep, n, refused)
			}
			checkBalanced(t, mem, opt.Disk.Dirs)
			checkEscapesExplained(t, mem, &opt)
			opt.Admission.KeepEscapes = !keep
			if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrIncompatible) ||
				!strings.Contains(err.Error(), "--canonical escapes was ") {
				t.Errorf("resumed with another spelling: got %v, want %v", err, state.ErrIncompatible)
			}
		}
	})
}

// checkEscapesExplained: explain must know a URL by any spelling; log and index must have the canonical one.
func checkEscapesExplained(t *testing.T, mem *memfs.FS, opt *Options) {
	t.Helper()
	x := explainer(t, mem, opt.Disk.Dirs)
	reports, err := x.URLs([]string{"http://a.test/%7Euser/%c3%a9", "http://a.test/~user/%C3%A9"})
	must(t, err)
	for _, rep := range reports {
		want := "http://a.test/~user/%C3%A9"
		if opt.Admission.KeepEscapes {
			want = rep.Asked
		}
		if rep.URL != want || rep.Place != "fetched" || rep.Ended == nil || rep.Ended.Source != "index" {
			t.Errorf("%s: %s, %s, %+v", rep.Asked, rep.URL, rep.Place, rep.Ended)
		}
		if truthOf(t, mem, opt.Disk.Dirs).Ended[want] == nil {
			t.Errorf("the log lacks %s", want)
		}
	}
}
