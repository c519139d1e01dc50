package render

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// fences are the flags that keep a browser from reaching anything by itself. The contexts of pages have the dead proxy
// anyway; the flag is for Chromium's own services. Without the policy of WebRTC a page could send datagrams past any
// proxy. Sandboxed frames would have processes of their own, in which their scripts run before Fetch could be enabled.
var fences = [...]string{
	"--proxy-server=" + deadProxy,
	"--proxy-bypass-list=<-loopback>",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	"--webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--disable-features=IsolateSandboxedIframes",
	"--disable-background-networking",
	"--enable-automation", // has Chromium tell its flags
}

// Flags returns the flags that a browser must have, as docs/how-it-works/rendering.md explains them.
func Flags() []string { return slices.Clone(fences[:]) }

// checkFlags returns an error if the browser lacks one of the flags, or does not tell.
func (b *Browser) checkFlags(ctx context.Context) error {
	var line struct{ Arguments []string }
	err := b.call(ctx, "", "Browser.getBrowserCommandLine", nil, &line)
	if err != nil && (b.lost() || ctx.Err() != nil) {
		return err
	}
	missing := missingFlags(line.Arguments) // all, if the browser does not tell
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("render: the browser can reach the network directly: start it with %s "+
		"(drumbeat render-command prints the whole command)", strings.Join(missing, " "))
}

// missingFlags returns the fences that a command line lacks. Of flags that come twice, Chromium takes the last one.
func missingFlags(line []string) (missing []string) {
	last := map[string]string{}
	for _, arg := range line {
		name, value, _ := strings.Cut(arg, "=")
		last[name] = value
	}
	for _, f := range fences {
		name, want, _ := strings.Cut(f, "=")
		got, ok := last[name]
		if name == "--disable-features" { // a list
			ok, got = slices.Contains(strings.Split(got, ","), want), want
		}
		if !ok || got != want {
			missing = append(missing, fmt.Sprintf("%q", f))
		}
	}
	return missing
}
