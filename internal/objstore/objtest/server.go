package objtest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"drumbeat/internal/objstore"
)

// Credentials of the server, as variables of the environment.
var Credentials = [...]string{"AWS_ACCESS_KEY_ID=drumbeat", "AWS_SECRET_ACCESS_KEY=drumbeat-secret", "AWS_REGION=us-east-1",
	"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/nonexistent", "AWS_SHARED_CREDENTIALS_FILE=/nonexistent"}

// BucketName is the bucket of a Server.
const BucketName = "pages"

// Server is a versitygw on loopback with one bucket in a directory of its own.
type Server struct {
	objstore.Place
	dir  string
	port string
	cmd  *exec.Cmd
	bin  string

	minio bool
}

// Serve starts a server for a test, or skips the test if the machine has none.
func Serve(tb testing.TB) *Server {
	tb.Helper()
	bin, err := exec.LookPath("versitygw")
	if err != nil {
		home, _ := os.UserHomeDir()
		if bin, err = exec.LookPath(filepath.Join(home, "go", "bin", "versitygw")); err != nil {
			tb.Skip("no versitygw, a server of S3: scripts/versitygw.sh installs it")
		}
	}
	s := newServer(tb, bin)
	for _, sub := range []string{"data/" + BucketName, "sidecar"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	s.Start(tb)
	tb.Cleanup(s.Stop)
	return s
}

// newServer chooses the directory and the port.
func newServer(tb testing.TB, bin string) *Server {
	tb.Helper()
	s := &Server{dir: tb.TempDir(), bin: bin}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	l.Close() // the server takes the port
	s.Place = objstore.Place{Bucket: BucketName, Prefix: "some/crawls", Endpoint: "http://127.0.0.1:" + s.port, PathStyle: true}
	return s
}

// ServeMinIO starts a MinIO, for tests that ask for nothing but its answers, or skips the test if the machine has none. It is
// another program, which is run and never linked.
func ServeMinIO(tb testing.TB) *Server {
	tb.Helper()
	bin, err := exec.LookPath("minio")
	if err != nil {
		tb.Skip("no minio, another server of S3")
	}
	s := newServer(tb, bin)
	s.minio = true
	s.Start(tb)
	tb.Cleanup(s.Stop)
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &s.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("drumbeat", "drumbeat-secret", "")})
	bucket := BucketName
	if _, err := client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Start starts the server again after Stop.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.Command(s.bin, "--port", "127.0.0.1:"+s.port, "--access", "drumbeat", "--secret", "drumbeat-secret", "--quiet",
		"posix", "--sidecar", filepath.Join(s.dir, "sidecar"), filepath.Join(s.dir, "data"))
	if s.minio {
		s.cmd = exec.Command(s.bin, "server", "--quiet", "--address", "127.0.0.1:"+s.port, "--console-address", "127.0.0.1:0", filepath.Join(s.dir, "minio"))
		s.cmd.Env = append(s.cmd.Environ(), "MINIO_ROOT_USER=drumbeat", "MINIO_ROOT_PASSWORD=drumbeat-secret", "MINIO_UPDATE=off", "MINIO_BROWSER=off")
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint, nil)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			tb.Fatalf("versitygw does not answer: %s", text)
		}
	}
}

// Stop kills the server. Its objects stay.
func (s *Server) Stop() {
	if s.cmd != nil {
		s.cmd.Process.Kill() // an error means that it has ended
		s.cmd.Wait()
		s.cmd = nil
	}
}

// Objects returns the objects below a prefix, from the server's directory.
func (s *Server) Objects(tb testing.TB, prefix string) map[string][]byte {
	tb.Helper()
	all, root := map[string][]byte{}, filepath.Join(s.dir, "data", BucketName)
	err := filepath.Walk(filepath.Join(root, prefix), func(name string, info os.FileInfo, err error) error {
		if os.IsNotExist(err) || err == nil && info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		all[filepath.ToSlash(rel)] = data
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// Args returns the flags of crawl for this store.
func (s *Server) Args() []string {
	return []string{"--out", s.String(), "--s3-endpoint", s.Endpoint, "--s3-path-style"}
}

// Setenv gives a test the credentials.
func (s *Server) Setenv(t *testing.T) {
	t.Helper()
	for _, v := range Credentials {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// Dir returns the directory with the bucket's objects, by key.
func (s *Server) Dir() string { return filepath.Join(s.dir, "data", BucketName) }
