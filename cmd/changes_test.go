package cmd

import (
	"fmt"
	"testing"

	"drumbeat/internal/simweb"
)

// checkChanges compares the changes of a crawl that visits each page once with the web.
func checkChanges(t *testing.T, web *simweb.Web, rows []map[string]any) {
	t.Helper()
	want := map[string]bool{}
	for url := range web.Expected("drumbeat").FetchedURLs() {
		switch page, _ := web.Page(url); {
		case page.Status == 200:
			want["new "+url] = true
		case page.Status >= 300 && page.Status <= 399:
			want["moved "+url] = true
		}
	}
	got, texts, tokens := map[string]bool{}, 0, map[any]bool{}
	for _, r := range rows {
		got[fmt.Sprint(r["change"], " ", r["url"])] = true
		tokens[r["token"]] = true
		if r["text"] != nil {
			texts++
		}
	}
	differ(t, "changes", got, want)
	if len(rows) != len(got) || len(tokens) != len(rows) || texts < len(rows)/2 {
		t.Errorf("%d rows, %d changes, %d tokens, %d texts", len(rows), len(got), len(tokens), texts)
	}
}
