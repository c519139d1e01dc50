package crawl

import (
	"fmt"
	"net/http"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// cookieRedirects serves redirects that set cookies, or expect them.
func cookieRedirects() func(host, path, cookie string) answer {
	to := func(where, cookie string) answer {
		a := answer{302, "Location: " + where + "\r\n", ""}
		if cookie != "" {
			a.Header += "Set-Cookie: " + cookie + "; Path=/\r\n"
		}
		return a
	}
	served := 0
	return func(host, path, cookie string) answer {
		served++
		switch {
		case path == "/robots.txt":
			return noRobots
		case path == "/self" && cookie == "":
			return to("/self", "a=1")
		case path == "/start" && cookie == "":
			return to("/set", "")
		case path == "/set":
			return to("/start", "a=1")
		case path == "/begin" && cookie == "":
			return to("/two", "a=1")
		case path == "/two":
			return to("/three", "")
		case path == "/three":
			return to("/begin", "")
		case path == "/endless":
			return to("/endless", fmt.Sprintf("n=%d", served))
		case path == "/same":
			return to("/same", "a=1")
		case path == "/none":
			return to("/none", "")
		}
		return answer{200, "", "<html>" + path}
	}
}

// TestCookieRedirects: a redirect that sets a cookie and leads back to its URL, at once or by way of others,
// is followed once more with the cookie. A site that sets another cookie each time, or redirects for ever,
// gets a bounded number of requests. Without cookies = true each URL is asked once.
func TestCookieRedirects(t *testing.T) {
	serve := cookieRedirects()
	for _, test := range []struct {
		path          string
		least, most   int // requests for it
		page          bool
		without, hops int
	}{
		{"/self", 2, 2, true, 1, 0}, {"/start", 2, 2, true, 1, 1}, {"/begin", 2, 2, true, 1, 2},
		{"/endless", 2, 4, false, 1, 0}, {"/same", 2, 2, false, 1, 0}, {"/none", 1, 1, false, 1, 0},
	} {
		for _, jar := range []bool{true, false} {
			inBubble(t, func(t *testing.T) {
				web := &tinyWeb{}
				web.Reply = func(req *http.Request) (answer, bool) {
					return serve(req.Host, req.RequestURI, req.Header.Get("Cookie")), true
				}
				fs := memfs.New(*seedFlag)
				writeRules(t, fs, "sites.toml",
					fmt.Sprintf("[[site]]\nhost = 'a.test'\ninsecure = true\ncookies = %v", jar))
				opt := tinyOptions(t, web, fs, "http://a.test"+test.path)
				opt.Admission.Sites = "sites.toml"
				res := mustRun(t, t.Context(), opt)
				n, least, most, page := len(web.Got("a.test", test.path)), test.least, test.most, test.page
				if !jar {
					least, most, page = test.without, test.without, false
				}
				if n < least || n > most || (res.Snapshot.Counters[state.CountPages] == 1) != page {
					t.Errorf("%s, cookies %v: %d requests, want %d to %d; %d pages", test.path, jar, n, least, most,
						res.Snapshot.Counters[state.CountPages])
				}
				pages := web.Pages("a.test")
				for i := range pages[1:] {
					if gap := pages[i+1].At.Sub(pages[i].At); gap < opt.Politeness.HostDelayMin {
						t.Errorf("%s: two requests within %v", test.path, gap)
					}
				}
				checkBalanced(t, fs, opt.Disk.Dirs)
			})
		}
	}
}
