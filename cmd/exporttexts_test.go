package cmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/maintext"
	"drumbeat/internal/simweb"
)

// tableRows returns the rows of the parts of a table in JSON lines.
func tableRows(t *testing.T, dir string) (rows []map[string]any) {
	t.Helper()
	for _, name := range globbed(t, dir+"/part-*.jsonl") {
		for line := range strings.Lines(readFile(t, name)) {
			var r map[string]any
			must(t, json.Unmarshal([]byte(line), &r))
			rows = append(rows, r)
		}
	}
	return rows
}

// textsOf returns the main texts of pages.
func textsOf(t *testing.T, web *simweb.Web, pages map[string]bool) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for url := range pages {
		p, _ := web.Page(url)
		doc, err := maintext.HTML(bytes.NewReader(p.Body), p.Type, url)
		must(t, err)
		texts[url] = string(doc.Main)
	}
	return texts
}

// TestExportTexts: without exact copies, a text of the web is kept once, at the shortest URL. The others are
// listed with the kept page, and each page of the web is in one table.
func TestExportTexts(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, dir, at, pages := crawlForTexts(t, "--content-seen=off")
	texts := textsOf(t, web, pages)
	first := map[string]string{} // by text
	for _, url := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}) {
		if first[texts[url]] == "" {
			first[texts[url]] = url
		}
	}
	all := extracted(t, at...)
	for _, dedup := range []string{"exact", "near"} {
		to := dir + "/" + dedup
		args := append([]string{"export", "texts", "--dedup=" + dedup, "--format=jsonl", "-o", to}, at...)
		wantExit(t, term.ExitDone, "", args...)
		seen, kept := map[string]bool{}, map[string]bool{}
		for _, r := range tableRows(t, to+"/kept") {
			url := r["url"].(string)
			if seen[url], kept[url] = true, true; !maps.Equal(r, all[url]) {
				t.Errorf("%s: row %v, of extract %v", dedup, r, all[url])
			}
			if dedup == "exact" && first[texts[url]] != url {
				t.Errorf("%s is kept, a copy of %s", url, first[texts[url]])
			}
		}
		for _, r := range tableRows(t, to+"/duplicates") {
			url, other := r["url"].(string), r["kept_url"].(string)
			if seen[url] || !kept[other] || r["same_text"] != (texts[url] == texts[other]) ||
				r["warc_record_offset"] != all[url]["warc_record_offset"] ||
				r["fetch_time"] != all[url]["fetch_time"] ||
				r["kept_fetch_time"] != all[other]["fetch_time"] {
				t.Errorf("%s: row %v", dedup, r)
			}
			seen[url] = true
		}
		differ(t, dedup, seen, pages)
		if dedup == "exact" && len(kept) != len(first) {
			t.Errorf("%d kept, want %d", len(kept), len(first))
		}
		t.Logf("%s: %d of %d pages are kept", dedup, len(kept), len(pages))
		if _, said := wantExit(t, term.ExitDone, "", args...); !strings.Contains(said, "is complete") {
			t.Errorf("said %s", said)
		}
	}
}

// TestExportTextsFaults: bad flags are said clearly, and a damaged record is left out.
func TestExportTextsFaults(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, at, _ := crawlForTexts(t)
	fails := func(code int, want string, args ...string) {
		t.Helper()
		args = slices.Concat([]string{"export"}, args, at)
		if _, said := wantExit(t, code, "", args...); !strings.Contains(said, want) {
			t.Errorf("%q says %q, want %q", args, said, want)
		}
	}
	fails(term.ExitUsage, "needs --dedup exact or near", "texts", "-o", dir+"/x")
	fails(term.ExitUsage, "must name a directory", "texts", "--dedup=near", "--format=jsonl", "-o", "-")
	fails(term.ExitUsage, "only for texts", "pages", "--dedup=near", "-o", dir+"/x")
	fails(term.ExitUsage, "only for texts", "pages", "--fields=text", "-o", dir+"/x")
	fails(term.ExitUsage, "want text, lang", "texts", "--dedup=near", "--fields=words", "-o", dir+"/x")
	all := extracted(t, at...)
	url := slices.Min(slices.Collect(maps.Keys(all)))
	row := all[url]
	name := globbed(t, dir+"/o*/warc/"+row["warc_filename"].(string))[0]
	bad := []byte(readFile(t, name))
	bad[int(row["warc_record_offset"].(float64))+int(row["warc_record_length"].(float64))-6] ^= 1 // its checksum
	must(t, os.WriteFile(name, bad, 0o600))
	fails(term.ExitDamage, "1 record is damaged", "texts", "--dedup=exact", "--format=jsonl", "-o", dir+"/damaged")
	n := 0
	for _, table := range []string{"kept", "duplicates"} {
		for _, r := range tableRows(t, dir+"/damaged/"+table) {
			if n++; r["url"] == url {
				t.Errorf("row %v of a damaged record", r)
			}
		}
	}
	if n < len(all)-1 {
		t.Errorf("%d rows, want %d", n, len(all)-1)
	}
}
