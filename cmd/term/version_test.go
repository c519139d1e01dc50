package term

import "testing"

// TestVersion: a release has its tag as version, without v; another build says what it is.
func TestVersion(t *testing.T) {
	if release != "" || Version() != unreleased || ThisBuild().Version != unreleased {
		t.Errorf("not a release: %q, %q, %q", release, Version(), ThisBuild())
	}
	release = "v9.8.7-3-gabc"
	defer func() { release = "" }()
	if Version() != "9.8.7-3-gabc" || ThisBuild().Version != Version() {
		t.Errorf("a release: %q, %q", Version(), ThisBuild())
	}
	b := Build{Version: "0.2.0", Commit: "0123456789abcdef", Modified: true, Go: "go1.26", OS: "linux", Arch: "amd64"}
	if got, want := b.String(), "0.2.0 (modified commit 0123456789ab, go1.26, linux/amd64)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
