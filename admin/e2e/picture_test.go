package e2e

import (
	"flag"
	"testing"
)

var pictured = flag.String("picture", "", "take pictures of the dashboard at this `URL`, for scripts/pictures.sh")

// TestPicture saves the dashboard of a running crawl in both themes, when its charts are drawn and its numbers have
// settled. scripts/pictures.sh runs it.
func TestPicture(t *testing.T) {
	if *pictured == "" {
		t.Skip("-picture is not set")
	}
	c, ctx := startChromium(t), within(t)
	for _, theme := range []string{"light", "dark"} {
		p := open(ctx, t, c, view{1280, 1010, 1.5}, theme, "dashboard", *pictured)
		p.until("the page is connected", "document.querySelector('#fresh').dataset.level === 'ok'")
		p.until("the charts are drawn", "!document.body.innerText.includes('No history yet')")
		p.until("the numbers have settled", "performance.now() > 12000")
		p.save("", false)
		p.close()
	}
}
