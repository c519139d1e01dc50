package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Config is the configuration that all nodes of a crawl share, in the value "config" of BucketCrawl.
type Config struct {
	Version int      `json:"version"`
	Digest  string   `json:"digest"` // of Lines
	Lines   []string `json:"lines"`  // "name: value", each name once
}

// ConfigKey is the key of the configuration.
const ConfigKey = "config"

// AbandonedName is the name of the line that lists the abandoned nodes. A configuration without abandoned
// nodes lacks the line. Its text is that of earlier releases, so that configurations compare equal.
const AbandonedName = "nodes given up"

const configVersion = 1

// ErrConfig means that bytes are not a configuration. It comes wrapped.
var ErrConfig = errors.New("not the configuration of a cluster")

// NewConfig returns the configuration of lines.
func NewConfig(lines []string) *Config {
	return &Config{Version: configVersion, Digest: configDigest(lines), Lines: slices.Clone(lines)}
}

func configDigest(lines []string) string {
	return fmt.Sprintf("%016x", xxhash.Sum64String(strings.Join(lines, "\n")))
}

// Encode returns the value of the configuration.
func (c *Config) Encode() ([]byte, error) {
	data, err := json.Marshal(c)
	if err == nil && len(data) > MaxValueBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: configuration: %w", err)
	}
	return data, nil
}

// DecodeConfig decodes the value of a configuration. The value is untrusted.
func DecodeConfig(data []byte) (*Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("cluster: %w: %w", ErrConfig, err)
	}
	switch {
	case c.Version != configVersion:
		return nil, fmt.Errorf("cluster: %w: version %d, want %d", ErrConfig, c.Version, configVersion)
	case c.Digest != configDigest(c.Lines):
		return nil, fmt.Errorf("cluster: %w: the digest is wrong", ErrConfig)
	}
	return &c, nil
}

// Abandoned returns the abandoned nodes.
func (c *Config) Abandoned() (nodes []int) {
	for _, line := range c.Lines {
		if name, value, _ := strings.Cut(line, ": "); name == AbandonedName &&
			json.Unmarshal([]byte(value), &nodes) != nil {
			return nil
		}
	}
	return nodes
}

// SameBut reports whether two configurations are equal except for the line of this name.
func (c *Config) SameBut(o *Config, name string) bool {
	named := func(line string) bool { return strings.HasPrefix(line, name+": ") }
	return slices.Equal(slices.DeleteFunc(slices.Clone(c.Lines), named),
		slices.DeleteFunc(slices.Clone(o.Lines), named))
}

// Differ lists the differences between this configuration, the cluster's, and that of a node.
func (c *Config) Differ(node *Config) (list []string) {
	values := func(c *Config) map[string]string {
		m := map[string]string{}
		for _, line := range c.Lines {
			name, value, _ := strings.Cut(line, ": ")
			m[name] = value
		}
		return m
	}
	theirs, ours := values(c), values(node)
	for _, line := range node.Lines {
		name, value, _ := strings.Cut(line, ": ")
		if was, ok := theirs[name]; !ok {
			list = append(list, fmt.Sprintf("%s is %s here but not set there", name, value))
		} else if was != value {
			list = append(list, fmt.Sprintf("%s is %s here, %s there", name, value, was))
		}
	}
	for _, line := range c.Lines {
		name, value, _ := strings.Cut(line, ": ")
		if _, ok := ours[name]; !ok {
			list = append(list, fmt.Sprintf("%s is %s there but not set here", name, value))
		}
	}
	return list
}
