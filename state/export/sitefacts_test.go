package export

import (
	"strings"
	"testing"
)

// TestLanguageCode: codes of hreflang that search engines know, and others.
func TestLanguageCode(t *testing.T) {
	for _, code := range []string{"en", "EN", "en-GB", "de-at", "x-default", "X-Default",
		"zh-Hant", "zh-Hant-TW", "pt-BR"} {
		if !languageCode(code) {
			t.Errorf("%s is refused", code)
		}
	}
	for _, code := range []string{"", "e", "xx", "en-UK", "en_GB", "en-", "english", "en-EU", "en-419", "GB",
		"en-Hant-TW-x", "en-Xxxx"} {
		if languageCode(code) {
			t.Errorf("%q is taken", code)
		}
	}
}

// TestJSONFault: the place of a fault is named, and what is too long to tell is none.
func TestJSONFault(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": [1, 2]}`: "", " \n": "it is empty", "{\"a\": 1,\n}": "line 2, near",
		strings.Repeat("x", maxJSONLD+1): "", "{} {}": "line 1, near"} {
		if got := jsonFault([]byte(text)); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
}
