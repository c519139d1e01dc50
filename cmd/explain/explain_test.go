package explain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// checkLines runs explain on the questions and compares the answers line by line.
func checkLines(t *testing.T, kind string, cases [][2]string) {
	t.Helper()
	var in strings.Builder
	for _, c := range cases {
		in.WriteString(c[0] + "\n")
	}
	code, out, errs := runApp(t, in.String(), "explain", kind)
	if code != 0 || errs != "" {
		t.Fatalf("got exit code %d and %q, want 0 and nothing", code, errs)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(cases), out)
	}
	for i, c := range cases {
		want, got := c[1], lines[i]
		if prefix, ok := strings.CutSuffix(want, "…"); ok {
			got = got[:min(len(got), len(prefix))]
			want = prefix
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", c[0], got, want)
		}
	}
}

func TestExplainRobotsLines(t *testing.T) {
	checkLines(t, "robots", [][2]string{
		{`{"robots":"User-agent: *\nDisallow: /private/\nAllow: /private/open","agent":"drumbeat",` +
			`"url":"http://example.org/private/x"}`,
			`{"allowed":false,"rule":"Disallow: /private/","crawl_delay":0}`},
		{`{"robots":"User-agent: *\nDisallow: /private/\nAllow: /private/open","agent":"drumbeat",` +
			`"url":"https://example.org/private/open?x"}`,
			`{"allowed":true,"rule":"Allow: /private/open","crawl_delay":0}`},
		{`{"robots":"","agent":"drumbeat","url":"http://example.org/"}`, `{"allowed":true,"rule":"","crawl_delay":0}`},
		{`{"robots":"User-agent: Foo\nCrawl-delay: 1.5\nDisallow: /","agent":"foo",` +
			`"url":"http://example.org/robots.txt"}`,
			`{"allowed":true,"rule":"","crawl_delay":1.5}`},
		{`{"robots":"User-agent: foo\nDisallow: /","agent":"bar","url":"http://example.org/"}`,
			`{"allowed":true,"rule":"","crawl_delay":0}`},
		{`{"robots_base64":"` +
			base64.StdEncoding.EncodeToString([]byte("\xef\xbb\xbfUser-agent: *\rDisallow: /\xff")) +
			`","agent":"x","url":"http://example.org/%FF"}`,
			`{"allowed":false,"rule":"Disallow: /%FF","crawl_delay":0}`},
		{`{"robots":"","agent":"x","url":"mailto:x"}`,
			`{"error":"URL \"mailto:x\": weburl: scheme is neither http nor https"}`},
		{`{"agent":"x","url":"http://example.org/"}`, `{"error":"neither \"robots\" nor \"robots_base64\" is given"}`},
		{`{"robots":"","robots_base64":"","url":"http://example.org/"}`,
			`{"error":"both \"robots\" and \"robots_base64\" are given"}`},
		{`{"robots_base64":"?","url":"http://example.org/"}`, `{"error":"\"robots_base64\": …`},
		{`{"robots":1}`, `{"error":"not the expected JSON object: …`},
		{`[]`, `{"error":"not the expected JSON object: …`},
		{`{"robots":"","url":"http://a/"} {}`, `{"error":"more than one JSON value on the line"}`},
		{"{\"robots\":\"\xff\"}", `{"error":"the line is not UTF-8; …`},
		{``, `{"error":"the line is empty, not a JSON object"}`},
	})
}

func TestExplainURLLines(t *testing.T) {
	checkLines(t, "url", [][2]string{
		{`{"base":"","ref":"HTTP://Example.ORG:80/a/../b?c#d"}`,
			`{"href":"http://example.org/b?c#d","url":"http://example.org/b?c","host":"example.org",` +
				`"pld":"example.org"}`},
		{`{"base":"http://www.example.co.uk/x/y?z#w","ref":"../é?ü#ö<"}`,
			`{"href":"http://www.example.co.uk/%C3%A9?%C3%BC#%C3%B6%3C",` +
				`"url":"http://www.example.co.uk/%C3%A9?%C3%BC",` +
				`"host":"www.example.co.uk","pld":"example.co.uk"}`},
		{`{"base":"http://example.org/x","ref":""}`,
			`{"href":"http://example.org/x","url":"http://example.org/x","host":"example.org","pld":"example.org"}`},
		{`{"ref":"http://bücher.example/"}`,
			`{"href":"http://xn--bcher-kva.example/","url":"http://xn--bcher-kva.example/",` +
				`"host":"xn--bcher-kva.example","pld":"xn--bcher-kva.example"}`},
		{`{"ref":"http://0x7f.1:8080/"}`,
			`{"href":"http://127.0.0.1:8080/","url":"http://127.0.0.1:8080/","host":"127.0.0.1","pld":"127.0.0.1"}`},
		{`{"ref":"http://user:pw@[0:0::1]/#"}`,
			`{"href":"http://user:pw@[::1]/#","url":"http://[::1]/","host":"[::1]","pld":"[::1]"}`},
		{`{"ref":"mailto:x"}`, `{"href":"mailto:x","error":"weburl: scheme is neither http nor https"}`},
		{`{"base":"mailto:x","ref":"http://example.org"}`,
			`{"href":"http://example.org/","url":"http://example.org/","host":"example.org","pld":"example.org"}`},
		{`{"base":"http://example.org/","ref":"http://a b/"}`,
			`{"error":"\"http://a b/\" on \"http://example.org/\" is not a URL"}`},
		{`{"base":"not a URL","ref":"x"}`, `{"error":"…`},
		{`{"base":"http://example.org/"}`, `{"error":"no \"ref\" is given"}`},
	})
}

func TestExplainPLDLines(t *testing.T) {
	checkLines(t, "pld", [][2]string{
		{`{"host":"www.example.com"}`, `{"pld":"example.com","suffix":false}`},
		{`{"host":"a.b.example.co.uk"}`, `{"pld":"example.co.uk","suffix":false}`},
		{`{"host":"CO.UK"}`, `{"pld":"co.uk","suffix":true}`},
		{`{"host":"com"}`, `{"pld":"com","suffix":true}`},
		{`{"host":"www.ck"}`, `{"pld":"www.ck","suffix":false}`},
		{`{"host":"user.github.io"}`, `{"pld":"github.io","suffix":false}`},
		{`{"host":"食狮.公司.cn"}`, `{"pld":"xn--85x722f.xn--55qx5d.cn","suffix":false}`},
		{`{"host":"192.0.2.1"}`, `{"pld":"192.0.2.1","suffix":false}`},
		{`{"host":"2001:db8::1"}`, `{"pld":"[2001:db8::1]","suffix":false}`},
		{`{"host":"example.com."}`, `{"pld":"example.com","suffix":false}`},
		{`{"host":""}`, `{"error":"…`},
		{`{"host":"a..example.com"}`, `{"error":"host \"a..example.com\": it has an empty label"}`},
		{`{"host":"http://example.com/"}`, `{"error":"…`},
		{`{}`, `{"error":"no \"host\" is given"}`},
	})
}

func TestExplainLinksLines(t *testing.T) {
	checkLines(t, "links", [][2]string{
		{`{"url":"http://example.org/d/","content_type":"text/html; charset=utf-8","html":"<a href=x>1</a><A ` +
			`HREF='/y#f' rel=nofollow>2</a>` +
			`<area href=//o.example/z><iframe src=g></iframe><a href=mailto:x>3</a>"}`,
			`{"base":"http://example.org/d/","charset":"utf-8","links":[{"url":"http://example.org/d/x","tag":"a",` +
				`"nofollow":false},` +
				`{"url":"http://example.org/y","tag":"a","nofollow":true},{"url":"http://o.example/z","tag":"area",` +
				`"nofollow":false},` +
				`{"url":"http://example.org/d/g","tag":"iframe","nofollow":false}]}`},
		{`{"url":"http://example.org/d/","content_type":"","html":"<base href=../b/><meta http-equiv=refresh ` +
			`content='0;url=r'><a href=?q>"}`,
			`{"base":"http://example.org/b/","charset":"windows-1252","links":[{"url":"http://example.org/b/r",` +
				`"tag":"meta","nofollow":false},` +
				`{"url":"http://example.org/b/?q","tag":"a","nofollow":false}]}`},
		{`{"url":"http://example.org/","content_type":"","html":"no links"}`,
			`{"base":"http://example.org/","charset":"windows-1252","links":[]}`},
		{`{"url":"http://example.org/","content_type":"text/html; charset=windows-1251","html_base64":"` +
			base64.StdEncoding.EncodeToString([]byte("<a href='?\xe4'>")) + `"}`,
			`{"base":"http://example.org/","charset":"windows-1251","links":[{"url":"http://example.org/?%E4",` +
				`"tag":"a","nofollow":false}]}`},
		{`{"url":"ftp://example.org/","content_type":"","html":""}`, `{"error":"URL \"ftp://example.org/\": …`},
		{`{"content_type":"","html":""}`, `{"error":"no \"url\" is given"}`},
		{`{"url":"http://example.org/"}`, `{"error":"neither \"html\" nor \"html_base64\" is given"}`},
	})
}

// TestExplainLongLine: the answer to a line over the limit is an error; the next line is answered as usual.
func TestExplainLongLine(t *testing.T) {
	long := `{"host":"` + strings.Repeat("x", maxLine) + `"}`
	code, out, _ := runApp(t, long+"\n"+`{"host":"example.com"}`, "explain", "pld")
	want := `{"error":"the line has more than 33554432 bytes"}` + "\n" + `{"pld":"example.com","suffix":false}` + "\n"
	if code != 0 || out != want {
		t.Errorf("got %d, %.200q, want 0, %q", code, out, want)
	}
}

// TestExplainAnswersAtOnce: a program gets the answer to a question before it sends the next one.
func TestExplainAnswersAtOnce(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a := term.NewApp(inR, outW, io.Discard)
	done := make(chan int)
	go func() { done <- run(a, []string{"explain", "pld"}) }()
	dec := json.NewDecoder(outR)
	for range 3 {
		if _, err := io.WriteString(inW, `{"host":"www.example.com"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		var answer pldAnswer
		if err := dec.Decode(&answer); err != nil || answer.PLD != "example.com" {
			t.Fatalf("got %+v, %v, want example.com", answer, err)
		}
	}
	inW.Close()
	if code := <-done; code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// TestExplainForPeople: questions in arguments are answered in words.
func TestExplainForPeople(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"explain", "url", "--base", "http://example.org/x/", "../y#z"}, 0,
			"../y#z\n  href       http://example.org/y#z\n  url        http://example.org/y\n" +
				"  host       example.org\n  pld        example.org\n"},
		{[]string{"explain", "url", "mailto:x"}, 2, "mailto:x\n"},
		{[]string{"explain", "pld", "a.example.com", "com"}, 0,
			"a.example.com\n  pld  example.com\ncom\n  pld  com  (a public suffix itself)\n"},
		{[]string{"explain", "robots", "-", "/a", "http://example.org/b"}, 0,
			"the group for * applies to drumbeat, 1 rule, crawl delay 0 s\n/a\n  disallowed: Disallow: /a\n" +
				"  second opinion (temoto/robotstxt): agrees\nhttp://example.org/b\n  allowed: no rule matches\n" +
				"  second opinion (temoto/robotstxt): agrees\n"},
		{[]string{"explain", "robots", "no-such-file", "/a"}, 2, ""},
		{[]string{"explain", "robots", "-"}, 2, ""},
	} {
		code, out, errs := runApp(t, "User-agent: *\nDisallow: /a\n", c.args...)
		if code != c.code || !strings.HasPrefix(out, c.want) || code != 0 && out == "" && errs == "" {
			t.Errorf("%v:\ngot  %d %q %q\nwant %d %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

func FuzzExplain(f *testing.F) {
	f.Add([]byte(`{"robots":"","agent":"x","url":"http://a/","base":"","ref":"x","host":"a","html":"<a href=x>"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Skip()
		}
		for _, kind := range []string{"robots", "url", "pld", "links"} {
			var out bytes.Buffer
			a := &term.App{Stdin: bytes.NewReader(append(line, '\n')), Stdout: &out, Stderr: io.Discard}
			if code := run(a, []string{"explain", kind}); code != 0 || bytes.Count(out.Bytes(), []byte("\n")) != 1 ||
				!json.Valid(out.Bytes()) {
				t.Fatalf("explain %s: got %d, %q", kind, code, out.Bytes())
			}
		}
	})
}
