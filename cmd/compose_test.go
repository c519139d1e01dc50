package cmd

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

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
	made, brokers, file := 0, 0, ""
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
		if s.Command[0] == "cluster" {
			made = c.Cluster.Init.Nodes
			continue
		}
		k := &c.Crawl
		if k.Node == nil || nodes[*k.Node] || name != "node"+strconv.Itoa(*k.Node) {
			t.Errorf("%s: --node %v", name, k.Node)
			continue
		}
		nodes[*k.Node], admins = true, append(admins, k.Admin.Admin)
		if file == "" {
			file = k.ClusterFile
		}
		for _, url := range k.Cluster {
			if server := strings.TrimSuffix(strings.TrimPrefix(url, "tls://"), ":4222"); f.Services[server] == nil ||
				s.DependsOn[server].Condition != "service_healthy" {
				t.Errorf("%s: --cluster %s is no service that it waits for", name, url)
			}
		}
		if len(k.Cluster) != 3 || k.ClusterReplicas != 3 || k.ClusterFile != file ||
			!strings.HasPrefix(file, "/cluster/") {
			t.Errorf("%s: %q, %d replicas, file %s", name, k.Cluster, k.ClusterReplicas, k.ClusterFile)
		}
		for _, path := range []string{k.ClusterCA, k.ClusterCert, k.ClusterKey,
			s.Environment["AWS_SHARED_CREDENTIALS_FILE"]} {
			if !slices.Contains(s.Secrets, strings.TrimPrefix(path, "/run/secrets/")) {
				t.Errorf("%s has no secret %s", name, path)
			}
		}
		if s.DependsOn["init"].Condition != "service_completed_successfully" || s.NetworkMode != "service:net" {
			t.Errorf("%s: network %q, depends on %v", name, s.NetworkMode, s.DependsOn)
		}
	}
	if made != len(nodes) || made != 3 || brokers != 3 {
		t.Errorf("init makes the file of %d nodes; there are %d, and %d brokers", made, len(nodes), brokers)
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
			if _, ok := f.Volumes[from]; ok {
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

// TestComposeSecrets: the script makes the secrets that the compose file names, once, and closes their folder.
func TestComposeSecrets(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := filepath.Join(t.TempDir(), "secrets")
	var first []byte
	for range 2 {
		if out, err := exec.Command("sh", packaging+clusterDir+"secrets.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for name, s := range readCompose(t).Secrets {
			info, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(s.File, "secrets/")))
			if err != nil || info.Size() < 8 || info.Mode().Perm() != 0o644 { // containers have users of their own
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v, %v", info, err)
		}
		key, err := os.ReadFile(filepath.Join(dir, "node.key"))
		if err != nil || first != nil && !bytes.Equal(key, first) {
			t.Errorf("the second run made another key, %v", err)
		}
		first = key
	}
}
