package admin

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// silence never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestNoAnswer: the wait for a server that does not answer ends, with an error of its own.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewRemote("http://127.0.0.1:1", "")
		must(t, err)
		c.http.Transport = silence{}
		began := time.Now()
		if _, err := c.Do(t.Context(), http.MethodGet, "/api/v1/status", nil); !errors.Is(err, ErrNoAnswer) ||
			time.Since(began) != answerWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
