package objstore_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

// TestS3 puts files into a real server, kills uploads in the middle, and reads the objects.
func TestS3(t *testing.T) {
	s := objtest.Serve(t)
	s.Setenv(t)
	checkS3(t, s)
}

// TestMinIO does the same with another server.
func TestMinIO(t *testing.T) {
	s := objtest.ServeMinIO(t)
	s.Setenv(t)
	checkS3(t, s)
}

// TestS3TLS does the same by TLS, where the signature leaves out the bytes of parts.
func TestS3TLS(t *testing.T) {
	s := objtest.Serve(t)
	s.Setenv(t)
	target, err := url.Parse(s.Endpoint)
	must(t, err)
	unsigned := 0
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.Method == http.MethodPut && r.In.Header.Get("X-Amz-Content-Sha256") == "UNSIGNED-PAYLOAD" {
			unsigned++
		}
		r.SetURL(target)
		r.Out.Host = r.In.Host // the signature covers it
	}})
	defer proxy.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	must(t, os.WriteFile(bundle, cert, 0o600))
	t.Setenv("AWS_CA_BUNDLE", bundle)
	s.Endpoint = proxy.URL
	checkS3(t, s)
	if unsigned < 3 {
		t.Errorf("%d parts without a signature of their bytes", unsigned)
	}
}

func checkS3(t *testing.T, s *objtest.Server) {
	t.Helper()
	b, err := objstore.OpenS3(t.Context(), s.Place)
	must(t, err)
	must(t, b.Check(t.Context(), "some/crawls/c/0"))
	data := file(11 << 20)
	u := &objstore.Uploader{Bucket: b, PartBytes: 5 << 20, InFlight: 1}
	var was objstore.Upload
	stopped := *u
	stopped.Bucket = &dying{Bucket: b}
	if err := put(t, &stopped, data, &was); !errors.Is(err, errKilled) || was.ID == "" {
		t.Fatalf("got %v, %+v", err, was)
	}
	parts, err := b.Parts(t.Context(), key, was.ID)
	if err != nil || len(parts) != 2 || parts[0].CRC == "" {
		t.Fatalf("parts of the half upload: %+v, %v", parts, err)
	}
	must(t, put(t, u, data, &was))
	if ids, err := b.Uploads(t.Context(), key); err != nil || len(ids) != 0 {
		t.Fatalf("uploads %q, %v", ids, err)
	}
	whole, err := b.Get(t.Context(), key, 0, int64(len(data)))
	must(t, err)
	if got, err := io.ReadAll(whole); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	whole.Close()
	must(t, put(t, u, data, new(objstore.Upload)))
	r, err := b.Get(t.Context(), key, 6<<20, 1000)
	must(t, err)
	got, err := io.ReadAll(r)
	r.Close()
	if err != nil || !bytes.Equal(got, data[6<<20:6<<20+1000]) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	if err := put(t, u, data[1:], new(objstore.Upload)); !errors.Is(err, objstore.ErrForeign) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.Head(t.Context(), "nothing"); !errors.Is(err, objstore.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.Parts(t.Context(), key, was.ID); !errors.Is(err, objstore.ErrNoUpload) {
		t.Fatalf("got %v", err)
	}
	wrong := s.Place
	wrong.Bucket = "others"
	if b, err = objstore.OpenS3(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context(), "x"); !errors.Is(err, objstore.ErrDenied) {
		t.Fatalf("got %v", err)
	}
}

// dying is a bucket whose process is killed before Complete.
type dying struct{ objstore.Bucket }

// PutPart puts all parts but the third.
func (d *dying) PutPart(ctx context.Context, key, id string, p objstore.Part, body io.ReadSeeker) (string, error) {
	if p.Number == 3 {
		return "", errKilled
	}
	return d.Bucket.PutPart(ctx, key, id, p, body)
}
