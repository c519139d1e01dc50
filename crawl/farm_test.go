package crawl

import (
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// farmShare crawls a web of 300 PLDs with a farm until it has fetched a number of pages. It returns the
// share of requests for URLs that went to the farm, and the number of ordinary URLs fetched.
func farmShare(t *testing.T, pages int64, farm string, budgets func(*Options)) (share float64, ordinary int) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs = 300, 400, int(8*pages), 400, 20
			o.LogRequests = 1 << 16
			if farm != "" {
				o.Hostile = []string{farm}
			}
		})
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.SeedLines = append(web.Seeds(), web.HostileSeeds()...)
		opt.MaxPages, opt.Store, opt.CrawlLog, opt.CheckpointEvery, opt.MaxTime = pages, false, state.LogOff, time.Minute, time.Hour
		opt.HostDelay, opt.HostDelayMin, opt.ServerDelay, opt.ServerDelayMin = 400*time.Millisecond, 10*time.Millisecond, time.Millisecond, time.Millisecond
		if budgets != nil {
			budgets(&opt)
		}
		res := mustRun(t, t.Context(), opt)
		if res.Stop != StopPages {
			t.Errorf("%s stopped by %q after %d pages", farm, res.Stop, res.Snapshot.Count(state.CountPages))
		}
		farmed := 0
		for _, q := range web.Log().Snapshot().Requests {
			switch {
			case q.Robots:
			case q.Known:
				ordinary++
			case farm != "" && strings.Contains(q.URL, strings.ReplaceAll(farm, "-", "")) || strings.Contains(q.URL, farm):
				farmed++
			}
		}
		share = float64(farmed) / float64(max(1, farmed+ordinary))
	})
	return share, ordinary
}

// TestFarms measures the effect of budgets on farms. A PLD with endless hosts must get no more than the
// budget of one PLD. Many PLDs that link to each other have real in-degrees, and each of endlessly many
// PLDs gets the default budget. Budgets alone don't help there, so the test only reports the shares.
func TestFarms(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes long")
	}
	pages := int64(400)
	if *longRuns {
		pages = 4000
	}
	policies := []struct {
		name string
		set  func(*Options)
	}{
		{"off", func(o *Options) {
			o.Budget, o.BudgetDefault, o.BudgetMax, o.QueuePages = "equal", 1<<24-1, 1<<24-1, Unlimited
		}},
		{"equal", func(o *Options) { o.Budget, o.QueuePages, o.BudgetDefault = "equal", Unlimited, 2 }},
		{"paper", func(o *Options) { o.QueuePages, o.BudgetDefault, o.BudgetMax = Unlimited, 2, 50 }},
	}
	shares := map[string]float64{}
	for _, farm := range []string{"", "wildcard-dns", "link-farm", "endless-farm"} {
		for _, p := range policies {
			if !*longRuns && (farm == "" || farm == "endless-farm" || p.name == "equal") {
				continue
			}
			share, ordinary := farmShare(t, pages, farm, p.set)
			shares[farm+" "+p.name] = share
			t.Logf("%-13s budgets %-6s %5.1f %% of %d pages; ordinary URLs fetched %d", farm, p.name, 100*share, pages, ordinary)
		}
	}
	// Of 400 pages 3 % are 12 ± 4. So the short form can only show that budgets have some effect.
	most, noise := 0.08, 1.0
	if *longRuns {
		most, noise = 0.05, 0.01
	}
	if off, on := shares["wildcard-dns off"], shares["wildcard-dns paper"]; on > most || on > off+noise {
		t.Errorf("a PLD of endless hosts got %.1f %% of the pages with budgets and %.1f %% without, want at most %.0f %%, and no more than without",
			100*on, 100*off, 100*most)
	}
}
