package robots

import (
	"strings"
	"testing"
)

// rfcCases are cases of RFC 9309 by section: an agent, a file, and the allowed and disallowed paths.
var rfcCases = []verdictCase{
	// 2.1, 2.2: lines, groups, syntax.
	{"2.1 a group ends at the next agent behind a rule",
		"user-agent: a\ndisallow: /1\nuser-agent: b\ndisallow: /2\n", "b", "/1", "/2"},
	{"2.1 a group ends at the end of the file", "user-agent: a\ndisallow: /1", "a", "/", "/1"},
	{"2.1 the last group may be empty", "user-agent: *\ndisallow: /\nuser-agent: a", "a", "/ /x", ""},
	{"2.1 several agents, one group", "user-agent: a\nuser-agent: b\nuser-agent: c\ndisallow: /x\n", "b", "/", "/x"},
	{"2.2 empty lines don't end a group", "user-agent: a\n\n\nuser-agent: b\n\ndisallow: /1\n\n\ndisallow: /2\n",
		"a", "/", "/1 /2"},
	{"2.2 blanks before the name", "  user-agent: a\n\t disallow: /x\n", "a", "/", "/x"},
	{"2.2 blanks around the colon", "user-agent \t:\t a\ndisallow\t: \t/x\n", "a", "/", "/x"},
	{"2.2 no blank behind the colon", "user-agent:a\ndisallow:/x\n", "a", "/", "/x"},
	{"2.2 blanks at the end", "user-agent: a  \ndisallow: /x \t \n", "a", "/", "/x /x%20 /xy"},
	{"2.2 names without case", "USER-AGENT: a\nDiSaLLoW: /x\naLLOw: /x/y\n", "a", "/ /x/y", "/x /x/z"},
	{"2.2 a comment at the end of each line", "user-agent: a#b\ndisallow: /x # y: z\nallow: /x/1#\n", "a",
		"/ /x/1", "/x"},
	{"2.2 a comment is no value", "user-agent: a\ndisallow: # /x\n", "a", "/ /x", ""},
	{"2.2 LF", "user-agent: a\ndisallow: /x\n", "a", "/", "/x"},
	{"2.2 CR", "user-agent: a\rdisallow: /x\r", "a", "/", "/x"},
	{"2.2 CRLF", "user-agent: a\r\ndisallow: /x\r\n", "a", "/", "/x"},
	{"2.2 all ends in one file", "user-agent: a\rdisallow: /1\ndisallow: /2\r\n\r\r\ndisallow: /3\n\rdisallow: /4", "a",
		"/", "/1 /2 /3 /4"},
	{"2.2 other line ends of Unicode are none", "user-agent: a\ndisallow: /1\u2028disallow: /2\u0085\n", "a",
		"/1 /2", "/1%E2%80%A8disallow:%20/2%C2%85"},
	{"2.2 a path begins with a slash", "user-agent: a\ndisallow: x\ndisallow: ?x\ndisallow: .\n", "a", "/x /?x /.", ""},
	// 2.2.1: the product token.
	{"2.2.1 case", "user-agent: ExampleBot\ndisallow: /x\n", "examplebot", "/", "/x"},
	{"2.2.1 case, the other way", "user-agent: examplebot\ndisallow: /x\n", "EXAMPLEBOT", "/", "/x"},
	{"2.2.1 no beginning of a longer token", "user-agent: Example\ndisallow: /x\n", "ExampleBot", "/ /x", ""},
	{"2.2.1 no longer token", "user-agent: ExampleBot-News\ndisallow: /x\n", "ExampleBot", "/ /x", ""},
	{"2.2.1 hyphen and underscore belong to it", "user-agent: Example_Bot-News\ndisallow: /x\n",
		"example_bot-news", "/", "/x"},
	{"2.2.1 valid beginning only", "user-agent: ExampleBot/0.1 (x)\ndisallow: /x\n", "ExampleBot", "/", "/x"},
	{"2.2.1 valid beginning only, star", "user-agent: ExampleBot*\ndisallow: /x\n", "ExampleBot", "/", "/x"},
	{"2.2.1 valid beginning only, digit", "user-agent: ExampleBot2\ndisallow: /x\n", "ExampleBot", "/", "/x"},
	{"2.2.1 no wildcards", "user-agent: Example*\ndisallow: /x\n", "ExampleBot", "/ /x", ""},
	{"2.2.1 not the header's other parts", "user-agent: Mozilla/5.0 (compatible; ExampleBot/0.1)\ndisallow: /x\n",
		"ExampleBot", "/ /x", ""},
	{"2.2.1 merge",
		"user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n",
		"ExampleBot", "/qux", "/foo /bar /baz"},
	{"2.2.1 merge over others",
		"user-agent: a\ndisallow: /1\nuser-agent: *\ndisallow: /2\nuser-agent: b\nuser-agent: A\ndisallow: /3\n", "a",
		"/2", "/1 /3"},
	{"2.2.1 merged rules compete",
		"user-agent: a\ndisallow: /x\nuser-agent: b\ndisallow: /\nuser-agent: a\nallow: /x/y\n", "a", "/ /x/y", "/x"},
	{"2.2.1 star when none matches",
		"user-agent: *\ndisallow: /foo\ndisallow: /bar\nuser-agent: BazBot\ndisallow: /baz\n", "ExampleBot",
		"/baz", "/foo /bar"},
	{"2.2.1 star not beside our own", "user-agent: *\ndisallow: /foo\nuser-agent: BazBot\ndisallow: /baz\n",
		"bazbot", "/foo", "/baz"},
	{"2.2.1 star and our name on one group",
		"user-agent: *\nuser-agent: a\ndisallow: /x\nuser-agent: *\ndisallow: /y\n", "a", "/y", "/x"},
	{"2.2.1 no group at all", "user-agent: b\ndisallow: /\n", "a", "/ /x", ""},
	{"2.2.1 no file to speak of", " \n\t\n# nothing\n", "a", "/ /x", ""},
	// 2.2.2: matching.
	{"2.2.2 from the first octet", "user-agent: a\ndisallow: /x\n", "a", "/y/x /.x", "/x /xy /x/y /x?y"},
	{"2.2.2 case of paths", "user-agent: a\ndisallow: /aB\n", "a", "/ab /AB", "/aB /aBc"},
	{"2.2.2 the most octets", "user-agent: a\nallow: /a/b/c\ndisallow: /a/b\nallow: /a\ndisallow: /\n", "a",
		"/a /a/x /a/b/c /a/b/cd", "/ /x /a/b /a/b/x"},
	{"2.2.2 order is no matter", "user-agent: a\ndisallow: /\nallow: /a\ndisallow: /a/b\nallow: /a/b/c\n", "a",
		"/a /a/x /a/b/c /a/b/cd", "/ /x /a/b /a/b/x"},
	{"2.2.2 Allow wins ties", "user-agent: a\ndisallow: /x\nallow: /x\n", "a", "/x", ""},
	{"2.2.2 Allow wins ties of different patterns", "user-agent: a\ndisallow: /*x\nallow: /ax\n", "a", "/ax", "/bx"},
	{"2.2.2 repeated rules", "user-agent: a\ndisallow: /x\ndisallow: /x\ndisallow: /x\n", "a", "/", "/x"},
	{"2.2.2 none matches", "user-agent: a\ndisallow: /x\n", "a", "/ /y", ""},
	{"2.2.2 no rules", "user-agent: a\nuser-agent: b\n", "a", "/ /y", ""},
	{"2.2.2 empty Disallow allows all", "user-agent: a\ndisallow:\n", "a", "/ /y", ""},
	{"2.2.2 empty rules beside others", "user-agent: a\ndisallow:\nallow:\ndisallow: /x\n", "a", "/", "/x"},
	{"2.2.2 robots.txt is allowed", "user-agent: a\ndisallow: /\ndisallow: /robots.txt\n", "a", "/robots.txt",
		"/ /robots.tx /Robots.txt"},
	{"2.2.2 a query is part of the path", "user-agent: a\ndisallow: /x?y\nallow: /z?\ndisallow: /z\n", "a",
		"/x /x?z /z?1", "/x?y /x?yz /z"},
	// The table of 2.2.2, each row by rule and by URL.
	{"2.2.2 table 1", "user-agent: a\ndisallow: /foo/bar?baz=quz\n", "a", "/foo/bar",
		"/foo/bar?baz=quz /foo/bar?baz=quz1"},
	{"2.2.2 table 2", "user-agent: a\ndisallow: /foo/bar?baz=https://foo.bar\n", "a", "/foo/bar?baz=https",
		"/foo/bar?baz=https://foo.bar /foo/bar?baz=https%3A%2F%2Ffoo.bar /foo/bar?baz=https%3a%2f%2ffoo.bar/x"},
	{"2.2.2 table 2, escaped", "user-agent: a\ndisallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar\n", "a",
		"/foo/bar?baz=https",
		"/foo/bar?baz=https://foo.bar /foo/bar?baz=https%3A%2F%2Ffoo.bar /foo/bar?baz=https%3A//foo.bar"},
	{"2.2.2 no delimiter named", "user-agent: a\ndisallow: /*%\ndisallow: /*//\n", "a", "/?u=http:/x /?u=%41",
		"/%20 /?u=http://x /?u=http%3Ax"},
	{"2.2.2 delimiters behind a star", "user-agent: a\ndisallow: /*?*u=http://\n", "a", "/?u=http:/ /u=http://",
		"/a?b&u=http:%2f/x /?u=http%3A%2F%2Fx"},
	{"2.2.2 table 3", "user-agent: a\ndisallow: /foo/bar/ツ\n", "a", "/foo/bar/",
		"/foo/bar/%E3%83%84 /foo/bar/%e3%83%84 /foo/bar/ツ"},
	{"2.2.2 table 4", "user-agent: a\ndisallow: /foo/bar/%E3%83%84\n", "a", "/foo/bar/%E3%83",
		"/foo/bar/%E3%83%84 /foo/bar/ツ"},
	{"2.2.2 table 5", "user-agent: a\ndisallow: /foo/bar/%62%61%7A\n", "a", "/foo/bar/ba",
		"/foo/bar/baz /foo/bar/%62%61%7A /foo/bar/b%61z"},
	{"2.2.2 table 5, plain", "user-agent: a\ndisallow: /foo/bar/baz\n", "a", "/foo/bar/ba",
		"/foo/bar/baz /foo/bar/%62%61%7A /foo/bar/b%61z"},
	{"2.2.2 reserved stay apart in a path",
		"user-agent: a\ndisallow: /a%2Fb\ndisallow: /c%3Fd\ndisallow: /e%3Bf\n", "a", "/a/b /c?d /e;f",
		"/a%2fb /c%3fd /e%3bf"},
	{"2.2.2 separators stay apart in a query",
		"user-agent: a\ndisallow: /?a%26b\ndisallow: /?c%3Dd\ndisallow: /?e%2Bf\n", "a", "/?a&b /?c=d /?e+f",
		"/?a%26b /?c%3dd /?e%2bf"},
	{"2.2.2 escaped controls and blanks stay escaped", "user-agent: a\ndisallow: /a%0Ab\ndisallow: /c%20d\n",
		"a", "/ab /cd", "/a%0ab /c%20d"},
	{"2.2.2 the octets count as compared", "user-agent: a\ndisallow: /%61%61%61\nallow: /aaaa\n", "a",
		"/aaaa /%61aaa", "/aaa /aaab"},
	{"2.2.2 rules outside of groups", "disallow: /1\nallow: /2\nuser-agent: a\ndisallow: /3\n", "a", "/1 /2", "/3"},
	{"2.2.2 invalid UTF-8", "user-agent: a\ndisallow: /\xff\xfe\ndisallow: /\xe9t\xe9\ndisallow: /\xc3\n", "a",
		"/ /%FF /x", "/%FF%FE /%E9t%E9 /%C3%A9 /%c3"},
	// 2.2.3: special characters.
	{"2.2.3 comment lines", "# user-agent: a\n#disallow: /1\nuser-agent: a\n# disallow: /2\ndisallow: /3\n",
		"a", "/1 /2", "/3"},
	{"2.2.3 end", "user-agent: a\ndisallow: /this/path/exactly$\n", "a",
		"/this/path/exactly/ /this/path/exactly?x /this/path", "/this/path/exactly"},
	{"2.2.3 star", "user-agent: a\ndisallow: /this/*/exactly\n", "a", "/this/exactly /this/exactl/y",
		"/this//exactly /this/a/exactly /this/a/b/exactly/c"},
	{"2.2.3 star for no octet", "user-agent: a\ndisallow: /a*b\n", "a", "/a /b /xab", "/ab /acb /a/b"},
	{"2.2.3 star at the end", "user-agent: a\ndisallow: /x*\n", "a", "/", "/x /xy"},
	{"2.2.3 star at the beginning", "user-agent: a\ndisallow: *.gif$\n", "a", "/x.gif? /x.gi", "/x.gif /a/b.gif /.gif"},
	{"2.2.3 star and query", "user-agent: a\ndisallow: /*?*sid=\n", "a", "/?id=1 /sid=", "/?sid=1 /a/b?c=d&sid=2"},
	{"2.2.3 many stars", "user-agent: a\ndisallow: /*a*b*c*d$\n", "a", "/abc /dcba /abcde",
		"/abcd /xaxbxcxd /aabbccdd"},
	{"2.2.3 stars in a row", "user-agent: a\ndisallow: /a***b\n", "a", "/a", "/ab /axxb"},
	{"2.2.3 star before end", "user-agent: a\ndisallow: /a*$\n", "a", "/", "/a /ab"},
	{"2.2.3 end in the middle is literal", "user-agent: a\ndisallow: /a$b\ndisallow: /c$$\n", "a", "/a /c",
		"/a$b /a%24bc /c$"},
	{"2.2.3 verbatim star", "user-agent: a\ndisallow: /path/file-with-a-%2A.html\n", "a", "/path/file-with-a-b.html",
		"/path/file-with-a-*.html /path/file-with-a-%2A.html /path/file-with-a-%2a.html"},
	{"2.2.3 verbatim dollar", "user-agent: a\ndisallow: /path/foo-%24\n", "a", "/path/foo-",
		"/path/foo-$ /path/foo-%24 /path/foo-$x"},
	{"2.2.3 stars of a URL are literal", "user-agent: a\ndisallow: /abc\n", "a", "/a* /a*c", "/abc"},
	{"2.2.3 the end alone", "user-agent: a\ndisallow: /$\n", "a", "/x /?x", "/"},
	// 2.2.4: other records.
	{"2.2.4 Sitemap doesn't end a group", "user-agent: a\nsitemap: http://h/s\nuser-agent: b\ndisallow: /x\n",
		"a", "/", "/x"},
	{"2.2.4 Sitemap between rules", "user-agent: a\ndisallow: /1\nsitemap: http://h/s\ndisallow: /2\nuser-agent: " +
		"b\nallow: /\n", "a", "/", "/1 /2"},
	{"2.2.4 Crawl-delay doesn't end a group", "user-agent: a\ncrawl-delay: 5\nuser-agent: b\ndisallow: /x\n",
		"a", "/", "/x"},
	{"2.2.4 unknown records don't end a group",
		"user-agent: a\nhost: h\nnoindex: /\nclean-param: x /y\nuser-agent: b\ndisallow: /x\n", "a", "/", "/x"},
	{"2.2.4 lines that are none", "user-agent: a\n<html>\nthis is no record\n:\n: /y\n=\ndisallow: /x\n", "a",
		"/ /y", "/x"},
	// 2.3.1.5: parsing errors.
	{"2.3.1.5 a bad line doesn't spoil the others",
		"user-agent: a\ndisallow /a b\nfoo\x01bar\ndisallow: /x\ncrawl-delay: never\ndisallow: /y\n",
		"a", "/a", "/x /y"},
	{"2.3.1.5 NUL", "user-agent: a\ndisallow: /x\x00y\n\x00disallow: /z\ndisallow: /w\n", "a", "/z", "/x /xz /w"},
	{"2.3.1.5 NUL in the name", "user-agent: a\ndis\x00allow: /x\ndisallow: /y\n", "a", "/x", "/y"},
	// Appendix B.1, and B.2 with a path that is disallowed.
	{"B.1 others", appendixB, "other", "/publications/ /publications/x /publications/a.gif /x /x.gif?y",
		"/example/ /x.gif /a/b.gif /example/publications/"},
	{"B.1 foobot", appendixB, "foobot", "/example/page.html /example/allowed.gif",
		"/ /example/ /example/disallowed.gif /publications/"},
	{"B.1 barbot", appendixB, "BarBot", "/ /example/ /x.gif", "/example/page.html /example/page.html?x"},
	{"B.1 bazbot", appendixB, "bazbot", "/ /example/ /x.gif", "/example/page.html"},
	{"B.1 quxbot", appendixB, "quxbot", "/ /example/page.html /x.gif /EOF", ""},
	{"B.2", "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n", "foobot",
		"/example/page/ /example/page/x.gif /example/page/disallow.gif", "/example/page/disallowed.gif"},
}

// appendixB resembles the RFC's first example: a group for all, one without blanks, one with two names, one
// without rules.
const appendixB = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n" +
	"User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n" +
	"User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n\nEOF\n"

func TestRFC9309(t *testing.T) {
	for _, c := range rfcCases {
		enc := Parse([]byte(c.robots), c.agent).Append(nil)
		for _, want := range []bool{true, false} {
			paths := c.allow
			if !want {
				paths = c.deny
			}
			for path := range strings.FieldsSeq(paths) {
				if got := Match(enc, []byte(path)); got != want {
					t.Errorf("%s: %s: got allowed %v, want %v", c.name, path, got, want)
				}
				if got := naiveAllowed([]byte(c.robots), c.agent, path); got != want {
					t.Errorf("%s: %s: the naive reading allows %v, want %v", c.name, path, got, want)
				}
			}
		}
	}
}

// TestNaiveAgrees checks the naive interpretation on the cases of Google's behaviour.
func TestNaiveAgrees(t *testing.T) {
	for _, c := range verdictCases {
		if strings.HasPrefix(c.robots, "\xff\xfe") {
			continue // it does not read UTF-16
		}
		for path := range strings.FieldsSeq(c.allow + " " + c.deny) {
			got, want := naiveAllowed([]byte(c.robots), c.agent, path),
				Match(Parse([]byte(c.robots), c.agent).Append(nil), []byte(path))
			if got != want {
				t.Errorf("%s: %s: the naive reading allows %v, Match %v", c.name, path, got, want)
			}
		}
	}
}
