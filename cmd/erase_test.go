package cmd

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
)

// TestErase: a dry run counts and changes nothing, an erasure removes, a second one finds nothing, the record is in the
// report, and the crawl balances. Faulty requests and a running crawl have their exit codes.
func TestErase(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := filepath.Join(t.TempDir(), "crawl")
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)...)
	u, err := url.Parse(web.Seeds()[0])
	must(t, err)
	list := filepath.Join(t.TempDir(), "list")
	must(t, os.WriteFile(list, []byte("# a publisher\nhost:"+u.Hostname()+"\n"), 0o600))
	args := []string{"erase", "--list", list, "--reason", "asked by the publisher", dir}
	if out, _ := wantExit(t, term.ExitDone, "", append(args, "--dry-run")...); !strings.Contains(out,
		"to erase: 1 host") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("a dry run: %s", out)
	}
	if out, _ := wantExit(t, term.ExitDamage, "", "audit", "--erased", list, dir); !strings.Contains(out, "LEFT: ") ||
		!strings.Contains(out, "record of the type response: http://"+u.Hostname()) {
		t.Errorf("audit --erased before: %s", out)
	}
	lock, err := disk.OS().Lock(dir)
	must(t, err)
	if _, errs := wantExit(t, term.ExitDirectory, "", args...); !strings.Contains(errs, "stop ends it") {
		t.Errorf("a running crawl: %s", errs)
	}
	must(t, lock.Close())
	wantExit(t, term.ExitUsage, "", "erase", "--host", u.Hostname(), dir) // no reason
	wantExit(t, term.ExitUsage, "", "erase", "--list", list+"x", "--reason", "x", dir)
	if out, _ := wantExit(t, term.ExitDone, "", args...); strings.Contains(out, "\n0 captures removed") {
		t.Errorf("an erasure: %s", out)
	}
	var again struct {
		Erasure struct {
			Number int
			Hosts  int64
			Erased struct{ Captures, Records, Waiting int64 }
		}
	}
	out, _ := wantExit(t, term.ExitDone, "", append(args, "--json", "--hide")...)
	if err := json.Unmarshal([]byte(out), &again); err != nil || again.Erasure.Number != 2 ||
		again.Erasure.Hosts != 1 || again.Erasure.Erased.Records+again.Erasure.Erased.Waiting != 0 {
		t.Errorf("a second time: %v, %s", err, out)
	}
	out, _ = wantExit(t, term.ExitDone, "", "erase", "--report", dir)
	if !strings.Contains(out, ": 2 requests, ") || strings.Count(out, "host:"+u.Hostname()) != 1 ||
		strings.Count(out, "asked by the publisher") != 2 {
		t.Errorf("--report: %s", out)
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
	auditErased(t, dir, list, u.Hostname())
	if _, errs := wantExit(t, term.ExitFailure, "", "get", web.Seeds()[0], "--dir", dir); errs == "" {
		t.Error("an erased page is still there")
	}
	out, _ = wantExit(t, term.ExitDone, "", "explain", "url", web.Seeds()[0], "--dir", dir)
	if !strings.Contains(out, "erased: drumbeat erase removed it") {
		t.Errorf("explain of an erased page: %s", out)
	}
}

// auditErased searches for an erased host.
func auditErased(t *testing.T, dir, list, host string) {
	if out, _ := wantExit(t, term.ExitDone, "host:"+host, "audit", "--erased", "-", dir); !strings.Contains(out,
		"nothing is left\n") || strings.Contains(out, "read 0 B") {
		t.Errorf("audit --erased: %s", out)
	}
	out, _ := wantExit(t, term.ExitDamage, "", "audit", "--erased", list, "--also", list, "--json", dir)
	var proof struct {
		Found     int
		Leftovers []struct {
			File, Kind, Text string
			Offset           int64
		}
	}
	if err := json.Unmarshal([]byte(out), &proof); err != nil || proof.Found != 1 || proof.Leftovers[0].File != list ||
		proof.Leftovers[0].Offset != int64(len("# a publisher\n")) {
		t.Errorf("--also: %v, %s", err, out)
	}
	wantExit(t, term.ExitUsage, "", "audit", "--also", list, dir)
	wantExit(t, term.ExitUsage, "", "audit", "--erased", list+"x", dir)
	wantExit(t, term.ExitUsage, "x", "audit", "--erased", "-", dir)
}
