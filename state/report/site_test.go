package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"drumbeat/state/sitereport"
)

// hostileSite is a report with texts that would be markup if they were not quoted.
func hostileSite() *sitereport.Report {
	const bad = `"><script>alert('x')</script>&amp;`
	return &sitereport.Report{Site: "a.test" + bad, Pages: 2000,
		Statuses: map[int]int64{404: 2},
		Refused:  map[string]int64{bad: 1}, Notes: []string{bad}, Unchecked: []string{"large", bad},
		Findings: []*sitereport.Finding{
			{Kind: "broken-link", Severity: sitereport.Error, Title: bad, Means: bad, Fix: bad,
				Total: 300, Rows: []sitereport.Row{
					{URL: "http://a.test/?" + bad, Detail: bad, Count: 7,
						From: []sitereport.Source{{URL: "https://b.test/", Text: bad}, {URL: "javascript:alert(1)"}}}}},
			{Kind: "slow", Severity: sitereport.Warning, Title: "Nothing"},
			{Kind: "large", Severity: sitereport.Warning, Title: "Unknown"},
		}}
}

// TestSiteHTML: no text of a site becomes markup, and only links to http and https can be followed.
func TestSiteHTML(t *testing.T) {
	var b bytes.Buffer
	must(t, WriteSiteHTML(&b, hostileSite(), SiteOptions{}))
	tree, err := html.Parse(bytes.NewReader(b.Bytes()))
	must(t, err)
	hrefs, text := []string{}, ""
	for n := range tree.Descendants() {
		if n.Type == html.TextNode {
			text += n.Data
			continue
		}
		if n.Data == "script" || n.Data == "img" || n.Data == "link" {
			t.Errorf("the page has a <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				hrefs = append(hrefs, a.Val)
			}
		}
	}
	if len(hrefs) != 2 || !strings.HasPrefix(hrefs[0], "http://a.test/?") || hrefs[1] != "https://b.test/" {
		t.Errorf("links %q", hrefs)
	}
	for _, want := range []string{"the first 1 of 300", "and 5 more", "javascript:alert(1)", "alert('x')", "2,000",
		"Checked and fine: nothing.", "did not record the necessary data: unknown."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the text", want)
		}
	}
}

// TestSiteCuts: a text of megabytes takes no more room than others, and cannot turn the direction of what follows.
func TestSiteCuts(t *testing.T) {
	r := hostileSite()
	r.Findings[0].Rows[0].Detail = "\u202e" + strings.Repeat("ä", 1<<20)
	var b bytes.Buffer
	must(t, WriteSiteHTML(&b, r, SiteOptions{}))
	if b.Len() > 64<<10 || strings.Contains(b.String(), "\u202e") {
		t.Errorf("%d bytes", b.Len())
	}
}

func TestSiteCSV(t *testing.T) {
	var b bytes.Buffer
	r := hostileSite()
	r.Findings[1].Rows = []sitereport.Row{{URL: "http://a.test/slow", Detail: "2 s"}}
	must(t, WriteSiteCSV(&b, r))
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][6] != "error" ||
		rows[1][4] != "https://b.test/" || rows[1][5] != r.Site[len("a.test"):] ||
		rows[3][0] != "slow" || rows[3][4] != "" {
		t.Errorf("%q, %v", rows, err)
	}
}

// TestInWords: a client reads what a status or reason means.
func TestInWords(t *testing.T) {
	for in, want := range map[string]string{"status 404": "404 Not Found", "": "", "status x": "status x",
		"1.5 s": "1.5 s", "status 301, to http://a.test/": "301 Moved Permanently, to http://a.test/",
		"status 599":   "status 599",
		"no-such-host": "no server has this name"} {
		if got := inWords(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestSiteOthers: the pages of a group that are not listed are counted without the row's own.
func TestSiteOthers(t *testing.T) {
	r := &sitereport.Report{Site: "a.test",
		Findings: []*sitereport.Finding{{Kind: "duplicate", Severity: sitereport.Warning, Title: "same",
			Total: 1, Rows: []sitereport.Row{
				{URL: "http://a.test/1", Count: 2, From: []sitereport.Source{{URL: "http://a.test/2"}}}}}}}
	for others, want := range map[int64]string{1: "", 3: "and 2 more"} {
		r.Findings[0].Rows[0].Count = 1 + others
		var b bytes.Buffer
		must(t, WriteSiteHTML(&b, r, SiteOptions{}))
		if got := b.String(); strings.Contains(got, " more<") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%d others: want %q in\n%s", others, want, got)
		}
	}
}

// TestSheetCell: texts of sites are no formulas and have no control characters in the table for people; numbers stay.
func TestSheetCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "text": "text", "a=b": "a=b", "-5": "-5", "+1.5e3": "+1.5e3", "https://x.test/": "https://x.test/",
		`=HYPERLINK("http://evil","x")`: `'=HYPERLINK("http://evil","x")`, "-2+3": "'-2+3",
		"+cmd|'/C calc'!A0": "'+cmd|'/C calc'!A0", "@SUM(A1)": "'@SUM(A1)", "\t=1+1": "' =1+1", "\r@x": "' @x",
		"  =x": "'  =x", "＝1": "'＝1", "|x": "'|x", "a; =x;b": "a; '=x;b",
		`x;=HYPERLINK("http://evil")`: `x;'=HYPERLINK("http://evil")`, `x;"=1+1"`: `x;"'=1+1"`, "x;\t\"-1": `x; "'-1`,
		"a;＝1;＠b;|c": "a;'＝1;'＠b;'|c", "a;b=c": "a;b=c", "a=b;c": "a=b;c",
		"a\x1b]0;title\a\u009bb\u202ec\x00": "a ]0;title  b c ", "bad \xff": "bad \ufffd",
	} {
		if got := sheetCell(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
