package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// shaName is the name of the metadata that has an object's SHA-256.
const shaName = "drumbeat-sha256"

// s3Bucket is a Bucket of a store that speaks S3.
type s3Bucket struct {
	client *s3.Client
	creds  aws.CredentialsProvider
	name   string
	parts  []func(*s3.Options) // of PutPart
}

// OpenS3 opens a bucket with the credentials of the SDK's chain: environment, shared files, web identity, container,
// instance. It sends no request to the store.
func OpenS3(ctx context.Context, p Place) (Bucket, error) {
	if err := p.CheckEndpoint(); err != nil {
		return nil, fmt.Errorf("objstore: %w", err)
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = completeTime
		t.MaxIdleConnsPerHost = 8
	})
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
		config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("objstore: settings of the SDK: %w", err)
	}
	if p.Region != "" {
		cfg.Region = p.Region
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // stores of other makers take any; Amazon's answers with the right one
	}
	b := &s3Bucket{name: p.Bucket, creds: cfg.Credentials}
	b.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = p.PathStyle
		if p.Endpoint != "" {
			o.BaseEndpoint = aws.String(p.Endpoint)
		}
	})
	if from := b.client.Options().BaseEndpoint; from != nil { // the environment may have set it
		p.Endpoint = *from
		if err := p.CheckEndpoint(); err != nil {
			return nil, fmt.Errorf("objstore: %w", err)
		}
	}
	if !strings.HasPrefix(p.Endpoint, "http:") {
		// TLS and the part's checksum protect its bytes, so they need no SHA-256 in the signature.
		b.parts = append(b.parts, s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	}
	return b, nil
}

// sort wraps the error of this package that an error of the SDK means.
func sort(err error) error {
	if err == nil {
		return nil
	}
	status := 0
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	code := ""
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	switch {
	case code == "NoSuchUpload", code == "InvalidPart", code == "XAmzContentChecksumMismatch":
		// The last two: the store cannot complete what it has of the upload, so it must start over. MinIO
		// does so at times.
		err = fmt.Errorf("%w: %w", ErrNoUpload, err)
	case code == "NoSuchBucket", status == http.StatusForbidden, status == http.StatusUnauthorized:
		err = fmt.Errorf("%w: %w", ErrDenied, err)
	case status == http.StatusMovedPermanently || status == http.StatusBadRequest &&
		code == "AuthorizationHeaderMalformed":
		err = fmt.Errorf("%w: the bucket is in another region: %w", ErrDenied, err)
	case code == "NoSuchKey", code == "NotFound", status == http.StatusNotFound:
		err = fmt.Errorf("%w: %w", ErrNotExist, err)
	case status == http.StatusNotImplemented, code == "NotImplemented":
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	case status == http.StatusPreconditionFailed:
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// probe is the last part of the key for which Check begins an upload.
const probe = "access-check"

// Check implements Bucket. It begins an upload and aborts it, which leaves nothing.
func (b *s3Bucket) Check(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := b.creds.Retrieve(ctx); err != nil {
		return fmt.Errorf("%w: no credentials: %w", ErrDenied, err)
	}
	_, err := b.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name})
	if err = sort(err); errors.Is(err, ErrNotExist) {
		err = fmt.Errorf("%w: no such bucket: %w", ErrDenied, err)
	}
	if err != nil {
		return fmt.Errorf("objstore: bucket %s: %w", b.name, err)
	}
	key := strings.TrimSuffix(prefix, "/") + "/" + probe
	id, err := b.Create(ctx, key, &Sums{})
	if err == nil {
		err = b.Abort(ctx, key, id)
	}
	if err != nil {
		return fmt.Errorf("objstore: try an upload to bucket %s: %w", b.name, err)
	}
	return nil
}

// Head implements Bucket.
func (b *s3Bucket) Head(ctx context.Context, key string) (*Object, error) {
	h, err := b.client.HeadObject(ctx,
		&s3.HeadObjectInput{Bucket: &b.name, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return nil, sort(err)
	}
	o := &Object{Size: aws.ToInt64(h.ContentLength), SHA256: h.Metadata[shaName]}
	if h.ChecksumType != types.ChecksumTypeComposite {
		o.CRC = aws.ToString(h.ChecksumCRC64NVME)
	}
	return o, nil
}

// Create implements Bucket.
func (b *s3Bucket) Create(ctx context.Context, key string, sums *Sums) (string, error) {
	out, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: &key,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme, ChecksumType: types.ChecksumTypeFullObject,
		Metadata: map[string]string{shaName: sums.SHA256}})
	if err != nil {
		return "", sort(err)
	}
	return aws.ToString(out.UploadId), nil
}

// Uploads implements Bucket.
func (b *s3Bucket) Uploads(ctx context.Context, key string) (ids []string, err error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: &key}
	for {
		out, err := b.client.ListMultipartUploads(ctx, in)
		if err != nil {
			return nil, sort(err)
		}
		for _, u := range out.Uploads {
			if aws.ToString(u.Key) == key {
				ids = append(ids, aws.ToString(u.UploadId))
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return ids, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

// PutPart implements Bucket.
func (b *s3Bucket) PutPart(ctx context.Context, key, id string, part Part, body io.ReadSeeker) (string, error) {
	out, err := b.client.UploadPart(ctx,
		&s3.UploadPartInput{Bucket: &b.name, Key: &key, UploadId: &id, PartNumber: &part.Number,
			ContentLength: &part.Size, ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme,
			ChecksumCRC64NVME: &part.CRC, Body: body}, b.parts...)
	if err != nil {
		return "", sort(err)
	}
	return aws.ToString(out.ETag), nil
}

// Parts implements Bucket.
func (b *s3Bucket) Parts(ctx context.Context, key, id string) (parts []Part, err error) {
	in := &s3.ListPartsInput{Bucket: &b.name, Key: &key, UploadId: &id}
	for {
		out, err := b.client.ListParts(ctx, in)
		if err != nil {
			return nil, sort(err)
		}
		for _, p := range out.Parts {
			parts = append(parts, Part{Number: aws.ToInt32(p.PartNumber), Size: aws.ToInt64(p.Size),
				CRC: aws.ToString(p.ChecksumCRC64NVME), ETag: aws.ToString(p.ETag)})
		}
		if !aws.ToBool(out.IsTruncated) {
			return parts, nil
		}
		in.PartNumberMarker = out.NextPartNumberMarker
	}
}

// Complete implements Bucket.
func (b *s3Bucket) Complete(ctx context.Context, key, id string, parts []Part, sums *Sums, replace bool) error {
	all := make([]types.CompletedPart, len(parts))
	for i := range parts {
		p := &parts[i]
		all[i] = types.CompletedPart{PartNumber: &p.Number, ETag: &p.ETag, ChecksumCRC64NVME: &p.CRC}
	}
	in := &s3.CompleteMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id,
		ChecksumType: types.ChecksumTypeFullObject, ChecksumCRC64NVME: &sums.CRC,
		MpuObjectSize: &sums.Size, MultipartUpload: &types.CompletedMultipartUpload{Parts: all}}
	if !replace {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := b.client.CompleteMultipartUpload(ctx, in)
	return sort(err)
}

// Abort implements Bucket.
func (b *s3Bucket) Abort(ctx context.Context, key, id string) error {
	_, err := b.client.AbortMultipartUpload(ctx,
		&s3.AbortMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id})
	if err = sort(err); errors.Is(err, ErrNoUpload) {
		return nil
	}
	return err
}

// Get implements Bucket.
func (b *s3Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))})
	if err != nil {
		return nil, sort(err)
	}
	return out.Body, nil
}

// Versions implements Bucket.
func (b *s3Bucket) Versions(ctx context.Context, key string) (all []Version, err error) {
	in := &s3.ListObjectVersionsInput{Bucket: &b.name, Prefix: &key}
	for {
		out, err := b.client.ListObjectVersions(ctx, in)
		if err != nil {
			return nil, sort(err)
		}
		for i := range out.Versions {
			if v := &out.Versions[i]; aws.ToString(v.Key) == key {
				all = append(all, Version{ID: aws.ToString(v.VersionId), Latest: aws.ToBool(v.IsLatest)})
			}
		}
		for i := range out.DeleteMarkers {
			if v := &out.DeleteMarkers[i]; aws.ToString(v.Key) == key {
				all = append(all, Version{ID: aws.ToString(v.VersionId), Latest: aws.ToBool(v.IsLatest), Marker: true})
			}
		}
		// The keys are sorted: those that key begins follow it.
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextKeyMarker) > key {
			break
		}
		in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, out.NextVersionIdMarker
	}
	slices.SortStableFunc(all, func(v, w Version) int {
		switch {
		case v.Latest == w.Latest:
			return 0
		case v.Latest:
			return -1
		}
		return 1
	})
	return all, nil
}

// Versioned implements Bucket.
func (b *s3Bucket) Versioned(ctx context.Context) (bool, error) {
	out, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.name})
	if err != nil {
		return false, sort(err)
	}
	return out.Status != "", nil
}

// Delete implements Bucket.
func (b *s3Bucket) Delete(ctx context.Context, key, version string) (marker bool, err error) {
	in := &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	out, err := b.client.DeleteObject(ctx, in)
	if err == nil {
		return version == "" && aws.ToBool(out.DeleteMarker), nil
	}
	err = sort(err)
	var resp *awshttp.ResponseError
	switch {
	case errors.Is(err, ErrNotExist):
		return false, nil
	case errors.Is(err, ErrDenied) || !errors.As(err, &resp):
		return false, err
	}
	switch status := resp.HTTPStatusCode(); status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
	default: // stores have different codes for an object that is locked
		if status >= 400 && status < 500 {
			err = fmt.Errorf("%w: %w", ErrDenied, err)
		}
	}
	return false, err
}
