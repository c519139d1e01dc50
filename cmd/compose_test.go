package cmd

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// composeFile is what the tests read of a compose file.
type composeFile struct {
	Services map[string]*struct {
		Image       string            `yaml:"image"`
		Build       map[string]string `yaml:"build"`
		Command     []string          `yaml:"command"`
		Entrypoint  []string          `yaml:"entrypoint"`
		Environment map[string]string `yaml:"environment"`
		Secrets     []string          `yaml:"secrets"`
		Volumes     []string          `yaml:"volumes"`
		DependsOn   map[string]struct {
			Condition string `yaml:"condition"`
		} `yaml:"depends_on"`
		NetworkMode string         `yaml:"network_mode"`
		Restart     string         `yaml:"restart"`
		Healthcheck map[string]any `yaml:"healthcheck"`
	} `yaml:"services"`
	Secrets map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
	Volumes map[string]any `yaml:"volumes"`
}

const clusterDir = "docker/cluster/"

func readCompose(t *testing.T) *composeFile {
	t.Helper()
	f := new(composeFile)
	must(t, yaml.Unmarshal([]byte(readPackaging(t, clusterDir+"compose.yaml")), f))
	if len(f.Services) < 8 {
		t.Fatalf("found only %d services", len(f.Services))
	}
	return f
}

// TestComposeCommands: the nodes' command lines parse, and agree with each other and with the rest of the file.
func TestComposeCommands(t *testing.T) {
	f := readCompose(t)
	nodes, admins := map[int]bool{}, []string{}
	brokers := 0
	for name, s := range f.Services {
		if s.Image == "drumbeat-nats" {
			brokers++
			if s.Environment["NATS_NAME"] != name {
				t.Errorf("%s has the name %q", name, s.Environment["NATS_NAME"])
			}
			continue
		}
		if s.Build == nil {
			continue
		}
		var c commands
		p := cmdtest.Parser(t, &c)
		if _, err := p.Parse(s.Command); err != nil {
			t.Errorf("%s: %q: %v", name, s.Command, err)
			continue
		}
		k := &c.Crawl
		if k.Node == nil || nodes[*k.Node] || name != "node"+strconv.Itoa(*k.Node) {
			t.Errorf("%s: --node %v", name, k.Node)
			continue
		}
		nodes[*k.Node], admins = true, append(admins, k.Admin.Admin)
		for _, url := range k.Cluster {
			if server := strings.TrimSuffix(strings.TrimPrefix(url, "tls://"), ":4222"); f.Services[server] == nil ||
				s.DependsOn[server].Condition != "service_healthy" {
				t.Errorf("%s: --cluster %s is no service that it waits for", name, url)
			}
		}
		if len(k.Cluster) != 3 || k.ClusterReplicas != 3 {
			t.Errorf("%s: %q, %d replicas", name, k.Cluster, k.ClusterReplicas)
		}
		for _, path := range []string{k.ClusterFile, k.ClusterCA, k.ClusterCert, k.ClusterKey} {
			if !slices.Contains(s.Secrets, strings.TrimPrefix(path, "/run/secrets/")) {
				t.Errorf("%s has no secret %s", name, path)
			}
		}
		if s.DependsOn["bucket"].Condition != "service_completed_successfully" || s.NetworkMode != "service:net" {
			t.Errorf("%s: network %q, depends on %v", name, s.NetworkMode, s.DependsOn)
		}
	}
	if len(nodes) != 3 || brokers != 3 {
		t.Errorf("there are %d nodes and %d brokers", len(nodes), brokers)
	}
	slices.Sort(admins)
	if want := `targets: ["` + strings.Join(admins, `", "`) +
		`"]`; !strings.Contains(readPackaging(t, clusterDir+"prometheus.yml"), want) {
		t.Errorf("prometheus.yml lacks %s", want)
	}
}

// TestComposeFile: images have versions, services are watched, and what they name exists.
func TestComposeFile(t *testing.T) {
	f := readCompose(t)
	version := regexp.MustCompile(`^[a-z/]+:(v?\d+\.\d+\.\d+(-alpine)?|RELEASE\.[0-9TZ-]+)@sha256:[0-9a-f]{64}$`)
	secrets := map[string]bool{}
	for name, s := range f.Services {
		if s.Build == nil && !version.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		// Dockerfile has the health check of the nodes, and net only sleeps. The others run once.
		if name != "net" && s.Restart == "" == (s.Healthcheck["test"] != nil || strings.HasPrefix(name, "node")) {
			t.Errorf("%s: restart %q, health check %v", name, s.Restart, s.Healthcheck)
		}
		for on := range s.DependsOn {
			if f.Services[on] == nil {
				t.Errorf("%s depends on %s", name, on)
			}
		}
		for _, secret := range s.Secrets {
			secrets[secret] = true
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, ok := f.Volumes[from]; ok || strings.HasPrefix(from, "./secrets/") {
				continue
			}
			if _, err := os.Stat(filepath.Join(packaging+clusterDir, from)); err != nil ||
				!strings.HasPrefix(from, ".") {
				t.Errorf("%s: volume %s: %v", name, v, err)
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(secrets)), slices.Sorted(maps.Keys(f.Secrets)); !slices.Equal(got, want) {
		t.Errorf("services use the secrets %q of %q", got, want)
	}
	// The servers are built from go.mod, so they are those of the tests.
	if made := readPackaging(t, clusterDir+"Dockerfile.nats"); !strings.Contains(made, "COPY go.mod go.sum ./\n") ||
		!strings.Contains(made, " github.com/nats-io/nats-server/v2\n") {
		t.Errorf("Dockerfile.nats: %s", made)
	}
}

// TestComposeSecrets: the commands in the compose file make the secrets that it mounts.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := 0
	for line := range strings.Lines(readPackaging(t, clusterDir+"compose.yaml")) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "#   cluster ")
		if !ok {
			continue
		}
		args := append([]string{"cluster"}, strings.Fields(line)...)
		for i, arg := range args {
			if arg == "cluster.json" || arg == "." {
				args[i] = filepath.Join(dir, arg)
			}
		}
		wantExit(t, term.ExitDone, "", args...)
		made++
	}
	f := readCompose(t)
	var files []string
	for _, s := range f.Secrets {
		files = append(files, s.File)
	}
	for _, s := range f.Services {
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, "./secrets/") {
				files = append(files, strings.TrimPrefix(from, "./"))
			}
		}
	}
	for _, file := range files {
		info, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(file, "secrets/")))
		if err != nil || info.Size() < 8 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if made != 2 || len(files) < 9 {
		t.Errorf("%d commands make %d files", made, len(files))
	}
}
