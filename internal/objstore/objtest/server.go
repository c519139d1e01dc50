package objtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drumbeat/internal/objstore"
)

// Credentials of the server, as variables of the environment.
var Credentials = [...]string{"AWS_ACCESS_KEY_ID=drumbeat", "AWS_SECRET_ACCESS_KEY=drumbeat-secret",
	"AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/nonexistent",
	"AWS_SHARED_CREDENTIALS_FILE=/nonexistent"}

// BucketName is the bucket of a Server.
const BucketName = "pages"

// Server is a versitygw on loopback with one bucket in a directory of its own.
type Server struct {
	objstore.Place
	dir  string
	port string
	cmd  *exec.Cmd
	bin  string
	old  string // directory of old versions; "": the server keeps none

	client *s3.Client // past any proxy that the test sets as Endpoint
	minio  bool
}

// Serve starts a server for a test, or skips the test if the machine has none.
func Serve(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb, program(tb, "versitygw"))
	s.serve(tb)
	return s
}

// ServeTLS starts a versitygw that speaks TLS, and has the SDK trust it.
func ServeTLS(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb, program(tb, "versitygw"))
	lend := httptest.NewTLSServer(nil) // has a certificate for loopback
	defer lend.Close()
	key, err := x509.MarshalPKCS8PrivateKey(lend.TLS.Certificates[0].PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: lend.Certificate().Raw},
		"key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(s.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Setenv("AWS_CA_BUNDLE", filepath.Join(s.dir, "cert"))
	s.Endpoint = "https://127.0.0.1:" + s.port
	s.serve(tb)
	return s
}

// serve starts a versitygw.
func (s *Server) serve(tb testing.TB) {
	tb.Helper()
	for _, sub := range []string{"data/" + BucketName, "sidecar"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	s.Start(tb)
	tb.Cleanup(s.Stop)
}

// program returns the path of a server's program, or skips the test.
func program(tb testing.TB, name string) string {
	tb.Helper()
	bin, err := exec.LookPath(name)
	if err != nil {
		home, _ := os.UserHomeDir()
		if bin, err = exec.LookPath(filepath.Join(home, "go", "bin", name)); err != nil {
			tb.Skipf("no %s, a server of S3: scripts/%s.sh installs it", name, name)
		}
	}
	return bin
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
	s.Place = objstore.Place{Bucket: BucketName, Prefix: "some/crawls", Endpoint: "http://127.0.0.1:" + s.port,
		PathStyle: true}
	s.client = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("drumbeat", "drumbeat-secret", "")})
	return s
}

// ServeMinIO starts a MinIO, or skips the test if the machine has none. It is another program, which is run
// and never linked. Its disk has another form, so tests of damage there need Serve.
func ServeMinIO(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb, program(tb, "minio"))
	s.minio = true
	s.Start(tb)
	tb.Cleanup(s.Stop)
	if _, err := s.client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: &s.Bucket}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Start starts the server again after Stop.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	args := []string{"--port", "127.0.0.1:" + s.port, "--access", "drumbeat", "--secret", "drumbeat-secret", "--quiet"}
	if strings.HasPrefix(s.Endpoint, "https:") {
		args = append(args, "--cert", filepath.Join(s.dir, "cert"), "--key", filepath.Join(s.dir, "key"))
	}
	args = append(args, "posix", "--sidecar", filepath.Join(s.dir, "sidecar"))
	if s.old != "" {
		args = append(args, "--versioning-dir", s.old)
	}
	s.cmd = exec.Command(s.bin, append(args, filepath.Join(s.dir, "data"))...)
	if s.minio {
		s.cmd = exec.Command(s.bin, "server", "--quiet", "--address", "127.0.0.1:"+s.port, "--console-address",
			"127.0.0.1:0", filepath.Join(s.dir, "minio"))
		s.cmd.Env = append(s.cmd.Environ(), "MINIO_ROOT_USER=drumbeat", "MINIO_ROOT_PASSWORD=drumbeat-secret",
			"MINIO_UPDATE=off", "MINIO_BROWSER=off")
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
	trusting := &tls.Config{InsecureSkipVerify: true} // only to see it answer
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint, nil)
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			tb.Fatalf("%s does not answer: %s", s.bin, text)
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

// Objects returns the objects below a prefix, as the server answers.
func (s *Server) Objects(tb testing.TB, prefix string) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.Bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		for _, o := range page.Contents {
			got, err := s.client.GetObject(tb.Context(), &s3.GetObjectInput{Bucket: &s.Bucket, Key: o.Key})
			if err != nil {
				tb.Fatal(err)
			}
			if all[*o.Key], err = io.ReadAll(got.Body); err != nil {
				tb.Fatal(err)
			}
			got.Body.Close()
		}
	}
	return all
}

// Remove removes an object as another program would.
func (s *Server) Remove(tb testing.TB, key string) {
	tb.Helper()
	if _, err := s.client.DeleteObject(tb.Context(), &s3.DeleteObjectInput{Bucket: &s.Bucket, Key: &key}); err != nil {
		tb.Fatal(err)
	}
}

// Pending returns the uploads of some keys that are neither complete nor aborted. MinIO lists no prefixes.
func (s *Server) Pending(tb testing.TB, keys iter.Seq[string]) (pending []string) {
	tb.Helper()
	for key := range keys {
		list, err := s.client.ListMultipartUploads(tb.Context(),
			&s3.ListMultipartUploadsInput{Bucket: &s.Bucket, Prefix: &key})
		if err != nil {
			tb.Fatal(err)
		}
		for _, u := range list.Uploads {
			pending = append(pending, *u.Key)
		}
	}
	return pending
}

// Args returns the flags of crawl for this store.
func (s *Server) Args() []string {
	return []string{"--out", s.String(), "--s3-endpoint", s.Endpoint, "--s3-path-style"}
}

// Setenv gives a test the credentials.
func (s *Server) Setenv(tb testing.TB) {
	tb.Helper()
	for _, v := range Credentials {
		name, value, _ := strings.Cut(v, "=")
		tb.Setenv(name, value)
	}
}

// Dir returns the directory with the bucket's objects, by key.
func (s *Server) Dir() string { return filepath.Join(s.dir, "data", BucketName) }

// Keep has a versitygw keep old versions of objects, and lets them be locked.
func (s *Server) Keep(tb testing.TB) {
	tb.Helper()
	s.Stop()
	s.old = filepath.Join(s.dir, "old")
	if err := os.MkdirAll(s.old, 0o700); err != nil {
		tb.Fatal(err)
	}
	s.Start(tb)
	_, err := s.client.PutBucketVersioning(tb.Context(), &s3.PutBucketVersioningInput{Bucket: &s.Bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err == nil {
		lock := &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}
		_, err = s.client.PutObjectLockConfiguration(tb.Context(),
			&s3.PutObjectLockConfigurationInput{Bucket: &s.Bucket, ObjectLockConfiguration: lock})
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Hold puts a legal hold on the latest version of an object, or takes those of all versions off.
func (s *Server) Hold(tb testing.TB, key string, on bool) {
	tb.Helper()
	list, err := s.client.ListObjectVersions(tb.Context(),
		&s3.ListObjectVersionsInput{Bucket: &s.Bucket, Prefix: &key})
	if err != nil {
		tb.Fatal(err)
	}
	hold := &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff}
	if on {
		hold.Status = types.ObjectLockLegalHoldStatusOn
	}
	for i := range list.Versions {
		v := &list.Versions[i]
		if on && !aws.ToBool(v.IsLatest) {
			continue
		}
		in := &s3.PutObjectLegalHoldInput{Bucket: &s.Bucket, Key: v.Key, VersionId: v.VersionId, LegalHold: hold}
		if _, err := s.client.PutObjectLegalHold(tb.Context(), in); err != nil {
			tb.Fatal(err)
		}
	}
}

// Versions returns the number of versions with bytes of an object.
func (s *Server) Versions(tb testing.TB, key string) int {
	tb.Helper()
	list, err := s.client.ListObjectVersions(tb.Context(),
		&s3.ListObjectVersionsInput{Bucket: &s.Bucket, Prefix: &key})
	if err != nil {
		tb.Fatal(err)
	}
	return len(list.Versions)
}

// Stamps returns the ETag and the time of each object below a prefix.
func (s *Server) Stamps(tb testing.TB, prefix string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.Bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		for i := range page.Contents {
			o := &page.Contents[i]
			all[*o.Key] = *o.ETag + " " + o.LastModified.String()
		}
	}
	return all
}
