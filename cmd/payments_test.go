package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestPayments: export and report list the hosts that asked for payment, with what the web's log says; explain names
// the reason; no request offers to pay.
func TestPayments(t *testing.T) {
	web, args := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.Hostile = 5, 5, 20, []string{"welcome-payment"}
	})
	dir := t.TempDir() + "/d"
	seeds := filepath.Join(t.TempDir(), "seeds")
	lines := strings.Join(append(web.Seeds(), web.HostileSeeds()...), "\n")
	if err := os.WriteFile(seeds, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := wantExit(t, term.ExitDone, "", append(args, "--seeds="+seeds, "--dir="+dir)...)
	asked := map[string]int{}
	sum := 0
	for _, q := range web.Log().Snapshot().Requests {
		if strings.HasPrefix(q.Host, "www.welcome-payment-") && !q.Robots && q.Status != 200 {
			asked[q.Host]++
			sum++
		}
	}
	if sum != 3*10+30 || !strings.Contains(out, fmt.Sprintf("%d responses asked for payment", sum)) {
		t.Errorf("%v; the summary says:\n%s", asked, out)
	}
	prices := [...]string{"USD 0.01", "license", "EUR 2", "unpriced"}
	hosts := 0
	for _, r := range exported(t, "hosts", "--dir="+dir) {
		host := r["host"].(string)
		var i int
		if _, err := fmt.Sscanf(host, "www.welcome-payment-%d.", &i); err != nil {
			if r["payment_responses"] != nil || r["payment_last"] != nil || r["payment_price"] != nil {
				t.Errorf("%v: it asked for nothing", r)
			}
			continue
		}
		hosts++
		if r["payment_responses"] != float64(asked[host]) || r["payment_price"] != prices[i] ||
			r["payment_prices"] != prices[i] || r["payment_first"].(string) > r["payment_last"].(string) {
			t.Errorf("%v, want %d responses and %q", r, asked[host], prices[i])
		}
	}
	if hosts != len(prices) {
		t.Errorf("%d hosts asked for payment, want %d", hosts, len(prices))
	}
	var report struct {
		Payments []struct {
			Host, Price string
			Responses   int
		}
	}
	out, _ = wantExit(t, term.ExitDone, "", "report", "--json", "-o", "-", "--dir="+dir)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Payments) != 4 || report.Payments[0].Price != "unpriced" || report.Payments[0].Responses != 30 {
		t.Errorf("the report has %v", report.Payments)
	}
	out, _ = wantExit(t, term.ExitDone, "", "report", "-o", "-", "--dir="+dir)
	if !strings.Contains(out, "USD 0.01") {
		t.Error("the page of the report has no price")
	}
	checkPaymentTexts(t, web, dir, sum)
}

// checkPaymentTexts checks explain of a URL that waits, and the WARC files, which have sum such responses.
func checkPaymentTexts(t *testing.T, web *simweb.Web, dir string, sum int) {
	t.Helper()
	for _, url := range web.HostileSeeds() {
		if strings.HasSuffix(url, "/59") && strings.Contains(url, "welcome-payment-0") { // it waits
			out, _ := wantExit(t, term.ExitDone, "", "explain", "url", url, "--dir="+dir)
			if !strings.Contains(out, "no requests to its host: backs off until ") ||
				!strings.Contains(out, ": asks for payment; ") {
				t.Errorf("explain of %s says:\n%s", url, out)
			}
		}
	}
	files, err := filepath.Glob(dir + "/warc/*.warc.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", err, files)
	}
	for _, name := range files {
		text := strings.ToLower(string(gunzip(t, []byte(readFile(t, name)))))
		if strings.Contains(text, "crawler-max-price") || strings.Contains(text, "crawler-exact-price") {
			t.Errorf("%s: a request offers to pay", name)
		}
		sum -= strings.Count(text, "\r\nhttp/1.1 402 ") + strings.Count(text, "\r\nwww-authenticate: license") +
			strings.Count(text, "\r\ncrawler-price: eur 2")
	}
	if sum != 0 {
		t.Errorf("%d responses that ask for payment are not in WARC files", sum)
	}
}
