package robots

import (
	"strings"
	"testing"
)

// verdictCase is a case of RFC 9309 or of Google's published behaviour: an agent, a file, and verdicts on
// paths.
type verdictCase struct {
	name   string
	robots string
	agent  string
	allow  string // allowed paths, separated by blanks
	deny   string // disallowed paths
}

var verdictCases = []verdictCase{
	{"empty file", "", "FooBot", "/ /x", ""},
	{"no agent of ours", "user-agent: FooBot\ndisallow: /\n", "", "/ /x", ""},
	{"root", "user-agent: FooBot\ndisallow: /\n", "FooBot", "/robots.txt /robots.txt?x", "/ /x /robots.txt2"},
	{"empty path is the root", "user-agent: FooBot\ndisallow: /\n", "FooBot", "", "? ?x"},
	{"unknown names", "foo: FooBot\nbar: /\n", "FooBot", "/x/y", ""},
	{"missing colon", "user-agent FooBot\ndisallow /\n", "FooBot", "", "/x/y"},
	{"missing colon, three words", "user-agent FooBot x\ndisallow /\n", "FooBot", "/x/y", ""},
	{"groups, first", groupsFile, "FooBot", "/x/b /z/d", "/y/c /foo/bar/"},
	{"groups, second", groupsFile, "BarBot", "/y/c /w/a", "/z/d /foo/bar/"},
	{"groups, third joins the next", groupsFile, "BazBot", "/z/d", "/foo/bar/"},
	{"other lines don't split", "user-agent: BarBot\nSitemap: https://foo.bar/sitemap\nuser-agent: *\ndisallow: /\n",
		"BarBot", "", "/"},
	{"other lines don't split, other agent",
		"user-agent: BarBot\nInvalid-Unknown-Line: unknown\nuser-agent: *\ndisallow: /\n", "FooBot", "", "/"},
	{"crawl-delay doesn't split", "User-agent: a\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x\n", "a", "/", "/x"},
	{"names upper", "USER-AGENT: FooBot\nALLOW: /x/\nDISALLOW: /\n", "FooBot", "/x/y", "/a/b"},
	{"names mixed", "uSeR-aGeNt: FooBot\nAlLoW: /x/\ndIsAlLoW: /\n", "FooBot", "/x/y", "/a/b"},
	{"agent upper", "User-Agent: FOO BAR\nAllow: /x/\nDisallow: /\n", "foo", "/x/y", "/a/b"},
	{"agent mixed", "User-Agent: FoO bAr\nAllow: /x/\nDisallow: /\n", "Foo", "/x/y", "/a/b"},
	{"agent up to the first blank", "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n",
		"Foo", "/x/y", "/a"},
	{"agent with version", "User-agent: foobot/2.1\nDisallow: /x\n", "FooBot", "/", "/x"},
	{"our agent with version", "User-agent: foobot\nDisallow: /x\n", "FooBot/1.0", "/", "/x"},
	{"no prefix of a longer agent", "User-agent: foo\nDisallow: /\n", "foobot", "/", ""},
	{"no longer agent", "User-agent: foobot\nDisallow: /\n", "foo", "/", ""},
	{"star with more", "User-agent: * baz\nDisallow: /x\nUser-agent: FooBot\nDisallow: /y\n", "Other", "/y", "/x"},
	{"star joined is no star", "User-agent: *bot\nDisallow: /x\n", "FooBot", "/x", ""},
	{"global allow, specific disallow", "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n", "FooBot",
		"", "/x"},
	{"global, other agent", "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n", "BarBot", "/x/y", ""},
	{"no group for us", "user-agent: FooBot\ndisallow: /\nuser-agent: BarBot\ndisallow: /\n", "QuxBot", "/x", ""},
	{"own empty group beats star", "user-agent: FooBot\ndisallow:\nuser-agent: *\ndisallow: /\n", "FooBot", "/x", ""},
	{"own group without rules at the end", "user-agent: *\ndisallow: /\n\nuser-agent: FooBot\n", "FooBot", "/x", ""},
	{"own group merges", "user-agent: a\ndisallow: /1\nuser-agent: b\ndisallow: /2\nuser-agent: A\ndisallow: /3\n",
		"a", "/2", "/1 /3"},
	{"star groups merge", "user-agent: *\ndisallow: /1\nuser-agent: b\ndisallow: /2\nuser-agent: *\ndisallow: /3\n",
		"a", "/2", "/1 /3"},
	{"case of paths", "user-agent: FooBot\ndisallow: /X/\n", "FooBot", "/x/y", "/X/y"},
	{"longest, disallow", "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/\n", "FooBot", "/x/", "/x/page.html"},
	{"longest, allow", "user-agent: FooBot\nallow: /x/page.html\ndisallow: /x/\n", "FooBot", "/x/page.html", "/x/"},
	{"both empty", "user-agent: FooBot\ndisallow: \nallow: \n", "FooBot", "/x/page.html", ""},
	{"tie on root", "user-agent: FooBot\ndisallow: /\nallow: /\n", "FooBot", "/x/page.html", ""},
	{"tie", "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html\n", "FooBot", "/x/page.html", ""},
	{"slash matters", "user-agent: FooBot\ndisallow: /x\nallow: /x/\n", "FooBot", "/x/", "/x"},
	{"wildcard is longer", "user-agent: FooBot\nallow: /page\ndisallow: /*.html\n", "FooBot", "/page", "/page.html"},
	{"wildcard is shorter", "user-agent: FooBot\nallow: /x/page.\ndisallow: /*.html\n", "FooBot", "/x/page.html",
		"/x/y.html"},
	{"own group only", "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n", "FooBot", "/x/page",
		"/y/page"},
	{"query stays raw", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n",
		"FooBot", "/foo/bar?qux=taz&baz=http://foo.bar?tar&par", "/foo"},
	{"UTF-8 in a rule", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/ツ\n", "FooBot", "/foo/bar/%E3%83%84", "/foo"},
	{"escaped UTF-8", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n", "FooBot", "/foo/bar/%e3%83%84",
		"/foo"},
	// This follows RFC 9309 (2.2.2, last row of its table). Google compares as spelled.
	{"escaped letters", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n", "FooBot",
		"/foo/bar/baz /foo/bar/%62%61%7A", "/foo"},
	{"escaped slash is no slash", "User-agent: FooBot\nDisallow: /a%2fb\n", "FooBot", "/a/b", "/a%2Fb /a%2fb"},
	{"Latin-1 byte", "User-agent: FooBot\nDisallow: /\xe9t\xe9\n", "FooBot", "/%C3%A9t", "/%E9t%e9 /%e9t%E9x"},
	{"blank inside", "User-agent: FooBot\nDisallow: /a b\n", "FooBot", "/a", "/a%20b /a%20bc"},
	{"tilde", "User-agent: FooBot\nDisallow: /%7Ejoe\n", "FooBot", "/joe", "/~joe /%7ejoe"},
	{"apostrophe", "User-agent: FooBot\nDisallow: /?a='x'\n", "FooBot", "/", "/?a=%27x%27 /?a='x'"},
	{"literal star", "User-agent: FooBot\nDisallow: /file-with-a-%2A.html\n", "FooBot", "/file-with-a-x.html",
		"/file-with-a-*.html /file-with-a-%2a.html"},
	{"literal dollar", "User-agent: FooBot\nDisallow: /foo-%24\n", "FooBot", "/foo-", "/foo-$ /foo-%24 /foo-$x"},
	{"dollar inside", "User-agent: FooBot\nDisallow: /a$b\n", "FooBot", "/a", "/a$b /a%24bc"},
	{"bad escape", "User-agent: FooBot\nDisallow: /a%zz\nDisallow: /b%4\n", "FooBot", "/a", "/a%zz /b%4x"},
	{"star inside", "User-agent: FooBot\nDisallow: /foo/bar/quz\nAllow: /foo/*/qux\n", "FooBot",
		"/foo/quz /foo//quz /foo/bax/quz", "/foo/bar/quz"},
	{"end", "User-agent: FooBot\nDisallow: /foo/bar$\nAllow: /foo/bar/qux\n", "FooBot",
		"/foo/bar/qux /foo/bar/ /foo/bar/baz", "/foo/bar"},
	{"comment", "User-agent: FooBot\n# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n", "FooBot", "/foo/bar",
		"/foo/quz"},
	{"comment after agent", "User-agent: FooBot# x\nDisallow: /x\n", "FooBot", "/", "/x"},
	{"index.html is the directory", "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n", "foobot",
		"/allowed-slash/ /allowed-slash/index.html", "/allowed-slash/index.htm /anyother-url /allowed-slash/x"},
	{"fish", "user-agent: FooBot\ndisallow: /\nallow: /fish\n", "FooBot",
		"/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything",
		"/bar /Fish.asp /catfish /?id=fish"},
	{"fish star", "user-agent: FooBot\ndisallow: /\nallow: /fish*\n", "FooBot",
		"/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything",
		"/bar /Fish.bar /catfish /?id=fish"},
	{"fish slash", "user-agent: FooBot\ndisallow: /\nallow: /fish/\n", "FooBot",
		"/fish/ /fish/salmon /fish/?salmon /fish/salmon.html /fish/?id=anything",
		"/bar /fish /fish.html /Fish/Salmon.html"},
	{"php", "user-agent: FooBot\ndisallow: /\nallow: /*.php\n", "FooBot",
		"/filename.php /folder/filename.php /folder/filename.php?parameters //folder/any.php.file.html " +
			"/filename.php/ /index?f=filename.php/", "/bar /php/ /index?php /windows.PHP"},
	{"php end", "user-agent: FooBot\ndisallow: /\nallow: /*.php$\n", "FooBot", "/filename.php /folder/filename.php",
		"/bar /filename.php?parameters /filename.php/ /filename.php5 /php/ /filename?php /aaaphpaaa //windows.PHP"},
	{"fish php", "user-agent: FooBot\ndisallow: /\nallow: /fish*.php\n", "FooBot",
		"/fish.php /fishheads/catfish.php?parameters", "/bar /Fish.PHP"},
	{"precedence 1", "user-agent: FooBot\nallow: /p\ndisallow: /\n", "FooBot", "/page", "/"},
	{"precedence 2", "user-agent: FooBot\nallow: /folder\ndisallow: /folder\n", "FooBot", "/folder/page", ""},
	{"precedence 3", "user-agent: FooBot\nallow: /page\ndisallow: /*.htm\n", "FooBot", "/page", "/page.htm"},
	{"precedence 4", "user-agent: FooBot\nallow: /$\ndisallow: /\n", "FooBot", "/", "/page.html"},
	{"star alone", "User-agent: *\nDisallow: *\n", "x", "/robots.txt", "/ /a"},
	{"stars", "User-agent: *\nDisallow: /a**b***c\n", "x", "/abd", "/abc /axxbxxc"},
	{"no leading slash", "User-agent: *\nDisallow: a/b\nDisallow: http://h/\n", "x", "/a/b /", ""},
	{"space before colon", "User-agent : *\nDisallow : /x\n", "x", "/", "/x"},
	{"misspelt", "useragent: x\ndisalow: /1\ndissallow: /2\nuser agent: y\ndiasllow: /3\n", "x", "/3", "/1 /2"},
	{"CR", "User-Agent: foo\rAllow: /some/path\rUser-Agent: bar\r\rDisallow: /\r", "bar", "", "/x"},
	{"CRLF", "User-Agent: foo\r\nAllow: /some/path\r\nUser-Agent: bar\r\n\r\nDisallow: /\r\n", "bar", "", "/x"},
	{"mixed ends", "User-Agent: foo\nAllow: /some/path\r\nUser-Agent: bar\n\r\n\nDisallow: /", "bar", "", "/x"},
	{"BOM", "\xEF\xBB\xBFUser-Agent: foo\nDisallow: /\n", "foo", "", "/x"},
	{"two bytes of a BOM", "\xEF\xBBUser-Agent: foo\nDisallow: /\n", "foo", "", "/x"},
	{"one byte of a BOM", "\xEFUser-Agent: foo\nDisallow: /\n", "foo", "", "/x"},
	{"broken BOM", "\xEF\x11\xBFUser-Agent: foo\nDisallow: /\n", "foo", "/x", ""},
	{"BOM in the middle", "User-Agent: foo\n\xEF\xBB\xBFDisallow: /\n", "foo", "/x", ""},
	{"UTF-16", "\xff\xfe" + wide("User-agent: *\nDisallow: /ツ\n"), "foo", "/x", "/%E3%83%84"},
	{"NUL ends the line", "User-agent: *\nDisallow: /x\x00y\nDisallow: /z\n", "foo", "/", "/x /xq /z"},
	{"HTML page", "<!doctype html><html><body><p>user-agent: *<br>disallow: /</body></html>", "foo", "/x", ""},
}

const groupsFile = "allow: /foo/bar/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\n" +
	"disallow: /\nallow: /y/\n\n\nallow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n"

// wide encodes s in UTF-16, little-endian.
func wide(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

func TestVerdicts(t *testing.T) {
	for _, c := range verdictCases {
		r := Parse([]byte(c.robots), c.agent)
		enc := r.Append(nil)
		for _, want := range []bool{true, false} {
			paths := c.allow
			if !want {
				paths = c.deny
			}
			for path := range strings.FieldsSeq(paths) {
				if got := Match(enc, []byte(path)); got != want {
					t.Errorf("%s: %s: got allowed %v, want %v\n%s", c.name, path, got, want, r.Text())
				}
				got, rule := r.Match([]byte(path))
				got2, rule2 := Explain(enc, []byte(path))
				if got != want || got2 != want || rule != rule2 {
					t.Errorf("%s: %s: Rules.Match %v %q, Explain %v %q, want %v", c.name, path, got, rule, got2,
						rule2, want)
				}
			}
		}
	}
}
