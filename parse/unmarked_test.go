package parse

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"
)

const (
	plainType, xmlType = "text/html", "application/xhtml+xml"
	le, be             = unicode.LittleEndian, unicode.BigEndian
)

// utf16 returns a text in UTF-16 without a byte order mark.
func utf16(order unicode.Endianness, s string) string {
	out, err := unicode.UTF16(order, unicode.IgnoreBOM).NewEncoder().String(s)
	if err != nil {
		panic(err)
	}
	return out
}

// TestEncodingOfUnmarkedPages: the first step of the prescan knows XML declarations in UTF-16, its last one those in
// ASCII (HTML, 13.2.3.2); XML types have no meta tags. The links of the page, and FindEncoding, agree.
func TestEncodingOfUnmarkedPages(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, page, want string
		guess            bool
	}{
		"declaration in UTF-16LE": {kind: plainType, page: utf16(le, `<?xml version="1.0"?><html>`),
			want: "utf-16le"},
		"declaration in UTF-16BE": {kind: plainType, page: utf16(be, `<?xml version="1.0"?><html>`),
			want: "utf-16be"},
		"declaration with UTF-16": {kind: plainType, page: utf16(le, `<?xml version="1.0" encoding="UTF-16"?>`),
			want: "utf-16le"},
		"XHTML in UTF-16BE": {kind: xmlType, page: utf16(be, `<?xml version="1.0"?><html>`),
			want: "utf-16be"},
		"doctype in UTF-16LE": {kind: plainType, page: utf16(le, "<!DOCTYPE html><meta charset=gbk>"),
			want: "utf-16le"},
		"a tag in UTF-16BE": {kind: plainType, page: utf16(be, "<html>"), want: "utf-16be"},
		"the header wins over UTF-16": {kind: plainType + ";charset=utf-8", page: utf16(le, `<?xml version="1.0"?>`),
			want: "utf-8"},
		"declaration in ASCII": {kind: plainType, page: `<?xml version="1.0" encoding="koi8-r"?><html>`,
			want: "koi8-r"},
		"declaration, other quotes": {kind: plainType, page: "<?xml encoding =\t'Shift_JIS' ?>",
			want: "shift_jis"},
		"declaration of UTF-16 in ASCII": {kind: plainType, page: `<?xml version="1.0" encoding="utf-16"?>`,
			want: "utf-8"},
		"declaration and meta": {kind: plainType,
			page: `<?xml encoding="koi8-r"?><meta charset=gbk>`, want: "gbk"},
		"declaration, not at the start": {kind: plainType, page: ` <?xml encoding="koi8-r"?>`,
			want: "windows-1252", guess: true},
		"declaration without its end": {kind: plainType, page: `<?xml encoding="koi8-r" `,
			want: "windows-1252", guess: true},
		"declaration, label with a blank": {kind: plainType, page: `<?xml encoding=" koi8-r"?>`,
			want: "windows-1252", guess: true},
		"declaration, unknown label": {kind: plainType, page: `<?xml encoding="none"?>`,
			want: "windows-1252", guess: true},
		"XHTML, declaration and meta": {kind: xmlType, page: `<?xml encoding="koi8-r"?><meta charset="gbk"/>`,
			want: "koi8-r"},
		"XHTML, meta":                {kind: xmlType, page: `<html><meta charset="gbk"/>`, want: "utf-8"},
		"XHTML, header":              {kind: xmlType + ";charset=gbk", page: `<?xml encoding="koi8-r"?>`, want: "gbk"},
		"meta of UTF-16":             {kind: plainType, page: "<meta charset=utf-16le>", want: "utf-8"},
		"meta of a private encoding": {kind: plainType, page: "<meta charset=x-user-defined>", want: "windows-1252"},
		"UTF-8 behind a KiB": {kind: plainType, page: strings.Repeat("<!-- ASCII -->", 100) + "\u00e9t\u00e9",
			want: "utf-8", guess: true},
		"no UTF-8 behind a KiB": {kind: plainType, page: strings.Repeat("<!-- ASCII -->", 100) + "\u00e9\xe9t",
			want: "windows-1252", guess: true},
		"meta behind a KiB": {kind: plainType, page: strings.Repeat("<!-- ASCII -->", 100) + "<meta charset=koi8-r>",
			want: "koi8-r"},
		"an empty page": {kind: plainType, want: "windows-1252", guess: true},
	} {
		if got, named := FindEncoding([]byte(tt.page), tt.kind); got != tt.want || named == tt.guess {
			t.Errorf("%s: FindEncoding: got %s, named %v; want %s, %v", name, got, named, tt.want, !tt.guess)
		}
		if strings.Contains(name, "without its end") {
			continue // the link would end it
		}
		link := `<a href="/next">`
		switch tt.want {
		case "utf-16le":
			link = utf16(le, link)
		case "utf-16be":
			link = utf16(be, link)
		}
		page := parsePageAs(tt.kind, tt.page+link)
		if page.Charset != tt.want {
			t.Errorf("%s: Parse: got %s, want %s", name, page.Charset, tt.want)
		}
		if len(page.Links) != 1 {
			t.Errorf("%s: %d links, want 1", name, len(page.Links))
		}
	}
}
