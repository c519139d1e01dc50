package state

import (
	"strings"
	"testing"
)

func TestAboutCheck(t *testing.T) {
	good := []About{{}, {Title: "Übersicht 2026", Description: strings.Repeat("a", MaxDescription), Operator: "A & B"}}
	for _, a := range good {
		if err := a.Check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	for want, a := range map[string]About{
		"title has 201 bytes, 1 more": {Title: strings.Repeat("a", MaxTitle+1)},
		"description has":             {Description: strings.Repeat("a", MaxDescription+1)},
		"operator is not UTF-8":       {Operator: "\xff"},
		"title has a line break":      {Title: "a\r\nWARC-Type: response"},
		"description has a line":      {Description: "a\x00b"},
	} {
		if err := a.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", a, err, want)
		}
	}
}

func TestName(t *testing.T) {
	for want, run := range map[string]*LastRun{
		"Crawl 1f":                              nil,
		"Crawl  1f":                             {Seeds: "-"},
		"Our archive":                           {About: About{Title: "Our archive"}, FirstSeeds: []string{"a"}},
		"Crawl of https://a/":                   {FirstSeeds: []string{"https://a/"}},
		"Crawl of https://a/ and other seeds":   {FirstSeeds: []string{"https://a/", "b.example"}},
		"Crawl of the seeds in lists/seeds.txt": {Seeds: "lists/seeds.txt"},
	} {
		if got := run.Name("1f"); got != strings.ReplaceAll(want, "  ", " ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
