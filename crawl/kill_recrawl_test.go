package crawl

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/revisit"
)

// shortLivedWeb is a site whose page /i of n changes each i seconds. Pages with an even number have ETags, and /gone is
// there for two seconds.
func shortLivedWeb(n int) *tinyWeb {
	began := time.Now()
	return &tinyWeb{Reply: func(req *http.Request) (answer, bool) {
		var i int
		switch path := req.RequestURI; {
		case path == "/robots.txt":
			return noRobots, true
		case path == "/":
			var links strings.Builder
			for i := range n {
				fmt.Fprintf(&links, "<a href=/%d>x</a>", i+1)
			}
			return answer{200, "", "<html><a href=/gone>x</a>" + links.String()}, true
		case path == "/gone":
			if time.Since(began) > 2*time.Second {
				return answer{404, "", "gone"}, true
			}
		default:
			_, _ = fmt.Sscanf(path, "/%d", &i)
		}
		version := time.Since(began) / (time.Duration(max(1, i)) * time.Second)
		a := answer{200, "", fmt.Sprintf("<html>%s%d of %s", strings.Repeat("text ", 100), version, req.RequestURI)}
		if i%2 == 0 && i > 0 {
			tag := fmt.Sprintf("\"%d\"", version)
			if a.Header = "ETag: " + tag + "\r\n"; req.Header.Get("If-None-Match") == tag {
				return answer{304, a.Header, ""}, true
			}
		}
		return a, true
	}}
}

// TestKillRecrawl: a crawl that visits pages again is killed at chosen places and at random. No page is visited early,
// but for visits that a kill took back; none is forgotten; and each visit that stands has one record.
func TestKillRecrawl(t *testing.T) {
	t.Parallel()
	notShort(t)
	const pages, ip = 24, "127.77.1.9"
	web, tmp, rng := shortLivedWeb(pages), t.TempDir(), rand.New(rand.NewPCG(*seedFlag, 77))
	policy := &revisit.Policy{Least: 2 * time.Second, Longest: 4 * time.Second, Default: 2 * time.Second, Gone: 2}
	job := childJob{Dirs: []string{filepath.Join(tmp, "a"), filepath.Join(tmp, "b")},
		Seeds: filepath.Join(tmp, "seeds"), DNS: ip + ":1", HTTP: web.Listen(t, ip), RAMBytes: 128 << 20, Small: true,
		Recrawl: policy}
	must(t, os.WriteFile(job.Seeds, []byte("http://"+ip+"/\n"), 0o600))
	began, places, kills := time.Now(), []string{"urlseen", "checkpoint", "recovery", "random"}, []time.Time(nil)
	for round := range longOr(40, 6) {
		job.KillAt, job.KillOn, job.KillAfter = places[round%len(places)], 1+rng.IntN(6),
			time.Duration(rng.IntN(900))*time.Millisecond
		limit := 4 * time.Second
		if job.KillAt == "random" {
			limit = time.Duration(300+rng.IntN(1500)) * time.Millisecond
		} else if job.KillAt == "recovery" {
			job.KillOn, job.KillAfter = 1, 0
		}
		if got := runChild(t, &job, limit); got == "ended" {
			t.Fatalf("round %d ended", round)
		}
		kills = append(kills, time.Now())
	}
	job.KillAt, job.MaxTime = "", time.Since(began)+policy.Longest+4*time.Second
	if got := runChild(t, &job, 2*time.Minute); got != "ended" {
		t.Fatalf("the last run: %s", got)
	}
	checkVisits(t, disk.OS(), job.Dirs)
	records := map[string][]string{} // dates
	for _, rec := range storedRecords(t, disk.OS(), job.Dirs) {
		if uri := rec.Get("WARC-Target-URI"); rec.Type() == "response" || rec.Type() == "revisit" {
			records[uri] = append(records[uri], rec.Get("WARC-Date"))
		}
	}
	visits := 0
	for i := range pages {
		path := fmt.Sprintf("/%d", i+1)
		got := web.Got("", path)
		visits += len(got)
		if len(got) == 0 || got[len(got)-1].At.Before(kills[len(kills)-1]) {
			t.Errorf("%s was not visited after the last kill; %d visits", path, len(got))
			continue
		}
		undone := 0
		for j, r := range got[1:] {
			before := got[j].At
			killed := slices.ContainsFunc(kills, func(at time.Time) bool { return at.After(before) && at.Before(r.At) })
			if killed {
				undone++
			} else if gap := r.At.Sub(before); gap < policy.Least-time.Second { // visits are noted in whole seconds
				t.Errorf("%s is visited again after %v", path, gap)
			}
		}
		n := len(records["http://"+ip+path])
		if n > len(got) || n < len(got)-undone {
			t.Errorf("%s: %d visits, %d of them with a kill before the next, %d records", path, len(got), undone, n)
		}
	}
	t.Logf("seed %d: %d kills, %d visits of %d pages in %v", *seedFlag, len(kills), visits, pages,
		time.Since(began).Round(time.Second))
}
