package cluster

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestConfig: a configuration comes back as it was, bytes that differ are refused, and Differ names each line
// that is another, missing or new.
func TestConfig(t *testing.T) {
	t.Parallel()
	c := NewConfig([]string{"depth: 3", "scope: all", "rate: none"})
	data, err := c.Encode()
	must(t, err)
	again, err := DecodeConfig(data)
	must(t, err)
	if again.Digest != c.Digest || !slices.Equal(again.Lines, c.Lines) {
		t.Errorf("got %+v, want %+v", again, c)
	}
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		if other, err := DecodeConfig(damaged); err == nil && !slices.Equal(other.Lines, c.Lines) {
			t.Errorf("byte %d changed without notice", i)
		} else if err != nil && !errors.Is(err, ErrConfig) {
			t.Error(err)
		}
	}
	got := strings.Join(c.Differ(NewConfig([]string{"depth: 4", "rate: none", "agent: x"})), "; ")
	if want := "depth is 4 here, 3 there; agent is x here but not set there; scope is all there but not " +
		"set here"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if list := c.Differ(c); list != nil {
		t.Errorf("the same: %v", list)
	}
}
