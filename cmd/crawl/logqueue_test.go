package crawl

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
)

// stoppedWriter is a terminal after Ctrl-S, or a full pipe: it takes nothing until it is released.
type stoppedWriter struct {
	bytes.Buffer
	release chan struct{}
}

func (w *stoppedWriter) Write(p []byte) (int, error) {
	<-w.release
	return w.Buffer.Write(p)
}

// lostMessages matches the number of lost messages in a line.
var lostMessages = regexp.MustCompile(`nothing read it".*messages"?[=:](\d+)`)

// TestStoppedReaderStopsNoCrawl: nothing that a crawl prints waits for the reader of its log. When it reads
// again, it gets what the queue holds, and the number of lost messages.
func TestStoppedReaderStopsNoCrawl(t *testing.T) {
	for _, format := range []string{"text", "json", "terminal"} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &stoppedWriter{release: make(chan struct{})}
				v := NewView(out, &flags.Logging{LogFormat: format})
				if format == "terminal" {
					v.width = func() int { return 80 }
				}
				const messages = 2 * logQueueBytes / 1000
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					v.show(&crawl.Snapshot{Time: time.Now().Add(time.Minute)})
					for range messages {
						v.log.Info(strings.Repeat("x", 1000))
					}
				}()
				synctest.Wait()
				select {
				case <-ended:
				default:
					t.Fatal("the log waits for its reader")
				}
				if n := cap(v.out.text); n > 2*logQueueBytes {
					t.Errorf("%d bytes wait, the bound is %d", n, logQueueBytes)
				}
				began := time.Now()
				v.Say("more\n")
				v.Close()
				if took := time.Since(began); took != 2*logPatience {
					t.Errorf("two calls waited for the reader for %v, the bound is %v each", took, logPatience)
				}
				close(out.release)
				synctest.Wait()
				v.log.Info("last")
				synctest.Wait()
				text, lost := strings.ReplaceAll(out.String(), "\n  ", " "), 0 // as it was before the terminal's width
				for _, said := range lostMessages.FindAllStringSubmatch(text, -1) {
					n, _ := strconv.Atoi(said[1]) // digits
					lost += n
				}
				// The block and the last line but one may be lost, too.
				if n := strings.Count(text, strings.Repeat("x", 1000)); n+lost < messages || n+lost > messages+2 {
					t.Errorf("%d messages came out and %d were lost, of %d", n, lost, messages)
				}
				want := map[string]string{
					"json": `"msg":"messages of the log were lost: nothing read it","messages":`}[format]
				if want == "" {
					want = `msg="messages of the log were lost: nothing read it" messages=`
				}
				if at := strings.Index(text, want); at < 0 || at > strings.Index(text, "last") {
					t.Errorf("no %s before the last message", want)
				}
			})
		})
	}
}
