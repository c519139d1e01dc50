package fetcher

import (
	"fmt"
	"testing"

	"drumbeat/crawl/inforce"
	"drumbeat/fetch"
	"drumbeat/polite"
)

// TestSignOf: the outcomes that count as strain. A fault of ours says nothing, nor does anything by default.
func TestSignOf(t *testing.T) {
	type response = fetch.Response
	for name, c := range map[string]struct {
		resp response
		err  error
		want polite.Sign
	}{
		"429": {resp: response{Status: 429}, want: polite.Strain},
		"500": {resp: response{Status: 500}, want: polite.Strain}, "503": {resp: response{Status: 503},
			want: polite.Strain}, "403": {resp: response{Status: 403}, want: polite.Strain},
		"cut off": {resp: response{Status: 200, Truncated: fetch.TruncatedDisconnect}, want: polite.Strain},
		"too slow": {resp: response{Status: 200, Truncated: fetch.TruncatedTime, Flaws: fetch.FlawSlow},
			want: polite.Strain},
		"timeout":  {err: &fetch.Error{Kind: fetch.KindTimeout}, want: polite.Strain},
		"reset":    {err: fmt.Errorf("get: %w", &fetch.Error{Kind: fetch.KindReset}), want: polite.Strain},
		"no route": {err: &fetch.Error{Kind: fetch.KindNoRoute}, want: polite.Unclear},
		"canceled": {err: &fetch.Error{Kind: fetch.KindCanceled}, want: polite.Unclear},
		"blocked":  {err: inforce.ErrBlocked, want: polite.Unclear},
	} {
		if got := (&Fetcher{opt: Options{AdaptiveDelay: true}}).signOf(&c.resp, c.err); got != c.want {
			t.Errorf("%s: sign %d, want %d", name, got, c.want)
		}
		if got := new(Fetcher).signOf(&c.resp, c.err); got != polite.Unclear {
			t.Errorf("%s: sign %d by default, want none", name, got)
		}
	}
}
