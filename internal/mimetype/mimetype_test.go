package mimetype

import (
	"strings"
	"testing"
	"testing/quick"
)

// latin1 are the bytes 0x80 to 0xFF, which a quoted value may have.
var latin1 = func() string {
	var b strings.Builder
	for c := 0x80; c <= 0xFF; c++ {
		b.WriteByte(byte(c))
	}
	return b.String()
}()

const (
	punctuation = "!#$%&'*+-.^_`|~0123456789"
	long        = "01234567890123456789012345678901234567890123456789012345678901234" +
		"56789012345678901234567890123456789012345678901234567890123456789"
)

// TestExtract: the published cases of the Fetch standard's algorithm (web-platform-tests, fetch/content-type), which
// browsers are tested with, and others. The values are those of several fields.
func TestExtract(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{[]string{"", "text/plain"}, "text/plain"},
		{[]string{"text/plain", ""}, "text/plain"},
		{[]string{"text/html", "text/plain"}, "text/plain"},
		{[]string{"text/plain;charset=gbk", "text/html"}, "text/html"},
		{[]string{"text/plain;charset=gbk", "text/html;charset=windows-1254"}, "text/html;charset=windows-1254"},
		{[]string{"text/plain;charset=gbk", "text/plain"}, "text/plain;charset=gbk"},
		{[]string{"text/plain;charset=gbk", "text/plain;charset=windows-1252"}, "text/plain;charset=windows-1252"},
		{[]string{"text/html;charset=gbk", `text/html;x=",text/plain`}, `text/html;x=",text/plain";charset=gbk`},
		{[]string{"text/html;charset=gbk", "text/plain", "text/html"}, "text/html"},
		{[]string{"text/plain", "*/*"}, "text/plain"},
		{[]string{"text/html", "*/*"}, "text/html"},
		{[]string{"*/*", "text/html"}, "text/html"},
		{[]string{"text/plain", "*/*;charset=gbk"}, "text/plain"},
		{[]string{"text/html", "*/*;charset=gbk"}, "text/html"},
		{[]string{`text/html;x="`, "text/plain"}, `text/html;x=", text/plain"`},
		{[]string{`text/html;"`, "text/plain"}, "text/html"},

		{[]string{"text/javascript;charset=windows-1252"}, "text/javascript;charset=windows-1252"},
		{[]string{`text/javascript;";charset=windows-1252`}, "text/javascript;charset=windows-1252"},
		{[]string{"text/javascript\f"}, ""},
		{[]string{"text / javascript"}, ""},
		{[]string{"x/x", "text/javascript"}, "text/javascript"},
		{[]string{"x/x;charset=windows-1252", "text/javascript"}, "text/javascript"},
		{[]string{"text/javascript", "x/x"}, "x/x"},
		{[]string{"text/javascript; charset=windows-1252", "text/javascript"}, "text/javascript;charset=windows-1252"},
		{[]string{`text/javascript;"`, "x/x"}, "text/javascript"},
		{[]string{"text/javascript", "error"}, "text/javascript"},
		{[]string{"text/javascript;charset=windows-1252", "x/x", "text/javascript"}, "text/javascript"},
		{[]string{"text/javascript;charset=windows-1252", "error", "text/javascript"},
			"text/javascript;charset=windows-1252"},

		{nil, ""},
		{[]string{"*/*"}, ""},
		{[]string{"html"}, ""},
		{[]string{"text/html, text/html; charset=utf-8"}, "text/html;charset=utf-8"},
		{[]string{"text/html; charset=utf-8, text/html"}, "text/html;charset=utf-8"},
		{[]string{"TEXT/HTML;charset=koi8-r, text/html,, */*"}, "text/html;charset=koi8-r"},
		{[]string{"text/html;charset=a, text/html;charset=b, text/html"}, "text/html;charset=a"},
		{[]string{`text/html;x="a\",b"`, "image/png"}, "image/png"},
		{[]string{`text/html;x="a\`}, `text/html;x="a\\"`},
		{[]string{"image/png;charset=\x01, text/html"}, "text/html"},
	} {
		values := strings.Join(tt.values, ", ")
		if got := Extract(values).String(); got != tt.want {
			t.Errorf("%q: got %q, want %q", values, got, tt.want)
		}
	}
}

// TestParse: the published cases of the MIME Sniffing standard's parser (web-platform-tests, mimesniff/mime-types).
func TestParse(t *testing.T) {
	all := " !\\\"" +
		"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\\\]^_`abcdefghijklmnopqrstuvwxyz{|}~" + latin1
	upper, small := "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvxyz"
	low := strings.ToLower(upper)
	token := punctuation + upper + small
	for in, want := range map[string]string{
		"text/html;charset=gbk":                      "text/html;charset=gbk",
		"TEXT/HTML;CHARSET=GBK":                      "text/html;charset=GBK",
		"text/html;charset=gbk(":                     `text/html;charset="gbk("`,
		"text/html;x=(;charset=gbk":                  `text/html;x="(";charset=gbk`,
		"text/html;charset=gbk;charset=windows-1255": "text/html;charset=gbk",
		"text/html;charset =gbk":                     "text/html",
		"text/html ;charset=gbk":                     "text/html;charset=gbk",
		"text/html; charset=gbk":                     "text/html;charset=gbk",
		"text/html;charset= gbk":                     `text/html;charset=" gbk"`,
		"text/html;charset='gbk'":                    "text/html;charset='gbk'",
		"text/html;charset='gbk":                     "text/html;charset='gbk",
		"text/html;charset=gbk'":                     "text/html;charset=gbk'",
		"text/html;test;charset=gbk":                 "text/html;charset=gbk",
		"text/html;test=;charset=gbk":                "text/html;charset=gbk",
		"text/html;';charset=gbk":                    "text/html;charset=gbk",
		`text/html;";charset=gbk`:                    "text/html;charset=gbk",
		"text/html ; ; charset=gbk":                  "text/html;charset=gbk",
		"text/html;;;;charset=gbk":                   "text/html;charset=gbk",
		`text/html;charset="gbk"`:                    "text/html;charset=gbk",
		`text/html;charset="gbk`:                     "text/html;charset=gbk",
		`text/html;charset=gbk"`:                     `text/html;charset="gbk\""`,
		`text/html;charset=" gbk"`:                   `text/html;charset=" gbk"`,
		`text/html;charset="\ gbk"`:                  `text/html;charset=" gbk"`,
		`text/html;charset="\g\b\k"`:                 "text/html;charset=gbk",
		`text/html;charset="gbk"x`:                   "text/html;charset=gbk",
		`text/html;charset="gbk"x;charset=utf-8;a=b`: "text/html;charset=gbk;a=b",
		`text/html;charset="";charset=GBK`:           `text/html;charset=""`,
		"text/html;charset={gbk}":                    `text/html;charset="{gbk}"`,
		"text/html;" + long + "=x;charset=gbk":       "text/html;" + long + "=x;charset=gbk",
		long + "/" + long:                            long + "/" + long,
		token + "/" + token + ";" + token + "=" + token: punctuation + low + small + "/" + punctuation + low + small +
			";" + punctuation + low + small + "=" + token,
		`x/x;x="` + all + `"`:             `x/x;x="` + all + `"`,
		"x/x;test":                        "x/x",
		`x/x;test="\`:                     `x/x;test="\\"`,
		"text/html;test=\xFF;charset=gbk": "text/html;test=\"\xFF\";charset=gbk",
		"":                                "",
		"\t":                              "",
		"bogus":                           "",
		"bogus/":                          "",
		"bogus/ ":                         "",
		"bogus/bogus/;":                   "",
		"</>":                             "",
		"(/)":                             "",
		"text/html(;doesnot=matter":       "",
		"{/}":                             "",
		"\u0100/\u0100":                   "",
		"x/x\x00":                         "",
		"x/x;y=\x7f;z=1":                  "x/x;z=1",
	} {
		got := Parse(in).String()
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if again := Parse(got).String(); again != got {
			t.Errorf("%q: parsed again it is %q", got, again)
		}
	}
}

// TestExtractKeepsItsResult: the serialized result names the same type, and no input makes it panic.
func TestExtractKeepsItsResult(t *testing.T) {
	const alphabet = `tx/ ;,="\*é'` + "\t\x00"
	if err := quick.Check(func(picks []byte) bool {
		var b strings.Builder
		for _, p := range picks {
			b.WriteByte(alphabet[int(p)%len(alphabet)])
		}
		got := Extract(b.String()).String()
		return Extract(got).String() == got
	}, nil); err != nil {
		t.Error(err)
	}
}
