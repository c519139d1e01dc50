package cookies

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDates: RFC 6265, 5.1.1, and the forms that the tests of its working group have. "" is no date.
func TestDates(t *testing.T) {
	const epoch = "1970-01-01 00:00:00"
	for text, want := range map[string]string{
		"Thu, 01 Jan 1970 00:00:00 GMT":              epoch,
		"Thu, 01-Jan-70 00:00:00 GMT":                epoch,
		"Thursday, 01-Jan-70 00:00:00 GMT":           epoch,
		"Thu, 01-Jan-1970 00:00:00 GMT":              epoch,
		"January 1, 1970 00:00:00":                   epoch,
		"Thu Jan  1 00:00:00 1970":                   epoch,
		"1 Jan 70 0:0:0":                             epoch,
		"00:00:00 1970 jan 1":                        epoch,
		"0:00:00 70/JANUARY/01":                      "", // 70 is the day
		"Thu Jul 21 14:34:26 2011":                   "2011-07-21 14:34:26",
		"Mon, 10-Dec-2007 17:02:24 GMT":              "2007-12-10 17:02:24",
		"Wed, 09 Dec 2009 16:27:23 GMT":              "2009-12-09 16:27:23",
		"Thu Dec 17 15:50:09 2009 GMT":               "2009-12-17 15:50:09",
		"Sun 13-Jul-2008 03:48:19 GMT":               "2008-07-13 03:48:19",
		"Sat, 06-Feb-2010 19:43:13.500 GMT":          "2010-02-06 19:43:13",
		"Fri, 07 Aug 2007 08:04:19 GMT+01:00":        "2007-08-07 08:04:19", // the zone is ignored
		"Mon, 07-Aug-68 08:04:19 GMT":                "2068-08-07 08:04:19",
		"Mon, 07-Aug-69 08:04:19 GMT":                "2069-08-07 08:04:19",
		"Mon, 07-Aug-99 08:04:19 GMT":                "1999-08-07 08:04:19",
		"Mon, 07-Aug-100 08:04:19 GMT":               "",
		"Fri, 01 Jan 1601 00:00:00 GMT":              "1601-01-01 00:00:00",
		"Fri, 01 Jan 1600 00:00:00 GMT":              "",
		"Tue, 29 Feb 2000 23:59:59":                  "2000-02-29 23:59:59",
		"Thu, 29 Feb 2001 23:59:59":                  "",
		"31 Apr 2001 00:00:00":                       "",
		"00 Jan 2001 00:00:00":                       "",
		"32 Jan 2001 00:00:00":                       "",
		"01 Jan 2001 24:00:00":                       "",
		"01 Jan 2001 00:60:00":                       "",
		"01 Jan 2001 00:00:60":                       "",
		"01 Jan 2001 000:00:00":                      "",
		"01 Jan 2001 00:00":                          "",
		"01 Jan 20011 00:00:00":                      "",
		"01 Foo 2001 00:00:00":                       "",
		"Jan 2001 00:00:00":                          "",
		"2001 01 Jan 00:00:00":                       "2001-01-01 00:00:00",
		"01 02 Jan 2001 00:00:00":                    "2002-01-01 00:00:00", // two digits after the day are a year
		"Sat, 15-Apr-17\"21:01:22\"GMT":              "2017-04-15 21:01:22",
		"Wed, 09 Dec 2009 16:27:23abc":               "2009-12-09 16:27:23",
		"9decade 12deca 2009x 16:27:23":              "", // no month: "9decade" is the day, "12deca" the year
		"\tThu,\t01\tJan\t1970\t00:00:00\tGMT":       epoch,
		"Thu, 01 Jan 1970 00:00:00 GMT; 02 Feb 2002": epoch,
		"":        "",
		"garbage": "",
		"0":       "",
	} {
		got, ok := parseDate(text)
		if s := got.Format(time.DateTime); ok != (want != "") || ok && s != want {
			t.Errorf("%q: %s, %v, want %q", text, s, ok, want)
		}
	}
}

// TestSetCookie: what a header makes of the cookie a=1 of https://www.a.example/dir/: the Cookie header afterwards.
func TestSetCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for line, want := range map[string]string{
			// Deletion: the same name, domain and path.
			"a=2; Path=/; Expires=Thu, 01-Jan-70 00:00:00 GMT":                      "",
			"a=2; Path=/; Expires=January 1, 1970 00:00:00":                         "",
			"a=2; Path=/; Expires=Thu Jul 21 14:34:26 1999":                         "",
			"a=; Path=/; Max-Age=0":                                                 "",
			"a=2; Path=/; Max-Age=-1":                                               "",
			"a=2; Path=/; Max-Age=-99999999999999999999":                            "",
			"a=2; Path=/; Max-Age=-0":                                               "",
			"a=2; path=/; EXPIRES = Thu, 01 Jan 1970 00:00:00 GMT ":                 "",
			"a=2; Path=/; Max-Age=0; Expires=Thu, 01 Jan 2099 00:00:00 GMT":         "",
			"a=2; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60":        "a=2",
			"a=2; Path=/; Max-Age=99999999999999999999":                             "a=2",
			"a=2; Path=/; Max-Age=1e3; Expires=Thu, 01 Jan 1970 00:00:00 GMT":       "",
			"a=2; Path=/; Max-Age=; Expires=bad":                                    "a=2",
			"a=2; Path=/; Max-Age=+5; Max-Age=0":                                    "",
			"a=2; Path=/dir; Expires=Thu, 01 Jan 1970 00:00:00 GMT":                 "a=1", // another path
			"a=2; Path=/; Domain=a.example; Max-Age=0":                              "a=1", // another domain
			"A=2; Path=/; Max-Age=0":                                                "a=1",
			"a=2; Path=/; Expires=Thu, 01 Jan 2099 00:00:00 GMT; Expires=Jan 1 bad": "a=2", // the last good one
			// Names and values.
			"=2; Path=/":                            "a=1",
			"b; Path=/":                             "a=1",
			";a=2":                                  "a=1",
			"":                                      "a=1",
			" a = 2 ; Path=/":                       "a=2",
			"a=; Path=/":                            "a=",
			"a=x y\"z,=\\; Path=/":                  "a=x y\"z,=\\",
			"a=\"q\"; Path=/":                       "a=\"q\"",
			"a=b\u00e4r; Path=/":                    "a=b\u00e4r",
			"a=b\rc; Path=/":                        "a=1",
			"a=b\x00c; Path=/":                      "a=1",
			"a=2; Path=":                            "a=2; a=1", // the default path, /dir
			"a=2; Path=x":                           "a=2; a=1",
			"a=2; Domain=; Path=/":                  "a=2",
			"a=2; Domain=.WWW.A.example; Path=/dir": "a=2; a=1",
			"a=2; Domain=b.example; Path=/":         "a=1",
			"__Secure-b=1; Path=/":                  "a=1",
			"__Secure-b=1; Path=/; Secure":          "a=1; __Secure-b=1",
			"__Host-b=1; Path=/; Secure":            "a=1; __Host-b=1",
			"__host-b=1; Secure":                    "a=1",
			"__Host-b=1; Path=/dir; Secure":         "a=1",
			"__Host-b=1; Path=/; Secure; Domain=a.example": "a=1",
		} {
			j := NewStore(1 << 20).Jar("a")
			u := partsOf("https://www.a.example/dir/page")
			j.Take(u, []string{"a=1; Path=/; Max-Age=600"})
			time.Sleep(time.Second)
			j.Take(u, []string{line})
			if got := j.Header(u); got != want {
				t.Errorf("%q: %q, want %q", line, got, want)
			}
			if n := len(j.jar.Cookies(urlOf(u))); n > j.order.Len() {
				t.Errorf("%q: the jar has %d cookies, and accounts for %d", line, n, j.order.Len())
			}
		}
		j := NewStore(1 << 20).Jar("a")
		j.Take(partsOf("http://www.a.example/"), []string{"a=1; Secure", "__Secure-b=1; Secure", "c=1"})
		if got := j.Header(partsOf("https://www.a.example/")); got != "c=1" {
			t.Errorf("by HTTP: %q", got)
		}
	})
}

func FuzzSetCookie(f *testing.F) {
	f.Add("a=1; Path=/; Expires=Thu, 01-Jan-70 00:00:00 GMT; Max-Age=-1; Domain=.a.example")
	f.Fuzz(func(t *testing.T, line string) {
		s := NewStore(1 << 20)
		j := s.Jar("a")
		u := partsOf("https://www.a.example/dir/page")
		j.Take(u, []string{"z=1; Path=/", line})
		if n := len(j.jar.Cookies(urlOf(u))); n > j.order.Len() {
			t.Errorf("the jar has %d cookies, and accounts for %d", n, j.order.Len())
		}
		j.Drop()
		if s.Used() != 0 {
			t.Errorf("%d bytes left", s.Used())
		}
	})
}
