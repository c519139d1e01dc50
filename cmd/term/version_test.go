package term

import "testing"

// TestVersion: a release has its tag as version, without v in User-Agent; another build says what it is.
func TestVersion(t *testing.T) {
	if release != "" || Version() != unreleased || Build() == "" {
		t.Errorf("not a release: %q, %q, %q", release, Version(), Build())
	}
	release = "v9.8.7-3-gabc"
	defer func() { release = "" }()
	if Version() != "9.8.7-3-gabc" || Build() != "v9.8.7-3-gabc" {
		t.Errorf("a release: %q, %q", Version(), Build())
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
